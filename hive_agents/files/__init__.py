"""Files that people and programs share: atomic writes and locks, strict JSON, models of formats, front matter.

It imports only `hive_agents.errors`, and knows of no workspace. What holds for every file, whatever it is about, goes
here: writing and locking into `atomic`, the syntax of a format into a file of its own, what all models of files have
in common into `formats`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
