"""Search engines of others behind the protocol of `index.Engine`: OpenSearch, and pgvector in PostgreSQL.

A new engine is opened by `opening`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
