from .gate import (
    gate_receipt as gate_receipt,
)
from .kinds import (
    answer_receipt as answer_receipt,
    decision_receipt as decision_receipt,
    deployment_receipt as deployment_receipt,
    verify_receipt as verify_receipt,
)
from .statement import (
    Receipt as Receipt,
    Rederived as Rederived,
)
