"""Receipts: what a deployment, a decision or an answer rests on, as an in-toto Statement that can be derived again.

It reads the packages whose results have receipts, and changes nothing. A new kind of receipt is a module here with
`receipt_of` and `checks_of`, and a line in `kinds`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
