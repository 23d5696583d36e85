"""Runs: their rows, who may work on them, and what may be done to them.

It stands on the store and events, and knows nothing of what a run does. A new status goes to `store`, a new control
to `control`; everything that writes a row holds a lease.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
