from .app import (
    create_app as create_app,
)
from .listener import (
    Listener as Listener,
)
from .protocols.mcp import (
    local_caller as local_caller,
    mcp_server as mcp_server,
)
