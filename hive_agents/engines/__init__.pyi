from .breaker import (
    EngineBreaker as EngineBreaker,
    breakers_of as breakers_of,
)
from .opening import (
    open_engines as open_engines,
)
from .opensearch import (
    KNN as KNN,
    OpenSearch as OpenSearch,
)
from .pgvector_copies import (
    find_copy as find_copy,
)
from .postgres import (
    open_database as open_database,
)
