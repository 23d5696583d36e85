"""Is a failure an outage: could no model be asked, whatever the question was?"""

from __future__ import annotations

from hive_agents.errors import NoModel
from hive_agents.llm.model import ModelError


def is_outage(error: BaseException | None) -> bool:
    """Return whether `error` says, itself or by what caused it, that a model couldn't be asked; one that isn't there,
    too.

    >>> is_outage(ModelError("timeout", "late")), is_outage(ModelError("garbage", "?")), is_outage(KeyError("x"))
    (True, False, False)
    """
    from hive_agents.llm.langchain import failure_of

    while error is not None:
        known = error if isinstance(error, ModelError) or not isinstance(error, Exception) else failure_of(error, "")
        if isinstance(known, ModelError):
            return known.outage
        if isinstance(known, NoModel):
            return True
        error = error.__cause__
    return False
