from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.memory import DataFiles, Spillover, ToolResult
from hive_agents.memory.spill import pretty
from tests.memory.processes import finish, start

AT, OVER = "x" * 30_000, "x" * 30_001
TOO_LARGE = (
    "[Result from web_search: 30,001 chars — too large for context, saved to 'web_search_1.txt'. "
    "Use load_data(filename='web_search_1.txt') to read the full result.]"
)


@pytest.mark.parametrize("content", ["failed", OVER])
@pytest.mark.parametrize("tool", ["web_search", "load_data"])
def test_an_error_goes_unchanged_and_uses_no_number(files: DataFiles, tool: str, content: str) -> None:
    delivery = Spillover(files).deliver(tool, ToolResult(content, is_error=True))
    assert (delivery.content, delivery.is_error, delivery.pointer, delivery.file) == (content, True, None, None)
    assert Spillover(files).deliver("web_search", ToolResult("ok")).file == "web_search_1.txt"


def test_load_data_up_to_the_limit_is_the_text(files: DataFiles) -> None:
    assert Spillover(files).deliver("load_data", ToolResult(AT)).content == AT


@pytest.mark.parametrize("with_folder", [True, False])
def test_load_data_over_the_limit_is_cut_and_never_spilled_again(files: DataFiles, with_folder: bool) -> None:
    delivery = Spillover(files if with_folder else None).deliver("load_data", ToolResult(OVER))
    assert delivery.content.startswith(AT + "\n")
    assert "Use offset/limit parameters to read smaller chunks." in delivery.content
    assert delivery.content.count("x") == 30_000
    assert delivery.file is None
    assert files.list() == []


def test_a_short_result_is_there_and_saved(files: DataFiles) -> None:
    delivery = Spillover(files).deliver("web_search", ToolResult(AT))
    assert delivery.content == f"{AT}\n\n[Saved to 'web_search_1.txt']"
    assert delivery.pointer == "[Saved to 'web_search_1.txt']"
    assert files.read("web_search_1.txt") == AT


def test_a_long_result_is_previewed_and_saved(files: DataFiles) -> None:
    delivery = Spillover(files).deliver("web_search", ToolResult(OVER))
    assert delivery.content == f"{AT}\n\n{TOO_LARGE}"
    assert delivery.pointer == TOO_LARGE
    assert files.read("web_search_1.txt") == OVER


def test_without_a_folder_a_short_result_is_the_text() -> None:
    assert Spillover(None).deliver("web_search", ToolResult(AT)).content == AT


def test_without_a_folder_a_long_result_is_cut() -> None:
    delivery = Spillover(None).deliver("web_search", ToolResult(OVER))
    assert delivery.content.startswith(AT + "\n")
    assert delivery.content.endswith("Only first 30,000 chars shown]")
    assert (delivery.file, delivery.pointer) == (None, None)


def test_the_limit_is_a_setting(files: DataFiles) -> None:
    delivery = Spillover(files, limit=5).deliver("a", ToolResult("123456"))
    assert delivery.content.startswith("12345\n\n[Result from a: 6 chars")
    assert "Only first 5 chars shown" in Spillover(None, limit=5).deliver("a", ToolResult("123456")).content


def test_numbers_go_over_all_tools_and_survive_a_restart(files: DataFiles) -> None:
    made = [Spillover(files).deliver(tool, ToolResult("x")).file for tool in ("a", "b", "a")]
    files.save("notes.txt", "of the agent")
    made.append(Spillover(DataFiles(files.folder)).deliver("b_7", ToolResult("x")).file)
    assert made == ["a_1.txt", "b_2.txt", "a_3.txt", "b_7_4.txt"]


def test_threads_never_share_a_number(files: DataFiles) -> None:
    made: list[str | None] = []
    spill = Spillover(files)

    def deliver() -> None:
        for _ in range(5):
            made.append(spill.deliver("t", ToolResult("x")).file)

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made, key=str) == sorted(f"t_{n}.txt" for n in range(1, 21))


def test_processes_never_share_a_number(bare: Workspace) -> None:
    program = """
spill = Spillover(DataFiles(run_folder(workspace, "r1")))
for number in range(20):
    print(spill.deliver(argument, ToolResult(f"{argument} {number}")).file)
"""
    printed = "".join(finish([start(program, bare.root, name) for name in "ab"])).split()
    files = DataFiles(bare.state / "runs" / "r1")
    assert sorted(int(re.findall(r"\d+", name)[0]) for name in printed) == list(range(1, 41))
    assert sorted(files.read(file.name) for file in files.list()) == sorted(f"{t} {n}" for t in "ab" for n in range(20))


@pytest.mark.parametrize(
    "tool", ["../x", "/etc/x", "a/b", "a\\b", "C:x", "..", ".hidden", "", "a\x00b", "a\nb", "é", "t" * 129, "a'b", "-x"]
)
def test_a_tool_name_that_is_no_file_name_is_refused(files: DataFiles, tool: str) -> None:
    with pytest.raises(HiveError, match="HIVE-113"):
        Spillover(files).deliver(tool, ToolResult("x"))
    assert files.list() == []
    assert Spillover(files).deliver(tool, ToolResult("failed", is_error=True)).content == "failed"


@pytest.mark.parametrize("tool", ["con", "NUL", "com1", "t" * 128, "a.b", "_a", "A-1"])
def test_other_tool_names_are_fine_on_every_system(files: DataFiles, tool: str) -> None:
    assert Spillover(files).deliver(tool, ToolResult("x")).file == f"{tool}_1.txt"
    assert files.read(f"{tool}_1.txt") == "x"


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HiveError, match="HIVE-113"):
        Spillover(DataFiles(tmp_path / "link")).deliver("a", ToolResult("x"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_json_is_saved_in_lines(files: DataFiles) -> None:
    value = {"hits": [{"title": "Käfer", "n": number} for number in range(5000)]}
    delivery = Spillover(files).deliver("web_search", ToolResult(json.dumps(value)))
    assert delivery.file is not None
    page = files.load(delivery.file, offset=2, limit=4)
    assert page.text.split() == ["{", '"title":', '"K\\u00e4fer",', '"n":', "0", "},"]
    assert json.loads(files.read(delivery.file)) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1]))
def test_pretty_changes_white_space_alone(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert json.loads(pretty(text)) == value
    if isinstance(value, (dict, list)) and "\n" not in text:
        assert pretty(text) == json.dumps(value, indent=2)


@pytest.mark.parametrize(
    "text", ["", "[not json", "{a}", "words", "[" * 100_000, '["a"] and more', "\n", "[1" + ",1" * 9 + "\n]"]
)
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert pretty(text) == text


def test_pretty_keeps_what_parsing_would_lose() -> None:
    assert pretty('{"a":1.50,"a":1e400,"n":' + "9" * 5000 + "}").split() == [
        *("{", '"a":', "1.50,", '"a":', "1e400,", '"n":', "9" * 5000, "}")
    ]
