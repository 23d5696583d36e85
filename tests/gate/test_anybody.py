from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents.base.errors import HiveError
from hive_agents.evaluation import GoldenSet
from hive_agents.evaluation.outside import FoundList, PooledQuery, UnaskedQuery, home_of
from hive_agents.gate.anybody import CheapLabels, RankingsFinding, gate_rankings, ledger_beside
from hive_agents.gate.gate import run_gate
from hive_agents.gate.ledger import KIND, MAX_USES, uses
from hive_agents.store import audit
from hive_agents.workspace.settings import Gate
from tests.runs_of import exact_p_value
from tests.topics import holdout_queries, indexed_engine, make_topics, stored, write_golden


def labels(n: int = 8, *, texts: bool = True, tag: str = "", ids: str = "q", digest: str = "") -> GoldenSet:
    """`n` queries, each with a relevant `good` and a distractor `trap`."""
    kind = PooledQuery if texts else UnaskedQuery
    queries = tuple(
        kind.model_construct(
            id=f"{ids}{number}",
            query=f"question {number}" if texts else f"{ids}{number}",
            relevant=["good"],
            distractors=["trap"],
            irrelevant=[],
            tags=[tag] if tag and number < 6 else [],
        )
        for number in range(n)
    )
    return GoldenSet("", 10, queries, "qrels.txt", digest)


GOOD, LATE, TRAP = FoundList(("good",)), FoundList(("x", "good")), FoundList(("trap", "good"))


def judge(
    folder: Path, before: list[FoundList], after: list[FoundList], of: GoldenSet, **options: Any
) -> RankingsFinding:
    options = {"ledger": ledger_beside(folder / "qrels.txt")} | options
    return gate_rankings(("a", before), ("b", after), of, Gate(), **options)


def test_proved_gain_passes_and_counts_as_a_look(tmp_path: Path) -> None:
    found = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels())
    assert (found.decision, found.difference and found.difference.p_value) == ("passed", 1 / 256)
    assert (found.use and found.use.j, found.uses_left) == (1, MAX_USES - 1)
    assert found.ledger == f"{tmp_path}/qrels.txt.ledger.jsonl"
    assert audit.verify(ledger_beside(tmp_path / "qrels.txt")).ok


def test_same_comparison_again_is_the_same_look(tmp_path: Path) -> None:
    first = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels())
    again = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels())
    assert (again.use, again.alpha) == (first.use, first.alpha)
    other = judge(tmp_path, [LATE] * 8, [GOOD] * 7 + [LATE], labels())
    relabelled = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels(digest="edited"))
    assert [one.use and one.use.j for one in (other, relabelled)] == [2, 3]


def test_rankings_that_are_alike_cost_nothing(tmp_path: Path) -> None:
    found = judge(tmp_path, [GOOD] * 8, [GOOD] * 8, labels())
    assert (found.decision, found.use, found.split) == ("inconclusive", None, "holdout")
    assert not list(tmp_path.iterdir())


def test_holdout_is_worn_out_after_ten_looks(tmp_path: Path) -> None:
    for number in range(MAX_USES):
        judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels(digest=str(number)))
    found = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels(digest="one more"))
    assert (found.decision, [reason.code for reason in found.reasons]) == ("inconclusive", ["HIVE-308"])


@pytest.mark.parametrize(
    "later",
    [
        labels(texts=False, digest="2"),  # the texts left out
        labels(ids="renamed"),  # other ids
        labels(6),  # a part of it
        labels(15),  # with new ones added
    ],
)
def test_a_holdout_in_other_clothes_is_the_same(tmp_path: Path, later: GoldenSet) -> None:
    judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels())
    n = len(later)
    found = judge(tmp_path, [LATE] * n, [GOOD] * n, later)
    assert found.use
    assert found.use.j == 2


def test_ids_that_differ_by_a_sign_are_two_queries(tmp_path: Path) -> None:
    one, *_ = labels(1, texts=False)
    twins = tuple(one.model_copy(update={"id": name, "query": name}) for name in ("a-1", "a.1"))
    found = judge(tmp_path, [LATE] * 2, [GOOD] * 2, GoldenSet("", 10, twins, "qrels.txt", ""))
    assert found.difference
    assert found.difference.n == 2


@pytest.mark.parametrize("same", [True, False], ids=["same comparison", "other comparison"])
@pytest.mark.parametrize("edit", [{"j": 0}, {"j": "x"}, {"j": None}, {"queries": 7}, {"ids": [1]}, {"purpose": None}])
def test_edited_ledger_proves_nothing(tmp_path: Path, edit: dict[str, Any], same: bool) -> None:
    judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels())
    path = tmp_path / "qrels.txt.ledger.jsonl"
    path.write_text(json.dumps(json.loads(path.read_text()) | edit, sort_keys=True) + "\n")
    found = judge(tmp_path, [LATE] * 8, [GOOD] * 8, labels(digest="" if same else "2"))
    assert (found.decision, found.reasons[0].code) == ("inconclusive", "HIVE-413")


def test_lists_that_have_a_document_twice_are_told(tmp_path: Path) -> None:
    """A document's copies push the distractor below it out of the depth that is measured."""
    padded = FoundList(("good",) * 10 + ("trap",))
    found = judge(tmp_path, [LATE] * 8, [padded] * 8, labels())
    (warning,) = (one for one in found.warnings if one.code == "HIVE-111")
    assert warning.message == "b has a document more than once in 8 of 8 lists; the copies take places"


def test_distractors_block_although_the_right_answer_stays_first(tmp_path: Path) -> None:
    found = judge(tmp_path, [GOOD] * 8, [FoundList(("good", "trap"))] * 8, labels())
    assert (found.decision, {reason.code for reason in found.reasons}) == ("blocked", {"HIVE-301", "HIVE-302"})


def test_shown_loss_of_a_tag_blocks_until_a_person_accepts_it(tmp_path: Path) -> None:
    tagged = labels(20, tag="older")
    before, after = [GOOD] * 6 + [FoundList(())] * 14, [LATE] * 6 + [GOOD] * 14
    found = judge(tmp_path, before, after, tagged)
    assert (found.decision, [change.tag for change in found.lost_tags]) == ("blocked", ["older"])
    accepted = judge(tmp_path, before, after, tagged, accept_tags=["older"])
    assert (accepted.decision, [change.tag for change in accepted.accepted_tags]) == ("passed", ["older"])


def test_pool_that_knows_one_side_better_is_told(tmp_path: Path) -> None:
    strangers = FoundList(("good", "new1", "new2"))
    found = judge(tmp_path, [LATE] * 8, [strangers] * 8, labels())
    (warning,) = found.warnings
    assert (warning.code, "50% of what a returns and 67% of what b returns" in warning.message) == ("HIVE-305", True)


def test_side_that_is_silent_more_often_is_told(tmp_path: Path) -> None:
    found = judge(tmp_path, [LATE] * 5 + [FoundList(())] * 3, [GOOD] * 8, labels())
    (warning,) = (one for one in found.warnings if one.code == "HIVE-107")
    assert warning.message == "a returns nothing for 3 of 8 queries, the other for 0"
    assert warning.severity == "warning"


def test_side_that_answers_no_query_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(HiveError) as caught:
        judge(tmp_path, [FoundList(())] * 8, [GOOD] * 8, labels())
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("HIVE-107", 2)


def test_configs_get_the_decision_that_a_deployment_would_get(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    golden = write_golden(place, holdout_queries())
    engine = indexed_engine(place)
    theirs = run_gate(place, engine, stored(place, "careful"), stored(place, "naive"), golden)
    holdout = golden.split("holdout")
    lists = [
        [FoundList(tuple(hit.doc_id for hit in engine.search(one.query, name).hits)) for one in holdout]
        for name in ("naive", "careful")
    ]
    ours = gate_rankings(("naive", lists[0]), ("careful", lists[1]), holdout, place.settings.gate, ledger=place)
    assert (ours.decision, ours.use and ours.use.j, ours.ledger) == ("passed", 2, audit.FILE)
    untimed = ("latency_ms_p50", "latency_ms_p95")
    for side in ("candidate", "active"):
        a, b = ours.to_json()[side], theirs.to_json()[side]
        assert {k: v for k, v in a.items() if k not in untimed} == {k: v for k, v in b.items() if k not in untimed}
    assert ours.to_json()["difference"] | {"mde": 0} == theirs.to_json()["difference"] | {"mde": 0}


def test_golden_set_of_a_workspace_is_counted_there(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    golden = write_golden(place)
    home = home_of(place.root / "evals" / "golden.json", golden)
    assert home is not None
    assert home.root == place.root
    assert home_of(tmp_path / "golden.json", golden) is None
    assert home_of(place.root / "evals" / "golden.json", labels()) is None


@pytest.mark.parametrize("seed", range(20))
def test_p_values_agree_with_exact_arithmetic_over_all_signs(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    before, after = (
        [FoundList(tuple(draw.permutation(["good", "trap", "x", "y", "z"])[: draw.integers(1, 6)])) for _ in range(13)]
        for _ in range(2)
    )
    found = judge(tmp_path, before, after, labels(13))
    assert found.active is not None
    assert found.difference is not None
    expected = exact_p_value(found.active.scores(), found.candidate.scores())
    assert found.difference.p_value == pytest.approx(expected, abs=1e-6)


def null_pair(draw: np.random.Generator, n: int) -> tuple[list[FoundList], list[FoundList]]:
    """Two searches of one quality: the right document's rank is drawn alike for both."""
    fillers = [f"x{number}" for number in range(10)]
    sides = []
    for _ in range(2):
        ranks = draw.integers(0, 12, size=n)
        sides.append([FoundList((*fillers[:rank], "good")) for rank in ranks])
    return sides[0], sides[1]


@pytest.mark.slow
def test_false_passes_over_a_thousand_null_comparisons_stay_within_the_bound(tmp_path: Path) -> None:
    draw, of = np.random.default_rng(22), labels(30)
    passed, alpha = 0, 0.05 * 6 / math.pi**2
    for number in range(1000):
        before, after = null_pair(draw, 30)
        place = audit.LogFile(tmp_path / f"{number}.jsonl")
        passed += judge(tmp_path, before, after, of, ledger=place).decision == "passed"
    assert 0 < passed <= 1000 * alpha + 2.33 * math.sqrt(1000 * alpha * (1 - alpha))


@pytest.mark.slow
def test_ten_looks_at_one_holdout_together_stay_within_alpha(tmp_path: Path) -> None:
    draw, of, series = np.random.default_rng(7), labels(30), 200
    fooled = 0
    for number in range(series):
        place = audit.LogFile(tmp_path / f"{number}.jsonl")
        looks = [judge(tmp_path, *null_pair(draw, 30), of, ledger=place).decision for _ in range(MAX_USES)]
        assert len(uses(place, of)) == len(list(audit.entries(place, KIND))) == MAX_USES
        fooled += "passed" in looks
    assert fooled <= series * 0.05 + 2.33 * math.sqrt(series * 0.05 * 0.95)


def cheap(n: int, better: set[int], digest: str = "") -> CheapLabels:
    """Labels of `n` queries; the second search moves what is relevant up for those in `better`, else nothing."""
    after = [GOOD if number in better else LATE for number in range(n)]
    return CheapLabels(labels(n, digest=digest), [LATE] * n, after)


def gain_of_some(folder: Path, **options: Any) -> RankingsFinding:
    """24 queries by people, of which the first three get better; with cheap labels of 300 more, a fifth of them."""
    after = [GOOD if number < 3 else LATE for number in range(24)]
    return judge(folder, [LATE] * 24, after, labels(24), **options)


def test_cheap_labels_prove_what_a_few_of_people_can_not(tmp_path: Path) -> None:
    alone = gain_of_some(tmp_path / "alone")
    assert (alone.decision, alone.reasons[0].code) == ("inconclusive", "HIVE-306")
    many = cheap(324, {0, 1, 2, *range(24, 324, 5)})
    found = gain_of_some(tmp_path / "both", cheap=many)
    assert found.decision == "passed"
    assert found.powered is not None
    assert (found.powered.n, found.powered.n_cheap) == (24, 300)
    assert alone.difference is not None
    assert found.powered.p_value <= found.alpha < alone.difference.p_value
    assert found.to_json()["powered"]["weight"] > 0.5
    assert found.needed_queries is None


def test_other_cheap_labels_are_another_look_and_the_same_again_are_not(tmp_path: Path) -> None:
    many = cheap(324, {0, 1, 2, *range(24, 324, 5)})
    looks = [
        gain_of_some(tmp_path, cheap=one).use
        for one in (many, many, cheap(324, {0, 1, 2, *range(24, 324, 4)}), cheap(324, {0}, digest="edited"))
    ]
    assert [use and use.j for use in looks] == [1, 1, 2, 3]


def test_queries_that_somebody_may_have_tuned_to_are_no_cheap_evidence(tmp_path: Path) -> None:
    many = cheap(324, set(range(324)))
    found = gain_of_some(tmp_path, cheap=many, known={f"q{number}" for number in range(224)})
    assert found.powered is not None
    assert found.powered.n_cheap == 100


def test_cheap_labels_must_have_the_measured_queries_too(tmp_path: Path) -> None:
    with pytest.raises(HiveError) as caught:
        gain_of_some(tmp_path, cheap=cheap(20, set()))
    assert caught.value.diagnostics[0].code == "HIVE-107"
    assert "lack 4 of the 24" in caught.value.diagnostics[0].message
    assert not list(tmp_path.iterdir())
    with pytest.raises(HiveError) as caught:
        gain_of_some(tmp_path, cheap=cheap(24, set()))
    assert caught.value.diagnostics[0].code == "HIVE-105"


def test_what_blocks_is_measured_by_people_alone(tmp_path: Path) -> None:
    after = [TRAP if number < 3 else LATE for number in range(24)]
    found = judge(tmp_path, [LATE] * 24, after, labels(24), cheap=cheap(324, set(range(324))))
    assert found.decision == "blocked"
