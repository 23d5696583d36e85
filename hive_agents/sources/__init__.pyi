from . import (
    running as running,
    showing as showing,
)
from .adding import (
    add_source as add_source,
)
from .groups import (
    sync_groups as sync_groups,
)
from .removing import (
    remove_source as remove_source,
)
