from . import (
    keys as keys,
)
from .keys import (
    Gate as Gate,
    Optimizer as Optimizer,
    Price as Price,
    Role as Role,
    ServerSettings as ServerSettings,
    Settings as Settings,
    SourceSettings as SourceSettings,
)
from .sources import (
    FILE as FILE,
    describe_settings as describe_settings,
    load_settings as load_settings,
    with_values as with_values,
)
