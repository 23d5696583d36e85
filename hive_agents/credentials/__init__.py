"""Secrets by reference: stored encrypted, resolved on use, never shown.

It stands on files and the workspace alone. A new kind of reference goes to `references`, a new shape of secret that
must not reach an output to `secret`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
