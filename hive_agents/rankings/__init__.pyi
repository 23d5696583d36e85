from .asking import (
    ask_both as ask_both,
)
from .sources import (
    Source as Source,
    open_source as open_source,
)
