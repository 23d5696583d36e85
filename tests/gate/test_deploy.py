from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.gate import Deployment, deploy, rollback
from hive_agents.gate.deploy import switch
from hive_agents.gate.gate import run_gate
from hive_agents.ranking import SearchEngine, named_config
from hive_agents.ranking.config import point_active
from hive_agents.ranking.deployed import active_config, find_active, versions
from hive_agents.store import audit
from tests.conftest import write_config, write_document
from tests.topics import NO_DRAFTS, activate, holdout_queries, indexed_engine, stored, write_golden

EDIT = {"category": {"not": ["notes"]}}


def deployed(workspace: Workspace, name: str, **options: Any) -> Deployment:
    return deploy(workspace, stored(workspace, name), write_golden(workspace, holdout_queries()), **options)


def serving(workspace: Workspace) -> tuple[str, dict[str, Any], list[str]]:
    """Name and filters of the config that serves, and the warnings' codes."""
    active = active_config(workspace)
    return active.stored.name, active.stored.config.filters, [warning.code for warning in active.warnings]


def link(workspace: Workspace) -> str:
    return str((workspace.configs / "active.json").readlink())


def served_by_history(workspace: Workspace) -> list[tuple[str, str, str]]:
    return [(version.name, version.decision, version.via) for version in versions(workspace)]


def test_first_deploy_passes_with_nothing_to_compare(topics: Workspace) -> None:
    outcome = deployed(topics, "naive")
    assert (outcome.result.decision, outcome.deployed, outcome.previous) == ("first", "naive", None)
    assert link(topics) == "naive.json"
    assert serving(topics)[0] == "naive"
    assert served_by_history(topics) == [("naive", "first", "deploy")]


def test_better_replaces_active_and_is_remembered(topics: Workspace) -> None:
    deployed(topics, "naive")
    outcome = deployed(topics, "careful", reason="FAQs mislead", by="user:dana")
    assert (outcome.result.decision, outcome.deployed, outcome.previous) == ("passed", "careful", "naive")
    assert link(topics) == "careful.json"
    newest, oldest = versions(topics)
    assert (newest.name, newest.by, newest.reason, newest.previous) == (
        "careful",
        "user:dana",
        "FAQs mislead",
        oldest.id,
    )
    assert newest.text == (topics.configs / "careful.json").read_text()
    assert newest.evaluation is not None
    assert newest.evaluation["difference"]["wins"] == 24
    value = outcome.to_json()
    assert list(value) == [
        "decision",
        "reasons",
        "watch",
        "deployed",
        "previous",
        "evaluation",
        "certificate",
        "approval_id",
        "override",
    ]
    bound = {"config_hash", "active_hash", "golden_hash", "index_hash", "model", "access", "code", "audit", "at"}
    assert set(value["certificate"]) == bound
    json.dumps(value)


def test_every_deployment_is_in_the_audit_log_with_its_text(topics: Workspace) -> None:
    deployed(topics, "naive")
    deployed(topics, "careful")
    rollback(topics)
    log = list(audit.entries(topics, "deployment"))
    assert [(entry["config"], entry["decision"], entry["via"]) for entry in log] == [
        ("naive", "first", "deploy"),
        ("careful", "passed", "deploy"),
        ("naive", "rollback", "rollback"),
    ]
    assert [entry["text"] for entry in log[:2]] == [version.text for version in reversed(versions(topics)[1:])]
    assert audit.verify(topics).ok


def test_worse_is_blocked_and_nothing_changes(topics: Workspace) -> None:
    deployed(topics, "careful")
    outcome = deployed(topics, "naive", allow_inconclusive=True)
    assert (outcome.result.decision, outcome.deployed, outcome.previous) == ("blocked", None, "careful")
    assert {reason.code for reason in outcome.result.reasons} >= {"HIVE-301", "HIVE-302"}
    assert serving(topics)[0] == "careful"
    assert len(versions(topics)) == 1


def test_equal_deploys_only_where_inconclusive_is_allowed(topics: Workspace) -> None:
    deployed(topics, "naive")
    write_config(topics, "twin", "keyword")
    outcome = deployed(topics, "twin")
    assert (outcome.result.decision, outcome.deployed) == ("inconclusive", None)
    assert [reason.code for reason in outcome.result.reasons] == ["HIVE-306"]
    assert serving(topics)[0] == "naive"
    outcome = deployed(topics, "twin", allow_inconclusive=True)
    assert (outcome.result.decision, outcome.deployed, outcome.previous) == ("inconclusive", "twin", "naive")
    assert served_by_history(topics)[0] == ("twin", "inconclusive", "deploy")


def test_deploying_what_serves_already_spends_no_look_at_the_holdout(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries())
    deploy(topics, named_config(topics, "naive"), golden)
    outcome = deploy(topics, named_config(topics, "naive"), golden)
    assert (outcome.result.decision, outcome.result.use, outcome.deployed) == ("inconclusive", None, None)
    assert deploy(topics, named_config(topics, "careful"), golden).result.use.j == 1  # type: ignore[union-attr]


def test_invalid_config_is_not_measured(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries())
    write_config(topics, "odd", "keyword", dynamic_k={"enabled": True})
    with pytest.raises(HiveError) as raised:
        deploy(topics, named_config(topics, "odd"), golden)
    assert ([d.code for d in raised.value.diagnostics], raised.value.exit_code) == (["HIVE-204"], 1)
    assert list(audit.entries(topics)) == []


def test_config_outside_configs_is_refused(topics: Workspace) -> None:
    outside = topics.root / "elsewhere.json"
    outside.write_text((topics.configs / "naive.json").read_text())
    with pytest.raises(HiveError) as raised:
        deploy(topics, named_config(topics, str(outside)), write_golden(topics))
    assert raised.value.diagnostics[0].code == "HIVE-114"


def test_config_is_deployed_by_whatever_path_names_it(topics: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = write_golden(topics, holdout_queries())
    folder = topics.root / "evals"
    monkeypatch.chdir(folder)
    assert deploy(topics, named_config(topics, "../configs/naive.json"), golden).deployed == "naive"
    assert versions(topics)[0].file == "configs/naive.json"
    linked = topics.root.parent / "link"
    linked.symlink_to(topics.root)
    assert deploy(topics, named_config(topics, f"{linked}/configs/careful.json"), golden).deployed == "careful"
    assert versions(topics)[0].file == "configs/careful.json"


def test_active_itself_never_becomes_a_link_to_itself(topics: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(topics, "naive")
    monkeypatch.chdir(topics.root)
    again = named_config(topics, "./configs/active.json")
    deploy(topics, again, write_golden(topics), allow_inconclusive=True)
    assert link(topics) == "naive.json"
    assert serving(topics)[0] == "naive"


def test_gate_measures_the_documents_as_they_are_now(topics: Workspace) -> None:
    deployed(topics, "naive")
    for number in range(10):
        write_document(topics, f"notes/n{number}.md", "A note.\n")
    outcome = deployed(topics, "careful")
    engine = indexed_engine(topics)
    assert outcome.result.certificate.index_hash == engine.index("kb").index_hash
    assert engine.index("kb").doc_ids().count("notes/n9.md") == 1


def test_fresh_clone_honours_active_as_the_baseline(topics: Workspace) -> None:
    activate(topics, "naive")
    assert versions(topics) == []
    assert serving(topics) == ("naive", {}, [])
    outcome = deployed(topics, "careful")
    assert (outcome.result.decision, outcome.previous) == ("passed", "naive")
    assert served_by_history(topics) == [("careful", "passed", "deploy"), ("naive", "first", "deploy")]
    version, before = rollback(topics)
    assert (version.name, before) == ("naive", "careful")
    assert serving(topics)[0] == "naive"


def test_fresh_clone_without_symlinks_reads_a_pointer_file(topics: Workspace) -> None:
    (topics.configs / "active.json").write_text('{"active": "careful.json"}\n')
    assert serving(topics)[0] == "careful"
    assert deployed(topics, "naive").result.decision == "blocked"


def test_where_links_cannot_be_made_active_is_a_file(topics: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no links here")

    point_active(topics, topics.configs / "naive.json")
    monkeypatch.setattr("os.symlink", refuse)
    point_active(topics, topics.configs / "careful.json")
    assert json.loads((topics.configs / "active.json").read_text()) == {"active": "careful.json"}
    assert not (topics.configs / "active.json").is_symlink()


def test_edit_after_deployment_changes_nothing_until_the_gate(topics: Workspace) -> None:
    deployed(topics, "naive")
    write_config(topics, "naive", "keyword", filters=EDIT)
    assert serving(topics) == ("naive", {}, ["HIVE-404"])
    warning = active_config(topics).warnings[0]
    assert (warning.file, warning.path, warning.severity) == ("configs/naive.json", "$", "warning")
    assert warning.fix
    accepted = {"accept": ["reach", "hidden"], "reason": "nobody reads notes", "by": "user:dana"}
    deploy(topics, named_config(topics, "naive"), write_golden(topics), allow_inconclusive=True, **accepted)
    assert serving(topics) == ("naive", EDIT, [])


def test_layout_of_a_file_is_no_edit(topics: Workspace) -> None:
    deployed(topics, "naive")
    path = topics.configs / "naive.json"
    value = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(value.items())), indent=7))
    assert serving(topics) == ("naive", {}, [])


def test_active_moved_by_hand_does_not_serve(topics: Workspace) -> None:
    deployed(topics, "naive")
    activate(topics, "careful")
    assert serving(topics) == ("naive", {}, ["HIVE-405"])
    assert active_config(topics).warnings[0].fix
    assert deployed(topics, "careful").previous == "naive"
    assert serving(topics)[0] == "careful"
    assert serving(topics)[2] == []


def test_workspace_without_active_config_says_how_to_deploy_one(topics: Workspace) -> None:
    assert find_active(topics) is None
    with pytest.raises(HiveError) as raised:
        active_config(topics)
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, raised.value.exit_code) == ("HIVE-408", "configs/active.json", 2)
    assert "hive deploy" in str(found.fix)


def three_deployed(workspace: Workspace) -> None:
    """`naive`, then `drafts`, then `careful`, which serves."""
    stored(workspace, "drafts", **NO_DRAFTS)
    for name in ("naive", "drafts", "careful"):
        deployed(workspace, name, allow_inconclusive=True)


def test_rollback_goes_further_back_each_time(topics: Workspace) -> None:
    three_deployed(topics)
    assert [(version.name, before) for version, before in (rollback(topics), rollback(topics))] == [
        ("drafts", "careful"),
        ("naive", "drafts"),
    ]
    assert link(topics) == "naive.json"
    with pytest.raises(HiveError) as raised:
        rollback(topics)
    assert (raised.value.diagnostics[0].code, raised.value.exit_code) == ("HIVE-412", 1)
    assert raised.value.diagnostics[0].fix
    assert serving(topics)[0] == "naive"


def test_rollback_goes_past_the_text_that_serves(topics: Workspace) -> None:
    deployed(topics, "naive")
    for _ in range(2):
        deployed(topics, "careful", allow_inconclusive=True)
    version, before = rollback(topics)
    assert (version.name, before) == ("naive", "careful")
    with pytest.raises(HiveError, match="HIVE-412"):
        rollback(topics)


def test_deploy_after_a_rollback_can_be_rolled_back(topics: Workspace) -> None:
    three_deployed(topics)
    rollback(topics)
    deployed(topics, "careful")
    assert [rollback(topics)[0].name, rollback(topics)[0].name] == ["drafts", "naive"]


def test_rollback_without_history_has_nothing_to_go_back_to(topics: Workspace) -> None:
    activate(topics, "naive")
    with pytest.raises(HiveError) as raised:
        rollback(topics)
    assert raised.value.diagnostics[0].code == "HIVE-412"


def test_rollback_brings_a_deleted_file_back(topics: Workspace) -> None:
    deployed(topics, "naive")
    text = (topics.configs / "naive.json").read_text()
    deployed(topics, "careful")
    (topics.configs / "naive.json").unlink()
    rollback(topics)
    assert (topics.configs / "naive.json").read_text() == text
    assert serving(topics) == ("naive", {}, [])


def test_rollback_leaves_an_edited_file_alone(topics: Workspace) -> None:
    deployed(topics, "naive")
    deployed(topics, "careful")
    edited = write_config(topics, "naive", "keyword", filters=EDIT).read_text()
    rollback(topics)
    assert (topics.configs / "naive.json").read_text() == edited
    assert serving(topics) == ("naive", {}, ["HIVE-404"])
    assert link(topics) == "naive.json"


def test_history_survives_a_broken_config_folder(topics: Workspace) -> None:
    deployed(topics, "naive")
    for path in topics.configs.glob("*.json"):
        path.unlink()
    assert serving(topics)[0] == "naive"


def test_decision_on_what_has_changed_is_stale(topics: Workspace) -> None:
    golden = write_golden(topics)
    candidate = stored(topics, "careful")
    result = run_gate(topics, indexed_engine(topics), candidate, None, golden)
    deployed(topics, "naive")
    with pytest.raises(HiveError) as raised:
        switch(topics, candidate, result.record(), decision="first", via="deploy")
    (found,) = raised.value.diagnostics
    assert (found.code, found.file, found.path, raised.value.exit_code) == (
        "HIVE-307",
        "configs/careful.json",
        "$",
        1,
    )
    assert found.fix
    assert serving(topics)[0] == "naive"


def test_golden_set_edited_since_makes_a_decision_stale(topics: Workspace) -> None:
    golden = write_golden(topics)
    candidate = stored(topics, "careful")
    result = run_gate(topics, indexed_engine(topics), candidate, None, golden)
    write_golden(topics, k=3)
    with pytest.raises(HiveError, match="HIVE-307"):
        switch(topics, candidate, result.record(), decision="first", via="deploy")
    assert versions(topics) == []


def test_switch_that_was_made_before_is_not_made_again(topics: Workspace) -> None:
    deployed(topics, "naive")
    golden, candidate = write_golden(topics), stored(topics, "careful")
    naive = active_config(topics).stored
    record = run_gate(topics, SearchEngine(topics), candidate, naive, golden).record()
    first = switch(topics, candidate, record, decision="passed", via="optimize")
    again = switch(topics, candidate, record, decision="passed", via="optimize")
    assert first.id == again.id
    assert len(versions(topics)) == 2


RACER = """
import sys
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import load_golden
from hive_agents.ranking import SearchEngine
from hive_agents.ranking.config import point_active
from hive_agents.ranking.deployed import active_config
from hive_agents.gate.gate import run_gate
from hive_agents.ranking import named_config
from hive_agents.gate.deploy import switch
from hive_agents import Workspace

workspace = Workspace(sys.argv[1])
candidate = named_config(workspace, sys.argv[2])
active = active_config(workspace).stored
result = run_gate(workspace, SearchEngine(workspace), candidate, active, load_golden(workspace))
print(result.decision, flush=True)
sys.stdin.readline()
try:
    print(switch(workspace, candidate, result.record(), decision=result.decision, via="deploy").name)
except HiveError as error:
    print(error.diagnostics[0].code)
"""


def test_of_two_racing_deploys_one_wins(topics: Workspace) -> None:
    deployed(topics, "naive")
    write_config(topics, "careful2", "keyword", filters={"category": ["guides", "notes"]})
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(topics.root), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for name in ("careful", "careful2")
    ]
    measured = [racer.stdout.readline().strip() for racer in racers if racer.stdout]
    assert measured == ["passed", "passed"]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = [racer.communicate()[0].strip() for racer in racers]
    winner = next(name for name in said if name != "HIVE-307")
    assert sorted(said) == sorted(["HIVE-307", winner])
    assert serving(topics)[0] == winner
    assert served_by_history(topics) == [(winner, "passed", "deploy"), ("naive", "first", "deploy")]
    assert audit.verify(topics).ok
