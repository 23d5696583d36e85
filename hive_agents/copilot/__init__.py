"""The copilot: what each step of a turn does, from a reader's words to a reply that holds only what they may view.

It stands on retrieval, access, judging and models, knows neither LangGraph nor the runtime, and is read from the top by
`steps` (the nodes), `session` (what a turn works with, in its reader's scope), `router` and `planner` (what will be
done), `extract`, `answer` and `reply` (what is shown). New words go to `languages/`, one file a language; a new rule
of reading to `reading`, with labelled utterances in its tests; a new step to `steps`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
