"""The web pages, rendered on the server from the results of the API's functions alone.

A page is a function in a module here, a template, and its texts in each file of `texts`; a page's script makes changes
through the API.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
