"""What keeps an agent from going round in circles, and from spending more than it may.

Each guard is arithmetic over what a run did, without a clock or a store of its own. A new guard is a file here, and a
line where the node's loop asks the others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
