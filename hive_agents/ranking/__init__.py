"""Search over a workspace's documents: `SearchEngine.search(query, config) -> Ranking`.

It builds on the store and files, and hides nothing: `access` decides who may view what before it calls. A new step of a
search goes to `pipeline`, a factor of scores to `factors`, each with its key in `config`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
