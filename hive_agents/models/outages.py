"""Outages: failures to reach a model, independent of the request."""

from __future__ import annotations

from hive_agents.base import NoModel
from hive_agents.models.model import ModelError


def is_outage(error: BaseException | None) -> bool:
    """Return whether `error` or its cause is that a model couldn't be reached, or that there is none.

    >>> is_outage(ModelError("timeout", "late")), is_outage(ModelError("garbage", "?")), is_outage(KeyError("x"))
    (True, False, False)
    """
    from hive_agents.models.langchain import failure_of

    while error is not None:
        failure = error if isinstance(error, ModelError) or not isinstance(error, Exception) else failure_of(error, "")
        if isinstance(failure, ModelError):
            return failure.outage
        if isinstance(failure, NoModel):
            return True
        error = error.__cause__
    return False
