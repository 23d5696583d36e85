"""Where rankings come from: files that a search wrote, endpoints, retrievers and configs, all behind one interface.

It stands on evaluation and retrieval, and judges nothing. A new kind of source is a file here, and a line in `sources`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
