from . import (
    proposals as proposals,
)
from .proposals import (
    changed as changed,
    propose as propose,
)
from .texts import (
    inlined as inlined,
)
