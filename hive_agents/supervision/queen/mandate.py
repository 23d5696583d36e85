"""What an asker's own words allow a model to change: a run's text, or a model's whim, asks for nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hive_agents.supervision.queen.targets import target
from hive_agents.supervision.queen.understanding import understand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_agents.runs import RunRow

_WORDS = {
    "stop": "stop halt kill cancel abort terminate",
    "pause": "pause hold suspend freeze",
    "resume": "resume continue unpause restart wake proceed",
    "start": "start launch begin make write create",
    "steer": "tell steer say ask remind instruct inform message",
    "write": "write set store save put remember record note keep",
    "forward": "forward ask escalate hand pass",
    "propose": "propose suggest change improve version edit",
}
_CLAUSE = re.compile(r"(?:^|[.,;!\n]|\b(?:and|then|but|please)\b)\s*(?P<verb>[a-z]+)(?!['’])")
_POLITE = re.compile(
    r"\b(?:(?:could|can|would|will) you|please|yes|ok|okay|now|so|hey|queen|go ahead"
    r"|(?:i want|i need|i would like|i['’]d like) you to)\b[\s,:!]*"
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|`[^`]*`")
_NOT = re.compile(r"\b(?:not|never)\b|n['’]t\b", re.IGNORECASE)
_CHANGES = frozenset({"stop", "pause", "resume", "start", "steer", "tell"})
_DOING = re.compile(r"\b(?:stop|halt|cancel|abort|pause|resume|continue)\s+([a-z]+ing)\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:all|every|everything|both|each|them)\b", re.IGNORECASE)
_WHY = re.compile(r"^\W*(?:why|who|when|what|which|how|did|was|is|are|were|has|have|should|does|do)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Mandate:
    """The words of the asker's message, and the runs that they last spoke of with her.

    A clause has to begin with the verb, as an order does. A question asks for no change, and neither does what is
    quoted, or a message with a "not" in it.

    >>> Mandate("please stop r1a2b3c4d5").refusal("stop") is None, Mandate("why is it stuck?").refusal("stop")
    (True, 'nobody asked to stop anything')
    """

    text: str
    last: Sequence[str] = ()

    def refusal(self, verb: str, row: RunRow | None = None, rows: Sequence[RunRow] = ()) -> str | None:
        """Why a change isn't what was asked for; None where it is. `row` is one of `rows`, all that the asker sees."""
        intent = understand(self.text)
        meant = verb == {"tell": "steer"}.get(intent.verb, intent.verb) or verb in self._orders()
        if not meant or intent.asks or _NOT.search(self.text) or _WHY.match(self.text):
            return f"nobody asked to {verb} anything"
        doing = _DOING.search(self.text)
        if doing and row is not None and verb in ("stop", "pause", "resume") and doing[1] != row.agent:
            return f"nobody asked to {verb} the run: what it does is another matter"
        if row is None or _ALL.search(self.text):
            return None
        found = target(self.text, rows, self.last)
        if found.run is not None and found.run.run_id == row.run_id:
            return None
        return f"the asker didn't name {row.run_id}: ask which run is meant"

    def orders(self) -> bool:
        """Whether the message asks for a change of a run."""
        return bool(_CHANGES & {understand(self.text).verb, *self._orders()})

    def _orders(self) -> set[str]:
        """The verbs that a clause of the asker's own words begins with."""
        own = _POLITE.sub(" ", _QUOTED.sub(" ", self.text.casefold()))
        said = {one["verb"] for one in _CLAUSE.finditer(own)}
        return {verb for verb, words in _WORDS.items() if said & set(words.split())}
