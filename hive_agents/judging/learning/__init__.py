"""Rules learned from what people decided, proposed to people, and let in step by step.

It stands on the decision log, and puts no rule to work by itself. A new form of predicate goes to `predicates`, a new
condition of advancing to `stages`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
