"""Sources of documents elsewhere, named in the settings: what they hold is fetched, and synced with the documents.

`contract` says what a kind of source has to do, `running` runs one. A new kind is a file `from_…` with its `Options`
and its `Source`, and an entry in `kinds`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
