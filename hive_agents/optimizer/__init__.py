"""The optimizer: the steps of a run, from a diagnosis of the losses to a certificate.

It builds on evaluation and verification, and knows neither LangGraph nor the runtime; the graph's nodes are the
functions of `steps`. A new lever goes to `space`, a new cause of loss to `diagnosis` with its remedy in `proposal`. A
change of the engine needs the same change in `lane_cache`, whose test compares both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
