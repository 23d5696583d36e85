"""Readers of foreign formats: bytes to Markdown and fields, one module for each format.

They place nothing in a workspace: `sync` does. A new format is an entry in `registry`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
