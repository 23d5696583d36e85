"""What an agent remembers: its conversation and outputs, the values and files of its run, and adapt.md.

Conversations, outputs and the data buffer are rows of `.hive/hive.db`; tool results and an agent's files are in
`.hive/runs/<run_id>/`, what was accepted for all runs in `.hive/memory/<tenant>/<agent>/<user>/`. It stands on the
store and events; a new way of making room in a conversation goes to `tiers`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
