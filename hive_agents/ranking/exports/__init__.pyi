from .export import (
    ENGINES as ENGINES,
    Export as Export,
    export as export,
    values_for as values_for,
)
from .template import (
    filled as filled,
)
