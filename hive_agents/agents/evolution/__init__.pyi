from . import (
    proposals as proposals,
)
from .proposals import (
    Proposal as Proposal,
    candidate_of as candidate_of,
    changed as changed,
    find_proposal as find_proposal,
    propose as propose,
)
from .reach import (
    RISKY as RISKY,
    more_than as more_than,
)
from .texts import (
    agent_hash as agent_hash,
    agent_text as agent_text,
    difference as difference,
    format_hash as format_hash,
    inlined as inlined,
    outlined as outlined,
)
from .verdict import (
    Rehearsed as Rehearsed,
    VersionDecision as VersionDecision,
    VersionVerdict as VersionVerdict,
    decide as decide,
)
