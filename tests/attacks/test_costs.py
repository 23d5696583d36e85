"""What costs its sender little and everybody else much: front matter that nests, a patch that doubles, a long word."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import PatchError, patched
from hive_agents.base.errors import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.documents import blocks, chunking, names_in
from hive_agents.documents.analysis import exact, heading_text
from hive_agents.documents.blocks import plain_heading
from hive_agents.goals import patterns
from hive_agents.readers import ImportFailure
from hive_agents.readers.from_markdown import from_markdown, from_mdx
from tests.conftest import write_document
from tests.sample import hive


def calls_to_refuse(block: str) -> int:
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1

    gc.collect()
    gc.disable()  # what another test left would be counted when it is collected
    sys.setprofile(count)
    try:
        frontmatter.parse(block, "documents/x.md")
    except HiveError:
        return calls
    finally:
        sys.setprofile(None)
        gc.enable()
    raise AssertionError("it was read")


@pytest.mark.parametrize("opening", ["{a: ", "- ", "? "])
def test_what_nests_costs_no_more_than_the_levels_that_are_allowed(opening: str) -> None:
    """Every reader of a document parses its front matter: 60,000 characters are the work of 400."""
    start = "a: " if opening.startswith("{") else ""
    calls_to_refuse(start + opening * 400)  # whatever is imported at first
    small, large = (calls_to_refuse(start + opening * (length // len(opening))) for length in (400, 60_000))
    assert large == small


@pytest.mark.parametrize("depth", [25, 100, 250])
def test_a_document_with_a_nested_value_is_told_and_reaches_no_reader(depth: int, text_workspace: Workspace) -> None:
    nested = "[" * depth + "1" + "]" * depth
    write_document(text_workspace, "deep.md", f"---\ntitle: Deep\na: {nested}\n---\nabout zebras\n")
    told = hive("index", "-w", text_workspace.root, "--json")
    assert [one["file"] for one in told.json["skipped"]] == ["documents/deep.md"]


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "copy", "from": "", "path": f"/k{number}"} for number in range(12)],
        [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(12)],
        [{"op": "copy", "from": "/a", "path": "/a/0/0"}, *[{"op": "copy", "from": "/a", "path": "/a/0"}] * 12],
    ],
)
def test_a_few_copies_of_a_patch_make_no_thousands(patch: list[dict[str, Any]]) -> None:
    """Twelve operations make 4,096 times as much; each further one doubles it, until memory ends."""
    with pytest.raises(PatchError, match="makes too much"):
        patched({"a": [["0123456789" * 100]]}, patch)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("sign", ["z", "Z", "Zz", "9", "9,", "a.", "a::", "_", "aB", "a\u0301"])
def test_a_word_without_an_end_costs_no_more_than_its_length(sign: str) -> None:
    """Whoever breaks this waits: a question that was one word of 3,000 letters held its reader's place for 87 seconds,
    and a document with such words its index."""
    names_in(sign * (600_000 // len(sign)), exact("english"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("sign", ["`", " ", "``a", "{ ", "[", "~~a"])
def test_a_heading_without_an_end_costs_no_more_than_its_length(sign: str) -> None:
    """Whoever breaks this waits: a heading of 60,000 backticks held its index for more than a minute."""
    heading = "a" + sign * (600_000 // len(sign)) + "x"
    assert plain_heading(heading_text(heading)).endswith("x")


def test_a_pattern_of_many_states_is_given_up_before_it_has_looked_at_them_at_each_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`a{4000}b` is six letters, and took three quarters of a minute for 20,000 of a result."""
    monkeypatch.setattr(patterns, "MAX_WORK", 100_000)
    looked = 0

    class Counting(patterns.Pattern):
        def _step(self, *state: Any) -> Any:
            nonlocal looked
            following, states = super()._step(*state)
            looked += states
            return following, states

    assert Counting("a{4000}b").found_in("a" * 300, "a" * 20_000) is None
    assert looked <= 105_000
    assert Counting("a{400}b").found_in("a" * 200, "a" * 401 + "b")


@pytest.mark.parametrize("block", ["#\n", "- a\n", "> a\n\n", "| a |\n"])
def test_markdown_of_endless_blocks_is_refused_before_it_is_parsed(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million headings in four megabytes took a minute before they took too much memory."""

    def parser() -> None:
        raise AssertionError("it is parsed")

    data = (block * 2_000_000).encode()
    monkeypatch.setattr(chunking, "block_parser", parser)
    monkeypatch.setattr(blocks, "block_parser", parser)
    for read in (from_markdown, from_mdx):
        with pytest.raises(ImportFailure, match="split it"):
            read(data)
