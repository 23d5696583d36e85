"""Triggers of runs: schedules, webhooks and event streams.

It imports the store, events and credentials; the runtime starts the runs. A new kind of trigger goes to `spec`, its
source next to `sse` and `webhooks`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
