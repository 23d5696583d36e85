"""Chat models by name, in chains with deadlines, counted in tokens and dollars.

It builds on settings and credentials, and has no prompts. A new provider is a file that makes a `ChatModel` and a line
in `chain`; prices are data in `prices.json`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
