"""The tools over documents and configs, for principals with and without rights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.agents import ToolContext
from hive_agents.agents.bundled import bundled_tools
from hive_agents.evaluation import load_golden
from hive_agents.gate import deploy
from hive_agents.memory import ToolResult
from hive_agents.ranking import build_index, named_config
from hive_agents.store import audit
from hive_agents.workspace.trusted import trust
from tests.conftest import make_workspace, write_config, write_document
from tests.leaks.service import allowing, serving

CANARY = "zanzibar-4711"
DOCUMENTS = {
    "open.md": "---\ntenant: acme\nview: [tenant]\n---\nKeys are rotated in the settings.\n",
    "qa.md": f'---\ntenant: acme\nview: ["group:qa"]\n---\nKeys are rotated by {CANARY}.\n',
    "other.md": f"---\ntenant: globex\nview: [tenant]\n---\nKeys are rotated at {CANARY}.\n",
    "noise.md": "---\ntenant: acme\nview: [tenant]\n---\nKeys have settings.\n",
}
ROOT = Principal("acme", "root", roles=frozenset({"operator"}))
GUEST = Principal("acme", "guest")


def golden(split: str, number: int, text: str) -> dict[str, Any]:
    return {
        "id": f"{split}{number}",
        "query": text,
        "relevant": ["open.md"],
        "distractors": ["noise.md"],
        "split": split,
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An indexed workspace whose active config finds distractors that another one leaves out."""
    workspace = make_workspace(tmp_path_factory.mktemp("bundled") / "ws", embedding=False, documents=DOCUMENTS)
    texts = ["rotated {} settings", "settings {} rotated"]
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    queries = [
        golden(split, number, texts[number % 2].format(word + split) + " again" * (number // len(words)))
        for split, times in (("train", 1), ("validation", 1), ("holdout", 3))
        for number, word in enumerate(words * times)
    ]
    file = workspace.root / "evals" / "golden.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"collection": "kb", "k": 5, "queries": queries}))
    write_config(workspace, "words", "keyword", retrieval={"top_k": 5})
    build_index(workspace)
    deploy(workspace, named_config(workspace, "words"), load_golden(workspace))
    return workspace.root


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(made, tmp_path / "ws", symlinks=True))


async def call(place: Workspace, tool: str, principal: Principal | None = ROOT, /, **arguments: Any) -> ToolResult:
    context = ToolContext(place, principal, "r1", agent_id="optimizer")
    return await bundled_tools(place).call(tool, arguments, context, approved=True)


async def test_a_search_finds_what_its_principal_may_view_and_nothing_else(place: Workspace) -> None:
    found = await call(place, "search_documents", GUEST, query="keys rotated")
    assert [hit["doc_id"] for hit in json.loads(found.content)["results"]] == ["open.md", "noise.md"]
    assert CANARY not in found.content
    qa = await call(place, "search_documents", Principal("acme", "dana", frozenset({"qa"})), query="keys rotated")
    assert {hit["doc_id"] for hit in json.loads(qa.content)["results"]} == {"open.md", "qa.md", "noise.md"}
    assert CANARY in qa.content


async def test_a_search_is_narrowed_by_filters_as_the_command_line_writes_them(place: Workspace) -> None:
    head = "tenant: acme\nview: [tenant]"
    write_document(place, "old.md", f"---\n{head}\nstatus: retired\nversion: 1\n---\nKeys are rotated by hand.\n")
    write_document(place, "new.md", f"---\n{head}\nstatus: effective\nversion: 2\n---\nKeys are rotated by itself.\n")
    build_index(place)

    async def found(*filters: str) -> list[str]:
        result = await call(place, "search_documents", GUEST, query="keys rotated", filters=list(filters))
        assert not result.is_error, result.content
        return sorted(hit["doc_id"] for hit in json.loads(result.content)["results"])

    assert {"old.md", "new.md"} < set(await found())
    assert await found("status=retired") == ["old.md"]
    assert await found("status=retired,effective", "version>=2") == ["new.md"]


@pytest.mark.parametrize(
    ("filter", "told"),
    [
        ("status=nosuch", "nosuch"),
        ("nofield=1", "nofield"),
        ("owner=dana", "owner"),
        ("status", "status"),
        ("effective>=soon", "soon"),
        ("tenant=acme", "tenant"),
    ],
)
async def test_a_filter_that_nothing_can_meet_is_told_to_the_model(place: Workspace, filter: str, told: str) -> None:
    hidden = "---\ntenant: acme\nview: [group:qa]\nstatus: nosuch\n---\nKeys are rotated in secret.\n"
    write_document(place, "seen.md", "---\ntenant: acme\nview: [tenant]\nstatus: draft\n---\nKeys are rotated.\n")
    build_index(place)
    before = await call(place, "search_documents", GUEST, query="keys rotated", filters=[filter])
    write_document(place, "hidden.md", hidden)
    build_index(place)
    after = await call(place, "search_documents", GUEST, query="keys rotated", filters=[filter])
    assert before.is_error
    assert told in before.content
    assert after.content == before.content


async def test_where_a_service_decides_a_hidden_value_is_as_one_that_there_is_not(place: Workspace) -> None:
    with serving() as service:
        service.answer = allowing(lambda doc_id: doc_id != "hidden.md")
        with (place.root / "hive.toml").open("a") as settings:
            settings.write(f'[access]\nservice_url = "{service.url}"\ntimeout_seconds = 10.0\n')
        write_document(place, "hidden.md", "---\ntenant: acme\nstatus: hiddenvalue\n---\nKeys are rotated.\n")
        asking = Workspace(place.root)
        trust(asking)
        build_index(asking)
        replies = [
            (await call(asking, "search_documents", GUEST, query="keys rotated", filters=[f"status={value}"])).content
            for value in ("hiddenvalue", "nosuchvalue")
        ]
    assert json.loads(replies[0])["results"] == []
    assert replies[0] == replies[1]


async def test_a_passage_is_the_whole_chunk(place: Workspace) -> None:
    """An agent can open no document: what it can't read here it never reads."""
    sentences = [f"Step {number} of the rotation takes {number} minutes." for number in range(40)]
    write_document(place, "long.md", f"---\ntenant: acme\nview: [tenant]\n---\n{' '.join(sentences)}\n")
    build_index(place)
    found = await call(place, "search_documents", GUEST, query="step of the rotation")
    [passage] = [hit["passage"] for hit in json.loads(found.content)["results"] if hit["doc_id"] == "long.md"]
    assert all(sentence in passage for sentence in sentences)


async def test_a_document_is_opened_by_who_may_view_it_and_is_unknown_to_others(place: Workspace) -> None:
    write_document(place, "long.md", "---\ntenant: acme\nview: [group:qa]\n---\n# One\nFirst.\n# Two\nLast.\n")
    build_index(place)
    dana = Principal("acme", "dana", frozenset({"qa"}))
    context = ToolContext(place, dana, "r1", agent_id="optimizer")
    opened = await bundled_tools(place).call("open_document", {"doc_id": "long.md"}, context, approved=True)
    text = json.loads(opened.content)["text"]
    assert text.index("First.") < text.index("Last.")
    assert context.documents == {"long.md"}
    hidden, unknown = [await call(place, "open_document", GUEST, doc_id=name) for name in ("long.md", "none.md")]
    assert hidden.is_error
    assert hidden.content.replace("long.md", "none.md") == unknown.content
    (place.documents / "long.md").write_text("---\ntenant: globex\nview: [tenant]\n---\nGone.\n")
    assert (await call(place, "open_document", dana, doc_id="long.md")).is_error


async def test_a_hidden_document_changes_nothing_of_a_search(place: Workspace) -> None:
    """More hidden documents than a list is long, and every one fits better."""
    before = await call(place, "search_documents", GUEST, query=f"keys {CANARY}")
    for number in range(8):
        write_document(place, f"hidden/{number}.md", f"---\ntenant: globex\nview: [tenant]\n---\nkeys {CANARY}\n")
    build_index(place)
    assert await call(place, "search_documents", GUEST, query=f"keys {CANARY}") == before
    assert len(json.loads(before.content)["results"]) == 2


async def test_nobody_searches_nothing(place: Workspace) -> None:
    found = await call(place, "search_documents", None, query="keys")
    assert found.is_error
    assert "needs to know for whom" in found.content
    assert "needs to know for whom" in (await call(place, "open_document", None, doc_id="open.md")).content
    assert (await call(place, "search_documents", GUEST, query="?!")).is_error
    assert (await call(place, "search_documents", GUEST, query="keys", top_k=21)).is_error
    assert (await call(place, "search_documents", GUEST, query="keys", principal_="x")).is_error


async def test_a_right_that_was_taken_away_holds_at_once(place: Workspace) -> None:
    registry, context = bundled_tools(place), ToolContext(place, GUEST)
    asked = {"query": "keys rotated"}
    assert "open.md" in (await registry.call("search_documents", asked, context, approved=True)).content
    (place.documents / "open.md").write_text("---\ntenant: globex\nview: [tenant]\n---\nKeys.\n")
    assert "open.md" not in (await registry.call("search_documents", asked, context, approved=True)).content


@pytest.mark.parametrize("name", ["validate_config", "evaluate_config", "deploy_config"])
async def test_configs_are_an_operators_business(place: Workspace, name: str) -> None:
    reason = {"reason": "why"} if name == "deploy_config" else {}
    for principal in (None, GUEST):
        found = await call(place, name, principal, name="active", **reason)
        assert found.is_error
        assert "operator" in found.content


@pytest.mark.sqlite_file  # the workspace is a copy, and the log of what was deployed in it doesn't come along
async def test_an_agent_proposes_compares_and_deploys_through_the_gate(place: Workspace) -> None:
    made = await call(
        place,
        "propose_config",
        name="short",
        changes={"retrieval": {"top_k": 1}},
        reason="Less noise.",
        parent="active",
    )
    assert not made.is_error, made.content
    written = json.loads((place.configs / "short.json").read_text())
    assert (written["parent"], written["description"], written["retrieval"]["top_k"]) == ("words", "Less noise.", 1)
    assert json.loads((await call(place, "validate_config", name="short")).content)["ok"]
    compared = json.loads((await call(place, "compare_configs", a="active", b="short")).content)
    assert (compared["difference"]["n"], compared["changes"][0]["path"]) == (8, "retrieval.top_k")
    assert compared["difference"]["nudcg"] > 0
    measured = json.loads((await call(place, "evaluate_config", name="short", split="train")).content)
    assert {query["split"] for query in measured["worst"]} == {"train"}
    deployed = json.loads((await call(place, "deploy_config", name="short", reason="Less noise.")).content)
    assert (deployed["decision"], deployed["deployed"], deployed["previous"]) == ("passed", "short", "words")
    assert list(audit.entries(place))[-1]["by"] == "agent:optimizer"


async def test_the_gate_stops_what_is_worse_and_each_config_spends_its_own_use(place: Workspace) -> None:
    for name, depth in (("deep", 10), ("deeper", 20)):
        await call(place, "propose_config", name=name, changes={"retrieval": {"top_k": depth}}, reason="More.")
        for _ in range(2):
            found = json.loads((await call(place, "deploy_config", name=name, reason="More.")).content)
            assert (found["decision"], found["deployed"]) == ("inconclusive", None)
    assert [entry["j"] for entry in audit.entries(place, "holdout_use")] == [1, 2]


@pytest.mark.parametrize("name", ["evaluate_config", "compare_configs"])
async def test_measuring_shows_nothing_of_another_tenant(place: Workspace, name: str) -> None:
    """Neither its documents among the hits, nor what its people ask."""
    people = {"root": {"tenant": "acme", "roles": ["operator"]}, "gil": {"tenant": "globex"}}
    (place.root / "access").mkdir(exist_ok=True)
    (place.root / "access" / "people.json").write_text(json.dumps({"principals": people}))
    file = place.root / "evals" / "golden.json"
    value = json.loads(file.read_text())
    asked = {"query": "rotated keys zebra", "relevant": ["other.md"], "distractors": [], "split": "validation"}
    for user in ("gil", "root"):
        value["queries"].append(asked | {"id": f"of-{user}", "principal": user, "query": f"rotated {CANARY} {user}"})
    value["queries"].append(asked | {"id": "of-all", "query": "keys rotated at"})
    file.write_text(json.dumps(value))
    names = {"name": "active"} if name == "evaluate_config" else {"a": "active", "b": "meaning"}
    write_config(place, "meaning", "keyword", retrieval={"top_k": 1})
    found = await call(place, name, **names)
    assert not found.is_error
    assert "other.md" not in found.content
    assert "qa.md" not in found.content
    assert "of-gil" not in found.content
    assert f"{CANARY} gil" not in found.content


async def test_a_config_that_is_checked_is_told_no_value_of_another_tenant(place: Workspace) -> None:
    other = "---\ntenant: globex\nview: [tenant]\nstatus: zirconium\n---\nKeys.\n"
    write_document(place, "more.md", other)
    write_config(place, "guess", "keyword", filters={"status": "zirconiun"})
    build_index(place)
    found = await call(place, "validate_config", name="guess")
    assert "zirconium" not in found.content


async def test_the_holdout_is_not_shown(place: Workspace) -> None:
    assert (await call(place, "evaluate_config", name="active", split="holdout")).is_error
    for name in ("evaluate_config", "compare_configs"):
        names = {"name": "active"} if name == "evaluate_config" else {"a": "active", "b": "words"}
        assert "holdout" not in (await call(place, name, **names)).content


async def test_a_proposal_that_was_written_before_a_crash_is_the_same_proposal(place: Workspace) -> None:
    proposed = {"name": "short", "changes": {"retrieval": {"top_k": 1}}, "reason": "Less noise."}
    first, again = [await call(place, "propose_config", **proposed) for _ in range(2)]
    assert (first, again.is_error) == (again, False)
    other = await call(place, "propose_config", **proposed | {"reason": "Other words."})
    assert "HIVE-111" in other.content
    (place.configs / "linked.json").symlink_to(place.configs / "short.json")
    linked = await call(place, "propose_config", **proposed | {"name": "linked"})
    assert linked.is_error


@pytest.mark.parametrize("name", ["../words", "/etc/passwd", "configs/words.json", "active", "words", "A"])
async def test_a_proposal_writes_a_new_file_of_configs_only(place: Workspace, name: str) -> None:
    before = sorted(place.root.rglob("*.json"))
    found = await call(place, "propose_config", name=name, changes={"retrieval": {"top_k": 1}}, reason="x")
    assert found.is_error
    assert sorted(place.root.rglob("*.json")) == before


@pytest.mark.parametrize("name", ["../hive", "/etc/passwd", "evals/golden.json", "nothing"])
async def test_a_config_is_named_and_not_reached_by_a_path(place: Workspace, name: str) -> None:
    found = await call(place, "evaluate_config", name=name)
    assert found.is_error
    assert "HIVE-113" in found.content or "HIVE-107" in found.content


async def test_a_proposal_that_makes_no_sense_is_not_written(place: Workspace) -> None:
    for changes in ({"retrieval": {"top_k": 0}}, {"retrieval": {"topk": 1}}, {"dynamic_k": {"enabled": True}}):
        found = await call(place, "propose_config", name="odd", changes=changes, reason="x")
        assert found.is_error
        assert "HIVE-" in found.content
    assert not (place.configs / "odd.json").exists()


async def test_a_first_deployment_is_a_persons(place: Workspace) -> None:
    fresh = make_workspace(place.root.parent / "fresh", embedding=False, documents=DOCUMENTS)
    (fresh.root / "evals").mkdir()
    (fresh.root / "evals" / "golden.json").write_text((place.root / "evals" / "golden.json").read_text())
    found = await call(fresh, "deploy_config", name="words", reason="x")
    assert "HIVE-408" in found.content
