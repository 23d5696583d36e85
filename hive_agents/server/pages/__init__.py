"""The pages: what a browser is shown, rendered on the server from what the API answers, and nothing else.

It stands on the API's functions and on no other package of the colony. A page is a function in a file here, a template
and its texts in each file of `texts`; whatever a page changes, its script sends to the API.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
