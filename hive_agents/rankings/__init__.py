"""Sources of rankings behind one interface: result files, endpoints, retrievers and configs.

It builds on evaluation and retrieval, and computes no metrics. A new kind of source is a module here, and a line in
`sources`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
