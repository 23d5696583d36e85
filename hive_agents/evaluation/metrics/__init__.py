"""Metrics of one query's ranking against its labels.

Every metric takes `ranking`, the doc_id of each hit, best first and with repeats where several chunks
of a document were returned; `qrels`, doc_id → 1 relevant, -1 distractor, 0 irrelevant, where a missing
document counts 0; and `k`, the evaluation depth, which belongs to the golden set and never to a config.

Queries without a relevant document: nDCG, recall, precision and reciprocal rank do as trec_eval and
ir-measures do, so that their means can be checked there. They are 0.0 where other documents are
judged, and None where none is: such a query has no line in a qrels file, and a mean leaves it out.
These four can't reward an abstention; nUDCG does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
