"""Fields, exit codes and streams of every command, as scripts and agents rely on them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from tests.sample import hive, indexed_sample, words_sample, write_config

WORDS = {"method": "keyword"}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return words_sample(tmp_path / "w")


@pytest.fixture
def shared() -> Workspace:
    """For commands that change nothing."""
    return Workspace(indexed_sample())


def test_init_makes_the_sample_and_refuses_a_folder_in_use(tmp_path: Path) -> None:
    first = hive("init", tmp_path / "x", "--json")
    assert (first.code, first.json["path"]) == (0, str(tmp_path / "x"))
    assert (tmp_path / "x" / "configs" / "active.json").readlink() == Path("v1.json")
    again = hive("init", tmp_path / "x", "--json")
    assert (again.code, again.json["ok"]) == (2, False)


def test_init_takes_its_folder_as_any_command_does_but_not_two_of_them(tmp_path: Path) -> None:
    made = hive("init", "--empty", "-w", tmp_path / "x", "--json")
    assert (made.code, made.json["path"]) == (0, str(tmp_path / "x"))
    both = hive("init", tmp_path / "y", "--empty", "-w", tmp_path / "z", "--json")
    assert (both.code, both.codes) == (2, {"HIVE-409"})
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_empty_workspace_has_no_documents_and_a_plain_schema(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "x", "--empty").code == 0
    assert not list((tmp_path / "x" / "documents").iterdir())
    assert hive("index", "-w", tmp_path / "x", "--json").json["documents"] == 0
    fields = {field["name"] for field in hive("fields", "-w", tmp_path / "x", "--json").json["fields"]}
    assert fields == {"title", "category", "content"}


def test_an_empty_workspace_begins_with_each_document_once(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "x", "--empty").code == 0
    (tmp_path / "x" / "documents" / "long.md").write_text("# Keys\n\n## One\n\nA key.\n\n## Two\n\nA key again.\n")
    hits = hive("query", "key", "-w", tmp_path / "x", "--json").json["hits"]
    assert [hit["doc_id"] for hit in hits] == ["long.md"]


def test_index_reports_counts_and_skipped_files(place: Workspace) -> None:
    (place.documents / "faqs" / "broken.md").write_text("---\ntitle: [unclosed\n---\nText\n")
    (place.documents / "faqs" / "new.md").write_text("# New\n\nA page about nothing else.\n")
    ran = hive("index", "-w", place.root, "--json")
    assert ran.code == 1
    report = ran.json
    assert {
        "documents",
        "chunks",
        "added",
        "updated",
        "deleted",
        "unchanged",
        "skipped",
        "embedding_model",
        "seconds",
    } <= set(report)
    assert (report["added"], report["updated"], report["deleted"]) == (1, 0, 0)
    (skipped,) = report["skipped"]
    assert skipped["file"] == "documents/faqs/broken.md"
    assert skipped["line"] >= 2
    assert skipped["message"]


def test_the_first_index_of_the_sample_embeds_nothing(tmp_path: Path) -> None:
    hive("init", tmp_path / "x")
    assert hive("index", "-w", tmp_path / "x", "--json").json["embedded"] == 0


def test_query_has_every_field_of_a_hit(shared: Workspace) -> None:
    ran = hive("query", "rotate an API token", "-w", shared.root, "--json")
    assert ran.code == 0
    assert ran.json["query"] == "rotate an API token"
    assert ran.json["config"] == "v1-naive"
    hit = ran.json["hits"][0]
    assert set(hit) == {
        "rank", "doc_id", "chunk_id", "title", "heading", "excerpt", "score", "bm25_rank", "vector_rank",
        "bm25_score", "vector_score", "disagreement", "flagged", "relevance",
    }  # fmt: skip
    assert hit["rank"] == 1
    assert hit["chunk_id"].startswith(hit["doc_id"] + "#")
    assert ran.json["cut"] == {"reason": "top_k", "at": 10}


@pytest.mark.parametrize("text", ["", "   ", "?!…", "-- ."])
def test_a_query_without_words_is_wrong_usage(shared: Workspace, text: str) -> None:
    ran = hive("query", "-w", shared.root, "--json", "--", text)
    assert (ran.code, ran.json["ok"]) == (2, False)


@pytest.mark.parametrize("text", ["", " ", "?!"])
def test_a_question_without_words_is_not_labelled(shared: Workspace, text: str) -> None:
    ran = hive("label", text, "-r", "faqs/support.md", "-w", shared.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})


def test_unknown_words_give_no_hits_and_no_failure(place: Workspace) -> None:
    write_config(place, "words", retrieval=WORDS)
    ran = hive("query", "zxqwv plmkj", "--config", "words", "-w", place.root, "--json")
    assert (ran.code, ran.json["hits"], ran.json["cut"]) == (0, [], {"reason": "exhausted", "at": 0})
    assert "0 hits: nothing matches" in hive("query", "zxqwv plmkj", "--config", "words", "-w", place.root).out


@pytest.mark.parametrize(
    ("expression", "code"),
    [("nonsense", "HIVE-409"), ("categry=faqs", "HIVE-206"), ("title=x", "HIVE-207"), ("category=faq", "HIVE-208")],
)
def test_a_bad_filter_is_wrong_usage(shared: Workspace, expression: str, code: str) -> None:
    ran = hive("query", "reset", "--filter", expression, "-w", shared.root, "--json")
    assert (ran.code, ran.codes) == (2, {code})


def test_filters_narrow_the_search(shared: Workspace) -> None:
    ran = hive(
        "query", "reset", "--filter", "category=faqs,sops", "--filter", "status!=retired", "-w", shared.root, "--json"
    )
    assert ran.code == 0
    assert {hit["doc_id"].split("/")[0] for hit in ran.json["hits"]} <= {"faqs", "sops"}


def test_explain_says_why_a_document_is_not_there(shared: Workspace) -> None:
    base = ("query", "rotate an API token", "-w", shared.root, "--json")
    there = hive(*base, "--explain", "tutorials/rotate-api-tokens.md").json["explanation"]
    assert there["returned"] is True
    gone = hive(*base, "--filter", "category=faqs", "--explain", "tutorials/rotate-api-tokens.md").json["explanation"]
    assert (gone["returned"], gone["filtered_by"]) == (False, ["category"])
    assert hive(*base, "--explain", "nowhere.md").code == 2


def test_evaluate_measures_all_and_lists_all_but_the_holdout(shared: Workspace) -> None:
    ran = hive("evaluate", "v1-naive", "-w", shared.root, "--json")
    assert ran.code == 0
    found = ran.json
    assert {
        "config",
        "k",
        "n",
        "metrics",
        "queries",
        "split",
        "tags",
        "abstention",
        "index_hash",
        "golden_hash",
    } <= set(found)
    assert set(found["metrics"]) == {
        "nudcg", "nudcg_clipped", "udcg", "ndcg", "recall", "precision", "mrr", "distractors", "results", "unjudged",
        "latency_ms_p50", "latency_ms_p95",
    }  # fmt: skip
    golden = json.loads((shared.root / "evals" / "golden.json").read_text())
    listed = {query["id"] for query in found["queries"]}
    assert listed == {query["id"] for query in golden["queries"] if query["split"] != "holdout"}
    assert found["n"] == len(golden["queries"])
    assert {"id", "query", "metrics", "hits"} <= set(found["queries"][0])
    assert set(found["queries"][0]["hits"][0]) == {"rank", "doc_id", "chunk_id", "label"}


def test_asking_for_the_holdout_lists_it_and_spends_a_use(place: Workspace) -> None:
    ran = hive("evaluate", "v1-naive", "--split", "holdout", "-w", place.root, "--json")
    assert ran.code == 0
    assert {query["split"] for query in ran.json["queries"]} == {"holdout"}
    line = json.loads((place.root / "audit" / "log.jsonl").read_text().splitlines()[-1])
    assert (line["kind"], line["j"], line["purpose"]) == ("holdout_use", 1, "evaluate")
    assert hive("evaluate", "v1-naive", "--split", "nonsense", "-w", place.root).code == 2


def test_compare_is_b_minus_a(place: Workspace) -> None:
    write_config(place, "short", retrieval=WORDS | {"top_k": 2})
    found = hive("compare", "v1-naive", "short", "-w", place.root, "--json").json
    assert set(found) == {"a", "b", "difference", "queries", "changes"}
    delta = found["b"]["metrics"]["nudcg"] - found["a"]["metrics"]["nudcg"]
    assert found["difference"]["nudcg"] == pytest.approx(delta)
    assert set(found["difference"]) == {"nudcg", "ci95", "p_value", "wins", "losses", "ties", "mde", "n"}
    assert {"path": "retrieval.top_k", "a": 10, "b": 2} in found["changes"]
    assert all(query["delta"] == pytest.approx(query["b"] - query["a"]) for query in found["queries"])


def test_validate_collects_every_finding(place: Workspace) -> None:
    broken = {
        "name": "bad",
        "collection": "knowledge-base",
        "retrieval": {"method": "keyword", "top_k": 200},
        "dynamic_k": {"enabled": True},
        "distraction_detection": {"enabled": True},
        "filters": {"statsu": "effective"},
    }
    (place.configs / "bad.json").write_text(json.dumps(broken, indent=1))
    ran = hive("validate", "bad", "-w", place.root, "--json")
    assert ran.code == 1
    assert ran.json["ok"] is False
    assert {"HIVE-203", "HIVE-204", "HIVE-205", "HIVE-206"} <= ran.codes
    for finding in ran.json["diagnostics"]:
        assert set(finding) == {"code", "level", "severity", "message", "file", "path", "line", "fix"}
        assert finding["file"] == "configs/bad.json"
        assert finding["path"]
    assert hive("validate", "v1-naive", "-w", place.root, "--json").json == {"ok": True, "diagnostics": []}
    assert hive("validate", "nowhere", "-w", place.root, "--json").code == 2


def test_diagnostics_are_printed_as_a_compiler_does(place: Workspace) -> None:
    write_config(place, "bad", retrieval={"method": "keyword"}, distraction_detection={"enabled": True})
    err = hive("validate", "bad", "-w", place.root).err
    assert 'error[HIVE-203]: distraction detection compares two rankings; "keyword" makes one' in err
    assert "  --> configs/bad.json" in err
    assert "  fix: " in err


def test_a_worse_config_is_blocked_with_the_figures(place: Workspace) -> None:
    write_config(place, "worse", retrieval={"method": "keyword", "top_k": 1}, filters={"category": "changelogs"})
    ran = hive("deploy", "worse", "-w", place.root, "--json")
    assert ran.code == 1
    assert (ran.json["decision"], ran.json["deployed"], ran.json["previous"]) == ("blocked", None, "v1-naive")
    assert {reason["code"] for reason in ran.json["reasons"]} & {"HIVE-301", "HIVE-302", "HIVE-303", "HIVE-305"}
    assert {"n", "split", "candidate", "active", "difference", "alpha", "j", "evidence"} <= set(ran.json["evaluation"])
    assert {"config_hash", "active_hash", "golden_hash", "index_hash", "at"} <= set(ran.json["certificate"])
    text = hive("deploy", "worse", "-w", place.root)
    assert "BLOCKED" in text.out
    assert "hive compare" in text.out


def test_deploy_rollback_and_history(place: Workspace) -> None:
    write_config(place, "same", description="equal to v1-naive", retrieval=WORDS)
    refused = hive("deploy", "same", "-w", place.root, "--json")
    assert (refused.code, refused.json["decision"]) == (1, "inconclusive")
    forced = hive("deploy", "same", "--allow-inconclusive", "--reason", "try", "-w", place.root, "--json")
    assert (forced.code, forced.json["deployed"], forced.json["previous"]) == (0, "same", "v1-naive")
    (place.configs / "v1.json").unlink()
    back = hive("rollback", "-w", place.root, "--json")
    assert (back.code, back.json) == (0, {"deployed": "v1-naive", "previous": "same"}) or back.json[
        "deployed"
    ] == "v1-naive"
    assert (place.configs / "v1.json").exists()
    assert (back.json["queries"] > back.json["held_out"], hive("rollback", "-w", place.root).code) == (True, 1)
    listed = hive("history", "-w", place.root, "--json").json["versions"]
    assert [version["active"] for version in listed] == [True, False, False]
    assert [version["via"] for version in listed] == ["rollback", "deploy", "deploy"]
    assert set(listed[0]) == {
        "id", "config", "config_hash", "at", "by", "authn", "decision", "via", "reason", "evaluation", "active",
    }  # fmt: skip


def test_an_override_needs_a_reason_and_asks_a_person(place: Workspace) -> None:
    write_config(place, "same", retrieval=WORDS)
    assert hive("deploy", "same", "--override", "-w", place.root, "--json").code == 2
    ran = hive("deploy", "same", "--override", "--reason", "we know", "-w", place.root, "--json")
    assert ran.code == 1
    assert ran.json["approval_id"]


def test_label_in_one_line_grows_the_golden_set(place: Workspace) -> None:
    ran = hive(
        "label", "where is my licence key", "--relevant", "faqs/licence-keys.md", "--distractor",
        "api-docs/api-tokens.md", "-w", place.root, "--json",
    )  # fmt: skip
    assert ran.code == 0
    assert set(ran.json) >= {"query_id", "relevant", "distractors", "irrelevant"}
    golden = json.loads((place.root / "evals" / "golden.json").read_text())
    assert golden["queries"][-1]["query"] == "where is my licence key"
    wrong = hive("label", "where is my licence key", "--relevant", "faqs/licence.md", "-w", place.root, "--json")
    assert (wrong.code, wrong.codes) == (1, {"HIVE-109"})


def test_label_asks_about_each_document(place: Workspace) -> None:
    command = [sys.executable, "-m", "hive_agents", "label", "my badge is lost", "-w", str(place.root), "--json"]
    done = subprocess.run(command, input="r\nd\ni\nq\n", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    # Stopped before the end: the query isn't fully judged, and irrelevant documents aren't kept.
    assert [len(found[name]) for name in ("relevant", "distractors", "irrelevant")] == [1, 1, 0]


@pytest.mark.parametrize("answers", ["q\n", "", "s\n" * 40])
def test_a_query_that_nobody_marked_is_not_written(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    before = (place.root / "evals" / "golden.json").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    ran = hive("label", "quit now", "-w", place.root, "--json")
    assert (ran.code, ran.json["query_id"]) == (0, None)
    assert (place.root / "evals" / "golden.json").read_text() == before


def test_import_expands_what_a_shell_left_quoted(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "one.md").write_text("# One\n\nText.\n")
    ran = hive("import", "~/papers/*.md", "-w", place.root, "--json")
    assert (ran.code, ran.json["imported"]) == (0, ["one.md"])


def test_what_a_user_wrote_is_never_markup(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "x [bold]y[ "
    source.mkdir()
    (source / "a [bold] b.txt").write_text("")
    (source / "d.txt").write_text("text")
    ran = hive("import", source, "-w", place.root)
    assert "a [bold] b.txt" in ran.out.replace("\n", "")
    assert hive("label", "[/etc] x", "-r", "d.md", "-w", place.root).code == 0
    for command in (("evaluate", "v1-naive"), ("compare", "v1-naive", "v1-naive"), ("query", "[/b] token")):
        assert hive(*command, "-w", place.root).code == 0


@pytest.mark.parametrize("command", [["--help"], ["history"], ["fields", "--json"]])
def test_output_that_cannot_be_written_is_no_traceback(shared: Workspace, command: list[str]) -> None:
    where = [] if command == ["--help"] else ["-w", str(shared.root)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hive_agents", *command, *where], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert "Traceback" not in done.stderr
    assert done.returncode == 3


def test_nothing_leaves_the_machine() -> None:
    code = (
        "import os; from hive_agents.models.embedding.minilm import LocalMiniLM; LocalMiniLM().embed(['x']);"
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_brings_files_in_and_reports_what_it_could_not(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.mkdir()
    (source / "a.md").write_text("# A\n\nText.\n")
    (source / "b.txt").write_bytes(b"\x00\x01\x02\xff\xfe")
    ran = hive("import", source, "--to", "documents/mine", "-w", place.root, "--json")
    assert ran.code == 1
    assert ran.json["imported"] == ["mine/a.md"]
    assert set(ran.json["skipped"][0]) == {"file", "message"}
    assert hive("import", tmp_path / "nowhere", "-w", place.root, "--json").code == 2


@pytest.mark.parametrize("kind", ["config", "collection", "golden", "goal", "rule", "agent", "access", "settings"])
def test_schemas_describe_the_files(shared: Workspace, kind: str) -> None:
    schema = hive("schema", kind).json
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_explain_prints_the_documentation_of_a_code() -> None:
    ran = hive("explain", "203", "--json")
    assert (ran.code, ran.json["code"]) == (0, "HIVE-203")
    assert len(ran.json["text"]) > 80
    assert hive("explain", "HIVE-999", "--json").code == 2


def test_fields_lists_values_with_counts(shared: Workspace) -> None:
    fields = {field["name"]: field for field in hive("fields", "-w", shared.root, "--json").json["fields"]}
    assert fields["category"]["filterable"] is True
    assert {"value": "faqs", "documents": 14} in fields["category"]["values"]


@pytest.mark.parametrize("command", [("fields", "nope"), ("label", "x", "--collection", "nope")])
def test_a_collection_that_does_not_exist_is_wrong_usage(shared: Workspace, command: tuple[str, ...]) -> None:
    ran = hive(*command, "-w", shared.root, "--json")
    assert (ran.code, ran.codes) == (2, {"HIVE-211"})


def test_a_command_without_an_active_config_says_how_to_get_one(place: Workspace) -> None:
    (place.configs / "active.json").unlink()
    for command in (("query", "x"), ("evaluate",), ("optimize",)):
        ran = hive(*command, "-w", place.root, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-408"})
    first = hive("deploy", "v1-naive", "-w", place.root, "--json")
    assert (first.code, first.json["decision"], first.json["previous"]) == (0, "first", None)


@pytest.mark.parametrize(
    ("words", "command"), [(("runs", "show"), "hive runs show"), (("optimize", "--nope"), "hive optimize")]
)
def test_wrong_usage_names_the_help_page_of_its_command(words: tuple[str, ...], command: str) -> None:
    assert f"see `{command} --help`" in hive(*words).err


def test_no_workspace_and_unknown_options_are_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (hive("index", "--json").code, hive("index", "--json").codes) == (2, {"HIVE-410"})
    assert hive("query", "x", "--nonsense", "--json").json["ok"] is False
    assert hive("nonsense").code == 2


def test_without_a_model_the_text_lane_works_and_the_rest_says_how_to_get_one(place: Workspace) -> None:
    (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n')
    indexed = hive("index", "-w", place.root, "--json")
    assert (indexed.code, indexed.json["embedding_model"]) == (0, None)
    assert "HIVE-401" in indexed.err
    write_config(place, "words", retrieval=WORDS)
    assert hive("query", "token", "--config", "words", "-w", place.root).code == 0
    write_config(place, "both")
    hybrid = hive("query", "token", "--config", "both", "-w", place.root, "--json")
    assert (hybrid.code, hybrid.codes) == (3, {"HIVE-401"})


def test_stdout_holds_one_json_document_and_nothing_else(place: Workspace) -> None:
    shutil.rmtree(place.state)
    for command in (("index",), ("evaluate", "v1-naive"), ("fields",), ("history",)):
        json.loads(hive(*command, "-w", place.root, "--json").out)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from hive_agents.cli.main import main; main(['--help']);"
        "heavy = {'numpy', 'pydantic', 'langgraph', 'boto3', 'onnxruntime', 'tokenizers', 'yaml', 'asyncio'};"
        "heavy &= set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
