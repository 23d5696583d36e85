from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import Diagnostic, HiveError
from hive_agents.evaluation import evaluate, held_out, load_golden, split
from hive_agents.evaluation.statistics import spent_alpha
from hive_agents.gate.deploy import deploy, rollback
from hive_agents.gate.gate import run_gate
from hive_agents.gate.holdout import VisiblePart, proof_left, visible_part
from hive_agents.gate.ledger import KIND, MAX_USES, distinct, query_hashes, spend, uses
from hive_agents.ranking import SearchEngine, named_config
from hive_agents.store import audit
from tests.conftest import write_config
from tests.sample import hive
from tests.topics import TOPICS, holdout_queries, in_wordings, indexed_engine, query, write_golden


def test_uses_count_up_and_are_in_the_audit_log(topics: Workspace) -> None:
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    spent = [spend(topics, holdout, "gate") for _ in range(2)]
    assert [(use.j, use.alpha, use.exhausted) for use in spent] == [
        (1, spent_alpha(1), False),
        (2, spent_alpha(2), False),
    ]
    log = list(audit.entries(topics, KIND))
    assert [(entry["j"], entry["purpose"], entry["queries"]) for entry in log] == [
        (1, "gate", query_hashes(holdout)),
        (2, "gate", query_hashes(holdout)),
    ]


def test_tenth_use_is_the_last(topics: Workspace) -> None:
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    spent = [spend(topics, holdout, "gate") for _ in range(MAX_USES + 2)]
    assert [use.exhausted for use in spent] == [False] * 10 + [True] * 2
    assert sum(use.alpha for use in spent[:MAX_USES]) < 0.05
    assert len(uses(topics, holdout)) == MAX_USES


def test_run_that_is_resumed_keeps_its_use(topics: Workspace) -> None:
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    spend(topics, holdout, "gate")
    first = spend(topics, holdout, "optimize", run_id="r1")
    spend(topics, holdout, "gate")
    assert spend(topics, holdout, "optimize", run_id="r1") == first
    assert len(uses(topics, holdout)) == 3


def test_alpha_comes_from_the_settings(topics: Workspace) -> None:
    (topics.root / "hive.toml").write_text('[models]\nembedding = "none"\n[gate]\nalpha = 0.01\n')
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    assert spend(Workspace(topics.root), holdout, "gate").alpha == spent_alpha(1, 0.01)


def test_holdout_is_known_by_its_queries_not_by_its_layout(topics: Workspace) -> None:
    first = write_golden(topics, [query(topic, split="holdout") for topic in TOPICS])
    spend(topics, first, "gate")
    renamed = [query(topic, id=f"other-{topic}", query=f"  {topic.upper()}?", split="holdout") for topic in TOPICS]
    assert len(uses(topics, write_golden(topics, reversed(renamed)))) == 1


def test_holdout_that_shares_over_half_is_the_same(topics: Workspace) -> None:
    spend(topics, write_golden(topics, [query(topic, split="holdout") for topic in TOPICS[:4]]), "gate")
    half = write_golden(topics, [query(topic, split="holdout") for topic in TOPICS[2:6]])
    assert uses(topics, half) == []
    more = write_golden(topics, [query(topic, split="holdout") for topic in TOPICS[1:5]])
    assert len(uses(topics, more)) == 1
    grown = write_golden(topics, [query(topic, split="holdout") for topic in TOPICS])
    assert len(uses(topics, grown)) == 1


def test_a_look_costs_nothing_while_the_gain_that_it_proved_is_deployed(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries())
    deploy(topics, named_config(topics, "naive"), golden)
    assert (proof_left(topics, golden).j, proof_left(topics, golden).left) == (1, 0.05)  # type: ignore[union-attr]
    passed = deploy(topics, named_config(topics, "careful"), golden)
    assert (passed.result.decision, passed.deployed, passed.result.alpha) == ("passed", "careful", spent_alpha(1))
    after = proof_left(topics, golden)
    assert after is not None
    assert (after.j, after.alpha, after.later, after.left) == (1, spent_alpha(1), spent_alpha(2), 0.05)
    refused = deploy(topics, named_config(topics, "naive"), golden)
    assert (refused.deployed, refused.result.alpha) == (None, spent_alpha(1))
    after = proof_left(topics, golden)
    assert after is not None
    assert (after.j, after.alpha, round(after.left, 6)) == (2, spent_alpha(2), round(0.05 - spent_alpha(1), 6))


def test_a_look_costs_again_once_what_it_proved_is_rolled_back(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries())
    deploy(topics, named_config(topics, "naive"), golden)
    for j in (1, 2, 3):  # or whoever rolls back and deploys something a little different would look for nothing
        again = deploy(topics, named_config(topics, "careful"), golden)
        assert (again.deployed, again.result.use.j) == ("careful", j)  # type: ignore[union-attr]
        rollback(topics)


def test_a_pass_that_is_not_deployed_costs(topics: Workspace) -> None:
    """What passes by another gain would carry anything along, and show its figures, for nothing."""
    golden = write_golden(topics, holdout_queries())
    deploy(topics, named_config(topics, "naive"), golden)
    active, careful = named_config(topics, "naive"), named_config(topics, "careful")
    looks = [run_gate(topics, SearchEngine(topics), careful, active, golden) for _ in range(2)]
    assert [(look.decision, look.use.j) for look in looks] == [("passed", 1), ("passed", 2)]  # type: ignore[union-attr]


def test_a_holdout_that_is_used_up_says_that_nothing_is_left(topics: Workspace) -> None:
    golden = write_golden(topics, holdout_queries())
    assert proof_left(topics, golden.split("train")) is None
    for _ in range(MAX_USES):
        spend(topics, golden.split("holdout"), "gate")
    left = proof_left(topics, golden)
    assert left is not None
    assert (left.alpha, left.later, left.left, left.to_json()["looks_left"]) == (0.0, None, 0.0, 0)


SPENDER = """
import sys
from hive_agents.evaluation import load_golden
from hive_agents.gate.ledger import spend
from hive_agents import Workspace

workspace = Workspace(sys.argv[1])
holdout = load_golden(workspace).split("holdout")
sys.stdin.readline()
print([spend(workspace, holdout, "race").j for _ in range(2)])
"""


@pytest.mark.slow
def test_processes_that_look_at_once_never_share_a_level(topics: Workspace) -> None:
    holdout = write_golden(topics, holdout_queries()).split("holdout")
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(topics.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(3)
    ]
    for spender in spenders:
        assert spender.stdin
        spender.stdin.write("\n")
        spender.stdin.flush()
    said = [spender.communicate()[0] for spender in spenders]
    taken = sorted(int(number) for line in said for number in line.strip("[]\n").split(","))
    assert taken == [1, 2, 3, 4, 5, 6]
    assert [entry["j"] for entry in uses(topics, holdout)] == taken
    assert audit.verify(topics).ok


def look_at(workspace: Workspace, part: VisiblePart) -> list[Diagnostic]:
    return part.look(SearchEngine(workspace), [named_config(workspace, "careful").config], "evaluate")


def test_what_cannot_be_measured_costs_no_look(topics: Workspace) -> None:
    """There is no embedding model, so nothing by meaning can be searched."""
    write_golden(topics, holdout_queries())
    engine = indexed_engine(topics)
    write_config(topics, "meant", "vector")
    meant, naive = (named_config(topics, name) for name in ("meant", "naive"))
    with pytest.raises(HiveError, match="HIVE-401"):
        visible_part(topics, None, "holdout").look(engine, [naive.config, meant.config], "compare")
    for candidate, active in ((meant, naive), (naive, meant)):
        with pytest.raises(HiveError, match="HIVE-401"):
            run_gate(topics, engine, candidate, active, load_golden(topics))
    assert list(audit.entries(topics, KIND)) == []


@pytest.mark.parametrize("command", [("evaluate", "nowhere"), ("evaluate", "wrong"), ("compare", "naive", "wrong")])
def test_a_config_that_is_misspelt_or_wrong_costs_no_look(topics: Workspace, command: tuple[str, ...]) -> None:
    write_golden(topics, holdout_queries())
    write_config(topics, "wrong", "keyword", filters={"nothing": "x"})
    assert hive(*command, "--split", "holdout", "-w", topics.root, "--json").code in (1, 2)
    assert list(audit.entries(topics, KIND)) == []


def test_without_a_split_all_count_and_the_holdout_stays_unlisted(topics: Workspace) -> None:
    write_golden(topics, holdout_queries())
    indexed_engine(topics)
    part = visible_part(topics, None, None)
    assert (len(part.golden), look_at(topics, part)) == (26, [])
    assert part.hidden == {query.id for query in part.golden.split("holdout")}
    assert list(audit.entries(topics)) == []


def test_train_is_free_to_look_at(topics: Workspace) -> None:
    write_golden(topics, holdout_queries())
    indexed_engine(topics)
    part = visible_part(topics, None, "Train")
    assert ([q.id for q in part.golden], part.hidden, look_at(topics, part)) == (list(TOPICS[:2]), frozenset(), [])
    assert list(audit.entries(topics)) == []


def test_looking_at_the_holdout_spends_a_use_and_says_so(topics: Workspace) -> None:
    write_golden(topics, holdout_queries())
    indexed_engine(topics)
    part = visible_part(topics, None, "holdout")
    (said,) = look_at(topics, part)
    assert (len(part.golden), part.hidden) == (24, frozenset())
    assert (said.code, said.severity, said.file, said.path) == ("HIVE-308", "info", "evals/golden.json", "queries")
    assert said.message.startswith(f"use 1 of {MAX_USES}")
    assert said.fix
    for _ in range(MAX_USES):
        (said,) = look_at(topics, visible_part(topics, None, "holdout"))
    assert (said.code, said.severity) == ("HIVE-308", "warning")
    assert said.fix
    assert len(list(audit.entries(topics, KIND))) == MAX_USES


def unnamed_queries() -> list[dict[str, Any]]:
    """Questions on all topics, none of which names a split."""
    return [{key: value for key, value in one.items() if key != "split"} for one in in_wordings(TOPICS, 7)]


def test_what_the_gate_holds_out_of_a_set_without_names_stays_unlisted(topics: Workspace) -> None:
    write_golden(topics, unnamed_queries())
    indexed_engine(topics)
    part = visible_part(topics, None, None)
    held = held_out(part.golden)
    assert held is not None
    assert part.hidden == {query.id for query in held}
    measured = evaluate(topics, "careful", golden=part.golden).to_json(hide=part.hidden)
    assert {query["id"] for query in measured["queries"]} == {query.id for query in part.golden} - part.hidden
    assert list(audit.entries(topics)) == []


def test_a_set_without_names_has_the_splits_of_the_gate_and_the_optimizer(topics: Workspace) -> None:
    parts = split(write_golden(topics, unnamed_queries()))
    indexed_engine(topics)
    assert parts.holdout is not None
    for name, expected in {"train": parts.train, "validation": parts.validation, "HOLDOUT": parts.holdout}.items():
        part = visible_part(topics, None, name)
        assert ([q.id for q in part.golden], part.hidden) == ([q.id for q in expected], frozenset())
        look_at(topics, part)
    assert [entry["j"] for entry in audit.entries(topics, KIND)] == [1]
    careful, naive = (named_config(topics, name) for name in ("careful", "naive"))
    use = run_gate(topics, indexed_engine(topics), careful, naive, load_golden(topics)).use
    assert use is not None
    assert use.j == 2


def test_too_few_queries_without_names_are_listed_and_have_no_splits(topics: Workspace) -> None:
    write_golden(topics)
    part = visible_part(topics, None, None)
    assert (len(part.golden), part.hidden) == (len(TOPICS), frozenset())
    with pytest.raises(HiveError, match='no split "train"'):
        visible_part(topics, None, "train")


@pytest.mark.parametrize("split", ["test", "validation", ""])
def test_unknown_or_empty_split_is_wrong_usage(topics: Workspace, split: str) -> None:
    write_golden(topics, holdout_queries())
    with pytest.raises(HiveError) as raised:
        visible_part(topics, None, split)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("HIVE-409", 2)
    assert found.fix == "the golden set has: holdout, train"


def test_one_text_that_two_people_ask_is_two_questions(topics: Workspace) -> None:
    people = {who: {"tenant": "acme", "groups": [], "roles": ["reader"]} for who in ("dana", "kim")}
    (topics.root / "access").mkdir(exist_ok=True)
    (topics.root / "access" / "people.json").write_text(json.dumps({"principals": people}))
    asked = [query(TOPICS[0], id=f"q{n}", query="the same?", principal=who) for n, who in enumerate(("dana", "kim"))]
    golden = write_golden(topics, [*asked, query(TOPICS[0], id="q9", query="The  same", principal="kim")])
    found, (told,) = distinct(golden)
    assert [one.id for one in found] == ["q0", "q1"]
    assert told.code == "HIVE-111"
