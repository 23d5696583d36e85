"""Settings: `hive.toml`, then environment `HIVE_<SECTION>__<KEY>`, then flags.

It stands on files and diagnostics alone. A new setting is a field of its section in `keys`; `hive doctor` and
`hive schema settings` list it by themselves, and `docs/` says what it is for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
