"""The optimizer: what each step of a run does, from a diagnosis of the losses to a certificate.

It stands on evaluation and verification, and knows neither LangGraph nor the runtime; the nodes are the functions of
`steps`. A new lever goes to `space`, a new cause of loss to `diagnosis` with its answer in `proposal`, and what the
engine does differently must be the same in `lane_cache`, whose test compares both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
