from . import (
    generation as generation,
    indexing as indexing,
    vectors as vectors,
)
from .bm25 import (
    BM25Params as BM25Params,
)
from .boosts import (
    HALF_LIFE as HALF_LIFE,
    BoostKey as BoostKey,
    boost_key as boost_key,
)
from .engine import (
    Engine as Engine,
    switch as switch,
)
from .fields import (
    boost_text as boost_text,
    days_of as days_of,
    filter_text as filter_text,
)
from .filters import (
    Condition as Condition,
    ConditionValue as ConditionValue,
    Scalar as Scalar,
    condition as condition,
    parse_filters as parse_filters,
)
from .generation import (
    find_generation as find_generation,
)
from .generation_reader import (
    GenerationReader as GenerationReader,
    StaleIndex as StaleIndex,
    StoredChunk as StoredChunk,
)
from .index import (
    AnyIndex as AnyIndex,
    ScopedIndex as ScopedIndex,
    SqliteIndex as SqliteIndex,
)
from .keyword_batch import (
    padded as padded,
)
from .lanes import (
    ChunkFactors as ChunkFactors,
    ChunkNumbers as ChunkNumbers,
    ChunkRow as ChunkRow,
    Lane as Lane,
    LaneIndex as LaneIndex,
    VectorLane as VectorLane,
    WordBatch as WordBatch,
    WordLane as WordLane,
)
from .scope import (
    scope_of as scope_of,
)
from .texts import (
    TextIndex as TextIndex,
)
from .vectors import (
    Mask as Mask,
    VectorIndex as VectorIndex,
)
