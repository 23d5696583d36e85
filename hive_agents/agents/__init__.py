"""Agents as data, what they may do, and what keeps them within bounds.

It builds on retrieval, memory, judging, approvals and models, and imports neither LangGraph nor the runtime. A new tool
for agents goes to `bundled` with its side-effect class, a new field of an agent's file to `spec` and its check to
`verify`, a new limit to `guards`; changes of a deployed agent go through `evolution`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
