from . import (
    approvals as approvals,
    credentials as credentials,
)
from .doctor_examine import (
    examine as examine,
)
from .main import (
    run as run,
)
from .receipts import (
    answer_receipt as answer_receipt,
    decision_receipt as decision_receipt,
    deployment_receipt as deployment_receipt,
    verify_receipt as verify_receipt,
)
