from .entrance import (
    lost as lost,
)
from .routes import (
    routes as routes,
)
