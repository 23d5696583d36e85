from .contents import (
    readers_of as readers_of,
)
from .export import (
    ENGINES as ENGINES,
    Difference as Difference,
    Export as Export,
    Parameter as Parameter,
    export as export,
    values_for as values_for,
)
from .template import (
    filled as filled,
)
