"""The queen: she acts on tickets by a policy, and answers people within their scope; she decides nothing for them.

She may read runs, tickets, requests and values, control runs, and file requests, and imports nothing that decides a
request or reads a secret. Her actions on tickets are in `policy` and `escalations`, those on a person's answer in
`rulings`; commands without a model are in `commands`, with one in `tools`, within a `mandate`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
