"""A workspace for measuring: ten topics, each with a guide that answers and an FAQ that misleads.

No model is needed, and the numbers are known by heart: a topic's word finds exactly its two documents, the FAQ
first. So `naive` scores -1 + 1/log2(3) = -0.369 on every query, and `careful`, which leaves FAQs out, scores 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.evaluation import GoldenSet, load_golden
from hive_agents.ranking import SearchEngine, StoredConfig, build_index, named_config
from tests.conftest import make_workspace, write_config

TOPICS = (
    "autoclave",
    "balance",
    "centrifuge",
    "dispenser",
    "evaporator",
    "fluorometer",
    "gripper",
    "heater",
    "incubator",
    "jacket",
)
NAIVE, CAREFUL = -0.369, 1.0
NO_FAQS = {"category": {"not": ["faqs"]}}
NO_DRAFTS = {"status": {"not": ["draft"]}}  # better for the first two topics, and equal for the others
NOTHING = {"category": "notes"}


def make_topics(root: Path) -> Workspace:
    """`naive` and `careful` are there, nothing is active, nothing is indexed."""
    documents = {"notes/empty.md": "---\ntitle: Notes\nstatus: effective\n---\nNothing of use.\n"}
    for number, topic in enumerate(TOPICS):
        status = "draft" if number < 2 else "effective"
        text = f"To set the {topic}, open the panel and turn the screw until both marks line up with the scale.\n"
        documents[f"guides/{topic}.md"] = f"---\ntitle: Setting up\nstatus: effective\n---\n{text}"
        documents[f"faqs/{topic}.md"] = f"---\ntitle: {topic}\nstatus: {status}\n---\n{topic} {topic}\n"
    workspace = make_workspace(root, embedding=False, documents=documents)
    declare(workspace, category={"ranks": True, "may_hide": ["faqs"]}, status={"may_hide": ["draft", "retired"]})
    write_config(workspace, "naive", "keyword")
    write_config(workspace, "careful", "keyword", filters=NO_FAQS)
    return workspace


def declare(workspace: Workspace, **fields: dict[str, Any]) -> None:
    """Let the schema say what an optimizer may do with these fields."""
    path = workspace.root / "collections" / "kb.json"
    schema = json.loads(path.read_text())
    for name, said in fields.items():
        schema["fields"][name] |= said
    path.write_text(json.dumps(schema, indent=2))


def query(topic: str, **keys: Any) -> dict[str, Any]:
    """A golden query whose guide is relevant and whose FAQ distracts, unless `keys` say otherwise."""
    entry = {"id": topic, "query": topic, "relevant": [f"guides/{topic}.md"], "distractors": [f"faqs/{topic}.md"]}
    return entry | keys


def holdout_queries() -> list[dict[str, Any]]:
    """Two queries to train on, and eight topics held out in three wordings each: enough to prove something."""
    learned = [query(topic, split="train") for topic in TOPICS[:2]]
    return learned + in_wordings(TOPICS[2:], 3)


def in_wordings(topics: Iterable[str], most: int) -> list[dict[str, Any]]:
    """Held-out queries on these topics, each in so many wordings that find the same."""
    return [
        query(topic, id=topic if times == 1 else f"{topic}-{times}", query=" ".join([topic] * times), split="holdout")
        for times in range(1, most + 1)
        for topic in topics
    ]


def write_golden(workspace: Workspace, queries: Iterable[dict[str, Any]] | None = None, **keys: Any) -> GoldenSet:
    chosen = [query(topic) for topic in TOPICS] if queries is None else list(queries)
    path = workspace.root / "evals" / "golden.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"collection": "kb", "queries": chosen} | keys, indent=1), encoding="utf-8")
    return load_golden(workspace)


def stored(workspace: Workspace, name: str, **filters: Any) -> StoredConfig:
    """The config `name`; with `filters` it is written first."""
    if filters:
        write_config(workspace, name, "keyword", filters=filters)
    return named_config(workspace, name)


def activate(workspace: Workspace, name: str) -> None:
    """Make a config active as a fresh clone has it: by a link, without history."""
    link = workspace.configs / "active.json"
    link.unlink(missing_ok=True)
    link.symlink_to(f"{name}.json")


def indexed_engine(workspace: Workspace) -> SearchEngine:
    build_index(workspace)
    return SearchEngine(workspace)
