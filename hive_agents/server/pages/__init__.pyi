from .entrance import (
    lost as lost,
    routes as routes,
)
