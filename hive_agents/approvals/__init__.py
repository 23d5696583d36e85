"""Requests to people: filed once, decided once, with every step in the audit log.

It imports the store, access and events, and nothing that acts on a decision. Who may decide is in `permission`, which
calls need a person in `policy`, the changes of a decision in `answers`; the effect of a new kind of decision belongs to
the runtime's `decisions`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
