"""What a workspace remembers: how its SQLite file is opened, the schema, the audit log, histories that the log decides.

It stands on files, trust, credentials and the workspace, and knows nothing of what the rows are about. A change of
the schema is one more script in `schema`, a new history of decisions a `Ledger` where its rows are understood, and a
new kind of audit entry needs nothing here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
