"""The HTTP interface of a host; a request queues a run, and a host's workers execute it.

It is built on `runtime`, and holds no rules of its own. A new route is a function under `api.get` in the module of its
part; a new part is a module here and a line in `meta`. Limits of requests are in `limits`, error responses in
`problems`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
