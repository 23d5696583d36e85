"""Hive Agents: goal-driven agents on LangGraph that know when they don't know.

The public names are loaded on first use: importing the package costs next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
