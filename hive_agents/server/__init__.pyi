from .address import (
    served_at as served_at,
)
from .listener import (
    Listener as Listener,
)
from .protocols.mcp import (
    mcp_server as mcp_server,
)
from .protocols.mcp_callers import (
    local_caller as local_caller,
)
