"""The command line: parse, call, show.

It may import every package, and no package imports it; rules belong in those packages. A new command is a file with
the decorator of `surface`, and an entry in `main`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
