"""Commands that show documents take `--as`, and show what a token of the same person would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal, mint
from tests.copilot.chats import copied_knowledge_base
from tests.sample import Ran, hive

GOLDEN = {
    "collection": "kb",
    "k": 5,
    "queries": [
        {"id": "q1", "query": "what does a recall of a batch take?", "relevant": ["sops/recall.md"], "distractors": []},
        {"id": "q2", "query": "how do I rotate a key?", "relevant": ["faqs/rotate.md"], "distractors": []},
    ],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    place = copied_knowledge_base(Path(tmp_path_factory.mktemp("as")) / "workspace")
    (place.root / "evals").mkdir(exist_ok=True)
    (place.root / "evals" / "golden.json").write_text(json.dumps(GOLDEN), encoding="utf-8")
    return place


def said(ran: Ran) -> tuple[int, object]:
    return ran.code, _timeless(json.loads(ran.out))


def _timeless(value: object) -> object:
    """Without what a clock says."""
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if "latency" not in key and key != "ms"}
    return [_timeless(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "command",
    [
        ("query", "recall of a batch"),
        ("query", "recall of a batch", "-f", "status=secret"),
        ("query", "recall of a batch", "--config", "words"),
        ("fields",),
        ("fields", "--add", "owner"),
        ("evaluate", "words"),
        ("stale",),
        ("label", "what is a recall?", "-r", "sops/recall.md", "-r", "sops/globex.md"),
        ("label", "--suggest", "3"),
        ("runs", "list"),
        ("approvals", "list"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("user", ["guest", "dana", "root"])
def test_as_somebody_a_command_says_what_their_token_says(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, user: str, command: tuple[str, ...]
) -> None:
    named = said(hive(*command, "--as", user, "-w", place.root, "--json"))
    monkeypatch.setenv("HIVE_TOKEN", mint(place, known_principal(place, user), 600).token)
    assert named == said(hive(*command, "-w", place.root, "--json"))


def test_a_search_as_somebody_shows_what_they_may_view(place: Workspace) -> None:
    def found(user: str) -> set[str]:
        rows = hive("query", "recall of a batch", "--as", user, "-w", place.root, "--json").json["results"]
        return {row["doc_id"] for row in rows} & {"sops/recall.md", "sops/globex.md"}

    assert (found("guest"), found("dana"), found("hana")) == (set(), {"sops/recall.md"}, {"sops/globex.md"})


def test_beside_another_persons_token_it_is_refused(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TOKEN", mint(place, known_principal(place, "guest"), 600).token)
    for command in (("query", "recall"), ("fields",), ("stale",), ("runs", "list")):
        assert hive(*command, "--as", "dana", "-w", place.root).code != 0
