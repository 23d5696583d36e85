"""What starts runs by itself: schedules, webhooks and event streams.

It stands on the store, events and credentials, and starts nothing itself: the runtime fires. A new kind of trigger goes
to `spec`, with its source beside `sse` and `webhooks`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
