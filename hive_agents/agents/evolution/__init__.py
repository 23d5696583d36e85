"""Agents that evolve: what a proposal changes, what more it lets an agent do, and what its eval cases say of it.

It builds on agents' files and the ledger, and runs nothing itself: the runtime rehearses the cases. A new kind of reach
that a person must see goes to `reach`, a new ground for a verdict to `verdict`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
