"""Secrets by reference: stored encrypted, resolved on use, never shown.

It builds on files and the workspace only. A new kind of reference goes to `references`, a new encoding in which secrets
are redacted to `secret`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
