"""Files: atomic writes and locks, strict JSON, models of formats, front matter.

It imports only `base.errors`, and doesn't depend on workspaces. Writing and locking go to `atomic`, the syntax
of a format to its own module, what all models of files have in common to `formats`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
