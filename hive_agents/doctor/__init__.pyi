from .check import (
    Check as Check,
)
from .examine import (
    examine as examine,
)
from .permissions import (
    nobody_sees as nobody_sees,
)
