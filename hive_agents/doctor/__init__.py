"""`hive doctor`: checks of a workspace and its environment, with fixes.

It may import every package below; only the command line imports it. A new check is a function in `examine`, which lists
them in order; checks of readers and permissions are in `permissions`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
