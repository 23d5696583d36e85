"""The command line: parse, call, show.

It may import every package, and nothing imports it; nothing is decided here. A new command is a file under the
decorator of `surface` and its name in `main`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
