"""The changes that an asker's own words allow a model; neither texts of runs nor the model can ask for others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.supervision.queen.commands import target, understand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_agents.runs import RunRow

_VERBS = {
    "stop": "stop halt kill cancel abort terminate",
    "pause": "pause hold suspend freeze",
    "resume": "resume continue unpause restart wake proceed",
    "start": "start run launch begin make write create",
    "steer": "tell steer say ask remind instruct inform message",
    "write": "write set store save put remember record note keep",
    "forward": "forward ask escalate hand pass",
    "propose": "propose suggest change improve version edit",
}
_CHANGES = frozenset({"stop", "pause", "resume", "start", "steer"})
_CLAUSE = re.compile(
    r"(?:^|[.,;!\n]|\b(?:and|then|but|please)\b)[^\S\n]*(?P<verb>[a-z]+)(?!['’])(?:\s+(?P<doing>[a-z]+ing)\b)?"
)
_POLITE = re.compile(
    r"\b(?:(?:could|can|would|will) you|please|yes|ok|okay|now|so|hey|queen|go ahead"
    r"|(?:i want|i need|i would like|i['’]d like) you to)\b[\s,:!]*"
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|`[^`]*`")
_NOT = re.compile(r"\b(?:not|never)\b|n['’]t\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:all|every|everything|both|each|them)\b", re.IGNORECASE)
_WHY = re.compile(r"^\W*(?:why|who|when|what|which|how|did|was|is|are|were|has|have|should|does|do)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Mandate:
    """The words of the asker's message, and the runs last mentioned.

    A clause has to begin with the verb, as an order does. Questions, quotations and messages with a "not" ask for no
    change.

    >>> Mandate("please stop r1a2b3c4d5").refusal("stop") is None, Mandate("why is it stuck?").refusal("stop")
    (True, 'nobody asked to stop anything')
    """

    text: str
    last: Sequence[str] = ()

    def refusal(self, verb: str, row: RunRow | None = None, rows: Sequence[RunRow] = ()) -> str | None:
        """Return why a change wasn't asked for; None where it was. `row` is one of `rows`, all in sight."""
        intent, agent = understand(self.text), row.agent if row is not None else None
        ordered = {"tell": "steer"}.get(intent.verb, intent.verb) == verb or verb in self._orders(agent)
        if not ordered or intent.asks:
            return f"nobody asked to {verb} anything"
        if row is None or _ALL.search(self.text):
            return None
        found = target(self.text, rows, self.last)
        if found.run is not None and found.run.run_id == row.run_id:
            return None
        return f"the asker didn't name {row.run_id}: ask which run is meant"

    def orders(self) -> bool:
        """Return whether the message asks for a change of a run."""
        return bool(_CHANGES & self._orders())

    def _orders(self, agent: str | None = None) -> set[str]:
        """Return the orders in the asker's words; "stop reporting" is none unless an agent has that name."""
        if _NOT.search(self.text) or _WHY.match(self.text):
            return set()
        clauses = _CLAUSE.finditer(_POLITE.sub(" ", _QUOTED.sub(" ", self.text.casefold())))
        words = {clause["verb"] for clause in clauses if clause["doing"] in (None, agent)}
        return {verb for verb, names in _VERBS.items() if words & set(names.split())}
