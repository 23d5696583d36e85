"""Memory of agents: conversations and outputs, values and files of runs, and adapt.md.

Conversations, outputs and the data buffer are rows of `.hive/hive.db`; tool results and an agent's files are in
`.hive/runs/<run_id>/`, notes accepted for all runs in `.hive/memory/<tenant>/<agent>/<user>/`. It imports the store
and events; a new way of compaction goes to `tiers`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
