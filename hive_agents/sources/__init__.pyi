from .adding import (
    add_source as add_source,
)
from .groups import (
    sync_groups as sync_groups,
)
from .removing import (
    remove_source as remove_source,
)
from .running import (
    SourceReport as SourceReport,
    due_sources as due_sources,
    failure_of as failure_of,
    run_source as run_source,
)
from .showing import (
    pause_source as pause_source,
    source_log as source_log,
    source_rows as source_rows,
)
