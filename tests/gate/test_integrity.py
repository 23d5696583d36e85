"""The ways around the gate that are closed, G1 to G15, one row a test or a few."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hive_agents
from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import held_out, load_golden
from hive_agents.evaluation.statistics import spent_alpha
from hive_agents.gate import deploy, rollback
from hive_agents.gate.certificate import changed_since
from hive_agents.gate.deploy import switch
from hive_agents.gate.gate import run_gate
from hive_agents.gate.ledger import uses
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.ranking import SearchEngine, build_index, named_config
from hive_agents.ranking.deployed import active_config, versions
from hive_agents.store import audit, connected
from hive_agents.workspace.settings import Optimizer
from tests.conftest import write_config, write_document
from tests.records import alter_json, copied, execute, log_lines, lose_log, lose_records, rewrite_log
from tests.sample import Ran, hive
from tests.topics import (
    NO_DRAFTS,
    TOPICS,
    activate,
    holdout_queries,
    in_wordings,
    indexed_engine,
    make_topics,
    query,
    stored,
    write_golden,
)

EDIT = {"category": {"not": ["notes"]}}


def run(workspace: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", workspace.root, "--json")


def serving(workspace: Workspace) -> tuple[str, dict[str, Any]]:
    """Name and filters of what a search without --config uses."""
    active = active_config(Workspace(workspace.root))
    return active.stored.name, active.stored.config.filters


@pytest.fixture(scope="module")
def _deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = make_topics(tmp_path_factory.mktemp("deployed") / "ws")
    write_golden(workspace, holdout_queries())
    assert run(workspace, "deploy", "naive").json["decision"] == "first"
    return workspace.root


@pytest.fixture
def deployed(_deployed: Path, tmp_path: Path) -> Workspace:
    """`naive` serves, by a deployment; the golden set has a holdout of eight."""
    return copied(_deployed, tmp_path / "ws")


def test_g01_an_edit_of_the_deployed_file_does_not_serve(deployed: Workspace) -> None:
    write_config(deployed, "naive", "keyword", filters=EDIT)
    ran = run(deployed, "query", "autoclave")
    assert (ran.code, "HIVE-404" in ran.err) == (0, True)
    assert serving(deployed) == ("naive", {})


def test_g01_an_edit_of_the_deployed_row_does_not_serve(deployed: Workspace) -> None:
    text = versions(deployed)[0].text.replace('"rrf_k": 60', '"rrf_k": 1')
    execute(deployed, "UPDATE config_versions SET text = ?", text)
    assert active_config(deployed).stored.config.retrieval.rrf_k == 60


def test_g02_a_link_moved_by_hand_does_not_serve_where_there_is_history(deployed: Workspace) -> None:
    activate(deployed, "careful")
    ran = run(deployed, "query", "autoclave")
    assert (ran.json["config"], "HIVE-405" in ran.err) == ("naive", True)
    assert run(deployed, "deploy", "careful").json["previous"] == "naive"


def test_g02_a_link_out_of_the_folder_is_not_followed_and_stops_nothing(deployed: Workspace) -> None:
    outside = deployed.root.parent / "mine.json"
    outside.write_text((deployed.configs / "careful.json").read_text())
    link = deployed.configs / "active.json"
    link.unlink()
    link.symlink_to(outside)
    ran = run(deployed, "query", "autoclave")
    assert (ran.code, ran.json["config"], "HIVE-114" in ran.err) == (0, "naive", True)
    assert run(deployed, "deploy", "careful").json["deployed"] == "careful"
    assert str(link.readlink()) == "careful.json"


def test_g02_without_history_the_link_serves_and_the_history_says_never_gated(topics: Workspace) -> None:
    write_golden(topics, holdout_queries())
    activate(topics, "naive")
    assert run(topics, "query", "autoclave").json["config"] == "naive"
    assert run(topics, "history").json["versions"] == []
    run(topics, "deploy", "careful")
    baseline = run(topics, "history").json["versions"][1]
    assert (baseline["decision"], baseline["evaluation"]) == ("first", None)
    assert baseline["reason"] == "was active before the first deployment"


def test_g03_a_fresh_clone_is_gated_against_its_active_file(topics: Workspace) -> None:
    write_golden(topics)
    activate(topics, "careful")
    ran = run(topics, "deploy", "naive")
    assert (ran.code, ran.json["decision"], ran.json["previous"]) == (1, "blocked", "careful")


def decide(workspace: Workspace, candidate: str, *, agent: bool) -> tuple[str, list[str]]:
    active = active_config(workspace).stored
    config = named_config(workspace, candidate)
    result = run_gate(workspace, indexed_engine(workspace), config, active, load_golden(workspace), agent=agent)
    return result.decision, [warning.code for warning in result.warnings]


def test_g04_a_changed_golden_set_caps_agents_until_a_person_accepts_it(deployed: Workspace) -> None:
    first = versions(deployed)[0].evaluation
    assert first
    assert first["certificate"]["golden_hash"] == load_golden(deployed).hash
    write_golden(deployed, holdout_queries(), k=5)
    assert decide(deployed, "careful", agent=True) == ("inconclusive", ["HIVE-306", "HIVE-314"])
    run(deployed, "evaluate", "--accept-golden")
    assert decide(deployed, "careful", agent=True) == ("passed", ["HIVE-314"])


def test_g04_a_person_is_warned_of_a_changed_golden_set(deployed: Workspace) -> None:
    write_golden(deployed, holdout_queries(), k=5)
    ran = run(deployed, "deploy", "careful")
    assert (ran.json["decision"], "no person has accepted evals/golden.json" in ran.err) == ("passed", True)
    assert ran.json["certificate"]["golden_hash"] == load_golden(deployed).hash


def test_g04_a_golden_set_in_another_file_is_not_accepted_by_its_first_use(deployed: Workspace) -> None:
    easy = deployed.root / "evals" / "easy.json"
    easy.write_text((deployed.root / "evals" / "golden.json").read_text())
    golden = load_golden(deployed, easy)
    active, careful = active_config(deployed).stored, named_config(deployed, "careful")
    result = run_gate(deployed, indexed_engine(deployed), careful, active, golden, agent=True)
    assert result.decision == "inconclusive"
    assert "no person has accepted evals/easy.json" in result.reasons[0].message


def touch_label(workspace: Workspace) -> None:
    write_golden(workspace, [*holdout_queries()[:-1], holdout_queries()[-1] | {"distractors": []}])


def rename_ids(workspace: Workspace) -> None:
    write_golden(workspace, [entry | {"id": f"new-{entry['id']}"} for entry in holdout_queries()])


def keep_over_half(workspace: Workspace) -> None:
    fresh = [query(f"how is the {topic} set", id=topic, relevant=[], distractors=[]) for topic in TOPICS[2:5]]
    write_golden(workspace, [entry | {"split": "holdout"} for entry in fresh] + holdout_queries()[5:])


def unmark(workspace: Workspace) -> None:
    write_golden(workspace, [query(topic) for topic in TOPICS])


@pytest.mark.parametrize("change", [lose_records, touch_label, rename_ids, keep_over_half, unmark])
def test_g05_nothing_that_leaves_the_questions_resets_the_ledger(
    deployed: Workspace, change: Callable[[Workspace], None]
) -> None:
    assert run(deployed, "validate", "careful", "--behavioral").json["gate"]["j"] == 1
    change(deployed)
    gate = run(deployed, "validate", "careful", "--behavioral").json["gate"]
    assert (gate["j"], gate["alpha"]) == (2, spent_alpha(2))


def test_g05_a_holdout_whose_names_are_taken_off_is_counted_whatever_is_held_out_instead(topics: Workspace) -> None:
    """Of eighty questions a hash holds out others than were named: most of those are measured for the first time."""
    more = [query(topic, id=f"{topic}-{word}", query=f"{topic} {word}") for topic in TOPICS for word in "abcdef"]
    queries = [query(topic) for topic in TOPICS[:2]] + in_wordings(TOPICS[2:], 3) + more
    write_golden(topics, queries)
    run(topics, "deploy", "naive")
    assert run(topics, "validate", "careful", "--behavioral").json["gate"]["j"] == 1
    golden = write_golden(topics, [one | {"split": None} for one in queries])
    holdout = held_out(golden)
    assert holdout is not None
    assert not uses(topics, holdout)
    ran = run(topics, "validate", "careful", "--behavioral")
    assert (ran.json["gate"]["j"], ran.json["gate"]["alpha"]) == (2, spent_alpha(2))
    assert "the next look at the holdout is number 2 of" in ran.err
    sides = ("--before", "naive", "--after", "careful", "--qrels", topics.root / "evals" / "golden.json")
    assert run(topics, "gate", *sides).json["evaluation"]["j"] == 3


def test_g06_every_look_at_the_holdout_makes_the_next_proof_harder(deployed: Workspace) -> None:
    listed = run(deployed, "evaluate", "careful").json
    assert (listed["n"], [entry["id"] for entry in listed["queries"]]) == (26, list(TOPICS[:2]))
    assert len(run(deployed, "compare", "naive", "careful").json["queries"]) == 2
    assert not uses(deployed, load_golden(deployed).split("holdout"))
    for look in (
        ("evaluate", "careful", "--split", "holdout"),
        ("compare", "naive", "careful", "--split", "holdout"),
        ("validate", "careful", "--behavioral"),
    ):
        assert run(deployed, *look).code == 0
    ran = run(deployed, "deploy", "careful")
    assert (ran.json["evaluation"]["j"], ran.json["evaluation"]["alpha"]) == (4, spent_alpha(4))
    assert (ran.json["decision"], ran.json["evaluation"]["difference"]["wins"]) == ("passed", 24)


def test_g06_an_optimizer_never_loads_the_holdout(deployed: Workspace) -> None:
    session = OptimizerSession(deployed, Optimizer())
    assert {entry.id for entry in session.tuning.queries} == set(TOPICS[:2])


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "careful"),
        ("compare", "naive", "careful"),
        ("validate", "careful", "--behavioral"),
        ("deploy", "careful"),
        ("optimize", "--iterations", "1", "--no-deploy"),
    ],
    ids=lambda command: command[0],
)
def test_g07_what_measures_refreshes_the_index_first(deployed: Workspace, command: tuple[str, ...]) -> None:
    write_document(deployed, "notes/new.md", "A page about a quokka.\n")
    run(deployed, *command)
    assert "notes/new.md" in SearchEngine(deployed).index("kb").doc_ids()


def test_g07_the_certificate_binds_the_index_that_was_measured(deployed: Workspace) -> None:
    write_document(deployed, "notes/new.md", "A page about a quokka.\n")
    certificate = run(deployed, "deploy", "careful").json["certificate"]
    assert certificate["index_hash"] == SearchEngine(deployed).index("kb").index_hash


def section_guides(workspace: Workspace, *, heading_level: int) -> None:
    """Guides whose answer stands in a section of its own: cut there it beats the FAQ, in one piece it loses."""
    set_chunking(workspace, heading_level=heading_level)
    filler = "All of this has been said elsewhere in more words than anybody can be asked to read. " * 12
    for topic in TOPICS:
        answer = f"## The {topic}\n\n{topic} {topic} {topic} {topic}\n"
        write_document(workspace, f"guides/{topic}.md", f"---\ntitle: Setting up\n---\n{filler}\n\n{answer}")


def set_chunking(workspace: Workspace, **changes: Any) -> None:
    path = workspace.root / "collections" / "kb.json"
    collection = json.loads(path.read_text())
    collection["chunking"] |= changes
    path.write_text(json.dumps(collection))


@pytest.fixture
def sectioned(topics: Workspace) -> Workspace:
    """`naive` serves on guides in one piece; the collection says now to cut them."""
    section_guides(topics, heading_level=1)
    write_golden(topics, holdout_queries())
    assert run(topics, "deploy", "naive").code == 0
    set_chunking(topics, heading_level=2)
    return topics


def first_hit(workspace: Workspace, text: str = "autoclave") -> str:
    return str(run(workspace, "query", text).json["hits"][0]["doc_id"])


def test_g08_a_change_of_chunking_waits_aside_while_the_old_index_serves_edited_documents(
    sectioned: Workspace,
) -> None:
    assert first_hit(sectioned) == "faqs/autoclave.md"
    assert build_index(sectioned).waiting == ["kb"]
    write_document(sectioned, "faqs/autoclave.md", "# Moved\n\nElsewhere.\n")
    write_document(sectioned, "notes/quokka.md", "A quokka.\n")
    assert first_hit(sectioned) == "guides/autoclave.md"
    assert first_hit(sectioned, "quokka") == "notes/quokka.md"
    assert SearchEngine(sectioned).index("kb").n_chunks == len(list(sectioned.documents.rglob("*.md")))


def test_g08_no_search_waits_for_an_index_that_does_not_serve(sectioned: Workspace) -> None:
    ran = run(sectioned, "query", "autoclave")
    assert 'collection "kb", or how this release reads it, changed; searches use the index as it was' in ran.err
    assert "read anew" not in ran.err
    assert states(sectioned) == ["live"]
    assert build_index(sectioned).waiting == ["kb"]
    assert states(sectioned) == ["candidate", "live"]


def states(workspace: Workspace) -> list[str]:
    with connected(workspace.database) as connection:
        return sorted(state for (state,) in connection.execute("SELECT state FROM corpus_stats"))


def test_g08_a_new_index_that_is_proved_better_takes_over(sectioned: Workspace) -> None:
    (decision,) = run(sectioned, "index").json["generations"]
    assert (decision["decision"], decision["evaluation"]["j"]) == ("passed", 1)
    assert first_hit(sectioned) == "guides/autoclave.md"
    assert run(sectioned, "index").json["waiting"] == []


def test_g08_a_tag_that_one_query_lets_fall_is_watched(sectioned: Workspace) -> None:
    rare = {"relevant": [f"faqs/{TOPICS[9]}.md"], "distractors": [], "tags": ["rare"]}
    write_golden(sectioned, [entry | (rare if entry["id"] == TOPICS[9] else {}) for entry in holdout_queries()])
    (decision,) = run(sectioned, "index").json["generations"]
    assert (decision["decision"], decision["reasons"]) == ("passed", [])
    (change,) = decision["evaluation"]["watch"]
    assert (change["tag"], change["n"], change["before"], change["p_value"]) == ("rare", 1, 1.0, 0.5)
    assert "watch: rare 1.00 -> 0.63 (n = 1, p = 0.5)" in hive("index", "-w", again(sectioned).root).out


def again(workspace: Workspace) -> Workspace:
    """The generation that was accepted is taken back, and waits once more."""
    set_chunking(workspace, heading_level=1)
    assert run(workspace, "index", "--accept", "--reason", "back").json["waiting"] == []
    set_chunking(workspace, heading_level=2)
    return workspace


def test_g08_a_worse_one_is_blocked(topics: Workspace) -> None:
    section_guides(topics, heading_level=2)
    write_golden(topics, holdout_queries())
    run(topics, "deploy", "naive")
    set_chunking(topics, heading_level=1)
    (decision,) = run(topics, "index").json["generations"]
    assert (decision["decision"], decision["reasons"][0]["code"]) == ("blocked", "HIVE-301")
    assert first_hit(topics) == "guides/autoclave.md"


def test_g08_one_without_proof_waits_and_is_not_measured_again(deployed: Workspace) -> None:
    set_chunking(deployed, max_tokens=400)
    for number in range(3):
        write_document(deployed, "notes/empty.md", f"Edited {number} times.\n")
        ran = run(deployed, "index").json
        (decision,) = ran["generations"]
        assert (ran["waiting"], decision["decision"], decision["reasons"][0]["code"]) == (
            ["kb"],
            "inconclusive",
            "HIVE-306",
        )
    assert len(uses(deployed, load_golden(deployed).split("holdout"))) == 1


def test_g08_a_person_lets_it_serve_with_a_reason(deployed: Workspace) -> None:
    set_chunking(deployed, max_tokens=400)
    refused = run(deployed, "index", "--accept")
    assert (refused.code, refused.codes) == (2, {"HIVE-409"})
    assert run(deployed, "index", "--accept", "--reason", "smaller passages").json["waiting"] == []
    assert SearchEngine(deployed).index("kb").collection.chunking.max_tokens == 400
    (entry,) = audit.entries(deployed, "index_generation")
    assert (entry["decision"], entry["reason"]) == ("accepted", "smaller passages")


def test_g08_taking_the_change_back_drops_what_waits(deployed: Workspace) -> None:
    set_chunking(deployed, max_tokens=400)
    assert run(deployed, "index").json["waiting"] == ["kb"]
    set_chunking(deployed, max_tokens=512)
    assert run(deployed, "index").json["waiting"] == []
    with connected(deployed.database) as connection:
        assert connection.execute("SELECT state FROM corpus_stats").fetchall() == [("live",)]


def test_g08_a_proof_for_other_documents_is_no_proof(sectioned: Workspace) -> None:
    run(sectioned, "index")
    set_chunking(sectioned, heading_level=1)
    assert run(sectioned, "index", "--accept", "--reason", "back").json["waiting"] == []
    write_document(sectioned, "notes/new.md", "Changed.\n")
    set_chunking(sectioned, heading_level=2)
    (decision,) = run(sectioned, "index").json["generations"]
    assert (decision["decision"], decision["evaluation"]["j"]) == ("passed", 2)


def test_g08_a_proof_whose_switch_was_killed_is_completed(
    sectioned: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr("hive_agents.gate.generations.generation.promote", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hive("index", "-w", sectioned.root)
    assert first_hit(sectioned) == "faqs/autoclave.md"
    assert run(sectioned, "index").json["generations"][0]["evaluation"]["j"] == 1
    assert first_hit(sectioned) == "guides/autoclave.md"


def edited_config(workspace: Workspace, record: dict[str, Any]) -> None:
    write_config(workspace, "careful", "keyword", filters=NO_DRAFTS)


def other_active(workspace: Workspace, record: dict[str, Any]) -> None:
    write_config(workspace, "twin", "keyword", description="the same")
    assert run(workspace, "deploy", "twin", "--allow-inconclusive").json["deployed"] == "twin"


def edited_golden(workspace: Workspace, record: dict[str, Any]) -> None:
    write_golden(workspace, holdout_queries(), k=3)


def edited_document(workspace: Workspace, record: dict[str, Any]) -> None:
    write_document(workspace, "notes/empty.md", "Edited.\n")
    build_index(workspace)


def other_model(workspace: Workspace, record: dict[str, Any]) -> None:
    execute(workspace, "DELETE FROM config_versions")  # nothing guards the index: the model changes at once
    with connected(workspace.database) as connection:
        connection.execute("DELETE FROM corpus_stats")
    (workspace.root / "hive.toml").unlink()
    build_index(Workspace(workspace.root))


def other_release(workspace: Workspace, record: dict[str, Any]) -> None:
    record["certificate"]["code"] = "0.0.1"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (edited_config, "the config was edited"),
        (other_active, "another config was deployed"),
        (edited_golden, "the golden set was changed"),
        (edited_document, "the index was changed"),
        (other_model, "the index was changed"),
        (other_release, "hive-agents was upgraded"),
    ],
)
def test_g09_a_decision_holds_only_for_what_it_measured(
    deployed: Workspace, change: Callable[[Workspace, dict[str, Any]], None], what: str
) -> None:
    active, candidate = active_config(deployed).stored, named_config(deployed, "careful")
    record = run_gate(deployed, SearchEngine(deployed), candidate, active, load_golden(deployed)).record()
    assert changed_since(deployed, candidate, active.hash, record) == ""
    change(deployed, record)
    late = named_config(Workspace(deployed.root), "careful")
    with pytest.raises(HiveError, match=what) as raised:
        switch(deployed, late, record, decision="passed", via="deploy")
    assert raised.value.diagnostics[0].code == "HIVE-307"


def test_g10_an_override_deploys_nothing_and_the_identity_is_recorded_as_local(deployed: Workspace) -> None:
    run(deployed, "deploy", "careful")
    assert run(deployed, "deploy", "naive", "--override").codes == {"HIVE-409"}
    ran = run(deployed, "deploy", "naive", "--override", "--reason", "I know better")
    assert (ran.code, ran.json["deployed"], ran.json["override"]) == (1, None, {"reason": "I know better"})
    assert ran.json["approval_id"]
    assert serving(deployed)[0] == "careful"
    assert {version["authn"] for version in run(deployed, "history").json["versions"]} == {"local"}
    assert {entry["authn"] for entry in audit.entries(deployed, "deployment")} == {"local"}


def test_g11_a_rollback_is_not_gated_but_audited_and_measured(deployed: Workspace) -> None:
    run(deployed, "deploy", "careful")
    ran = run(deployed, "rollback", "--reason", "complaints")
    assert (ran.code, ran.json["deployed"]) == (0, "naive")
    assert ran.json["metrics"]["nudcg"] == pytest.approx(-0.369, abs=1e-3)
    entry = list(audit.entries(deployed, "deployment"))[-1]
    assert (entry["via"], entry["config"], entry["reason"]) == ("rollback", "naive", "complaints")


def test_g12_of_two_measured_at_once_the_second_is_refused(deployed: Workspace) -> None:
    write_config(deployed, "careful2", "keyword", filters={"category": ["guides", "notes"]})
    active, golden = active_config(deployed).stored, load_golden(deployed)
    measured = []
    for name in ("careful", "careful2"):
        candidate = named_config(deployed, name)
        measured.append((candidate, run_gate(deployed, SearchEngine(deployed), candidate, active, golden)))
    (first, one), (second, two) = measured
    assert (one.decision, two.decision) == ("passed", "passed")
    switch(deployed, first, one.record(), decision="passed", via="deploy")
    with pytest.raises(HiveError, match="HIVE-307"):
        switch(deployed, second, two.record(), decision="passed", via="deploy")
    assert serving(deployed)[0] == "careful"


@pytest.mark.slow
def test_g12_commands_at_once_deploy_one(deployed: Workspace) -> None:
    write_config(deployed, "careful2", "keyword", filters={"category": ["guides", "notes"]})
    root = Path(hive_agents.__file__).parents[1]
    command = [sys.executable, "-m", "hive_agents", "deploy"]
    running = [
        subprocess.Popen(
            [*command, name, "-w", str(deployed.root), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=root,
        )
        for name in ("careful", "careful2")
    ]
    for process in running:
        process.communicate(timeout=60)
    assert sorted(process.returncode for process in running) == [0, 1]
    assert len(versions(deployed)) == 2
    assert audit.verify(deployed).ok


def test_g13_a_config_of_another_collection_is_an_error(deployed: Workspace) -> None:
    path = deployed.root / "collections" / "kb.json"
    (path.parent / "other.json").write_text(path.read_text().replace('"kb"', '"other"'))
    value = json.loads((deployed.configs / "careful.json").read_text()) | {"collection": "other"}
    (deployed.configs / "careful.json").write_text(json.dumps(value))
    assert run(deployed, "deploy", "careful").codes == {"HIVE-213"}
    assert serving(deployed)[0] == "naive"


def test_g14_measurements_on_record_decide_nothing(deployed: Workspace) -> None:
    run(deployed, "deploy", "careful")
    run(deployed, "evaluate", "naive")
    alter_json(deployed, "eval_results", "metrics", lambda metrics: metrics.update(nudcg=9.9, distractors=0))
    ran = run(deployed, "deploy", "naive")
    assert (ran.json["decision"], ran.json["reasons"][0]["message"]) == ("blocked", "nUDCG regression 1.00 -> -0.37")


def lines(workspace: Workspace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_lines(workspace)]


def rewrite(workspace: Workspace, entries: list[dict[str, Any]]) -> None:
    rewrite_log(workspace, [json.dumps(entry, ensure_ascii=False, sort_keys=True) for entry in entries])


def chained(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A log as somebody writes it who knows the form and has no key."""
    head = ""
    for number, entry in enumerate(entries, start=1):
        entry |= {"seq": number, "previous": head}
        head = entry["digest"] = audit._digest(entry, None)
    return entries


def without_uses(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["kind"] != "holdout_use"]


FORGERIES: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "edit": lambda log: [{**entry, "j": 9} if entry["kind"] == "holdout_use" else entry for entry in log],
    "cut": without_uses,
    "order": lambda log: [log[1], log[0], *log[2:]],
    "start over": lambda log: [],
    "keep the start": lambda log: log[:2],
    "new chain": lambda log: chained(without_uses(log)),
    "new chain, padded": lambda log: chained([*without_uses(log), *({"kind": "note", "at": ""} for _ in range(9))]),
}


@pytest.mark.parametrize("key", ["", "secret"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_g15_a_log_that_was_tampered_with_is_found_and_proves_nothing(
    deployed: Workspace, monkeypatch: pytest.MonkeyPatch, forgery: str, key: str
) -> None:
    if key:
        lose_log(deployed)
        (deployed.root / audit.HEAD).unlink()
        lose_records(deployed)
        monkeypatch.setenv("HIVE_AUDIT_KEY", key)
        run(deployed, "deploy", "naive")
    write_config(deployed, "drafts", "keyword", filters=NO_DRAFTS)
    run(deployed, "validate", "drafts", "--behavioral")
    write_config(deployed, "twin", "keyword")
    run(deployed, "deploy", "twin", "--allow-inconclusive")
    (version, *_) = versions(deployed)
    assert version.evaluation
    head = version.evaluation["certificate"]["audit"]
    verdict = audit.verify(deployed)
    assert (verdict.ok, verdict.keyed) == (True, bool(key))
    assert audit.reaches(deployed, head["entries"], head["head"])
    rewrite(deployed, FORGERIES[forgery](lines(deployed)))
    assert not (audit.verify(deployed).ok and audit.reaches(deployed, head["entries"], head["head"]))
    ran = run(deployed, "deploy", "careful")
    if ran.code == 1 and "decision" in ran.json:
        assert (ran.json["decision"], ran.json["reasons"][0]["code"]) == ("inconclusive", "HIVE-413")
    else:
        assert ran.codes == {"HIVE-413"}
    assert serving_name_or_refusal(deployed) in ("twin", "HIVE-413", "naive")


def serving_name_or_refusal(workspace: Workspace) -> str:
    ran = run(workspace, "query", "autoclave")
    return str(ran.json["config"]) if ran.code == 0 else ran.codes.pop()


@pytest.mark.parametrize("head", [True, False], ids=["log", "log and head"])
def test_g15_a_log_that_is_gone_is_broken(deployed: Workspace, head: bool) -> None:
    """Where the head is gone as well, the certificate of the last deployment is left."""
    write_config(deployed, "twin", "keyword")
    run(deployed, "deploy", "twin", "--allow-inconclusive")
    lose_log(deployed)
    if not head:
        (deployed.root / audit.HEAD).unlink()
    ran = run(deployed, "approvals", "verify")
    assert (ran.code, ran.json["ok"], "HIVE-413" in ran.err) == (1, False, True)
    checks = {check["name"]: check["status"] for check in run(deployed, "doctor").json["checks"]}
    assert checks["audit log"] == "fail"


def test_g15_a_holdout_whose_looks_were_cut_off_the_log_is_not_looked_at(deployed: Workspace) -> None:
    """Else the count would begin again, and putting the log back would hide the looks in between."""
    look = ("evaluate", "careful", "--split", "holdout")
    before = log_lines(deployed)
    assert run(deployed, *look).code == 0
    whole = log_lines(deployed)
    rewrite_log(deployed, before)
    assert (run(deployed, *look).code, run(deployed, *look).codes) == (1, {"HIVE-413"})
    rewrite_log(deployed, whole)
    assert run(deployed, *look).code == 0
    assert len(uses(deployed, load_golden(deployed).split("holdout"))) == 2


def test_g15_a_log_of_another_key_proves_nothing(deployed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", "guessed")
    for command in (("deploy", "careful"), ("query", "autoclave")):
        assert (run(deployed, *command).code, run(deployed, *command).codes) == (1, {"HIVE-413"})


def test_g15_deployments_come_back_from_the_log(deployed: Workspace) -> None:
    run(deployed, "deploy", "careful", "--reason", "FAQs mislead")
    before = run(deployed, "history").json
    lose_records(deployed)
    assert run(deployed, "query", "autoclave").json["config"] == "careful"
    after = run(deployed, "history").json
    assert [{**version, "at": ""} for version in after["versions"]] == [
        {**version, "at": ""} for version in before["versions"]
    ]
    assert rollback(deployed)[0].name == "naive"


def test_g15_of_a_broken_log_the_last_deployment_serves_that_it_vouches_for(deployed: Workspace) -> None:
    run(deployed, "deploy", "careful")
    lose_records(deployed)
    entries = lines(deployed)
    entries[-1]["text"] = entries[-1]["text"].replace("faqs", "notes")
    rewrite(deployed, entries)
    ran = run(deployed, "query", "autoclave")
    assert (ran.json["config"], "HIVE-413" in ran.err, "naive serves" in ran.err) == ("naive", True, True)
    with connected(deployed.records) as connection:
        assert connection.execute("SELECT count(*) FROM config_versions").fetchone()[0] == 0  # nothing is restored
    rewrite(deployed, [{**entry, "text": "{}"} if "text" in entry else entry for entry in entries])
    for command in (("query", "autoclave"), ("history",), ("rollback",), ("deploy", "naive")):
        assert run(deployed, *command).codes == {"HIVE-413"}


def test_g15_a_row_that_no_deployment_made_does_not_serve(deployed: Workspace) -> None:
    text = (deployed.configs / "careful.json").read_text()
    columns = "name, file, text, config_hash, at, by, authn, decision, via, previous"
    values = "'careful', 'configs/careful.json', ?, 'x', '', 'me', 'local', 'passed', 'deploy', 1"
    execute(deployed, f"INSERT INTO config_versions ({columns}) VALUES ({values})", text)
    ran = run(deployed, "query", "autoclave")
    assert (ran.json["config"], "HIVE-413" in ran.err) == ("naive", True)
    assert len(versions(deployed)) == 1
    outcome = deploy(deployed, stored(deployed, "careful"), load_golden(deployed))
    assert (outcome.result.decision, outcome.previous) == ("passed", "naive")
    assert [version.name for version in versions(deployed)] == ["careful", "naive"]
    assert rollback(deployed)[0].name == "naive"


@pytest.mark.parametrize("key", ["", "a key of the audit log"])
@pytest.mark.parametrize("head", [True, False])
def test_g15_a_forged_text_does_not_serve_where_the_log_was_lost(
    deployed: Workspace, monkeypatch: pytest.MonkeyPatch, key: str, head: bool
) -> None:
    if key:
        lose_log(deployed)
        (deployed.root / audit.HEAD).unlink()
        lose_records(deployed)
        monkeypatch.setenv("HIVE_AUDIT_KEY", key)
        run(deployed, "deploy", "naive")
    run(deployed, "deploy", "careful", "--allow-inconclusive")
    file, lines = (deployed.configs / "careful.json").read_text(), log_lines(deployed)
    execute(deployed, "UPDATE config_versions SET text = ?", file.replace("faqs", "notes"))
    lose_log(deployed)
    if not head:
        (deployed.root / audit.HEAD).unlink()
    for command in (("query", "autoclave"), ("history",), ("rollback",), ("deploy", "naive")):
        ran = run(deployed, *command)
        assert (ran.code, ran.codes) == (1, {"HIVE-413"})
        assert {found["file"] for found in ran.json["diagnostics"]} == {audit.FILE}
    rewrite_log(deployed, lines)
    assert serving(deployed)[0] == "careful"
    assert versions(deployed)[0].text == file
