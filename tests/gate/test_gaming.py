"""Attempts to get a config past the gate, by somebody who has the README, a shell and the `hive` command.

The world: `naive` was deployed, then `careful` passed the gate and serves. `mine` is as bad as `naive`: where it
serves, a search finds the misleading FAQ. `some` is better on three of eight held-out queries, which is no proof.
An attempt fails where what served goes on serving, or nothing does. Where one works it is a boundary: docs/gate.md has
its sentence, and the attempt asserts what it got and the trace that it leaves, where it leaves one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import hive_agents
from hive_agents import Workspace
from hive_agents.evaluation import load_golden
from hive_agents.gate import deploy
from hive_agents.gate.ledger import uses
from hive_agents.ranking import named_config
from hive_agents.store import audit, connected
from tests.conftest import config_json, write_config, write_document
from tests.records import alter_json, copied, execute, log_lines, lose_log, lose_records, rewrite_log
from tests.sample import Ran, copied_sample, hive
from tests.topics import NO_FAQS, NOTHING, TOPICS, holdout_queries, make_topics, query, write_golden

Attempt = Callable[[Workspace], None]
FAILS: list[Attempt] = []
BOUNDARIES: dict[str, Attempt] = {}
SOME = {"status": {"not": ["retired"]}}
REPOSITORY = Path(hive_agents.__file__).parents[1]


def fails(attempt: Attempt) -> Attempt:
    FAILS.append(attempt)
    return attempt


def boundary(sentence: str) -> Callable[[Attempt], Attempt]:
    """`sentence` is how docs/gate.md names it."""

    def register(attempt: Attempt) -> Attempt:
        BOUNDARIES[sentence] = attempt
        return attempt

    return register


def run(workspace: Workspace, *arguments: object) -> Ran:
    return hive(*arguments, "-w", workspace.root, "--json")


def retire(workspace: Workspace, topics: Sequence[str]) -> None:
    """Let `some` hide the FAQs of these topics."""
    for topic in topics:
        write_document(workspace, f"faqs/{topic}.md", f"---\ntitle: {topic}\nstatus: retired\n---\n{topic} {topic}\n")


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workspace = make_topics(tmp_path_factory.mktemp("world") / "ws")
    retire(workspace, TOPICS[2:3])
    write_golden(workspace, holdout_queries())
    write_config(workspace, "mine", "keyword", description="mine")
    write_config(workspace, "some", "keyword", filters=SOME)
    assert run(workspace, "deploy", "naive").code == run(workspace, "deploy", "careful").code == 0
    return workspace.root


@pytest.fixture
def world(_made: Path, tmp_path: Path) -> Workspace:
    return copied(_made, tmp_path / "ws")


def misled(workspace: Workspace) -> bool:
    """Whether a search finds the FAQ; False as well where it refuses to search, with a diagnostic."""
    ran = run(workspace, "query", TOPICS[-1])
    if ran.code:
        assert all(code.startswith("HIVE-") for code in ran.codes)
        return False
    return f"faqs/{TOPICS[-1]}.md" in [hit["doc_id"] for hit in ran.json["hits"]]


def gate(workspace: Workspace, name: str) -> dict[str, Any]:
    """The gate's word on a config, without deploying it."""
    return dict(run(workspace, "validate", name, "--behavioral").json["gate"])


def mine_as(workspace: Workspace, name: str, file: str) -> None:
    """The text of `mine` with another name, in `configs/<file>.json`."""
    (workspace.configs / f"{file}.json").write_text(json.dumps(config_json(name, "keyword")))


def relink(workspace: Workspace, target: str | Path) -> None:
    link = workspace.configs / "active.json"
    link.unlink()
    link.symlink_to(target)


def without_state(workspace: Workspace) -> None:
    shutil.rmtree(workspace.state)


def change_chunking(workspace: Workspace) -> None:
    path = workspace.root / "collections" / "kb.json"
    path.write_text(path.read_text().replace('"max_tokens": 512', '"max_tokens": 100'))


def entry_of_mine(workspace: Workspace) -> dict[str, Any]:
    """A line for the audit log that says that `mine` was deployed."""
    last = list(audit.entries(workspace))[-1]
    deployment = next(entry for entry in audit.entries(workspace, "deployment") if entry["config"] == "careful")
    stored = named_config(workspace, "mine")
    told = {"config": "mine", "file": stored.file, "text": stored.text, "config_hash": stored.hash}
    place = {"version": deployment["version"] + 1, "seq": last["seq"] + 1, "previous": last["digest"]}
    return deployment | told | place


def append(workspace: Workspace, entry: dict[str, Any]) -> None:
    rewrite_log(workspace, [*log_lines(workspace), json.dumps(entry, ensure_ascii=False, sort_keys=True)])


# What serves: files, links, rows.


@fails
def edit_the_deployed_file(world: Workspace) -> None:
    mine_as(world, "careful", "careful")


@fails
def move_the_link(world: Workspace) -> None:
    relink(world, "mine.json")


@fails
def point_the_link_outside(world: Workspace) -> None:
    outside = world.root.parent / "mine.json"
    shutil.copy(world.configs / "mine.json", outside)
    relink(world, outside)


@fails
def write_a_pointer_file(world: Workspace) -> None:
    (world.configs / "active.json").unlink()
    (world.configs / "active.json").write_text('{"active": "mine.json"}')


@fails
def put_the_config_itself_into_active_json(world: Workspace) -> None:
    (world.configs / "active.json").unlink()
    shutil.copy(world.configs / "mine.json", world.configs / "active.json")


@fails
def replace_the_deployed_file_by_a_link(world: Workspace) -> None:
    (world.configs / "careful.json").unlink()
    (world.configs / "careful.json").symlink_to("mine.json")


@fails
def deploy_a_link_to_a_file_elsewhere(world: Workspace) -> None:
    outside = world.root.parent / "later.json"
    outside.write_text(json.dumps(config_json("later", "keyword", filters=NO_FAQS)))
    (world.configs / "later.json").symlink_to(outside)
    assert run(world, "deploy", "later", "--allow-inconclusive").codes == {"HIVE-114"}
    outside.write_text(json.dumps(config_json("later", "keyword")))


@fails
def deploy_a_path_elsewhere(world: Workspace) -> None:
    outside = world.root.parent / "mine.json"
    shutil.copy(world.configs / "mine.json", outside)
    assert run(world, "deploy", outside).codes == {"HIVE-114"}


@fails
def edit_between_measurement_and_switch(world: Workspace) -> None:
    write_config(world, "twin", "keyword", filters=NO_FAQS, description="an equal")
    candidate = named_config(world, "twin")
    mine_as(world, "twin", "twin")
    assert deploy(world, candidate, load_golden(world), allow_inconclusive=True).deployed == "twin"


@fails
def insert_a_deployment_into_the_database(world: Workspace) -> None:
    text = (world.configs / "mine.json").read_text()
    columns = "name, file, text, config_hash, at, by, authn, decision, via"
    row = ("mine", "configs/mine.json", text, "x", "2030-01-01", "user:dana", "token", "passed", "deploy")
    execute(world, f"INSERT INTO config_versions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)


@fails
def change_the_deployed_text_in_the_database(world: Workspace) -> None:
    execute(world, "UPDATE config_versions SET text = ?", (world.configs / "mine.json").read_text())


@fails
def delete_the_newest_deployment_from_the_database(world: Workspace) -> None:
    execute(world, "DELETE FROM config_versions WHERE name = 'careful'")


@fails
def append_a_deployment_to_the_audit_log(world: Workspace) -> None:
    append(world, entry_of_mine(world))
    assert "HIVE-413" in run(world, "query", TOPICS[-1]).err  # what the log vouches for serves


@fails
def approve_ones_own_override(world: Workspace) -> None:
    ran = run(world, "deploy", "mine", "--override", "--reason", "trust me")
    execute(world, "UPDATE approvals SET status = 'approved' WHERE id = ?", ran.json["approval_id"])
    run(world, "deploy", "mine", "--override", "--reason", "trust me")


@fails
def rebuild_the_index_with_another_chunking(world: Workspace) -> None:
    change_chunking(world)
    assert [one["decision"] for one in run(world, "index").json["generations"]] == ["inconclusive"]


@fails
def roll_back_to_a_file_that_was_edited(world: Workspace) -> None:
    write_config(world, "naive", "keyword", filters=NOTHING)
    run(world, "rollback")
    assert run(world, "query", TOPICS[-1]).json["hits"]  # the text that was deployed, not the edit
    run(world, "deploy", "careful")


# What the gate measures: names, golden set, evidence.


@fails
def deploy_the_worse_as_inconclusive(world: Workspace) -> None:
    assert run(world, "deploy", "mine", "--allow-inconclusive").json["decision"] == "blocked"


@fails
def take_the_name_of_the_deployed_config(world: Workspace) -> None:
    mine_as(world, "careful", "mine")
    assert run(world, "deploy", "mine").json["decision"] == "blocked"


@fails
def take_a_name_that_looks_the_same(world: Workspace) -> None:
    for name in ("c\u0430reful", "careful\u200b", "ｃareful", "../careful", "active", "careful\n"):
        mine_as(world, name, "other")
        assert "HIVE-1" in "".join(run(world, "deploy", "other").codes)


@fails
def say_a_key_twice(world: Workspace) -> None:
    good = json.dumps(config_json("two", "keyword", filters=NO_FAQS))
    (world.configs / "two.json").write_text(good[:-1] + ', "filters": {}}')
    assert run(world, "deploy", "two", "--allow-inconclusive").codes == {"HIVE-101"}


@fails
def search_another_collection(world: Workspace) -> None:
    path = world.root / "collections" / "kb.json"
    (path.parent / "other.json").write_text(path.read_text().replace('"kb"', '"other"'))
    (world.configs / "mine.json").write_text(json.dumps(config_json("mine", "keyword") | {"collection": "other"}))
    assert run(world, "deploy", "mine").codes == {"HIVE-213"}


@fails
def return_nothing(world: Workspace) -> None:
    write_config(world, "silent", "keyword", filters=NOTHING)
    assert run(world, "deploy", "silent", "--allow-inconclusive").json["decision"] == "blocked"


@fails
def hide_answers_with_the_distractors(world: Workspace) -> None:
    write_config(world, "hiding", "keyword", filters={"category": {"not": ["faqs", "guides"]}})
    assert run(world, "deploy", "hiding").json["decision"] == "blocked"


@fails
def return_one_or_a_thousand(world: Workspace) -> None:
    for depth in ({"top_k": 1}, {"top_k": 1000, "candidates": 10_000}):
        write_config(world, "deep", "keyword", filters=NO_FAQS, retrieval=depth)
        assert run(world, "deploy", "deep").json["decision"] == "inconclusive"


@fails
def fake_measurements(world: Workspace) -> None:
    run(world, "evaluate", "mine")
    alter_json(world, "eval_results", "metrics", lambda metrics: metrics.update(nudcg=99))
    assert run(world, "deploy", "mine").json["decision"] == "blocked"


@fails
def deploy_many_at_once(world: Workspace) -> None:
    command = [sys.executable, "-m", "hive_agents", "deploy", "mine", "-w", str(world.root), "--quiet"]
    running = [subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait(timeout=60) for process in running] == [1] * 4


@pytest.fixture
def before(world: Workspace) -> Workspace:
    """`naive` serves again, by a rollback: now there is something to gain. The holdout was used once."""
    assert run(world, "rollback").json["deployed"] == "naive"
    return world


def shuffled_labels(world: Workspace) -> None:
    write_golden(world, [*holdout_queries()[:-1], holdout_queries()[-1] | {"distractors": []}])


def other_spelling(world: Workspace) -> None:
    write_golden(world, [entry | {"query": f"  {entry['query'].upper()}?!"} for entry in holdout_queries()])


def resplit(world: Workspace) -> None:
    write_golden(world, [query(topic, split="train" if topic > "h" else "holdout") for topic in TOPICS])


def no_splits(world: Workspace) -> None:
    """The questions that are held out by a hash then are among those that were."""
    write_golden(world, [{name: value for name, value in one.items() if name != "split"} for one in holdout_queries()])


def padded(world: Workspace) -> None:
    more = [query(f"{topic} again", relevant=[], distractors=[], split="holdout") for topic in TOPICS]
    write_golden(world, holdout_queries() + more)


@pytest.mark.parametrize("change", [shuffled_labels, other_spelling, resplit, no_splits, padded, without_state])
def test_a_used_holdout_stays_used(before: Workspace, change: Callable[[Workspace], None]) -> None:
    change(before)
    assert gate(before, "some")["j"] == 2


@pytest.mark.slow
def test_trying_until_lucky_uses_the_holdout_up(before: Workspace) -> None:
    decisions = []
    for number in range(50):
        write_config(before, "lucky", "keyword", filters=SOME, bm25={"k1": 1 + number / 100})
        decisions.append(gate(before, "lucky")["decision"])
    assert set(decisions) == {"inconclusive"}
    assert len(uses(before, load_golden(before).split("holdout"))) == 10
    last = run(before, "deploy", "careful")
    assert [reason["code"] for reason in last.json["reasons"]] == ["HIVE-308"]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_a_ledger_that_is_deleted_or_cut_before_the_last_deployment_proves_nothing(
    before: Workspace, keep: int
) -> None:
    rewrite_log(before, log_lines(before)[:keep])
    ran = run(before, "deploy", "careful")
    found = ran.json.get("reasons") or ran.json["diagnostics"]  # without a line of a deployment nothing is measured
    assert (ran.code, [reason["code"] for reason in found]) == (1, ["HIVE-413"])


def test_a_query_that_is_copied_counts_once(before: Workspace) -> None:
    copies = [query(TOPICS[2], id=f"copy-{number}", split="holdout") for number in range(50)]
    write_golden(before, holdout_queries() + copies)
    ran = run(before, "deploy", "some")
    assert (ran.json["decision"], ran.json["evaluation"]["n"]) == ("inconclusive", 24)
    assert "50 of the queries repeat" in ran.err


def test_another_depth_of_evaluation_makes_no_evidence(before: Workspace) -> None:
    write_golden(before, holdout_queries(), k=1)
    assert gate(before, "some")["decision"] == "inconclusive"


@pytest.mark.slow
def test_an_optimizer_on_a_golden_set_of_its_own_escalates(tmp_path: Path) -> None:
    workspace = copied_sample(tmp_path / "w")
    run(workspace, "validate", "v1-naive", "--behavioral")
    golden = json.loads((workspace.root / "evals" / "golden.json").read_text())
    easy = workspace.root / "evals" / "easy.json"
    easy.write_text(json.dumps(golden | {"queries": [entry | {"tags": []} for entry in golden["queries"]]}))
    ran = run(workspace, "optimize", "--iterations", "1", "--golden", easy)
    assert (ran.code, ran.json["status"]) == (1, "escalated")
    assert run(workspace, "history").json["versions"] == []


@pytest.mark.parametrize(
    "part",
    [
        {"abstain": {"min_cosine": 1.0}},
        pytest.param({"filters": {"category": "faqs"}}, marks=pytest.mark.slow),
        pytest.param({"filters": {"category": {"not": ["sops"]}}}, marks=pytest.mark.slow),
        pytest.param({"retrieval": {"rrf_k": 1000, "candidates": 10_000}}, marks=pytest.mark.slow),
    ],
    ids=["return nothing", "hide all but FAQs", "hide the procedures", "huge depth"],
)
def test_a_trick_of_one_line_does_not_pass_on_the_sample(tmp_path: Path, part: dict[str, Any]) -> None:
    workspace = copied_sample(tmp_path / "w")
    value = json.loads((workspace.configs / "v1.json").read_text())
    (workspace.configs / "v2.json").write_text(
        json.dumps(
            value
            | {"name": "v2"}
            | {name: {**value[name], **block} if name == "retrieval" else block for name, block in part.items()}
        )
    )
    assert run(workspace, "deploy", "v2").json["decision"] in ("blocked", "inconclusive")


@fails
def lose_the_log_and_forge_the_database(world: Workspace) -> None:
    lose_log(world)
    change_the_deployed_text_in_the_database(world)
    assert run(world, "query", TOPICS[-1]).codes == {"HIVE-413"}


# What works, and is named.


@boundary("without a key")
def continue_a_log_that_has_no_key(world: Workspace) -> None:
    entry = entry_of_mine(world)
    append(world, entry | {"digest": audit._digest(entry, None)})
    assert misled(world)
    assert run(world, "history").json["versions"][0]["config"] == "mine"


@boundary("deletes `.hive/`, `audit/` and `configs/active.json`")
def delete_every_trace_of_history(world: Workspace) -> None:
    lose_records(world)
    without_state(world)
    lose_log(world)
    (world.configs / "active.json").unlink()
    assert run(world, "deploy", "mine").json["decision"] == "first"
    assert misled(world)


@boundary("rewrites the labels")
def turn_the_labels_around(world: Workspace) -> None:
    turned = [
        entry | {"relevant": entry["distractors"], "distractors": entry["relevant"]} for entry in holdout_queries()
    ]
    write_golden(world, turned)
    ran = run(world, "deploy", "mine")
    assert (ran.json["decision"], "no person has accepted" in ran.err) == ("passed", True)


@boundary("brings a golden set")
def bring_a_golden_set_of_ones_own(world: Workspace) -> None:
    turned = {"relevant": "faqs", "distractors": "guides"}
    own = [
        query(f"the {t} {n}", id=f"{t}-{n}", **{name: [f"{folder}/{t}.md"] for name, folder in turned.items()})
        | {"split": "holdout"}
        for n in range(3)
        for t in TOPICS
    ]
    path = world.root / "evals" / "own.json"
    path.write_text(json.dumps({"collection": "kb", "queries": own}))
    ran = run(world, "deploy", "mine", "--golden", path)
    assert (ran.json["decision"], "no person has accepted evals/own.json" in ran.err) == ("passed", True)
    assert run(world, "history").json["versions"][0]["evaluation"]["golden"] == "evals/own.json"


def let_a_tag_lose(world: Workspace, others: Sequence[str] = ()) -> None:
    """Where `some` serves, the queries of "rare" find the misleading FAQ alone: five show the loss, p = 1/32."""
    for topic in TOPICS[5:]:
        write_document(world, f"guides/{topic}.md", f"---\ntitle: Setting up\nstatus: retired\n---\nThe {topic}.\n")
    retire(world, TOPICS[2:5])
    with (world.root / "hive.toml").open("a") as settings:  # what readers lose has its own tests
        settings.write("[gate]\nanswered_drop = 1.0\nrecall_drop = 1.0\nreach_drop = 1.0\nfirst_drop = 1.0\n")
    queries = holdout_queries()
    write_golden(world, [one | {"tags": ["rare"] if one["id"] in TOPICS[5:] else [*others]} for one in queries])


@boundary("removes tags")
def remove_the_tags_that_would_block(world: Workspace) -> None:
    run(world, "rollback")
    let_a_tag_lose(world)
    run(world, "evaluate", "--accept-golden")
    assert run(world, "deploy", "some", "--allow-inconclusive").json["reasons"][0]["code"] == "HIVE-303"
    write_golden(world, holdout_queries())
    ran = run(world, "deploy", "some", "--allow-inconclusive")
    assert (ran.json["deployed"], "no person has accepted" in ran.err) == ("some", True)


@boundary("adds tags")
def add_tags_until_no_loss_is_shown(world: Workspace) -> None:
    """Each tag is a test of its own, and a loss must be shown for all of them at once."""
    run(world, "rollback")
    let_a_tag_lose(world, others=["more"])
    ran = run(world, "deploy", "some", "--allow-inconclusive")
    assert (ran.json["deployed"], [change["tag"] for change in ran.json["watch"]]) == ("some", ["rare"])
    assert "no person has accepted" in ran.err


@boundary("`--accept-tag`")
def answer_for_a_loss_by_name(world: Workspace) -> None:
    run(world, "rollback")
    let_a_tag_lose(world)
    accepting = ("--accept-tag", "rare", "--reason", "because", "--allow-inconclusive")
    assert run(world, "deploy", "some", *accepting).json["deployed"] == "some"
    newest = run(world, "history").json["versions"][0]
    assert [change["tag"] for change in newest["evaluation"]["accepted_tags"]] == ["rare"]
    assert list(audit.entries(world, "deployment"))[-1]["reason"] == newest["reason"] == "because"


@boundary("sets the thresholds")
def lower_the_bar_in_the_settings(world: Workspace) -> None:
    run(world, "rollback")
    with (world.root / "hive.toml").open("a") as settings:
        settings.write("[gate]\nalpha = 0.9\n")
    assert run(world, "deploy", "some").json["decision"] == "passed"
    assert run(world, "history").json["versions"][0]["evaluation"]["thresholds"]["alpha"] == 0.9
    assert list(audit.entries(world, "deployment"))[-1]["evaluation"]["thresholds"]["alpha"] == 0.9


@boundary("or the environment")
def lower_the_bar_in_the_environment(world: Workspace) -> None:
    run(world, "rollback")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HIVE_GATE__ALPHA", "0.9")
        assert run(world, "deploy", "some").json["decision"] == "passed"
    assert run(world, "history").json["versions"][0]["evaluation"]["thresholds"]["alpha"] == 0.9


@boundary("`--allow-inconclusive`")
def deploy_an_equal_as_inconclusive(world: Workspace) -> None:
    write_config(world, "twin", "keyword", filters=NO_FAQS, description="an equal")
    assert run(world, "deploy", "twin", "--allow-inconclusive").json["deployed"] == "twin"
    assert run(world, "history").json["versions"][0]["decision"] == "inconclusive"


@boundary("`hive rollback` is not gated")
def go_back_without_the_gate(world: Workspace) -> None:
    assert run(world, "rollback", "--reason", "because").json["metrics"]["nudcg"] < 0
    assert misled(world)
    assert list(audit.entries(world, "deployment"))[-1]["reason"] == "because"


@boundary("measured against the worse config")
def go_back_to_have_less_to_beat(world: Workspace) -> None:
    assert run(world, "deploy", "some", "--allow-inconclusive").json["decision"] == "blocked"
    run(world, "rollback")
    assert run(world, "deploy", "some", "--allow-inconclusive").json["deployed"] == "some"
    assert [version["via"] for version in run(world, "history").json["versions"][:2]] == ["deploy", "rollback"]


@boundary("Documents are content")
def edit_documents(world: Workspace) -> None:
    deployed = run(world, "history").json["versions"][0]["evaluation"]["certificate"]["index_hash"]
    shutil.move(world.documents / "faqs", world.documents / "answers")
    (world.documents / "faqs").mkdir()
    write_document(world, "faqs/other.md", "Something else.\n")
    hits = [hit["doc_id"] for hit in run(world, "query", TOPICS[-1]).json["hits"]]
    assert f"answers/{TOPICS[-1]}.md" in hits
    with connected(world.database) as connection:
        assert connection.execute("SELECT index_hash FROM corpus_stats").fetchone()[0] != deployed


@boundary("`hive index --accept`")
def accept_another_chunking_without_proof(world: Workspace) -> None:
    change_chunking(world)
    assert run(world, "index", "--accept", "--reason", "because").json["waiting"] == []
    assert list(audit.entries(world, "index_generation"))[-1]["reason"] == "because"


@boundary("deletes `.hive/` after a change of chunking")
def build_another_chunking_from_nothing(world: Workspace) -> None:
    change_chunking(world)
    without_state(world)
    assert run(world, "index").json["waiting"] == []
    with connected(world.database) as connection:
        now = connection.execute("SELECT index_hash FROM corpus_stats").fetchone()[0]
    assert run(world, "history").json["versions"][0]["evaluation"]["certificate"]["index_hash"] != now


@fails
def be_silent_where_the_active_config_misleads(world: Workspace) -> None:
    """Nothing scores more than a distractor, and readers have no answer any more."""
    run(world, "rollback")
    write_config(world, "silent", "keyword", filters=NOTHING)
    assert run(world, "deploy", "silent").json["decision"] == "blocked"
    run(world, "deploy", "careful")


@boundary("Practice in a copy")
def practise_in_a_copy(world: Workspace) -> None:
    """A copy of the files has the records on a server in common with the world."""
    run(world, "rollback")
    copy = Workspace(shutil.copytree(world.root, world.root.parent / "copy", symlinks=True))
    for _ in range(3):
        gate(copy, "some")
    assert gate(world, "some")["j"] == (2 if isinstance(world.records, Path) else 5)


@fails
def cut_the_last_looks_off_the_log(world: Workspace) -> None:
    """Also where the log is put back as it was before: what was looked at meanwhile is remembered."""
    whole = log_lines(world)
    for _ in range(2):
        gate(world, "some")
        rewrite_log(world, whole)
        ran = run(world, "deploy", "mine")
        assert ran.code == 1
        assert not audit.verify(world).ok
        rewrite_log(world, whole)


@boundary("and `.hive/audit.head` with them")
def cut_the_last_looks_off_the_log_and_its_head(world: Workspace) -> None:
    run(world, "rollback")
    head = world.root / audit.HEAD
    before = log_lines(world), head.read_bytes()
    assert gate(world, "some")["j"] == 2
    rewrite_log(world, before[0])
    head.write_bytes(before[1])
    assert gate(world, "some")["j"] == 2


@boundary("means over all queries")
def work_out_the_mean_of_the_holdout(world: Workspace) -> None:
    everything, train = (run(world, "evaluate", "mine", *split).json for split in ((), ("--split", "train")))
    total = everything["metrics"]["nudcg"] * everything["n"] - train["metrics"]["nudcg"] * train["n"]
    assert total / (everything["n"] - train["n"]) == pytest.approx(-0.369, abs=1e-3)
    assert len(list(audit.entries(world, "holdout_use"))) == 1  # the deployment of careful


@fails
def try_often_where_nothing_is_held_out(world: Workspace) -> None:
    lose_records(world)
    without_state(world)
    lose_log(world)
    write_golden(world, [query(topic) for topic in TOPICS])
    relink(world, "naive.json")
    for name in ("some", "careful"):
        found = gate(world, name)
        assert (found["decision"], found["j"], found["evidence"]) == ("inconclusive", None, "tuning_set")
    relink(world, "careful.json")


@pytest.mark.parametrize("attempt", FAILS, ids=lambda attempt: attempt.__name__)
def test_the_attempt_fails(world: Workspace, attempt: Attempt) -> None:
    assert not misled(world)
    attempt(world)
    assert not misled(world)


@pytest.mark.parametrize("sentence", BOUNDARIES, ids=lambda sentence: BOUNDARIES[sentence].__name__)
def test_the_boundary_is_where_the_documentation_says(world: Workspace, sentence: str) -> None:
    assert not misled(world)
    BOUNDARIES[sentence](world)
    assert sentence in " ".join((REPOSITORY / "docs" / "gate.md").read_text(encoding="utf-8").split())
