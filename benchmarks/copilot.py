"""What the copilot adds to a search: whole turns without a model, beside a bare graph that only searches.

    python benchmarks/copilot.py [--turns N] [--profile] [--json FILE]

A turn plans, searches in the reader's scope, asks the permission service, answers, judges, and records. The bare graph
is six LangGraph nodes that do nothing, the third of which runs the same search of the engine. Both run in this process,
by turns, on the sample workspace; times are medians, and what carries over to another machine is their ratio.

The rights of a token are looked up at each use. What that costs is the ratio of the processor's time of turns, and of
searches in a reader's scope, to that of the same with the answers of the first look-up, by turns, too.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypedDict
from unittest.mock import patch

from langgraph.graph import END, START, StateGraph

from hive_agents import Workspace
from hive_agents.access import AccessRules, Asker, known_principal, mint, proofs
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.session import open_scope
from hive_agents.ranking import SearchEngine
from hive_agents.ranking.deployed import active_config

QUESTIONS = [
    "how do I rotate an API token?",
    "when is a balance calibrated?",
    "who signs a major deviation?",
    "how long is a sample kept?",
    "what happens when the incubator alarm rings at night?",
    "how do I pair a device?",
    "which events can a webhook receive?",
    "what does a licence key look like?",
]
TARGET = 1.5


class Bare(TypedDict, total=False):
    query: str
    found: list[str]


def bare_graph(engine: SearchEngine, config: Any) -> Any:
    async def nothing(_: Bare) -> Bare:
        return {}

    async def search(state: Bare) -> Bare:
        return {"found": [hit.doc_id for hit in engine.search(state["query"], config).hits]}

    builder = StateGraph(Bare)
    names = [f"n{n}" for n in range(6)]
    for name in names:
        node: Any = search if name == "n2" else nothing
        builder.add_node(name, node)
    for left, right in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(left, right)
    return builder.compile()


async def measured(place: Workspace, turns: int, profile: cProfile.Profile | None) -> dict[str, Any]:
    reader = known_principal(place, "dana")
    engine = place.engine()
    config = active_config(place).stored.config
    graph = bare_graph(engine, config)

    async def bare(query: str) -> None:
        async for _ in graph.astream({"query": query}, stream_mode="updates"):
            pass

    async def turn(query: str) -> str:
        # A thread of its own for each: a growing conversation would measure itself.
        run_id: str = (await Chat(place, reader, engine=engine).ask(Request(text=query)))["run_id"]
        return run_id

    for query in QUESTIONS:
        await bare(query)
        await turn(query)
    taken: dict[str, list[float]] = {"bare": [], "turn": [], "search": []}
    runs = []
    for number in range(turns):
        # A word of its own, so that no cache of query vectors answers one side for the other.
        query = f"{QUESTIONS[number % len(QUESTIONS)]} case {number}"
        for name in ("bare", "turn") if number % 2 else ("turn", "bare"):
            asked = f"{query} {name}"
            started = time.perf_counter()
            if name == "bare":
                await bare(asked)
            else:
                if profile is not None:
                    profile.enable()
                runs.append(await turn(asked))
                if profile is not None:
                    profile.disable()
            taken[name].append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        engine.search(f"{query} search", config)
        taken["search"].append((time.perf_counter() - started) * 1000)
    nodes: dict[str, list[float]] = {}
    root = Chat(place, known_principal(place, "root"), engine=engine)
    for run_id in runs:
        for node in root.trace(run_id)["nodes"]:
            nodes.setdefault(node["node"], []).append(node["ms"])
    medians = {name: statistics.median(times) for name, times in taken.items()}
    return {
        **{f"{name} ms": round(value, 2) for name, value in medians.items()},
        "ratio": round(medians["turn"] / medians["bare"], 2),
        "target": TARGET,
        "nodes ms": {name: round(statistics.median(times), 2) for name, times in nodes.items()},
    }


@contextmanager
def looked_up_once(place: Workspace, asker: Asker) -> Iterator[None]:
    """Answer each look-up of entries and of what was ended as the first one was; a token is verified all the same."""
    who, rules = asker.reader(), AccessRules.load(place)
    state = proofs.state(place, "token", who.token_id, who.tenant, who.user)
    with patch.object(AccessRules, "load", lambda _: rules), patch.object(proofs, "state", lambda *_: state):
        yield


async def of_rights(place: Workspace, turns: int) -> dict[str, Any]:
    """What the look-up of rights costs a turn and a search, as ratios of the processor's time."""
    asker = Asker.of(place, mint(place, known_principal(place, "dana"), 3600).token)
    engine = place.engine()
    config = active_config(place).stored.config

    async def turn(query: str) -> None:
        await Chat(place, asker.reader, engine=engine).ask(Request(text=query))

    async def search(query: str) -> None:
        engine.run_on(open_scope(place, engine, asker.reader(), config.collection), [query], config)

    spent: dict[str, list[float]] = {}
    for number in range(-8, turns):
        query = f"{QUESTIONS[number % len(QUESTIONS)]} case {number}"
        for what in (turn, search):
            for once in (False, True) if number % 2 else (True, False):
                with looked_up_once(place, asker) if once else nullcontext():
                    started = time.process_time()
                    await what(f"{query} {once}")
                    taken = (time.process_time() - started) * 1000
                if number >= 0:  # the first ones fill caches
                    spent.setdefault(f"{what.__name__}{' without look-ups' if once else ''}", []).append(taken)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    ratios = {name: medians[name] / medians[f"{name} without look-ups"] for name in ("turn", "search")}
    return {
        "CPU ms": {name: round(value, 2) for name, value in medians.items()},
        "look-ups of rights": {name: round(value, 3) for name, value in ratios.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--profile", action="store_true", help="print where the turns spend their time")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Workspace(init_workspace(Path(folder) / "workspace"))
        place.index()
        profile = cProfile.Profile() if given.profile else None
        row = asyncio.run(measured(place, given.turns, profile)) | asyncio.run(of_rights(place, given.turns))
    print(json.dumps(row, indent=2))
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats("hive_agents|langgraph|sqlite", 45)
    if given.json:
        given.json.write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
