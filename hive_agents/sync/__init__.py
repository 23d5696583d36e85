"""Import of a user's files as Markdown documents, with a report of those that can't be read.

It builds on files, the store and the workspace, and doesn't use the index. A new kind of file is a reader `from_…` and
an entry in `registry`; what all kinds have in common goes to `imported`. `syncing` updates documents from their
sources.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
