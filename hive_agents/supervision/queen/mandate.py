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
_NOT = re.compile(r"\b(?:not|never)\b|n['’]t\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:all|every|everything|both|each|them)\b", re.IGNORECASE)
_WHY = re.compile(r"^\W*(?:why|who|when|what|which|how|did|was|is|are|were|has|have|should|does|do)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Mandate:
    """The words of the asker's message, and the runs that they last spoke of with her.

    A question asks for no change, and neither does a message with a "not" in it.

    >>> Mandate("please stop r1a2b3c4d5").refusal("stop") is None, Mandate("why is it stuck?").refusal("stop")
    (True, 'nobody asked to stop anything')
    """

    text: str
    last: Sequence[str] = ()

    def refusal(self, verb: str, row: RunRow | None = None, rows: Sequence[RunRow] = ()) -> str | None:
        """Why a change isn't what was asked for; None where it is. `row` is one of `rows`, all that the asker sees."""
        said = set(re.findall(r"[a-z]+", self.text.casefold()))
        meant = verb == {"tell": "steer"}.get(asked := understand(self.text).verb, asked)
        if not (meant or said & set(_WORDS[verb].split())) or _NOT.search(self.text) or _WHY.match(self.text):
            return f"nobody asked to {verb} anything"
        if row is None or _ALL.search(self.text):
            return None
        found = target(self.text, rows, self.last)
        if found.run is not None and found.run.run_id == row.run_id:
            return None
        return f"the asker didn't name {row.run_id}: ask which run is meant"
