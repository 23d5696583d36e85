"""A workspace: its folder, its settings, its secrets, and what its owner trusts on this machine.

It builds on base alone. A new setting goes to `settings.keys`, and to `trust` unless it can do nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
