"""Compiler, linter and test suite for configs; the gate that deploys only what is proved better.

It depends on evaluation and the ledger, not on the optimizer: every deployment goes through it. A new check
goes to `semantics` with a code, a new condition of the gate to `gate`; both appear in `docs/gate.md`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
