from .operations import (
    ExpressionError as ExpressionError,
)
from .parsing import (
    Expression as Expression,
    parse as parse,
    plain_names as plain_names,
)
