from .keys import (
    Gate as Gate,
    Health as Health,
    McpServer as McpServer,
    Models as Models,
    Optimizer as Optimizer,
    Price as Price,
    Role as Role,
    Runs as Runs,
    ServerSettings as ServerSettings,
    Settings as Settings,
    SignIn as SignIn,
    SourceSettings as SourceSettings,
    StorageSettings as StorageSettings,
    VectorSettings as VectorSettings,
)
from .sources import (
    FILE as FILE,
    describe_settings as describe_settings,
    load_settings as load_settings,
    with_values as with_values,
)
