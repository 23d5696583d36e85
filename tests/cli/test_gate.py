"""`hive gate` as a stranger's script calls it: files in, a decision and an exit code out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.runs_of import exact_p_value, ten_queries, write_qrels, write_run
from tests.sample import hive
from tests.topics import holdout_queries, make_topics, write_golden


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_better_run_passes_with_0_and_the_fields_of_the_contract(tmp_path: Path) -> None:
    ran = hive("gate", *ten_queries(tmp_path), "--json")
    assert (ran.code, ran.json["decision"], ran.json["reasons"], ran.json["watch"]) == (0, "passed", [], [])
    evaluation = ran.json["evaluation"]
    assert {"n", "split", "candidate", "active", "difference", "alpha", "j", "evidence"} <= set(evaluation)
    assert (evaluation["n"], evaluation["j"], evaluation["evidence"]) == (10, 1, "holdout")
    assert evaluation["readers"]["answered"] == [1.0, 1.0]
    assert (evaluation["candidate"]["config"], evaluation["active"]["config"]) == ("b.run", "a.run")
    queries = ran.json["queries"]
    assert [set(one) >= {"id", "a", "b", "delta"} for one in queries] == [True] * 10
    expected = exact_p_value([one["a"] for one in queries], [one["b"] for one in queries])
    assert evaluation["difference"]["p_value"] == pytest.approx(expected, abs=1e-6) == 1 / 256
    left = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert left == ["a.run", "b.run", "qrels.txt", "qrels.txt.ledger.jsonl"]


def test_worse_is_blocked_and_unproved_inconclusive_with_1(tmp_path: Path) -> None:
    arguments = ten_queries(tmp_path)
    swapped = [arguments[0], arguments[3], arguments[2], arguments[1], *arguments[4:]]
    worse = hive("gate", *swapped, "--json")
    assert (worse.code, worse.json["decision"]) == (1, "blocked")
    unproved = hive("gate", *ten_queries(tmp_path, won=2), "--json")
    assert (unproved.code, unproved.json["decision"]) == (1, "inconclusive")
    assert unproved.json["reasons"][0]["code"] == "HIVE-306"


def test_holdout_and_its_ledger_lie_beside_each_other(tmp_path: Path) -> None:
    arguments = ten_queries(tmp_path)
    (tmp_path / "held.txt").write_text("\n".join(f"t{number}" for number in range(8)))
    ran = hive("gate", *arguments, "--holdout", tmp_path / "held.txt", "--json")
    evaluation = ran.json["evaluation"]
    assert (ran.code, evaluation["n"], evaluation["split"], evaluation["j"]) == (0, 8, "holdout", 1)
    assert evaluation["ledger"] == f"{tmp_path}/held.txt.ledger.jsonl"
    assert (tmp_path / "held.txt.ledger.jsonl").is_file()
    told = hive("gate", *arguments, "--holdout", tmp_path / "held.txt", "--ledger", tmp_path / "own.jsonl")
    assert "9 looks at this holdout left" in told.out
    assert (tmp_path / "own.jsonl").is_file()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--before": "missing.run"}, "HIVE-107"),
        ({"--qrels": "missing.txt"}, "HIVE-107"),
        ({"--qrels": "bad.txt"}, "HIVE-104"),
        ({"--after": "bad.txt"}, "HIVE-104"),
        ({"--after": "strangers.run"}, "HIVE-107"),
        ({"--holdout": "bad.txt"}, "HIVE-104"),
        ({"--k": "0"}, "HIVE-409"),
        ({"--accept-tag": "older"}, "HIVE-409"),
        ({"--budget": "recall"}, "HIVE-409"),
        ({"--budget": "latency=2"}, "HIVE-409"),
        ({"--unknown": "x"}, "HIVE-409"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_diagnostic(tmp_path: Path, change: dict[str, str], code: str) -> None:
    (tmp_path / "bad.txt").write_text("1 0\n")
    write_run(tmp_path / "strangers.run", {"other": ["a"]})
    arguments = ten_queries(tmp_path)
    given = dict(zip(arguments[::2], arguments[1::2], strict=True)) | change
    ran = hive("gate", *(word for pair in given.items() for word in pair), "--json")
    assert (ran.code, ran.codes, ran.json["ok"]) == (2, {code}, False)


def test_endpoint_that_is_down_ends_with_3(tmp_path: Path) -> None:
    arguments = ten_queries(tmp_path)
    arguments[1] = "http://127.0.0.1:1/?q={query}"
    ran = hive("gate", *arguments, "--json")
    assert (ran.code, ran.codes) == (3, {"HIVE-428"})


def test_reports_for_ci_say_what_blocks(tmp_path: Path) -> None:
    arguments = ten_queries(tmp_path)
    swapped = [arguments[0], arguments[3], arguments[2], arguments[1], *arguments[4:]]
    assert hive("gate", *swapped, "--junit", tmp_path / "j.xml", "--markdown", tmp_path / "s.md").code == 1
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("7", "2", "1")
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == [
        "neither the mean nUDCG nor what readers get falls",
        "no more distractors",
    ]
    summary = (tmp_path / "s.md").read_text()
    assert summary.startswith("### ⛔ Search gate: blocked\n")
    assert "**HIVE-302** distractors per query rise 0.20 -&gt; 1.00" in summary


def test_a_metric_that_falls_further_than_its_budget_blocks(tmp_path: Path) -> None:
    names = [f"q{number}" for number in range(20)]
    write_qrels(tmp_path / "qrels.txt", {name: {"good": 1, "also": 1} for name in names})
    write_run(
        tmp_path / "a.run",
        {n: ["x", "y", "good", "also"] if place else ["good", "also"] for place, n in enumerate(names)},
    )
    write_run(
        tmp_path / "b.run", {n: ["good", "x", "y", "also"] if place else ["good"] for place, n in enumerate(names)}
    )
    call = ["gate", "--before", "a.run", "--after", "b.run", "--qrels", "qrels.txt", "--json"]
    assert hive(*call).json["decision"] == hive(*call, "--budget", "recall=3").json["decision"] == "passed"
    blocked = hive(*call, "--budget", "recall=2", "--budget", "ndcg=5")
    assert (blocked.code, [reason["code"] for reason in blocked.json["reasons"]]) == (1, ["HIVE-312"])
    assert (
        blocked.json["reasons"][0]["message"] == "recall 1.000 -> 0.975 falls by 2.5%, more than the 2.0% of its budget"
    )


def test_what_queries_say_is_no_markup_in_a_summary(tmp_path: Path) -> None:
    nasty = "a | b <img src=x> @everybody [x](http://x) \x1b[2J"
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"id": f"t{n}", "query": f"{nasty} {n}"}) + "\n" for n in range(10))
    )
    ran = hive(
        "gate",
        *ten_queries(tmp_path),
        "--queries",
        tmp_path / "queries.jsonl",
        "--markdown",
        tmp_path / "s.md",
        "--junit",
        tmp_path / "j.xml",
    )
    assert ran.code == 0
    assert "\x1b" not in ran.out
    summary = (tmp_path / "s.md").read_text()
    assert not any(sign in summary for sign in ("<img", " @everybody", "[x]", "\x1b"))
    assert r"a \| b &lt;img" in summary
    ElementTree.parse(tmp_path / "j.xml")


def test_accepted_loss_of_a_tag_is_kept_with_its_reason(tmp_path: Path) -> None:
    names = [f"q{number}" for number in range(20)]
    queries = [
        {"id": n, "query": f"question {n}", "tags": ["older"] if place < 6 else []} for place, n in enumerate(names)
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    write_qrels(tmp_path / "qrels.txt", {name: {"good": 1} for name in names})
    write_run(tmp_path / "a.run", {n: ["good"] if place < 6 else ["x"] for place, n in enumerate(names)})
    write_run(tmp_path / "b.run", {n: ["x", "good"] if place < 6 else ["good"] for place, n in enumerate(names)})
    (tmp_path / "ids").write_text("\n".join(names))
    call = [
        "gate",
        "--before",
        "a.run",
        "--after",
        "b.run",
        "--qrels",
        "qrels.txt",
        "--queries",
        "queries.jsonl",
        "--holdout",
        "ids",
    ]
    blocked = hive(*call, "--json")
    assert (blocked.code, [reason["code"] for reason in blocked.json["reasons"]]) == (1, ["HIVE-303"])
    assert hive(*call, "--accept-tag", "elder", "--reason", "x", "--json").codes == {"HIVE-409"}
    accepted = hive(*call, "--accept-tag", "older", "--reason", "3.4 has gone", "--markdown", "s.md", "--json")
    assert (accepted.code, accepted.json["evaluation"]["accepted_tags"][0]["tag"]) == (0, "older")
    assert accepted.json["evaluation"]["j"] == 1  # the same comparison, the same look
    lines = [json.loads(line) for line in (tmp_path / "ids.ledger.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["holdout_use", "tags_accepted"]
    assert lines[1]["reason"] == "3.4 has gone"
    assert "3.4 has gone" in (tmp_path / "s.md").read_text()


def test_configs_of_a_workspace_are_measured_there_and_counted_in_its_log(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    write_golden(place, holdout_queries())
    golden = place.root / "evals" / "golden.json"
    call = ["gate", "--before", "naive", "--after", "careful", "--qrels", golden, "-w", place.root]
    ran = hive(*call, "--json")
    assert (ran.code, ran.json["evaluation"]["j"], ran.json["evaluation"]["ledger"]) == (0, 1, "audit/log.jsonl")
    assert hive(*call, "--ledger", tmp_path / "mine", "--json").codes == {"HIVE-409"}
    write_run(tmp_path / "other.run", {one["id"]: [*one["relevant"], "x"] for one in holdout_queries()})
    mixed = hive("gate", "--before", "naive", "--after", "other.run", "--qrels", golden, "-w", place.root, "--json")
    assert (mixed.code, mixed.json["evaluation"]["j"]) == (0, 2)
    files = hive("gate", "--before", "other.run", "--after", "other.run", "--qrels", golden, "--json")
    assert (files.code, files.json["evaluation"]["split"]) == (1, "holdout")
    wrong = hive("gate", "--before", "naive", "--after", "none", "--qrels", golden, "-w", place.root, "--json")
    assert wrong.code == 2


def test_thresholds_come_from_a_hive_toml_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "hive.toml").write_text("[gate]\nalpha = 0.001\n")
    assert hive("gate", *ten_queries(tmp_path), "--json").json["decision"] == "inconclusive"


HEAVY = (
    "langgraph langchain_core langchain_aws boto3 botocore onnxruntime tokenizers starlette sqlite3 cryptography"
    " markdown_it Stemmer httpx"
)


def test_files_are_compared_without_anything_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from hive_agents.cli.main import main; code = main(sys.argv[1:]);"
        f"print(code, sorted(set({HEAVY.split()!r}) & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "gate", *ten_queries(tmp_path), "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines()[-1] == "0 []"
