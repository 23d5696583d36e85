"""Embedders and rerankers: local, of Bedrock, and of endpoints, with their caches.

They get texts and give numbers, and know no documents. A new provider goes to `providers`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
