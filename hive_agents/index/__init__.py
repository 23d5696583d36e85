"""The index of a collection: postings, statistics, vectors and field values, in generations that replace each other.

It ranks nothing: lanes give scores, `ranking` combines them. Search engines of others are passed in as `Engine`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
