from . import (
    breaker as breaker,
    opensearch as opensearch,
)
from .opening import (
    open_engines as open_engines,
)
from .pgvector_copies import (
    find_copy as find_copy,
)
from .postgres import (
    open_database as open_database,
)
