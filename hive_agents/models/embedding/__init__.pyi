from . import (
    embedding_cache as embedding_cache,
    providers as providers,
)
from .minilm import (
    byte_products as byte_products,
)
from .providers import (
    Reranker as Reranker,
    open_embedder as open_embedder,
)
from .recent import (
    Recent as Recent,
)
from .rerank_cache import (
    CachedReranker as CachedReranker,
    Relevance as Relevance,
)
from .wordpieces import (
    WordPieces as WordPieces,
)
