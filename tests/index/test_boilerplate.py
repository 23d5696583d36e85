"""Lines that a fifth of the documents have: they are found in their scope, weigh less, and stand behind others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.index.boilerplate import SharedLines
from hive_agents.ranking import RetrievalConfig, SearchEngine, build_index
from tests.conftest import config_json, make_workspace

NOTICE = "Permission to copy this page is granted to everybody without any warranty."
MENU = "- Home - About us - Contact - Imprint"


def page(number: int, *, notice: bool) -> str:
    words = f"Part {number} of the machine holds valve {number} and its spring."
    return "\n\n".join([f"# Part {number}", MENU, words, *([NOTICE] if notice else [])]) + "\n"


@pytest.fixture
def site(tmp_path: Path) -> Workspace:
    """Forty pages: a menu on each, a notice on every other one, and one page about the notice."""
    pages = {f"parts/{n}.md": page(n, notice=n % 2 == 0) for n in range(40)}
    pages["legal.md"] = "# Legal\n\nWho may copy: everybody is granted permission, and no warranty is given.\n"
    workspace = make_workspace(tmp_path / "kb", embedding=False, documents=pages)
    build_index(workspace)
    return workspace


def found(workspace: Workspace, query: str, **blocks: Any) -> list[str]:
    config = RetrievalConfig.model_validate(config_json("a", "keyword", **blocks))
    return [hit.doc_id for hit in SearchEngine(workspace).search(query, config).hits]


def test_lines_of_over_a_fifth_and_over_ten_documents_are_boilerplate() -> None:
    def shares(sharing: int, documents: int, line: str = NOTICE) -> list[float]:
        texts = [line if n < sharing else f"something else that stands on page {n}" for n in range(documents)]
        of = np.arange(documents, dtype=np.int32)
        return SharedLines.of(texts, of).within(of, documents).shares.tolist()

    assert shares(11, 54) == [1.0] * 11 + [0.0] * 43
    assert set(shares(10, 20)) == {0.0}
    assert set(shares(11, 55)) == {0.0}
    assert set(shares(30, 40, "## A heading of all the pages")) == {0.0}
    assert set(shares(30, 40, "| a | head | of | a | table |")) == {0.0}


def test_a_line_twice_in_one_document_is_one_document() -> None:
    of = np.repeat(np.arange(6, dtype=np.int32), 2)
    assert set(SharedLines.of([NOTICE] * 12, of).within(of, 6).shares.tolist()) == {0.0}


def test_what_is_kept_of_a_generation_says_the_same_and_an_older_one_says_nothing() -> None:
    texts = [f"{NOTICE}\nthis is the line of page {n}" for n in range(20)]
    of = np.arange(20, dtype=np.int32)
    lines = SharedLines.of(texts, of)
    kept = SharedLines.from_blob(lines.to_blob(), 20)
    assert kept.within(of, 20).shares.tolist() == lines.within(of, 20).shares.tolist() == [12 / 19] * 20
    assert kept.within(of, 20).without(3, texts[3]) == "this is the line of page 3"
    assert SharedLines.from_blob(None, 20).within(of, 20).shares.tolist() == [0.0] * 20


def test_a_chunk_weighs_less_by_its_share_of_boilerplate(site: Workspace) -> None:
    query = "permission to copy, any warranty granted to everybody"
    assert found(site, query)[0].startswith("parts/")
    assert found(site, query, boilerplate={"weight": 0.5})[0] == "legal.md"
    assert found(site, query, boilerplate={"weight": 1.0}) == found(site, query)


def test_an_excerpt_shows_what_the_page_says_itself_unless_boilerplate_was_asked_for(site: Workspace) -> None:
    engine = SearchEngine(site)
    config = RetrievalConfig.model_validate(config_json("a", "keyword"))
    first = engine.search("part valve 7 spring", config).hits[0]
    assert first.excerpt == "Part 7 Part 7 of the machine holds valve 7 and its spring."
    asked = engine.search("permission to copy this page", config).hits
    assert any(NOTICE in hit.excerpt for hit in asked)


def test_the_texts_of_chunks_stay_whole(site: Workspace) -> None:
    index = SearchEngine(site).index("kb")
    (row,) = index.rows(index.chunks_of("parts/4.md").tolist())
    assert row.text == page(4, notice=True)
    assert row.own is not None
    assert NOTICE not in row.own
    assert MENU not in row.own
