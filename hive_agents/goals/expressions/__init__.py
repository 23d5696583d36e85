"""Conditions of rules, constraints and routes: expressions over plain data, bounded in work and memory, no code.

It imports only `errors` and `text`, and doesn't depend on rules and goals. A new operator goes to `operations`, a
function or method to `functions`; each charges the allowance before it works. The permitted syntax is in `parsing`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
