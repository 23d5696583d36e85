"""No document leaks to a reader who may not view it: random tenants, groups, grants, questions, in every channel."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.ranking import SearchEngine
from hive_agents.workspace.trusted import trust
from tests.leaks.channels import CHANNELS, collected, leaks
from tests.leaks.corpus import Doc, make, random_documents, random_rules, readers
from tests.leaks.visits import Visit
from tests.real_engines import opensearch, postgres

DOCUMENTS, SHARDS, SHARD, EVERYDAY = 32, 20, 250, 100
SHARES = {
    "hive chat": 0.02,
    "conversation": 0.02,
    "state files": 0.05,
    "graph stream": 0.1,
    "render": 0.2,
    "threads": 0.2,
}
SHARES |= dict.fromkeys(("feedback", "feedback review", "feedback results", "document"), 0.4)
SHARES |= dict.fromkeys(("field_values", "filters", "why"), 0.4)
"""The share of examples that look at a channel; every other channel is looked at each time."""


async def example(
    workspace: Workspace, engine: SearchEngine, documents: list[Doc], rng: random.Random, earlier: Sequence[Visit]
) -> Visit:
    """One reader with grants of their own asks, may lose a grant, and looks at everything there is."""
    people = readers(f"v{rng.random()}")
    visit = Visit(workspace, engine, rng.choice(people), documents, random_rules(rng, documents, people), people, rng)
    others = [one for one in earlier if one.reader != visit.reader]
    if others:
        visit.strangers = (others[-1].chat.thread_id or "t0", others[-1].runs[0])
    visit.grant(visit.rules)
    for number in range(rng.choice((1, 1, 2))):
        shown = await visit.ask()
        assert not leaks("reply", shown, visit), (number, visit.said, shown)
    if rng.random() < 0.5:
        visit.grant(random_rules(rng, documents, people))
        visit.replies.clear()
    names = [name for name in CHANNELS if rng.random() < SHARES.get(name, 1.0)]
    for name, text in (await collected(visit, names)).items():
        found = leaks(name, text, visit)
        assert not found, (name, sorted(found), visit.reader, visit.said, text)
    return visit


async def run(root: Path, seed: int, count: int, settings: str = "") -> None:
    """`settings` are lines of `hive.toml` that name an engine."""
    rng = random.Random(seed)
    documents = random_documents(rng, DOCUMENTS)
    workspace = make(root / "ws", documents)
    if settings:
        with (workspace.root / "hive.toml").open("a", encoding="utf-8") as file:
            file.write(settings)
        workspace = Workspace(workspace.root)
        trust(workspace)
        workspace.index()
    engine, earlier = workspace.engine(), list[Visit]()
    for number in range(count):
        visit = await example(workspace, engine, documents, random.Random(f"{seed}/{number}"), earlier)
        if visit.runs:
            earlier = [*earlier[-9:], visit]


async def test_no_document_leaks_in_any_channel(tmp_path: Path) -> None:
    await run(tmp_path, 0, EVERYDAY)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(1, SHARDS + 1))
async def test_no_document_leaks_in_any_channel_at_length(tmp_path: Path, shard: int) -> None:
    """5,000 examples over twenty corpora; `shard/number` seeds each, so that one can be run again alone."""
    await run(tmp_path, shard, SHARD)


@pytest.mark.slow
async def test_no_document_leaks_in_any_channel_over_opensearch(tmp_path: Path) -> None:
    with opensearch() as server:
        await run(tmp_path, 0, EVERYDAY, f'\n[search]\nurl = "{server.url("leaks")}"\ntimeout_seconds = 60.0\n')
        found = server.call("GET", "/_nodes/stats/indices/search")["nodes"].popitem()[1]
        assert found["indices"]["search"]["query_total"] >= EVERYDAY // 2, "the cluster was asked"


@pytest.mark.slow
@pytest.mark.sqlite_file  # it names a server itself
async def test_no_document_leaks_in_any_channel_where_the_records_are_on_a_server(tmp_path: Path) -> None:
    with postgres() as server:
        await run(tmp_path, 0, EVERYDAY, f'\n[storage]\nurl = "{server.url}"\n')
        for table in ("runs", "threads", "turns"):
            assert int(server.run(f"SELECT count(*) FROM hive.{table}")) >= EVERYDAY // 4, table
