"""Wiring between the library and LangGraph: runs that are begun, driven, resumed and stopped, and hosts that take them.

It may import every package but the surfaces, and decides nothing that a package below could decide. A new kind of run
goes beside `agent_run`, what a person's decision sets in motion to `decisions`, what a host does in the background to
`roles`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
