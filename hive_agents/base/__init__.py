"""The ground: diagnostics and their codes, texts, bundled files, and the one way to open files (`base.files`).

It knows nothing of workspaces. A new diagnostic needs no code here: its section goes to `docs/diagnostics.md`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
