from . import (
    proposals as proposals,
)
from .proposals import (
    propose as propose,
)
from .texts import (
    inlined as inlined,
)
