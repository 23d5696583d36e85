"""Documents as Markdown files: collections and their fields, blocks, chunks, and the words in them.

It knows no index. A new rule of how a document is cut goes to `chunking`, of how words are read to `analysis`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
