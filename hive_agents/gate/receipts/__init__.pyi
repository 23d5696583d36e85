from . import (
    decision as decision,
    deployment as deployment,
    gate as gate,
    statement as statement,
)
from .gate import (
    gate_receipt as gate_receipt,
)
from .statement import (
    Receipt as Receipt,
)
