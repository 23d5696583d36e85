"""The queen: she looks after runs by a policy, and answers people in their own scope; she decides nothing for them.

She may read runs, tickets, requests and values, control runs, and file requests, and imports nothing that decides a
request or reads a secret. What a ticket makes her do is in `policy` and `escalations`, what a person's answer makes her
do in `rulings`; what may be said to her without a model is in `commands`, with one in `tools`, within a `mandate`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
