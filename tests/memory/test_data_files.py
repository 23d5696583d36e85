from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hive_agents.base.errors import HiveError
from hive_agents.memory import DataFiles, Spillover, ToolResult
from hive_agents.memory.names import folder_name

BAD_NAMES = [
    *("../x", "..", ".", "/etc/passwd", "a/b", "a\\b", "..\\x", "C:\\x", "C:x", "a:stream", "\\\\host\\share"),
    *("a\x00b", "a\nb", "\x7f", "a\u2028b", "\ud800", "", " a", "a ", "a.", ".hidden", ".lock", "~/x\x00"),
    *("con", "NUL", "aux.txt", "Com1.md", "LPT9", "com¹", "nul .txt", "conin$", "a*", "a?", 'a"b', "a<b", "a|b"),
    *("x" * 201, "é" * 101, "x" * 100_000),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_leaves_the_folder_or_its_system_is_refused(files: DataFiles, name: str) -> None:
    for use in (
        lambda: files.save(name, "x"),
        lambda: files.load(name),
        lambda: files.edit(name, "a", "b"),
    ):
        with pytest.raises(HiveError, match="HIVE-113"):
            use()
    assert files.list() == []
    assert not (files.folder.parent / "x").exists()


@pytest.mark.parametrize("name", ["notes.md", "a b.txt", "Käfer.txt", "a..b", "console", "x" * 200, "$HOME", "-rf"])
def test_plain_names_are_kept(files: DataFiles, name: str) -> None:
    files.save(name, "x")
    assert [file.name for file in files.list()] == [name]
    assert files.read(name) == "x"


def test_a_link_is_neither_read_nor_written(files: DataFiles, tmp_path: Path) -> None:
    files.save("a", "x")
    (tmp_path / "secret").write_text("secret")
    (files.folder / "link").symlink_to(tmp_path / "secret")
    (files.folder / "dangling").symlink_to(tmp_path / "new")
    for name in ("link", "dangling"):
        for use in (lambda n=name: files.load(n), lambda n=name: files.save(n, "x")):
            with pytest.raises(HiveError, match="HIVE-113"):
                use()
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "new").exists()
    assert [file.name for file in files.list()] == ["a"]


def test_a_pipe_and_a_folder_are_no_files(files: DataFiles) -> None:
    files.save("a", "x")
    os.mkfifo(files.folder / "pipe")
    (files.folder / "sub").mkdir()
    for name in ("pipe", "sub"):
        with pytest.raises(HiveError, match="HIVE-107"):
            files.load(name)
    assert [file.name for file in files.list()] == ["a"]


def test_pages_go_by_line(files: DataFiles) -> None:
    files.save("a", "one\ntwo\r\nthree\u2028still three\n\nfive")
    page = files.load("a", offset=1, limit=2)
    assert (page.text, page.next_offset, page.total_lines) == ("two\r\nthree\u2028still three\n", 3, 5)
    assert files.load("a", offset=3).next_offset is None
    assert (files.load("a", offset=9).text, files.load("a", offset=9).next_offset) == ("", None)
    assert files.load("a", offset=0, limit=0).text == ""
    with pytest.raises(HiveError, match="HIVE-105"):
        files.load("a", offset=-1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["a" * 1500, "é" * 2000, "b", "\n", "\r", "\u2028"]), max_size=9), st.integers(1, 5))
def test_paging_reaches_every_character(files: DataFiles, texts: list[str], limit: int) -> None:
    """Even of one endless line, and no page is longer than its lines allow."""
    files.save("a", "".join(texts))
    offset: int | None = 0
    pages = []
    while offset is not None:
        page = files.load("a", offset, limit)
        pages.append(page.text)
        offset = page.next_offset
    assert "".join(pages) == "".join(texts)
    assert max(map(len, pages)) <= 2000 * limit


def test_edit_changes_the_one_place(files: DataFiles) -> None:
    files.save("a", "one two two")
    files.edit("a", "one", "1")
    assert files.read("a") == "1 two two"
    for old, why in (("two", "occurs 2 times"), ("three", "doesn't occur"), ("", "is empty")):
        with pytest.raises(HiveError, match=f"HIVE-409.*{why}"):
            files.edit("a", old, "x")
    assert files.read("a") == "1 two two"


def test_parallel_edits_lose_nothing(files: DataFiles) -> None:
    files.save("a", " ".join(f"<{number}>" for number in range(12)))
    threads = [threading.Thread(target=files.edit, args=("a", f"<{number}>", "done")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert files.read("a") == " ".join(["done"] * 12)


def test_a_saved_result_stays_as_it_is(files: DataFiles) -> None:
    file = Spillover(files).deliver("web_search", ToolResult("truth")).file
    assert file is not None
    for change in (lambda: files.save(file, "lie"), lambda: files.edit(file, "truth", "lie")):
        with pytest.raises(HiveError, match="HIVE-409"):
            change()
    assert files.read(file) == "truth"
    assert [(entry.name, entry.sealed) for entry in files.list()] == [(file, True)]


def test_an_unknown_file_is_an_error_with_a_guess(files: DataFiles) -> None:
    files.save("notes.md", "x")
    with pytest.raises(HiveError, match="HIVE-107") as failure:
        files.load("note.md")
    assert failure.value.diagnostics[0].fix == 'did you mean "notes.md"?'


def test_what_is_no_text_is_an_error(files: DataFiles) -> None:
    files.save("a", "x")
    (files.folder / "b").write_bytes(b"\xff\xfe")
    with pytest.raises(HiveError, match="HIVE-112"):
        files.load("b")


def test_list_counts_numbers_and_hides_what_a_crash_left(files: DataFiles) -> None:
    assert files.list() == []
    for name in ("b_10.txt", "b_9.txt", "a_11.txt", "²"):
        files.save(name, "é")
    (files.folder / ".b_12.txt.abc.tmp").write_text("half")
    assert [(file.name, file.size) for file in files.list()] == [
        *(("a_11.txt", 2), ("b_9.txt", 2), ("b_10.txt", 2), ("²", 2))
    ]


def test_folders_of_different_names_differ_where_case_does_not_count() -> None:
    names = [
        "dana",
        "Dana",
        "DANA",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "a_b",
        "a-b",
        "con",
        "CON",
        "x" * 65,
        "\ud800",
        "a~b",
    ]
    made = [folder_name(name).lower() for name in names]
    assert len(set(made)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-~") and len(name) < 65 for name in made)
