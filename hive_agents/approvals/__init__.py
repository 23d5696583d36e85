"""Requests that wait for a person: asked once, decided once, and every step of it in the audit log.

It stands on the store, access and events, and knows nothing of what a request will set in motion. Who may decide is in
`permission`, what needs a person in `policy`, how a decision takes effect in `answers`; what a decision of a new kind
does belongs to the runtime's `decisions`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
