"""The health judge: it reads the workers' log and reports faults; nothing else.

It may read the workspace and publish events, and imports nothing that could start, steer or stop a run. A new cause of
tickets is a detector in `detectors`, its data a field of `summary`, a part of a tick a step of `steps`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
