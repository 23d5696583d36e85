"""A workspace's databases: connections, the schema, the audit log, and histories for which the log is authoritative.

It depends on files, trust, credentials and the workspace, not on the meaning of the rows. A change of
the schema is one more script in `schema`, a new history of decisions a `Ledger` where its rows are understood, and a
new kind of audit entry needs nothing here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
