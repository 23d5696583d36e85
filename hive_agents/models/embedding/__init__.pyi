from .embedding_cache import (
    EmbeddingCache as EmbeddingCache,
    question_vectors as question_vectors,
    text_hash as text_hash,
)
from .providers import (
    LOCAL as LOCAL,
    MULTILINGUAL as MULTILINGUAL,
    TOKENIZER as TOKENIZER,
    Embedder as Embedder,
    Reranker as Reranker,
    no_model as no_model,
    open_embedder as open_embedder,
    open_reranker as open_reranker,
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
