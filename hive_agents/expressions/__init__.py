"""Conditions of rules, constraints and routes: expressions over plain data, bounded in work and memory, no code.

It imports only `errors` and `text`, and knows of no rule and no goal. A new operator belongs into `operations`, a
function or method into `functions`, each paying from the allowance before it works; what may be written at all is
decided in `parsing`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
