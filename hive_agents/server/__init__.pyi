from .app import (
    create_app as create_app,
)
from .listener import (
    Listener as Listener,
)
