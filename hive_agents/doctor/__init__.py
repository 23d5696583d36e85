"""`hive doctor`: what is wrong with a workspace or its surroundings, and how to mend it.

It may use everything that stands below it; nothing but the command line uses it. A new check is a function in
`examine`, which lists them in order; what concerns readers and their permissions is in `permissions`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
