"""Two workspaces that an operator can't tell apart: with documents, labels and questions hidden from them, or without.

`marks` are words that stand in what is hidden, and nowhere else.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import known_principal, local_key, mint
from hive_agents.copilot import Chat, ThreadStore
from hive_agents.ranking import build_index
from hive_agents.ranking.config import point_active
from hive_agents.workspace.trusted import trust
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.conftest import make_workspace, write_config, write_document

MARK = "zebrine"
"""Part of each id, title, text, value, tag and question of what is hidden, and of nothing else."""
HIDDEN, MISSING, OPEN = f"{MARK}/rotor.md", "nowhere/rotor.md", "open/rotor.md"
ASKED = "where is the rotor kept?"
HIDDEN_QUESTION = f"where is the {MARK} rotor sealed?"
OPERATOR = "kim"
SETTINGS = "[server]\nport = 0\nrate_per_minute = 100000\nconcurrent_runs = 500\n[judge]\naudit_rate = 0.0\n"
PEOPLE: dict[str, Any] = {
    "tenants": {"acme": {"admins": []}, "globex": {"admins": []}},
    "principals": {
        "kim": {"tenant": "acme", "roles": ["reader", "operator", "approver", "admin"]},
        "dana": {"tenant": "acme", "roles": ["reader", "operator", "approver"]},
        "hana": {"tenant": "globex", "roles": ["reader"]},
    },
}
THINGS = ("rotor", "pump", "lamp", "valve", "beaker", "balance")
SCRIPT = [
    {"tool_calls": [{"name": "set_output", "args": {"key": "items", "value": [1]}}]},
    {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "kept"}}]},
]


def front(title: str, tenant: str, view: str, label: str) -> str:
    return f"---\ntitle: {title}\ntenant: {tenant}\nview: [{json.dumps(view)}]\nlabels: [{label}]\n---\n"


def open_documents() -> dict[str, str]:
    texts = {
        f"open/{thing}.md": front(f"Keeping a {thing}", "acme", "tenant", "plain")
        + f"The {thing} is kept in drawer {n} for {n + 7} days. Clean the {thing} with water.\n"
        for n, thing in enumerate(THINGS)
    }
    return texts | {
        "open/rotor-2.md": front("Keeping a rotor", "acme", "tenant", "plain")
        + "The rotor is kept in drawer 0 for 30 days. Clean the rotor with water.\n"
    }


def hidden_documents() -> dict[str, str]:
    return {
        f"{MARK}/{name}.md": front(f"The {MARK} {name}", tenant, view, MARK)
        + f"The {name} and the rotor are kept in the {MARK} cabinet for {days} days. Clean the {name} with {MARK}.\n"
        for name, tenant, view, days in (
            ("rotor", "acme", "user:dana", 20),
            ("twin", "acme", "user:dana", 30),
            ("pump", "globex", "tenant", 40),
            ("lamp", "acme", "user:dana", 50),
        )
    }


def golden(*, hidden: bool) -> dict[str, Any]:
    splits = ("train", "train", "validation", "validation", "holdout", None)
    queries: list[dict[str, Any]] = []
    for n, (thing, split) in enumerate(zip(THINGS, splits, strict=True)):
        if hidden:
            words = f"where is the {MARK} {thing} sealed?"
            # Not in the holdout, or the gate, which measures everything, would decide otherwise.
            part = "train" if split == "holdout" else split
            queries.append({"id": f"{MARK}{n}", "query": words, "relevant": [HIDDEN], "tags": [MARK], "split": part})
        also = [f"{MARK}/twin.md"] if hidden else []
        labels = {"relevant": [f"open/{thing}.md"], "distractors": ["open/rotor-2.md"]}
        labels |= {"irrelevant": list[str]()} if n in (3, 4) else {}
        kind = ("distractors", "relevant", "distractors", "irrelevant", "irrelevant", "distractors")[n]
        labels[kind] += also
        asked = f"which drawer holds the {thing}?" if split == "holdout" else f"where is the {thing} kept?"
        queries.append({"id": f"o{n}", "query": asked, **labels, "tags": ["places"], "split": split})
    return {"collection": "kb", "k": 5, "queries": queries}


def made(folder: Path, *, hidden: bool) -> Workspace:
    """One of the two, indexed and with `v1` active."""
    documents = open_documents() | (hidden_documents() if hidden else {})
    place = make_workspace(folder, embedding=False, documents={})
    with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
    place = Workspace(folder)
    trust(place)
    for doc_id, text in documents.items():
        write_document(place, doc_id, text)
    write_json(place, "access/people.json", PEOPLE)
    write_json(place, "evals/golden.json", golden(hidden=hidden))
    write_json(place, "goals/digest.json", GOAL)
    write_json(place, "agents/digest.json", agent_json(model="scripted:script.jsonl"))
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, SCRIPT)))
    write_config(place, "words", "keyword", retrieval={"top_k": 4})
    write_config(place, "v1", "keyword")
    write_config(place, "filtered", "keyword", filters={"labels": MARK})
    write_config(place, "boosted", "keyword", boosts={"labels": {MARK: 2.0}})
    local_key(place)  # which signs cursors: the same for both
    (place.state / "local.key").write_text(bytes(range(32)).hex())
    build_index(place)
    point_active(place, place.configs / "v1.json")
    threads = ThreadStore(place, known_principal(place, "dana"))
    chat = Chat(place, threads.reader, threads.create(""))
    if hidden:  # a file of another reader's conversation is hidden, too
        chat.drop(f"{MARK}.md", f"# The {MARK} rotor\n\nThe {MARK} rotor is kept in a {MARK} cabinet.\n".encode())
    return place


def pair(folder: Path) -> tuple[Workspace, Workspace]:
    """A workspace without what is hidden, and one with it."""
    return made(folder / "without" / "ws", hidden=False), made(folder / "with" / "ws", hidden=True)


def token(place: Workspace, user: str = OPERATOR) -> str:
    return mint(place, known_principal(place, user)).token


def bearer(place: Workspace, user: str = OPERATOR) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(place, user)}"}


RANDOM = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b[rtafxq][0-9a-f]{10}(?:[0-9a-f]{10})?\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[0-9.]*(?:\+00:00|Z)?"), "TIME"),
    (re.compile(r'(\\?"(?:golden_hash|hash|head|log|jti)\\?": ?\\?")[0-9a-f]{24,64}'), r"\1HASH"),  # of what is random
    (re.compile(r'(<input type="hidden" name="jti" value=")[0-9a-f]{24}'), r"\1HASH"),
    (re.compile(r'(\\?"(?:created|latency_ms_p\d+|\w*seconds?|ms)\\?": ?)[\d.e-]+'), r"\1N"),
    (re.compile(r'(<td class="number">)\d+\.\d\d(</td></tr>)'), r"\1N\2"),  # milliseconds of a turn's steps
    (re.compile(r'(audit log <code title=")[0-9a-f]{64}">[0-9a-f]+'), r"\1HASH"),
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"expires=[^;]+GMT"), "EXPIRES"),
    (re.compile(r"^hive_\w+\{[^\n]*/readyz[^\n]*\n", re.M), ""),  # asked until it is ready
    (re.compile(r"^(\w*(?:_created|seconds|bytes)\w*(?:\{.*\})?) \S+$", re.M), r"\1 N"),
)


def settled(place: Workspace, text: str) -> str:
    """The text without what differs between any two workspaces: ids, times and where they are."""
    text = text.replace(str(place.root.parent), "FOLDER")
    for found, shown in RANDOM:
        text = found.sub(shown, text)
    return text
