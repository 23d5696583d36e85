"""Judgement: rules, an evaluator and people, none of them trusted alone.

It depends on models, approvals and statistics, not on what is judged. A new reason to ask a person goes to
`hybrid`, a new guarantee to `certify` or `thresholds`, what is learned from people's answers to `learning`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
