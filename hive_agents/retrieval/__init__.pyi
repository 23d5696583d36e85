from .adaptive import (
    adaptive as adaptive,
)
from .analysis import (
    DEFAULT_LANGUAGE as DEFAULT_LANGUAGE,
    found_words as found_words,
    heading_text as heading_text,
    terms as terms,
    unmarked as unmarked,
    without_references as without_references,
    words as words,
)
from .blocks import (
    block_parser as block_parser,
    plain_heading as plain_heading,
    section_of as section_of,
)
from .bm25 import (
    BM25Params as BM25Params,
)
from .boilerplate import (
    LEAST_SHARING as LEAST_SHARING,
    LEAST_WORDS as LEAST_WORDS,
    SHARED as SHARED,
)
from .boosts import (
    HALF_LIFE as HALF_LIFE,
    BoostKey as BoostKey,
    boost_key as boost_key,
)
from .chunking import (
    first_heading as first_heading,
)
from .config import (
    LINK as LINK,
    RetrievalConfig as RetrievalConfig,
    StoredConfig as StoredConfig,
    canonical_hash as canonical_hash,
    config_files as config_files,
    find_config as find_config,
    find_config_file as find_config_file,
    is_inside as is_inside,
    parse_config as parse_config,
    read_config as read_config,
)
from .cutoff import (
    occurrences as occurrences,
)
from .deployed import (
    DEPLOYMENTS as DEPLOYMENTS,
    ActiveConfig as ActiveConfig,
    Version as Version,
    active_config as active_config,
    announce_switch as announce_switch,
    find_active as find_active,
    follow_history as follow_history,
    settle as settle,
    unlogged_versions as unlogged_versions,
    versions as versions,
)
from .documents import (
    Collection as Collection,
    FieldType as FieldType,
    collection_names as collection_names,
    date_bound as date_bound,
    document_files as document_files,
    iso_date as iso_date,
    keyword_text as keyword_text,
    load_collection as load_collection,
    no_such_collection as no_such_collection,
)
from .engine import (
    ConfigLike as ConfigLike,
    SearchEngine as SearchEngine,
)
from .engines import (
    switch as switch,
)
from .excerpts import (
    LENGTH as LENGTH,
    excerpt as excerpt,
)
from .explain import (
    explain_hit as explain_hit,
    explain_text as explain_text,
)
from .fields import (
    boost_text as boost_text,
    days_of as days_of,
    filter_text as filter_text,
)
from .filters import (
    Condition as Condition,
    Scalar as Scalar,
    parse_filters as parse_filters,
)
from .fusion import (
    rank_step as rank_step,
    rrf_scores as rrf_scores,
)
from .generation import (
    Generation as Generation,
    candidates as candidates,
    find_generation as find_generation,
    promote as promote,
    stored_value as stored_value,
)
from .generation_reader import (
    StaleIndex as StaleIndex,
    StoredChunk as StoredChunk,
)
from .index import (
    AnyIndex as AnyIndex,
    ScopedIndex as ScopedIndex,
    SqliteIndex as SqliteIndex,
)
from .indexing import (
    IndexReport as IndexReport,
    PendingWork as PendingWork,
    index_is_stale as index_is_stale,
    is_indexed as is_indexed,
)
from .keyword_batch import (
    padded as padded,
)
from .lanes import (
    ChunkRow as ChunkRow,
    WordBatch as WordBatch,
)
from .minilm import (
    WordPieces as WordPieces,
)
from .opening import (
    build_index as build_index,
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
from .providers import (
    Reranker as Reranker,
    open_embedder as open_embedder,
    open_reranker as open_reranker,
)
from .ranking import (
    Hit as Hit,
    Ranking as Ranking,
    present as present,
)
from .recent import (
    Recent as Recent,
)
from .rerank_cache import (
    CachedReranker as CachedReranker,
    Relevance as Relevance,
)
from .scope import (
    scope_of as scope_of,
)
from .stages import (
    Cut as Cut,
    Search as Search,
    finish as finish,
    multipliers as multipliers,
    needs_vectors as needs_vectors,
    require_words as require_words,
    reranked_texts as reranked_texts,
    retrieve as retrieve,
    terms_of as terms_of,
    worded_depth as worded_depth,
)
from .undeclared import (
    UndeclaredField as UndeclaredField,
    declare_fields as declare_fields,
    named_fields as named_fields,
    undeclared_fields as undeclared_fields,
)
from .vectors import (
    Mask as Mask,
)
