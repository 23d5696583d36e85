"""The queen's actions as tools of a model: each is checked against the asker's scope and words."""

from __future__ import annotations

import asyncio
import json
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hive_agents.base import HiveError, fenced, one_line
from hive_agents.base.files import Format, load_value
from hive_agents.models import Tool, ToolCall
from hive_agents.runs import ACTIVE
from hive_agents.supervision.queen.colony import Colony
from hive_agents.supervision.queen.mandate import Mandate
from hive_agents.supervision.queen.reply import Reply, done_line, event_line, ticket_line
from hive_agents.supervision.queen.workers import pick

if TYPE_CHECKING:
    from hive_agents.runs import RunRow

LONGEST = 8_000
"""Most characters of one result."""

RunId = Annotated[str, Field(description="As list_runs shows it.")]


class ListRuns(Format):
    """The runs, newest first; without a status those that are active."""

    status: Literal["queued", "running", "waiting", "paused", "done", "failed", "stopped"] | None = None


class ShowRun(Format):
    """One run: how it stands, its tickets, its last events."""

    run_id: RunId


class ListTickets(Format):
    """The open tickets of the health judge, the gravest first."""


class ListWaiting(Format):
    """The requests that wait for a person. Only people decide them."""


class FindAgents(Format):
    """The agents; with a task those that fit it, best first."""

    task: str | None = None


class ListCredentials(Format):
    """References to credentials; values are never shown."""


class ReadValue(Format):
    """A value of the data buffer that a run sees."""

    run_id: RunId
    key: str
    scope: Literal["execution", "stream", "global"] = "execution"


class WriteValue(ReadValue):
    """Set a value of the data buffer."""

    value: Any


class PauseRun(ShowRun):
    """Let a run rest after its present step."""


class ResumeRun(ShowRun):
    """Let a run that was paused or stopped go on."""


class StopRun(ShowRun):
    """Stop a run."""


class SteerRun(ShowRun):
    """Tell a running agent something, which it reads before its next turn."""

    words: str


class StartAgent(Format):
    """Start an agent with its inputs."""

    agent: str
    input: dict[str, Any] = {}


class ForwardTicket(Format):
    """Ask a person about a ticket."""

    ticket_id: str
    question: str


class ProposeVersion(Format):
    """Propose a new version of an agent as an RFC 6902 patch; the gate and a person decide on it."""

    agent: str
    patch: list[dict[str, Any]]
    reason: str


_VERBS: dict[str, type[Format]] = {
    "list_runs": ListRuns,
    "show_run": ShowRun,
    "list_tickets": ListTickets,
    "list_waiting": ListWaiting,
    "find_agents": FindAgents,
    "list_credentials": ListCredentials,
    "read_value": ReadValue,
    "write_value": WriteValue,
    "pause_run": PauseRun,
    "resume_run": ResumeRun,
    "stop_run": StopRun,
    "steer_run": SteerRun,
    "start_run": StartAgent,
    "forward_ticket": ForwardTicket,
    "propose_version": ProposeVersion,
}
TOOLS = [
    Tool(name=name, description=format.__doc__ or "", parameters=format.model_json_schema())
    for name, format in _VERBS.items()
]


class Hands:
    """Carries out a model's calls for one asker; `reply` collects the actions and the runs mentioned."""

    def __init__(self, colony: Colony, mandate: Mandate, reply: Reply) -> None:
        self.colony, self.mandate, self.reply = colony, mandate, reply

    async def call(self, call: ToolCall) -> str:
        """Return the result as JSON; {"error"} for an impossible or forbidden call."""
        try:
            if call.name not in _VERBS:
                raise HiveError.of("HIVE-409", f"there is no tool {one_line(call.name, 60)}")
            asked = load_value(_VERBS[call.name], call.args, call.name)
            await asyncio.to_thread(self.colony.require_still)
            verb = getattr(self, f"_{call.name}")
            result = await (verb(asked) if iscoroutinefunction(verb) else asyncio.to_thread(verb, asked))
        except HiveError as error:
            result = {"error": "; ".join(str(one.message) for one in error.diagnostics)}
        shown = json.dumps(result, ensure_ascii=False, default=str)
        text = await asyncio.to_thread(self.colony.hide, shown)
        return text if len(text) <= LONGEST else text[:LONGEST] + " … (cut)"

    def _list_runs(self, asked: ListRuns) -> Any:
        return [self._row(row) for row in self.colony.runs(asked.status or ACTIVE, 50)]

    def _show_run(self, asked: ShowRun) -> Any:
        row = self.colony.run(asked.run_id)
        tickets = [ticket_line(one) for one in self.colony.tickets() if one.run_id == row.run_id]
        return self._row(row) | {"tickets": tickets, "events": [*map(event_line, self.colony.log(row.run_id))]}

    def _list_tickets(self, asked: ListTickets) -> Any:
        return [one.model_dump(mode="json") for one in self.colony.tickets()[:20]]

    def _list_waiting(self, asked: ListWaiting) -> Any:
        return [one.summary() for one in self.colony.waiting(20)[0]]

    def _find_agents(self, asked: FindAgents) -> Any:
        workers = self.colony.workers()
        found = pick(asked.task, workers) if asked.task else workers
        return [{"agent": w.id, "about": w.about, "capability": w.capability, "inputs": w.inputs} for w in found]

    def _list_credentials(self, asked: ListCredentials) -> Any:
        return self.colony.credentials()

    def _read_value(self, asked: ReadValue) -> Any:
        return self.colony.value(asked.run_id, asked.key, asked.scope)

    def _write_value(self, asked: WriteValue) -> Any:
        row = self._mine("write", asked.run_id)
        return {"version": self.colony.write(row.run_id, asked.key, asked.value, asked.scope)}

    def _pause_run(self, asked: PauseRun) -> Any:
        return self._did("pause", self.colony.pause(self._mine("pause", asked.run_id).run_id))

    def _resume_run(self, asked: ResumeRun) -> Any:
        return self._did("resume", self.colony.resume(self._mine("resume", asked.run_id).run_id))

    def _stop_run(self, asked: StopRun) -> Any:
        return self._did("stop", self.colony.stop(self._mine("stop", asked.run_id).run_id))

    def _steer_run(self, asked: SteerRun) -> Any:
        row = self._mine("steer", asked.run_id)
        # What the asker didn't say may be what the model has read.
        own = asked.words in self.mandate.text
        words = asked.words if own else f"From the queen:\n{fenced(asked.words)}"
        return self._did("steer", self.colony.steer(row.run_id, words))

    async def _start_run(self, asked: StartAgent) -> Any:
        await asyncio.to_thread(self._require, "start")
        return self._did("start", await self.colony.start(asked.agent, asked.input))

    def _forward_ticket(self, asked: ForwardTicket) -> Any:
        self._require("forward")
        return self.colony.forward(asked.ticket_id, asked.question).summary()

    async def _propose_version(self, asked: ProposeVersion) -> Any:
        await asyncio.to_thread(self._require, "propose")
        return {"proposal": await self.colony.propose(asked.agent, asked.patch, asked.reason)}

    def _row(self, row: RunRow) -> dict[str, Any]:
        self.reply.speak_of(row)
        return row.summary | {"agent": row.agent}

    def _did(self, action: str, row: RunRow) -> Any:
        self.reply.did(action, row)
        return {"done": done_line(action, row)}

    def _mine(self, verb: str, run_id: str) -> RunRow:
        row = self.colony.run(run_id)
        self._require(verb, row)
        return row

    def _require(self, verb: str, row: RunRow | None = None) -> None:
        why = self.mandate.refusal(verb, row, self.colony.runs())
        if why is not None:
            raise HiveError.of("HIVE-415", why)
