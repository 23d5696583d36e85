"""A run's recorded model turns, tool results and judgements, by the key of each step in the ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hive_agents.agents.effects import Done
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base import HiveError
from hive_agents.memory import DataFiles, folder_name, run_folder
from hive_agents.models import Usage
from hive_agents.store import connected

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

_CALL = re.compile(r"(?P<turn>.*/\d+)/(?P<n>\d+)")
_NODE = re.compile(r"([^/#]+)#\d+")
_LOADED = re.compile(r"\(filename='(?P<file>[^']+)'\)")


@dataclass(frozen=True)
class RecordedStep:
    """A recorded step: `told` is the part that can be compared with another run's, as plain JSON."""

    key: str
    kind: str
    result: Any
    usage: Usage
    told: dict[str, Any]

    @property
    def node(self) -> str:
        """The node, or the sub-agent's node, that the step belongs to; GOAL for a judgement of the goal."""
        names = _NODE.findall(self.key)
        return str(names[-1]) if names else "GOAL"


@dataclass(frozen=True)
class MadeCall:
    """A tool call that was carried out; `args` are as a person edited them, if one did."""

    key: str
    tool: str
    args: Mapping[str, Any]
    text: str
    is_error: bool
    documents: tuple[str, ...] = ()


class Recording:
    """The ledger of one run, and the answers of people in it.

    Raises: HIVE-402, HIVE-403, HIVE-407 from the database.
    """

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self._workspace, self._run_id = workspace, run_id
        self.steps = {step.key: step for step in self._read()}
        """In the order in which they ended."""

    def done(self, key: str) -> Done | None:
        """Return the result and cost of the model's turn or judgement at `key`; None where there is none."""
        step = self.steps.get(key)
        return Done(step.result, step.usage) if step is not None else None

    def asked(self, key: str) -> tuple[str, dict[str, Any]] | None:
        """Return the tool and arguments that a model asked for at the key of a call."""
        return _asked(self.steps, key)

    @cached_property
    def calls(self) -> list[MadeCall]:
        """The calls of registered tools that were carried out, in order."""
        return [self._call(step) for step in self.steps.values() if step.kind == "tool"]

    @cached_property
    def requests(self) -> dict[str, ApprovalRequest]:
        """The requests to people, by the key of the step that filed each."""
        start = f"run:{self._run_id}:"
        requests = reversed(ApprovalStore(self._workspace).list(run_ids=[self._run_id]))
        return {(request.idempotency_key or request.id).removeprefix(start): request for request in requests}

    def _call(self, step: RecordedStep) -> MadeCall:
        name, args = self.asked(step.key) or ("", {})
        request = self.requests.get(step.key)
        if request is not None and request.status == "edited":
            args = dict(request.context["args"])
        documents = tuple(step.result.get("documents", ()))
        return MadeCall(step.key, name, args, self._text(step), bool(step.result["is_error"]), documents)

    def _text(self, step: RecordedStep) -> str:
        """Return a tool's full result, also where the conversation holds its beginning and a pointer to a file."""
        content, pointer = str(step.result["content"]), step.result.get("pointer")
        pointer_file = _LOADED.search(pointer or "")
        if pointer_file is None:
            return content.removesuffix(f"\n\n{pointer}") if pointer else content
        folder = run_folder(self._workspace, self._run_id)
        if "#" in (part := step.key.rpartition("/")[0].rpartition("/")[0]) and "/" in part:
            folder = folder / "agents" / folder_name(part)
        with suppress(HiveError):
            return DataFiles(folder).read(pointer_file["file"])
        return content.removesuffix(f"\n\n{pointer}")

    def _read(self) -> list[RecordedStep]:
        query = (
            "SELECT substr(key, ?), kind, result, tokens, usd FROM effects"
            " WHERE run_id = ? AND status = 'done' AND result IS NOT NULL ORDER BY ended, rowid"
        )
        with connected(self._workspace.records) as connection:
            rows = connection.execute(query, (len(self._run_id) + 2, self._run_id)).fetchall()
        steps: dict[str, RecordedStep] = {}
        for key, kind, text, tokens, usd in rows:
            result = json.loads(text)
            usage = Usage(input_tokens=tokens, usd=usd, estimated=True)
            steps[key] = RecordedStep(key, kind, result, usage, {})
        return [replace(step, told=_comparable(steps, step)) for step in steps.values()]


def _asked(steps: Mapping[str, RecordedStep], key: str) -> tuple[str, dict[str, Any]] | None:
    made = steps[key].result if key in steps else None
    if isinstance(made, dict) and "tool" in made:  # by code
        return str(made["tool"]), dict(made["args"])
    match = _CALL.fullmatch(key)
    turn = steps.get(f"{match['turn']}/model") if match is not None else None
    if match is None or turn is None or "calls" not in turn.result:
        return None
    calls = turn.result["calls"]
    if int(match["n"]) >= len(calls):
        return None
    call = calls[int(match["n"])]
    return str(call["name"]), dict(call["args"])


def _comparable(steps: Mapping[str, RecordedStep], step: RecordedStep) -> dict[str, Any]:
    """Return the part of a step that can be compared with another run's; {} for bookkeeping steps."""
    result = step.result
    if not isinstance(result, dict):
        return {}
    if step.kind == "model" and "calls" in result:
        calls = [{"name": call["name"], "args": call["args"]} for call in result["calls"]]
        return {"calls": calls} if calls else {"says": result["text"]}
    if step.kind == "model":
        return {"error": result["error"]} if "error" in result else {}
    if step.kind == "judge":
        return {"verdict": result["action"]}
    asked = _asked(steps, step.key)
    if asked is None or "content" not in result:
        return {}
    pointer = result.get("pointer")
    text = str(result["content"]).removesuffix(f"\n\n{pointer}") if pointer else str(result["content"])
    return {"tool": asked[0], "error" if result["is_error"] else "gives": text}
