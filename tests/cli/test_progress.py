from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from hive_agents.base.files import locked
from hive_agents.cli.terminal import progress_lines
from tests.conftest import make_workspace
from tests.sample import copied_sample, hive, indexed_sample, words_sample, write_config

HIVE = [sys.executable, "-m", "hive_agents"]


def test_work_that_takes_long_is_told_in_lines() -> None:
    lines: list[str] = []
    with progress_lines(lines.append, first=0.0, every=0.01) as report:
        report("reading", 0, 100)
        report("reading", 50, 100)
        while not lines or "50" not in lines[-1]:
            time.sleep(0.01)
    assert lines[-1].startswith("reading: 50 of 100 (50 %), about ")


def test_work_that_is_over_at_once_says_nothing() -> None:
    lines: list[str] = []
    with progress_lines(lines.append) as report:
        report("reading", 1, 2)
    assert lines == []


def test_a_command_that_ends_leaves_the_database_in_one_file(tmp_path: Path) -> None:
    """What stands in a write-ahead log is lost to who copies the database alone."""
    place = words_sample(tmp_path / "ws")
    for command in (["runs", "list"], ["history"], ["approvals", "list"]):
        subprocess.run([*HIVE, *command, "-w", place.root], check=True, capture_output=True)
        assert not place.database.with_name("hive.db-wal").exists()


def test_piped_output_has_no_wrapped_line_and_no_blanks_at_its_end() -> None:
    run = subprocess.run(
        [*HIVE, "query", "rotate an API key", "-w", str(indexed_sample())], capture_output=True, text=True, check=True
    )
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) > 120
    assert [line for line in lines if line != line.rstrip()] == []
    assert len(lines) == 1 + 3 * 10 + 1  # a head, three lines for each of ten hits, and why the list ends


READING = """
agents list
agents show curator
agents graph curator
approvals list
canary status
compare v1-naive v1-naive
credentials list
doctor
doctor --documents
evaluate
explain HIVE-203
feedback list --as root
fields
history
judge stats
models list
query "rotate an API key"
query "rotate an API key" --explain tutorials/rotate-api-tokens.md
runs list
schema config
storage
tools list
trigger list
validate v1-naive"""


@pytest.mark.slow
@pytest.mark.parametrize("command", READING.split("\n")[1:])
def test_what_a_command_prints_into_a_pipe_is_wrapped_at_no_width(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(copied_sample(tmp_path / "workspace").root)
    lines = set()  # and not what they hold: measured times and free space differ
    for columns in ("40", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        run = hive(*shlex.split(command))
        assert run.code in (0, 1), run.err
        lines.add(len(run.out.splitlines()))
        assert [line for line in run.out.splitlines() if line != line.rstrip()] == []
    assert len(lines) == 1


def test_a_second_process_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "workspace")
    command = [*HIVE, "index", "-w", str(place.root)]
    lock = place.exclusive("indexing")
    lock.__enter__()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        told = waiting.stderr.readline()
        lock.__exit__(None, None, None)
    assert waiting.returncode == 0
    assert told.startswith("waiting: another process is indexing (process ")


def test_what_is_asked_before_there_is_an_index_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_workspace(tmp_path / "workspace", embedding=False)
    monkeypatch.setattr("hive_agents.cli.surface.WAIT_WITHOUT_INDEX", 0.1)
    with place.exclusive("indexing"):
        ran = hive("query", "key", "--config", "words", "-w", place.root, "--json")
    (found,) = ran.json["diagnostics"]
    assert (ran.code, found["code"]) == (3, "HIVE-402")
    assert found["message"].startswith("there is no index yet, and nothing can be asked before: ")
    assert "indexing" in found["message"]
    assert hive("query", "key", "--config", "words", "-w", place.root, "--json").code == 0


@pytest.mark.slow
def test_a_search_is_answered_from_the_index_as_it_is_while_another_process_indexes(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "workspace")
    place.index()
    (place.documents / "faqs" / "new.md").write_text("# New\n\nzygomorphic\n", encoding="utf-8")
    write_config(place, "faqs", filters={"category": "faqs"})
    words = ("query", "zygomorphic", "-c", "faqs", "-w", place.root, "--json")
    with place.exclusive("indexing"):
        ran = hive(*words)
    assert ran.code == 0, ran.err
    assert "HIVE-406" in ran.err
    assert "faqs/new.md" not in ran.out
    assert hive(*words).json["hits"][0]["doc_id"] == "faqs/new.md"


def test_who_holds_a_lock_is_forgotten_with_it(tmp_path: Path) -> None:
    with locked(tmp_path / "write.lock", "indexing"):
        assert (tmp_path / "write.holder").read_text().startswith("indexing (process ")
    assert not (tmp_path / "write.holder").exists()


def test_an_interrupted_command_says_what_is_kept(tmp_path: Path) -> None:
    program = (
        "from hive_agents.cli import surface\n"
        "try:\n"
        "    with surface.Surface(False, False).progress('half of it is kept; run it again') as report:\n"
        "        raise KeyboardInterrupt\n"
        "except KeyboardInterrupt: pass\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stderr == "\ninterrupted: half of it is kept; run it again\n"


def test_a_search_that_needs_a_first_index_says_so(tmp_path: Path) -> None:
    subprocess.run([*HIVE, "init", str(tmp_path / "ws"), "--empty"], check=True, capture_output=True)
    documents = tmp_path / "ws" / "documents"
    for number in range(200):
        (documents / f"{number}.md").write_text(f"# Document {number}\n\n" + f"words of {number} " * 700)
    (tmp_path / "ws" / "hive.toml").write_text('[models]\nembedding = "none"\n')
    run = subprocess.run([*HIVE, "fields", "-w", str(tmp_path / "ws")], capture_output=True, text=True, check=True)
    assert "the index isn't built yet: 200 documents to read, about " in run.stderr


def test_a_field_that_becomes_filterable_says_what_to_do(tmp_path: Path) -> None:
    place = words_sample(tmp_path / "workspace")
    deployed = hive("deploy", "v1-naive", "--allow-inconclusive", "--reason", "try", "-w", place.root)
    assert deployed.code == 0
    path = place.root / "collections" / "knowledge-base.json"
    collection = json.loads(path.read_text())
    collection["fields"]["reviewer"] = {"type": "keyword", "filterable": True}
    path.write_text(json.dumps(collection))
    told = hive("fields", "-w", place.root).err
    assert "searches use the index as it was until the new one is proved" in told
    assert "hive index --accept" in told


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("fields",), 0),
        (("validate", "broken", "--json"), 1),
        *(
            pytest.param(arguments, code, marks=pytest.mark.slow)
            for arguments, code in [
                (("fields", "--json"), 0),
                (("validate", "broken"), 1),
                (("query", "?!"), 2),
                (("query", "?!", "--json"), 2),
            ]
        ),
    ],
)
def test_a_command_whose_reader_has_gone_ends_with_its_own_exit_code(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    place = copied_sample(tmp_path / "w")
    (place.configs / "broken.json").write_text('{"name": "broken"}')
    command = [*HIVE, *arguments, "-w", str(place.root)]
    for stderr in (subprocess.PIPE, subprocess.STDOUT):
        reading, writing = os.pipe()
        os.close(reading)
        ran = subprocess.run(command, stdout=writing, stderr=stderr, check=False)
        os.close(writing)
        assert ran.returncode == code
        assert b"Traceback" not in (ran.stderr or b"")


@pytest.mark.parametrize(("options", "shown"), [((), b""), (("--json",), b'"HIVE-435"')])
def test_interrupted_before_there_is_a_result_it_is_told_as_json(
    tmp_path: Path, options: tuple[str, ...], shown: bytes
) -> None:
    place = make_workspace(tmp_path / "workspace", embedding=False)
    command = [*HIVE, "index", "-w", str(place.root), *options]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background of a shell it is ignored
    with place.exclusive("indexing"), subprocess.Popen(command, stdout=-1, stderr=-1, preexec_fn=heed) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith(b"waiting: ")
        waiting.send_signal(signal.SIGINT)
        out, _ = waiting.communicate()
    assert waiting.returncode == 130
    assert (shown in out) if options else out == shown
    if options:
        assert json.loads(out)["ok"] is False
