"""What `hive optimize` tells a person: what it chose and why, what it refused, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.evaluation.statistics import spent_alpha
from hive_agents.optimizer import OptimizeRun
from hive_agents.ranking import build_index
from hive_agents.ranking.deployed import active_config
from hive_agents.runs import RunStore
from tests.sample import Ran, hive
from tests.topics import TOPICS, activate, in_wordings, make_topics, query, write_golden

ITERATIONS = ("--iterations", "2")


def splits(**counts: int) -> list[dict[str, Any]]:
    """Queries by split; the held-out topics are asked in four wordings each, so that six are enough for proof."""
    named = [name for name, count in counts.items() for _ in range(count) if name != "holdout"]
    opened = [query(topic, split=split) for topic, split in zip(TOPICS, named, strict=False)]
    return opened + in_wordings(TOPICS[len(named) :][: counts.get("holdout", 0)], 4)


def tagged() -> list[dict[str, Any]]:
    """Most queries want the guide, eight want the FAQ; the holdout has none of these."""
    guides = [
        query(topic, id=f"{topic}-{word}", query=f"{topic} {word}") for word in ("set", "turn") for topic in TOPICS
    ]
    faqs = [query(topic, id=f"faq-{topic}", query=f"{topic} open", tags=["faqs"]) for topic in TOPICS[:8]]
    for entry in faqs:
        entry |= {"relevant": entry["distractors"], "distractors": entry["relevant"]}
    held_out = [
        query(topic, id=f"held-{topic}-{word}", query=f"{word} {topic}", split="holdout")
        for word in ("the", "panel", "screw")
        for topic in TOPICS[:8]
    ]
    return [entry | {"split": "train"} for entry in (*guides, *faqs)] + held_out


def workspace(root: Path, queries: Iterable[dict[str, Any]]) -> Workspace:
    made = make_topics(root)
    (made.configs / "careful.json").unlink()
    write_golden(made, queries)
    activate(made, "naive")
    build_index(made)
    return made


def optimize(place: Workspace, *arguments: object) -> Ran:
    return hive("optimize", *ITERATIONS, "-w", place.root, *arguments)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def page_of(place: Workspace, result: dict[str, Any]) -> str:
    return (place.root / result["report"]).read_text(encoding="utf-8")


def test_in_a_pipe_trials_line_up_however_long_a_change_is_and_none_is_filled_up_with_blanks(tmp_path: Path) -> None:
    out = optimize(workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))).out
    header, *trials = out[out.index("  n  config") :].splitlines()
    verdicts = header.index("verdict")
    assert header.split()[-1] == "change"
    assert trials[0].split()[0] == "1"
    assert trials[0][verdicts:].split()[0] in ("accept", "retry")
    assert trials[0].rstrip() == trials[0]
    assert max(map(len, (header, trials[0]))) < 200


def test_what_readers_get_before_and_after_is_told_everywhere(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    result = optimize(place, "--json").json
    told = in_one_line(hive("optimize", "--resume", result["run_id"], "-w", place.root).out)
    line = "readers: answered 1.000 -> 1.000, recall 1.000 -> 1.000, first 0.000 -> 1.000, reach 1.000 -> 1.000"
    assert line in told
    assert "0 documents hidden" in told
    assert "answered 1.000" in page_of(place, result)
    assert result["readers"] == result["certificate"]["readers"]
    (version,) = (one for one in hive("history", "--json", "-w", place.root).json["versions"] if one["active"])
    assert version["evaluation"]["readers"] == result["readers"]


def test_where_nothing_was_tried_it_says_so_and_how_to_allow_more(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    told = in_one_line(optimize(place, "--evaluations", 1).out)
    assert "nothing was tried: looking for what to try took it all; allow more with --evaluations" in told
    assert "nothing that was measured" not in told


def test_a_holdout_too_small_to_prove_anything_is_told_and_nobody_is_asked(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=4, validation=2, holdout=4))
    ran = optimize(place, "--json")
    result = ran.json
    assert (ran.code, result["status"], result["stopped_by"]) == (0, "stopped", "too_few_queries")
    assert (result["certificate"], result["approval_id"], result["needed_queries"]) == (None, None, 4)
    assert ApprovalStore(place).list() == []
    assert active_config(place).stored.name == "naive"
    told = in_one_line(hive("optimize", "--resume", result["run_id"], "-w", place.root).out)
    missing = "too few questions are held out to prove anything: about 4 more labels would show a gain like this one"
    assert missing in told
    assert missing in page_of(place, result)
    deployed = hive("deploy", result["best"]["config"], "--json", "-w", place.root)
    assert (deployed.json["decision"], deployed.json["evaluation"]["evidence"]) == ("inconclusive", "tuning_set")


@pytest.mark.parametrize("held_out", [0, 6])
def test_a_golden_set_that_leaves_nothing_to_learn_from_is_told_before_a_run_begins(
    tmp_path: Path, held_out: int
) -> None:
    place = workspace(tmp_path / "w", [query(topic, split="holdout") for topic in TOPICS[:held_out]])
    ran = optimize(place, "--json")
    assert (ran.code, ran.json["ok"], ran.codes) == (1, False, {"HIVE-105"})
    assert ran.json["diagnostics"][0]["file"] == "evals/golden.json"
    assert RunStore(place).list() == []


def test_under_twenty_queries_it_says_how_many_more_would_show_such_a_gain(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", [query(topic) for topic in TOPICS])
    result = optimize(place, "--json").json
    assert (result["status"], result["stopped_by"], result["certificate"]) == ("stopped", "too_few_queries", None)
    assert result["needed_queries"] >= 10
    told = in_one_line(hive("optimize", "--resume", result["run_id"], "-w", place.root).out)
    assert f"about {result['needed_queries']} more labels would show a gain like this one" in told
    assert "hive label" in told


def test_a_rollback_says_over_what_its_figures_are(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    deployed = optimize(place, "--json").json["best"]["config"]
    assert active_config(place).stored.name == deployed
    told = in_one_line(hive("rollback", "-w", place.root).out)
    over = "over all 28 queries of the golden set, and not the 24 held out alone as in a deployment: nudcg"
    assert f"as measured now, {over}" in told


def test_no_cost_is_told_where_too_few_are_held_out_to_prove_anything(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=3))
    ran = hive("deploy", "words", "--json", "-w", place.root)
    assert "12 held-out questions prove nothing" in ran.out
    assert "look at the holdout" not in ran.err


def test_what_a_look_at_the_holdout_costs_is_told_before_it_is_spent(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    ran = optimize(place, "--no-deploy", "--json")
    assert "number 1 of 10" in in_one_line(ran.err)
    best = ran.json["best"]["config"]
    for name in (best, "naive"):  # the first is deployed, so that the second is tested at the same level
        again = hive("deploy", name, "--json", "-w", place.root)
        assert again.json["evaluation"]["j"] == 2
        assert "number 2 of 10, also where the same comparison was made before" in in_one_line(again.err)
        assert "proved at 0.0076" in in_one_line(again.err)
    assert "number 3" in in_one_line(hive("validate", "naive", "--behavioral", "-w", place.root).err)
    assert hive("deploy", best, "--quiet", "-w", place.root).err == ""
    assert "holdout is number" not in hive("validate", best, "-w", place.root).err


def test_what_a_tag_stopped_is_told_with_a_command_that_works(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", tagged())
    ran = optimize(place, "--no-deploy", "--json")
    refused = ran.json["rejected"]
    assert refused, ran.json["iterations"]
    assert len(refused) <= 3
    best = refused[0]
    assert set(best) == {"config", "changes", "train", "validation", "distractors", "why"}
    assert 'tag "faqs" falls' in best["why"]
    command = f'hive deploy {best["config"]} --accept-tag faqs --accept answered --accept recall --reason "…"'
    assert command in best["why"]
    told = in_one_line(hive("optimize", "--resume", ran.json["run_id"], "-w", place.root).out)
    assert f"{best['config']} is better on the open queries" in told
    assert command in told
    assert best["config"] in page_of(place, ran.json)
    assert "The best that was refused" in page_of(place, ran.json)
    words = [*command.split()[1:-1], "guides matter more", "-w", str(place.root)]
    assert hive(*words).code == 0
    assert active_config(place).stored.name == best["config"]


def test_a_request_names_what_stopped_the_candidate(tmp_path: Path) -> None:
    entries = splits(train=2, validation=2, holdout=6)
    for number, entry in enumerate(entries[7:]):  # three of 24 have an answer, ten only a guide that misleads
        entry |= {"relevant": [], "distractors": entry["relevant"] if number < 10 else []}
    place = workspace(tmp_path / "w", entries)
    result = optimize(place, "--json").json
    assert result["status"] == "escalated"
    title = ApprovalStore(place).get(result["approval_id"]).title
    assert title.startswith(f"deploy {result['best']['config']}: inconclusive by the gate: nUDCG +")
    assert f"about {result['needed_queries']} more would show this one" in title
    last = result["rejected"][-1]  # before it are those that hide documents
    assert last["why"].endswith(f"hive approvals approve {result['approval_id']}")


@pytest.mark.parametrize("as_json", [True, False])
def test_ctrl_c_before_anything_was_measured_shows_the_run_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted(run: OptimizeRun) -> None:
        raise KeyboardInterrupt

    place = workspace(tmp_path / "w", splits(train=4, validation=2, holdout=4))
    monkeypatch.setattr(OptimizeRun, "_open_bus", interrupted)
    ran = optimize(place, *(["--json"] if as_json else []))
    (row,) = RunStore(place).list()
    assert (ran.code, row.status) == (130, "stopped")
    if as_json:
        shown = ran.json
        assert (shown["run_id"], shown["status"], shown["stopped_by"]) == (row.run_id, "stopped", "interrupted")
        assert (shown["baseline"], shown["best"], shown["certificate"], shown["iterations"]) == (None, None, None, [])
    else:
        assert f"go on: hive optimize --resume {row.run_id}" in in_one_line(ran.out)


@pytest.mark.parametrize("empty", ["no documents", "no text"])
def test_without_any_text_there_is_nothing_to_optimize(tmp_path: Path, empty: str) -> None:
    place = workspace(tmp_path / "w", [query("heater", relevant=[], distractors=[])])
    for path in place.documents.rglob("*.md"):
        if empty == "no documents":
            path.unlink()
        else:
            path.write_text("", encoding="utf-8")
    ran = optimize(place, "--json")
    assert (ran.code, ran.json["ok"], ran.codes) == (1, False, {"HIVE-406"})
    assert RunStore(place).list() == []


def test_what_is_refused_tells_no_cost_of_a_look(tmp_path: Path) -> None:
    """Labels of another collection are no look at their holdout."""
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    collection = next((place.root / "collections").glob("*.json"))
    value = json.loads(collection.read_text(encoding="utf-8")) | {"name": "others"}
    (collection.parent / "others.json").write_text(json.dumps(value), encoding="utf-8")
    golden = place.root / "evals" / "golden.json"
    golden.write_text(json.dumps(json.loads(golden.read_text()) | {"collection": "others"}), encoding="utf-8")
    for ran in (optimize(place), hive("deploy", "naive", "-w", place.root)):
        assert "HIVE-213" in ran.err
        assert "look" not in ran.err


def test_a_refused_candidate_tells_no_cost_of_a_look(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    value = json.loads((place.configs / "naive.json").read_text(encoding="utf-8"))
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(value | {"name": "outside"}), encoding="utf-8")
    wrong = value | {"name": "wrong", "filters": {"nowhere": "x"}}
    (place.configs / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
    for name, code in ((outside, "HIVE-114"), ("wrong", "HIVE-206")):
        ran = hive("deploy", name, "-w", place.root)
        assert (ran.code, code in ran.err, "look" in ran.err) == (1, True, False)


def test_what_ended_the_search_is_named_beside_what_ended_the_run(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    ran = optimize(place, "--no-deploy", "--json")
    ended = [ran.json[name] for name in ("status", "stopped_by", "search_ended_by")]
    assert ended == ["stopped", "no_deploy", "steps"]
    told = in_one_line(hive("optimize", "--resume", ran.json["run_id"], "-w", place.root).out)
    assert "stopped (a run takes two steps at most; as asked, before the deployment)" in told


def test_runs_take_a_step_each_until_none_is_left_and_the_history_tells_the_path(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    ran = optimize(place, "--runs", 3, "--json")
    first, *_, last = ran.json["path"]
    assert (ran.code, len(ran.json["path"]), ran.json["status"]) == (0, 2, "no_improvement")
    assert (first["status"], first["difference"], first["alpha"]) == (
        "deployed",
        pytest.approx(1.369, abs=1e-3),
        spent_alpha(1),
    )
    assert (last["status"], last["config"], ran.json["run_id"]) == ("no_improvement", first["config"], last["run_id"])
    history = hive("history", "--json", "-w", place.root).json
    assert history["proof"] == {
        "j": 1,
        "alpha": spent_alpha(1),
        "later": spent_alpha(2),
        "left": 0.05,
        "whole": 0.05,
    } | {"looks_left": 10}
    told = in_one_line(hive("history", "-w", place.root).out)
    assert f"{first['config']}: nUDCG +1.369 on 24 held-out questions (p = " in told
    assert "costs: readers nothing" in told
    assert "the next look at the holdout is number 1 of 10" in told


def test_what_runs_brought_is_told_where_the_next_is_interrupted_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, whole, begun = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6)), OptimizeRun._open_bus, []

    def opened(run: OptimizeRun) -> Any:
        begun.append(run.run_id)
        if len(begun) > 1:
            raise KeyboardInterrupt
        return whole(run)

    monkeypatch.setattr(OptimizeRun, "_open_bus", opened)
    ran = optimize(place, "--runs", 3, "--json")
    assert (ran.code, ran.json["run_id"], ran.json["stopped_by"]) == (130, begun[1], "interrupted")
    assert [(one["run_id"], one["status"]) for one in ran.json["path"]] == [(begun[0], "deployed")]


def test_what_was_rolled_back_is_not_brought_back(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    best = optimize(place, "--json").json["best"]["config"]
    hive("rollback", "-w", place.root)
    again = optimize(place, "--json").json
    assert again["best"]["config"] != best
    assert best not in [one["config"] for one in again["iterations"]]


def test_the_next_step_waits_for_the_readers_canary(tmp_path: Path) -> None:
    place = workspace(tmp_path / "w", splits(train=2, validation=2, holdout=6))
    with (place.root / "hive.toml").open("a", encoding="utf-8") as settings:
        settings.write("[canary]\nshare = 0.5\n")
    ran = optimize(place, "--runs", 3, "--json")
    assert [one["status"] for one in ran.json["path"]] == ["deployed"]
    assert "canary" in ran.err
