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
    is_asked as is_asked,
    run_source as run_source,
)
from .showing import (
    ask_source as ask_source,
    pause_source as pause_source,
    source_log as source_log,
    source_rows as source_rows,
)
