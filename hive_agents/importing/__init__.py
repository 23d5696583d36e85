"""A user's own files become documents: each kind as Markdown, with a report of what could not be read.

It stands on files, the store and the workspace, and knows nothing of the index. A new kind of file is a reader `from_…`
and a line in `conversion`; what all kinds have in common goes to `imported`. `syncing` keeps documents and sources in
step.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
