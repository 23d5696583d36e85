"""Tags in the gate: a fall of a few queries is watched, a loss that is shown blocks until a person accepts it.

Two worlds. In `versions` every topic has a page of 3.5, which misleads, and one of 3.6, which answers; `newest` returns
the newer pages only, and asks little of two small tags. In `shallow` every topic finds three pages in a known order;
`two` leaves the third out, which is a distractor to seventy-five queries and an answer to the thirty of tag "broad":
recall falls by less than readers may lose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.access.tokens import mint
from hive_agents.agents import ToolContext
from hive_agents.agents.bundled import bundled_tools
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import load_golden
from hive_agents.gate import deploy
from hive_agents.gate.gate import GateResult, run_gate
from hive_agents.ranking import named_config
from hive_agents.ranking.deployed import versions as history_of
from hive_agents.store import audit
from tests.conftest import make_workspace, write_config
from tests.sample import Ran, hive
from tests.topics import activate, declare, indexed_engine, stored, write_golden

WATCHED = ["tag", "n", "before", "after", "p_value"]
BROAD_LOSS = (1 + 0.63093) / 2.13093 - 1  # of three relevant documents the third is gone


def page(word: str, times: int, version: float) -> str:
    return f"---\ntitle: Page\nversion: {version}\n---\n{' '.join([word] * times)} set the dial.\n"


def asked(word: str, tag: str, relevant: list[str], distractors: list[str], **keys: Any) -> dict[str, Any]:
    held = {"split": "holdout"}
    return {"id": word, "query": word, "relevant": relevant, "distractors": distractors, "tags": [tag]} | held | keys


@pytest.fixture
def versions(tmp_path: Path) -> Workspace:
    """`first` is active: the best page by words alone, which is the old one. What `newest` brings is in the labels."""
    kinds = {"current": 40, "faq": 2, "older": 6}
    words = {tag: [f"{tag}{number}" for number in range(n)] for tag, n in kinds.items()}
    documents = {"archive/gone.md": page("nothing", 1, 3.4)}
    for word in (*words["current"], *words["faq"], *words["older"]):
        documents[f"old/{word}.md"] = page(word, 3, 3.5)
        documents[f"new/{word}.md"] = page(word, 2, 3.6)
    documents["new/answer.md"] = page("faq0", 1, 3.6)
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    write_config(workspace, "first", "keyword", retrieval={"top_k": 1})
    write_config(workspace, "newest", "keyword", retrieval={"top_k": 3}, filters={"version": 3.6})
    gone = ["archive/gone.md"]
    queries = [asked(word, "current", [f"new/{word}.md"], [f"old/{word}.md"]) for word in words["current"]]
    queries.append(asked("faq0", "faq", ["new/answer.md"], ["new/faq0.md"]))  # 0 -> -1 + 1/log2(3)
    queries.append(asked("faq1", "faq", gone, []))  # 0 -> 0
    for number, word in enumerate(words["older"]):  # half of them -1 -> -1, half 0 -> -1
        misleading = [f"new/{word}.md"] + ([f"old/{word}.md"] if number % 2 else [])
        queries.append(asked(word, "older", gone, misleading))
    write_golden(workspace, queries)
    declare(workspace, version={"may_hide": ["3.4", "3.5"]})
    activate(workspace, "first")
    return workspace


@pytest.fixture
def shallow(tmp_path: Path) -> Workspace:
    words = {"broad": [f"broad{n}" for n in range(30)], "other": [f"other{n}" for n in range(75)]}
    documents = {
        f"{place}/{word}.md": page(word, times, 1)
        for word in (*words["broad"], *words["other"])
        for place, times in (("a", 3), ("b", 2), ("c", 1))
    }
    workspace = make_workspace(tmp_path / "ws", embedding=False, documents=documents)
    for name, depth in (("three", 3), ("two", 2)):
        write_config(workspace, name, "keyword", retrieval={"top_k": depth})
    queries = [asked(word, "broad", [f"{place}/{word}.md" for place in "abc"], []) for word in words["broad"]]
    queries += [asked(word, "other", [f"a/{word}.md"], [f"c/{word}.md"]) for word in words["other"]]
    write_golden(workspace, queries)
    activate(workspace, "three")
    return workspace


def gate(workspace: Workspace, candidate: str, active: str, **options: Any) -> GateResult:
    golden = load_golden(workspace)
    new, old = stored(workspace, candidate), stored(workspace, active)
    return run_gate(workspace, indexed_engine(workspace), new, old, golden, **options)


def run(workspace: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", workspace.root, "--json")


def setting(workspace: Workspace, line: str) -> None:
    with (workspace.root / "hive.toml").open("a") as settings:
        settings.write(f"[gate]\n{line}\n")


def accepting(workspace: Workspace, *tags: str, name: str = "two", reason: str | None = "few read that") -> Ran:
    options = [part for tag in tags for part in ("--accept-tag", tag)]
    return run(workspace, "deploy", name, *options, *(("--reason", reason) if reason is not None else ()))


def test_falls_that_a_few_queries_cannot_show_are_watched_and_stop_nobody(versions: Workspace) -> None:
    result = gate(versions, "newest", "first")
    assert (result.decision, result.reasons) == ("passed", [])
    assert result.difference is not None
    assert (result.difference.wins, result.difference.losses, result.difference.ties) == (40, 4, 4)
    older, faq = result.watch
    assert (older.tag, older.n, older.before, older.after) == ("older", 6, -0.5, -1.0)
    assert (faq.tag, faq.n, faq.before) == ("faq", 2, 0.0)
    assert faq.after == pytest.approx(-0.1845, abs=1e-4)
    assert older.p_value == pytest.approx(3 * 1 / 8)  # three of its queries lose alike; the first of three tags
    assert faq.p_value == 1.0
    assert result.accepted_tags == ()
    for kept in (result.to_json(), result.record()):
        assert [list(change) for change in kept["watch"]] == [WATCHED, WATCHED]
        assert kept["accepted_tags"] == []
    json.dumps(result.record())


def test_watched_tags_are_warnings_with_n_and_p(versions: Workspace) -> None:
    older, faq, filters = gate(versions, "newest", "first").warnings
    assert filters.code == "HIVE-314"
    assert {(one.code, one.severity, one.file) for one in (older, faq)} == {
        ("HIVE-303", "warning", "evals/golden.json")
    }
    assert older.message == 'nUDCG of tag "older" falls -0.50 -> -1.00 (n = 6, p = 0.38): not shown, so it stops nobody'
    assert older.fix


def test_watch_is_in_the_json_the_text_and_the_history_of_a_deployment(versions: Workspace) -> None:
    told = hive("validate", "newest", "--behavioral", "-w", versions.root)
    assert 'warning[HIVE-303]: nUDCG of tag "older" falls' in told.err
    assert "watch: older -0.50 -> -1.00 (n = 6, p = 0.38)" in told.out
    ran = run(versions, "deploy", "newest")
    assert (ran.code, ran.json["decision"], ran.json["reasons"]) == (0, "passed", [])
    assert [list(change) for change in ran.json["watch"]] == [WATCHED, WATCHED]
    assert [(change["tag"], change["n"]) for change in ran.json["watch"]] == [("older", 6), ("faq", 2)]
    assert 'warning[HIVE-303]: nUDCG of tag "faq" falls 0.00 -> -0.18 (n = 2, p = 1)' in ran.err
    for record in (
        run(versions, "history").json["versions"][0]["evaluation"],
        list(audit.entries(versions, "deployment"))[-1]["evaluation"],
    ):
        assert record["watch"] == ran.json["watch"]
        assert record["thresholds"]["tag_evidence"] == "proven"


def test_validate_lists_the_watch_and_stays_valid(versions: Workspace) -> None:
    ran = run(versions, "validate", "newest", "--behavioral")
    assert (ran.code, ran.json["ok"], ran.json["gate"]["decision"]) == (0, True, "passed")
    assert [change["tag"] for change in ran.json["gate"]["watch"]] == ["older", "faq"]
    found = [one for one in ran.json["diagnostics"] if one["code"] == "HIVE-303"]
    assert [one["severity"] for one in found] == ["warning", "warning"]


def test_with_any_evidence_each_fall_blocks(versions: Workspace) -> None:
    setting(versions, 'tag_evidence = "any"')
    result = gate(Workspace(versions.root), "newest", "first")
    assert (result.decision, [reason.code for reason in result.reasons]) == ("blocked", ["HIVE-303", "HIVE-303"])
    assert result.reasons[1].message == 'nUDCG of tag "faq" falls 0.00 -> -0.18 (n = 2, p = 1)'
    assert (result.watch, [warning.code for warning in result.warnings]) == ((), ["HIVE-314"])


def test_a_loss_that_thirty_queries_show_blocks_though_the_mean_rises(shallow: Workspace) -> None:
    result = gate(shallow, "two", "three")
    assert result.difference is not None
    assert (result.difference.wins, result.difference.losses) == (75, 30)
    assert result.difference.difference > 0.2
    assert (result.decision, [reason.code for reason in result.reasons]) == ("blocked", ["HIVE-303"])
    assert result.reasons[0].message == 'nUDCG of tag "broad" falls 1.00 -> 0.77 (n = 30, p = 0.0002)'
    assert result.watch == ()


def test_a_blocked_tag_comes_with_the_command_that_accepts_it(shallow: Workspace) -> None:
    ran = hive("deploy", "two", "-w", shallow.root)
    assert (ran.code, "BLOCKED" in ran.out) == (1, True)
    assert 'hive deploy two --accept-tag broad --reason "…"' in ran.out


def test_a_person_accepts_a_shown_loss_by_name(shallow: Workspace) -> None:
    ran = accepting(shallow, "broad", reason="nobody needs the third")
    assert (ran.code, ran.json["decision"], ran.json["deployed"]) == (0, "passed", "two")
    assert (ran.json["reasons"], ran.json["watch"]) == ([], [])
    (accepted,) = ran.json["evaluation"]["accepted_tags"]
    assert list(accepted) == WATCHED
    assert (accepted["tag"], accepted["n"], accepted["before"]) == ("broad", 30, 1.0)
    assert accepted["after"] - accepted["before"] == pytest.approx(BROAD_LOSS, abs=1e-4)
    newest = run(shallow, "history").json["versions"][0]
    entry = list(audit.entries(shallow, "deployment"))[-1]
    for record in (newest, entry):
        assert record["evaluation"]["accepted_tags"] == [accepted]
        assert (record["reason"], record["via"], record["decision"]) == ("nobody needs the third", "deploy", "passed")
        assert record["by"].startswith("user:")
    table = hive("history", "-w", shallow.root).out
    assert "accepted that broad falls 1.00 -> 0.77 (n = 30, p = 0.0002): nobody needs the third" in " ".join(
        table.split()
    )


def test_what_is_accepted_is_told_and_every_other_block_stays(shallow: Workspace) -> None:
    golden = json.loads((shallow.root / "evals" / "golden.json").read_text())
    more = [entry | {"tags": [*entry["tags"], "also"]} for entry in golden["queries"] if "broad" in entry["tags"]]
    rest = [entry for entry in golden["queries"] if "broad" not in entry["tags"]]
    write_golden(shallow, more + rest)
    ran = accepting(shallow, "broad")
    assert (ran.code, ran.json["decision"], ran.json["deployed"]) == (1, "blocked", None)
    assert ['"also"' in reason["message"] for reason in ran.json["reasons"]] == [True]
    assert [change["tag"] for change in ran.json["evaluation"]["accepted_tags"]] == ["broad"]
    told = hive("deploy", "two", "--accept-tag", "broad", "--accept-tag", "also", "--reason", "x", "-w", shallow.root)
    assert told.code == 0
    assert "accepted: also 1.00 -> 0.77" in told.out


def test_acceptance_lifts_no_other_kind_of_block(shallow: Workspace) -> None:
    """Worse on the mean as well: the other way round the seventy-five queries lose."""
    activate(shallow, "two")
    ran = accepting(shallow, "other", name="three")
    assert (ran.code, {reason["code"] for reason in ran.json["reasons"]}) == (1, {"HIVE-301", "HIVE-302"})
    assert [change["tag"] for change in ran.json["evaluation"]["accepted_tags"]] == ["other"]


def test_accepted_and_unproved_is_still_inconclusive(shallow: Workspace) -> None:
    setting(shallow, "alpha = 1e-6")
    ran = accepting(shallow, "broad")
    assert (ran.code, ran.json["decision"], ran.json["deployed"]) == (1, "inconclusive", None)
    assert [reason["code"] for reason in ran.json["reasons"]] == ["HIVE-306"]


def test_accepting_what_does_not_lose_accepts_nothing_and_says_so(versions: Workspace) -> None:
    ran = accepting(versions, "older", "current", name="newest")
    assert (ran.code, ran.json["deployed"]) == (0, "newest")
    assert ran.json["evaluation"]["accepted_tags"] == []
    assert [change["tag"] for change in ran.json["watch"]] == ["older", "faq"]
    assert 'info[HIVE-303]: there is nothing to accept: tag "current" is not shown to lose' in ran.err


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_acceptance_needs_a_reason_and_uses_no_holdout_without(shallow: Workspace, reason: str | None) -> None:
    ran = accepting(shallow, "broad", reason=reason)
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert list(audit.entries(shallow, "holdout_use")) == []


def test_unknown_tag_is_refused_with_the_one_that_was_meant(shallow: Workspace) -> None:
    ran = accepting(shallow, "broad", "borad")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    (found,) = ran.json["diagnostics"]
    assert 'no tag "borad"' in found["message"]
    assert 'did you mean "broad"?' in found["fix"]
    assert (found["file"], found["path"]) == ("evals/golden.json", "queries")
    nothing_like_it = accepting(shallow, "xyz").json["diagnostics"][0]
    assert nothing_like_it["fix"] == "the golden set has: broad, other"


def test_acceptance_and_a_request_to_somebody_else_exclude_each_other(shallow: Workspace) -> None:
    ran = run(shallow, "deploy", "two", "--accept-tag", "broad", "--override", "--reason", "why")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert ApprovalStore(shallow).list() == []


@pytest.mark.parametrize("by", ["agent:optimizer", "service:nightly", "system:clock"])
def test_nobody_but_a_person_accepts_a_loss(shallow: Workspace, by: str) -> None:
    with pytest.raises(HiveError) as raised:
        deploy(shallow, named_config(shallow, "two"), load_golden(shallow), accept_tags=["broad"], reason="x", by=by)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("HIVE-415", 1)
    assert by in found.message
    assert history_of(shallow) == []


def test_gate_of_an_agent_accepts_nothing(shallow: Workspace) -> None:
    with pytest.raises(HiveError) as raised:
        gate(shallow, "two", "three", agent=True, accept_tags=["broad"])
    assert [found.code for found in raised.value.diagnostics] == ["HIVE-415"]
    assert gate(shallow, "two", "three", agent=True).decision == "blocked"


async def test_tool_of_an_agent_that_deploys_takes_no_acceptance(shallow: Workspace) -> None:
    context = ToolContext(shallow, Principal("acme", "root", roles=frozenset({"operator"})), "r1", agent_id="optimizer")
    tools, asked_for = bundled_tools(shallow), {"name": "two", "reason": "better"}
    for name in ("accept_tag", "accept_tags"):
        refused = await tools.call("deploy_config", asked_for | {name: ["broad"]}, context, approved=True)
        assert refused.is_error
        assert name in refused.content
    indexed_engine(shallow)
    found = await tools.call("deploy_config", asked_for, context, approved=True)
    told = json.loads(found.content)
    assert (told["decision"], told["deployed"], told["evaluation"]["accepted_tags"]) == ("blocked", None, [])
    assert history_of(shallow) == []


@pytest.mark.parametrize(
    ("user", "role", "code"),
    [
        ("service:nightly", "approver", "HIVE-409"),
        ("agent:optimizer", "approver", "HIVE-409"),
        ("dana", "reader", "HIVE-415"),
    ],
)
def test_token_of_a_service_or_without_the_role_accepts_nothing(
    shallow: Workspace, monkeypatch: pytest.MonkeyPatch, user: str, role: str, code: str
) -> None:
    monkeypatch.setenv("HIVE_TOKEN", mint(shallow, Principal("acme", user, roles=frozenset({role}))).token)
    ran = accepting(shallow, "broad")
    assert ran.codes == {code}
    assert (ran.code != 0, history_of(shallow)) == (True, [])


def test_token_of_an_approver_accepts_in_that_persons_name(shallow: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_TOKEN", mint(shallow, Principal("acme", "dana", roles=frozenset({"approver"}))).token)
    assert accepting(shallow, "broad").code == 0
    newest = run(shallow, "history").json["versions"][0]
    assert (newest["by"], newest["authn"]) == ("user:dana", "token")


def test_where_tokens_are_required_a_local_name_accepts_nothing(shallow: Workspace) -> None:
    with (shallow.root / "hive.toml").open("a") as settings:
        settings.write("[approvals]\nrequire_token = true\n")
    assert accepting(shallow, "broad").codes == {"HIVE-415"}


def test_request_to_override_shows_what_is_watched(versions: Workspace) -> None:
    setting(versions, "alpha = 1e-12")
    ran = run(versions, "deploy", "newest", "--override", "--reason", "the new pages count")
    assert ran.json["decision"] == "inconclusive"
    context = ApprovalStore(versions).get(ran.json["approval_id"]).context
    assert [change["tag"] for change in context["certificate"]["watch"]] == ["older", "faq"]
    assert context["evaluation"]["watch"] == context["certificate"]["watch"] == ran.json["watch"]
