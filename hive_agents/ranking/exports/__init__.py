"""Exports of configs as queries of other engines: PostgreSQL, OpenSearch and Qdrant, with the data that they need.

An engine is a module here and a line in `export.ENGINES`. What it can't express is in `Export.differences`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
