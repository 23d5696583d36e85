from .address import (
    served_at as served_at,
)
from .listener import (
    Listener as Listener,
)
from .protocols.mcp import (
    serve_stdio as serve_stdio,
)
