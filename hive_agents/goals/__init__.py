"""Goals with their criteria and constraints, and the restricted expressions that these are written in.

A new function of expressions goes to `expressions.functions`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
