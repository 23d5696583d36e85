"""Runs: their rows, their leases, and the operations on them.

The package doesn't know what a run does. A new status belongs in `store`, a new control in `control`; a worker writes
a row only under its lease.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
