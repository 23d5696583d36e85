"""The event bus: typed events, subscribers with bounded queues, a durable log.

It stands on the store alone; every package above may publish, and none imports a subscriber. A new event is a member of
`types`, published in the transaction that does what it tells; a new way of reading the log is a `Consumer`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
