"""A program that is killed: an agent of three nodes with two sub-agents, whose tools count their effects in files.

`kill_at` is the number of the await at which a process kills itself, counted over all callbacks of the event loop and
all transactions of the database. A run that is not killed leaves that count in the file `awaits`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.agents.tool import ToolContext
from hive_agents.models import Chain, ChatResult, Message, Tool, Usage
from tests.agents.conftest import GOAL, agent_json, edge, node, write_json
from tests.agents.loops import Told, agent, say, sets

ITEMS = ["ants", "bees", "wasps"]


def spec(ask: bool = False) -> AgentSpec:
    policy = [{"match": "order", "decision": "ask" if ask else "allow"}, {"match": "*", "decision": "allow"}]
    return agent(
        node("collect", input_keys=["topic"], output_keys=["items"], tools=["look", "order"]),
        node(
            "check",
            input_keys=["items"],
            output_keys=["verdicts"],
            tools=["look", "order"],
            sub_agents=["left", "right"],
        ),
        node("left", input_keys=["claim"], output_keys=["verdict"], tools=["order"]),
        node("right", input_keys=["claim"], output_keys=["verdict"], tools=["look", "order"]),
        node("write", input_keys=["items", "verdicts"], output_keys=["text"], tools=["order"], max_iterations=5),
        edges=[edge("collect", "check"), edge("check", "write")],
        tool_policy=policy,
    )


def tools(folder: Path) -> ToolRegistry:
    registry = ToolRegistry()

    def order(what: str, context: ToolContext) -> str:
        """Order a thing: an effect outside, once for each key."""
        _count(folder / "asked", f"{what} {context.idempotency_key}")
        done = folder / "done"
        known = done.read_text().split("\n") if done.exists() else []
        if f"{what} {context.idempotency_key}" not in known:
            _count(done, f"{what} {context.idempotency_key}")
        return f"ordered {what}"

    def look(what: str) -> str:
        """Look something up."""
        return f"{what} are insects. " * 20

    registry.register(order, side_effect="external")
    registry.register(look)
    return registry


def _count(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def answering(messages: Sequence[Message], offered: Sequence[Tool]) -> ChatResult:
    """What to do next follows from the prompt and from what was done since the phase began."""
    focus = next(line for line in messages[0].content.splitlines() if line.startswith("Do "))
    phase = focus.removeprefix("Do ").rstrip(".")
    begun = max(n for n, one in enumerate(messages) if one.role == "user" and "[Judge" not in one.content)
    since = [one for one in messages[begun:] if one.role == "assistant"]
    return PLANS[phase][len(since)].model_copy(update={"usage": Usage(input_tokens=10, output_tokens=1)})


PLANS: dict[str, list[ChatResult]] = {
    "collect": [
        say([("look", {"what": item}) for item in ITEMS]),
        say([("order", {"what": f"collect {item}"}) for item in ITEMS]),
        say("Now I know them."),
        say([sets("items", ITEMS), ("save_data", {"filename": "items.md", "text": ", ".join(ITEMS)})]),
    ],
    "check": [
        say(
            [
                ("delegate_to_sub_agent", {"agent": "left", "task": "check", "inputs": {"claim": "left claim"}}),
                ("delegate_to_sub_agent", {"agent": "right", "task": "check", "inputs": {"claim": "right claim"}}),
            ]
        ),
        say([sets("verdicts", ["holds", "refuted"])]),
    ],
    "left": [say([("order", {"what": "left"})]), say([sets("verdict", "holds")])],
    "right": [
        say([("look", {"what": "right"}), ("order", {"what": "right"})]),
        say("It is refuted."),
        say([sets("verdict", "refuted")]),
    ],
    "write": [say([("order", {"what": "print"})]), say([sets("text", "insects")])],
}
EFFECTS = sorted([f"collect {item}" for item in ITEMS] + ["left", "right", "print"])
OUTPUTS = {"items": ITEMS, "verdicts": ["holds", "refuted"], "text": "insects"}
MESSAGES = 38
"""Of all conversations of a run together."""


def prepared(root: Path) -> Workspace:
    (root / "collections").mkdir(parents=True)
    place = Workspace(root)
    write_json(place, "goals/digest.json", GOAL)
    write_json(place, "agents/digest.json", agent_json(tool_policy=[{"match": "*", "decision": "allow"}]))
    return place


def run_of(place: Workspace, run: str, ask: bool = False) -> AgentRun:
    seams: dict[str, Any] = {"tools": tools(place.root), "models": lambda role: Chain([Told(answering)])}
    if run == "start":
        return AgentRun.start(place, spec(ask), {"topic": "insects"}, **seams)
    return AgentRun.resume(place, run, **seams)


def count_awaits(kill_at: int | None) -> list[int]:
    """Count what the process waits for and what it commits, into the list returned, and die at the number given."""
    from asyncio import events

    counted = [0]

    def counting(counted_one: Any) -> Any:
        def one(*given: Any, **named: Any) -> Any:
            counted[0] += 1
            if counted[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return counted_one(*given, **named)

        return one

    events.Handle._run = counting(events.Handle._run)  # type: ignore[method-assign]
    for name, module in list(sys.modules.items()):
        if name.startswith("hive_agents."):
            for door in {"transaction", "briefly"} & vars(module).keys():
                setattr(module, door, counting(vars(module)[door]))
    return counted


def main() -> None:
    """Do what each line of stdin says, in a fork that has imported everything: {root, run, kill_at, ask, settings}."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            os.environ |= job["settings"]
            place = Workspace(job["root"])
            run = run_of(place, job["run"], job["ask"])
            counted = count_awaits(job["kill_at"])
            run.go()
            (place.root / "awaits").write_text(str(counted[0]))
            os._exit(0)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)


if __name__ == "__main__":
    from importlib import import_module

    for name in ("graphs.event_loop", "hive_agents.runs.checkpoint_tables", "jsonschema"):
        import_module(name)
    main()
