"""Headings and titles are shown as words: in lists of results, in the reasons of an answer, to agents alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.cli.replies import rendered
from hive_agents.documents.blocks import plain_heading
from tests.conftest import make_workspace, write_config
from tests.copilot.chats import ask, copied_knowledge_base
from tests.sample import hive

PAGE = """# Q&amp;A about **lamps**

## Use `lamp --off` &amp; wait, see [the manual](manual.md)

The filament cools within a minute.

### The `[socket]` section

A socket holds one filament.
"""
TITLE, SECTION = "Q&A about lamps", "Use lamp --off & wait, see the manual"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = copied_knowledge_base(tmp_path / "workspace")
    front = '---\ntenant: acme\nview: ["tenant"]\n---\n'
    (place.documents / "lamp.md").write_text(front + PAGE, encoding="utf-8")
    place.index()
    return place


def test_a_result_of_the_copilot_names_title_and_section_in_words(place: Workspace) -> None:
    result = ask(place, "dana", "how soon does a filament cool")["results"][0]
    assert (result["doc_id"], result["title"]) == ("lamp.md", TITLE)
    assert f'section "{SECTION}"' in result["reason"]
    result = ask(place, "dana", "what holds one filament, a socket?")["results"][0]
    assert 'section "The [socket] section"' in result["reason"]


def test_a_list_of_hits_shows_them_so(tmp_path: Path) -> None:
    place = make_workspace(tmp_path / "workspace", embedding=False, documents={"lamp.md": PAGE})
    write_config(place, "words", "keyword")
    found = hive("query", "filament", "-c", "words", "-w", place.root, "--json").json["hits"]
    assert {hit["title"] for hit in found} == {TITLE}
    assert f"{TITLE} > {SECTION}" in {hit["heading"] for hit in found}
    told = hive("query", "filament", "-c", "words", "-w", place.root).out
    assert "&amp;" not in told
    assert SECTION in told


def test_a_title_stays_one_line_of_words_on_a_terminal(place: Workspace) -> None:
    title = "A &#27;[31mred&#8203; `![x](http://x.test/p.png)`"
    (place.documents / "lamp.md").write_text(PAGE.replace("Q&amp;A about **lamps**", title), encoding="utf-8")
    assert "\x1b" not in plain_heading(title)
    place.index()
    assert "\x1b" not in "".join(map(str, rendered(ask(place, "dana", "how soon does a filament cool"))))


@pytest.mark.parametrize("sign", ["[", "*a", "[](", "&a", "<a ", "![[", "[a]((", "**"])
def test_marks_that_never_close_are_signs(sign: str) -> None:
    text = (sign * 20_000).strip()
    assert plain_heading(text) == text
