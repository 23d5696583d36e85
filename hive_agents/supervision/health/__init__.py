"""The health judge: it reads what the workers' log says, and tells of what is wrong; nothing else.

It may read the workspace and publish events, and imports nothing that could start, steer or stop a run. A new cause of
tickets is a detector in `detectors`, what it looks at a field of `summary`, what a tick does a step of `steps`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
