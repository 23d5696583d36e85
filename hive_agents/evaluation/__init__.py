"""Measurement of configs against labelled queries, with a metric that penalises distractors.

It depends on retrieval, and decides nothing: gates and optimizers use its figures. A new metric is a file in `metrics`
with a doctest, a new test or interval a function of `statistics`, a new way of labelling goes to `labelling`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
