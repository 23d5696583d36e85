"""How many searches a canary needs until a worse config is rolled back, how often it is wrong, and what a draft costs.

The first table draws decided searches by chance. The second has simulated readers, who look down a drafted list, open
what is relevant more often than what isn't, and give up: their clicks on real lists of the sample workspace, of its
config against one that is worse, one that is as good, and itself the other way round. Prints both and JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hive_agents import RouterDecision, SearchStrategy, Workspace
from hive_agents.access import owner
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import Request, TurnSession
from hive_agents.copilot.drafting import interleaved, results_under
from hive_agents.evaluation import GoldenSet, load_golden
from hive_agents.gate.interleaving import ALARM, e_value, team_draft
from hive_agents.ranking import RetrievalConfig, SearchEngine, StoredConfig, find_config, parse_config

LOOKS = 0.75
"""How likely a reader goes on to the next place."""
STATES = ("rolled back", "confirmed", "undecided")
OPENS = {1: 0.6, 0: 0.05, -1: 0.15}
"""How likely a document that they look at is opened: relevant, neither, a distractor."""


def boundary(length: int) -> NDArray[np.int64]:
    """Return by the number of decided searches how many of them must be lost for a rollback."""
    lost, found = 0, []
    for decided in range(length + 1):
        while lost <= decided and e_value(lost, decided - lost) < ALARM:
            lost += 1
        found.append(lost)
    return np.array(found)


def power(dice: Generator, worlds: int, lengths: tuple[int, ...]) -> list[dict[str, float]]:
    needed, rows = boundary(max(lengths))[1:], []
    for chance in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0):
        lost = np.cumsum(dice.random((worlds, len(needed))) < chance, axis=1)
        over = lost >= needed
        first = np.where(over.any(axis=1), over.argmax(axis=1) + 1, np.inf)
        rows.append(
            {"lost": chance}
            | {f"by_{length}": round(float(np.mean(first <= length)), 3) for length in lengths}
            | {"median": float(np.median(first))}
        )
    return rows


def lists_of(engine: SearchEngine, config: RetrievalConfig, golden: GoldenSet) -> list[list[str]]:
    rankings = engine.search_many([query.query for query in golden], config)
    return [list(dict.fromkeys(hit.doc_id for hit in ranking.hits)) for ranking in rankings]


def readers(
    dice: Generator, golden: GoldenSet, new: list[list[str]], previous: list[list[str]], most: int
) -> tuple[str, int, int]:
    """Return how the canary ended, after how many drafted searches, and how many of them were decided."""
    queries = list(golden)
    won = lost = drafted = 0
    while drafted < most:
        n = int(dice.integers(len(queries)))
        draft = team_draft(new[n], previous[n], str(dice.integers(2**62)))
        if not draft.teams.strip("-"):
            continue
        drafted += 1
        grades = dict.fromkeys(queries[n].relevant, 1) | dict.fromkeys(queries[n].distractors, -1)
        credit = {"n": 0, "p": 0, "-": 0}
        for doc, team in zip(draft.order, draft.teams, strict=True):
            credit[team] += dice.random() < OPENS[grades.get(doc, 0)]
            if dice.random() > LOOKS:
                break
        won += credit["n"] > credit["p"]
        lost += credit["n"] < credit["p"]
        if e_value(lost, won) >= ALARM:
            return "rolled back", drafted, won + lost
        if e_value(won, lost) >= ALARM:
            return "confirmed", drafted, won + lost
    return "undecided", drafted, won + lost


def drafting_seconds(place: Workspace, engine: SearchEngine, golden: GoldenSet, previous: StoredConfig) -> list[float]:
    """Return what a drafted turn takes more than another, by query."""
    taken = []
    for number, query in enumerate(list(golden)[:30]):
        session = TurnSession(place, owner(), f"r{number}", Request(text=query.query), engine=engine)
        decision = RouterDecision(rewritten_query=query.query, strategy=SearchStrategy.CONTENT_ONLY)
        shown = asyncio.run(results_under(session.active, session, decision)) or []
        started = time.perf_counter()
        before = asyncio.run(results_under(previous, session, decision)) or []
        interleaved(shown, before, session.run_id)
        taken.append(time.perf_counter() - started)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=4000)
    parser.add_argument("--canaries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    dice = np.random.default_rng(options.seed)
    lengths = (25, 50, 100, 200, 500, 1000)
    table = power(dice, options.worlds, lengths)
    print("lost of decided | rolled back by", *lengths, "| median")
    for one in table:
        print(f"{one['lost']:15.2f} |", *(f"{one[f'by_{length}']:.3f}" for length in lengths), f"| {one['median']:.0f}")
    with tempfile.TemporaryDirectory() as made:
        init_workspace(Path(made) / "kb")
        place = Workspace(Path(made) / "kb")
        place.index()
        engine, golden = place.engine(), load_golden(place)
        now = find_config(place, "v1-naive")
        worse = now.config.model_dump(mode="json", by_alias=True, exclude_unset=True)
        worse["retrieval"] |= {"method": "vector"}
        other = parse_config(json.dumps(worse | {"name": "worse"}), "configs/worse.json")
        lists = {"v1-naive": lists_of(engine, now.config, golden), "other": lists_of(engine, other.config, golden)}
        shuffled = [list(dice.permutation(one)) for one in lists["v1-naive"]]
        pairs = {
            "vectors alone, before: hybrid": (lists["other"], lists["v1-naive"]),
            "shuffled, before: hybrid": (shuffled, lists["v1-naive"]),
            "hybrid, before: shuffled": (lists["v1-naive"], shuffled),
        }
        worlds = []
        for name, (new, previous) in pairs.items():
            ends = [readers(dice, golden, new, previous, 2000) for _ in range(options.canaries)]
            row: dict[str, Any] = {
                "pair": name,
                **{state: sum(end == state for end, _, _ in ends) for state in STATES},
                "drafted": statistics.median(drafted for _, drafted, _ in ends),
                "decided": round(sum(decided for _, _, decided in ends) / sum(drafted for _, drafted, _ in ends), 2),
            }
            worlds.append(row)
            print(", ".join(f"{key} {value}" for key, value in row.items()))
        seconds = drafting_seconds(place, engine, golden, other)
    cost = {"median_ms": round(statistics.median(seconds) * 1000, 1), "most_ms": round(max(seconds) * 1000, 1)}
    print(f"a drafted turn takes {cost['median_ms']} ms more in the median, {cost['most_ms']} at most")
    if options.out:
        told = {"power": table, "readers": worlds, "cost": cost}
        options.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
