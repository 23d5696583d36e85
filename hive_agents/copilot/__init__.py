"""The copilot: the steps of a turn, from a reader's question to a reply of documents that they may view.

It builds on retrieval, access, judging and models, and imports neither LangGraph nor the runtime. Start with `steps`
(the nodes), `session` (a turn's state and its reader's scope), `router` and `planner` (the plan), `extract`, `answer`
and `reply` (the output). New words go to `languages/`, one file a language; a new rule of reading to `reading`, with
labelled utterances in its tests; a new step to `steps`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
