"""Authentication and permissions: principals, tokens, grants, rules of `access/*.json`, the gate over documents.

It depends on the store, not on searches or runs, and fails closed: what can't be decided is not shown. A new
rule of permission goes to `rules`, a new way of authentication to `who`; all code that shows documents uses the gate
of `service`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
