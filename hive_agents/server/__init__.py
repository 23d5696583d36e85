"""HTTP: what a host offers to programs; a request starts a run, and never runs one.

It stands on the runtime, and decides nothing. A new route is a function under `api.get` in the file of its part,
a new part a file here and a line in `meta`; limits of what may be sent are in `limits`, the shape of a refusal in
`problems`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
