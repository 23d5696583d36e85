"""Configs as the queries of other engines: PostgreSQL, OpenSearch and Qdrant, with all that these need to hold.

An engine is a file here and a line in `export.ENGINES`. What an engine can't express stands in `Export.differences`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
