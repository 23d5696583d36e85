"""Whatever a file holds: its value, or what is wrong, where, and how to mend it. Never another exception."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.base.files import load
from hive_agents.base.files.jsontext import decode
from hive_agents.documents import Collection
from hive_agents.documents.documents import parse_document
from hive_agents.evaluation.golden import parse_golden
from hive_agents.ranking.config import parse_config
from hive_agents.workspace.settings import load_settings
from tests.conftest import COLLECTION, make_workspace

Reader = Callable[[bytes], Any]

CONFIG = {
    "$schema": "x",
    "name": "c",
    "collection": "kb",
    "description": "d",
    "parent": None,
    "retrieval": {
        "method": "hybrid",
        "top_k": 10,
        "rrf_k": 60,
        "candidates": 100,
        "weights": {"keyword": 1, "vector": 0.5},
    },
    "dynamic_k": {"enabled": True, "gap_threshold_factor": 3.0, "min_results": 1, "max_results": 10},
    "filters": {"category": ["faqs"], "status": {"not": ["draft"]}, "version": {"gte": 1, "lt": 2.5}, "public": True},
    "distraction_detection": {"enabled": False, "disagreement_threshold": 0.5},
    "abstain": {"min_cosine": None},
    "bm25": {"k1": 1.2, "b": 0.75, "title_boost": 1.0},
    "rerank": {"enabled": False, "candidates": 50, "floor": None},
}
GOLDEN = {
    "collection": "kb",
    "k": 10,
    "queries": [
        {
            "id": "q1",
            "query": "rotate a key",
            "relevant": ["faqs/rotate-key.md"],
            "distractors": ["faqs/lost-key.md"],
            "irrelevant": [],
            "tags": ["auth"],
            "split": "train",
            "principal": None,
        },
        {"id": "q2", "query": "centrifuge"},
    ],
}
SETTINGS = """[models]
chat = ["bedrock:a"]
embedding = "none"
[copilot]
relevance_floor.cosine = 0.3
[access]
keys = [{kid = "k1", alg = "HS256", secret_ref = "env:K"}]
[gate]
alpha = 0.05
[server]
port = 8787
"""
DOCUMENT = """---
title: Rotating keys
status: effective
effective: 2025-03-01
version: 2.5
public: true
labels: [auth, "a: b"]
more: {nested: [1, null, 2025-03-01T10:00:00Z]}
text: |
  several
  lines
---
# Body

Text.
"""

WORDS = st.sampled_from(["", "kb", "hybrid", "KEYWORD", "active", "train", "\0", "😀", "a" * 80, "//", "NaN", "x.md"])
NUMBERS = st.sampled_from([0, -1, 1, 0.5, 11, 1001, 10_001, 2**63, 10**40, 1e308, -0.0, True])
json_values = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in inner for place in places(below, (*path, key)))]


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> bytes:
    """A file with a few values replaced, removed or added, in one of several layouts."""
    value = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(0, 3))):
        *above, last = draw(st.sampled_from([place for place in places(value) if place]))
        holder = value
        for key in above:
            holder = holder[key]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "remove":
            del holder[last]
        elif action == "add" and isinstance(holder, dict):
            holder[draw(WORDS | st.text(max_size=6))] = draw(json_values)
        else:
            holder[last] = draw(json_values)
    indent, plain = draw(st.sampled_from([None, 1, "\t"])), draw(st.booleans())
    return json.dumps(value, indent=indent, ensure_ascii=plain).encode("utf-8", "surrogatepass")


SYNTAX = r"{ } [ ] \" , : \ // # /* */ null true -1 1e999 NaN \ud800 \udc00 \u0000 --- ... | > & * ! % ? - = @ ` ~"
YAML = "!!int !!float !!bool !!timestamp !!binary !!set <<: &a *a 0x 0b1_ 1:60 2025-02-30 .inf"
BYTES = [b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x00", b"\x7f", b"\n", b"\r", b"\t", b" "]
LONG = [b"[" * 120, b'{"a":' * 120, b"9" * 400, b"9" * 5000]
PIECES = st.sampled_from([*f"{SYNTAX} {YAML} \u2028\x85é😀".encode().split(b" "), *BYTES, *LONG])


@st.composite
def damaged(draw: st.DrawFn, text: bytes) -> bytes:
    """A file with pieces cut out, put in twice, or replaced by what files are broken with."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 5, 30])))
        piece = draw(PIECES | st.binary(max_size=4) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text


def json_files(value: Any) -> st.SearchStrategy[bytes]:
    changed = changed_json(value)
    return changed | changed.flatmap(damaged) | json_values.map(as_json) | st.binary(max_size=40)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def text_files(text: str) -> st.SearchStrategy[bytes]:
    return damaged(text.encode()) | st.binary(max_size=40)


def check(read: Reader, data: bytes) -> None:
    try:
        read(data)
    except HiveError as error:
        diagnostics = error.diagnostics
    else:
        return
    assert diagnostics
    for found in diagnostics:
        assert found.code.startswith("HIVE-")
        assert found.path or found.line
        assert found.fix
        assert found.file
        json.dumps([str(found), found.to_json()], ensure_ascii=False).encode()  # a terminal can show it


class Readers:
    """One reader a format; each gets a file's bytes."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.schema = load(Collection, json.dumps(COLLECTION).encode(), "collections/kb.json")

    def config(self, data: bytes) -> None:
        stored = parse_config(decode(data, "configs/c.json"), "configs/c.json")
        assert stored.hash
        assert set(stored.config.conditions) == set(stored.config.filters)

    def collection(self, data: bytes) -> None:
        assert load(Collection, data, "collections/kb.json").digest()

    def golden(self, data: bytes) -> None:
        golden = parse_golden(self.workspace, decode(data, "evals/golden.json"), "evals/golden.json")
        assert len([query.qrels for query in golden]) == len(golden)

    def settings(self, data: bytes) -> None:
        (self.workspace.root / "hive.toml").write_bytes(data)
        load_settings(self.workspace.root, {})

    def environment(self, data: bytes) -> None:
        text = data.decode(errors="surrogateescape")
        names = ("HIVE_GATE__ALPHA", "HIVE_MODELS__CHAT", "HIVE_ACCESS__MODE", "HIVE_X__Y", "HIVE_SERVER__PORT")
        (self.workspace.root / "hive.toml").unlink(missing_ok=True)
        load_settings(self.workspace.root, dict.fromkeys(names, text))

    def front_matter(self, data: bytes) -> None:
        document = parse_document("faqs/x.md", data, self.schema)
        json.dumps([document.metadata, document.front_matter, document.title], allow_nan=False).encode()


FORMATS: dict[str, st.SearchStrategy[bytes]] = {
    "config": json_files(CONFIG),
    "collection": json_files(COLLECTION),
    "golden": json_files(GOLDEN),
    "settings": text_files(SETTINGS),
    "environment": json_values.map(as_json) | PIECES | st.binary(max_size=10),
    "front_matter": text_files(DOCUMENT),
}


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Readers:
    return Readers(make_workspace(tmp_path_factory.mktemp("fuzz") / "ws", embedding=False))


def fuzz(read: Reader, files: st.SearchStrategy[bytes], examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(files)
    def run(data: bytes) -> None:
        check(read, data)

    run()


@pytest.mark.parametrize("name", FORMATS)
def test_any_file_is_read_or_explained(readers: Readers, name: str) -> None:
    fuzz(getattr(readers, name), FORMATS[name], 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_any_of_many_files_is_read_or_explained(readers: Readers, name: str) -> None:
    fuzz(getattr(readers, name), FORMATS[name], 2000)


UNCHANGED = {
    "config": as_json(CONFIG),
    "collection": as_json(COLLECTION),
    "golden": as_json(GOLDEN),
    "settings": SETTINGS.encode(),
    "front_matter": DOCUMENT.encode(),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_the_files_that_fuzzing_starts_from_are_sound(readers: Readers, name: str) -> None:
    getattr(readers, name)(UNCHANGED[name])


FRONT_MATTER = [
    "n: " + "9" * 400,
    "version: " + "9" * 400,
    "version: " + "9" * 5000,
    "a: !!int ''",
    "a: !!int x",
    "a: !!float ''",
    "a: !!bool maybe",
    "a: !!timestamp x",
    "a: !!binary '*'",
    "a: !!set {x}",
    "a: !!python/object:os.system x",
    "effective: 2025-02-30",
    "effective: 0001-01-01T00:00:00+23:00",
    "version: .nan",
    "version: -.inf",
    "version: 1:60",
    "a: &x [1]\nb: *x",
    "<<: {a: 1}",
    "? [a]\n: 1",
    "1: 2",
    "- a",
    "=: 1",
    "a: =",
    '"\\ud800": 1',
    'title: "\\ud800"',
    'title: "\\0"',
    "a: " + "[" * 2000,
    "a: x\n" * 20_000,
    "a: 1\na: 2",
    "\ttab: 1",
    "labels: [null, [], {a: 1}]",
]


@pytest.mark.parametrize("text", FRONT_MATTER, ids=range(len(FRONT_MATTER)))
def test_front_matter_that_yaml_stumbles_over(readers: Readers, text: str) -> None:
    check(readers.front_matter, f"---\ntitle: T\n{text}\n---\nBody.\n".encode("utf-8", "surrogatepass"))
