"""Who asks and what they may view: principals, tokens, grants, rules of `access/*.json`, the gate over documents.

It stands on the store, knows nothing of searches or runs, and fails closed: what can't be decided is not shown. A new
rule of permission goes to `rules`, a new way of saying who asks to `who`; whatever shows documents asks the gate
of `service`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
