from . import (
    parsing as parsing,
)
from .operations import (
    ExpressionError as ExpressionError,
)
from .parsing import (
    parse as parse,
)
