"""Rules learned from people's decisions, proposed to people, and activated step by step.

It depends on the decision log, and activates no rule by itself. A new form of predicate goes to `predicates`, a new
condition of advancing to `stages`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
