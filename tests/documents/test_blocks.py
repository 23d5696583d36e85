"""The faster parser finds what the library's own finds, and a line's section is the headings above it."""

import random
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from hive_agents.cli.sample import init_workspace
from hive_agents.documents.blocks import block_parser, section_of
from hive_agents.index.lanes import ChunkRow
from hive_agents.ranking.excerpts import row_excerpt
from tests.conftest import config_json, make_workspace

LINES = """
words go on
    indented
# heading
#no heading
===
---
- item
* item
+
1. first
2) second
10. tenth
> quote
```
~~~
<div>
</div>
<!-- note -->
| a | b |
a | b
--- | ---
|---|---|
:--|--:
[label]: /there
\tword
***
_ _ _
`code`
  - nested
   three blanks
""".strip("\n").split("\n")


ACT = """# The Cycle Act

## Part 1

### § 1 Scope

It binds whoever rides on a road.

### § 2 Brakes

Each wheel has a brake of its own.

#### Tandems

A tandem needs a third one.

### § 3 Lamps

A cycle carries a white lamp in front.
"""


def plain() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table").disable("inline")


def tokens(parser: MarkdownIt, text: str) -> list[object]:
    return [token.as_dict() for token in parser.parse(text)]


@pytest.mark.parametrize("seed", range(8))
def test_any_mixture_of_lines_gives_the_same_tokens(seed: int) -> None:
    dice, own = random.Random(seed), plain()
    for _ in range(100):
        text = "\n".join(dice.choice([*LINES, "", "words"]) for _ in range(dice.randint(1, 12)))
        assert tokens(block_parser(), text) == tokens(own, text), text


def test_the_samples_documents_give_the_same_tokens(tmp_path: Path) -> None:
    own = plain()
    for path in sorted((init_workspace(tmp_path / "sample") / "documents").rglob("*.md"))[:40]:
        text = path.read_text("utf-8")
        assert tokens(block_parser(), text) == tokens(own, text), path.name


@pytest.mark.parametrize(
    ("heading", "text", "line", "section"),
    [
        ("A > B", "Rest of B.\n\n### C\n\nc\n", 0, "A > B"),
        ("A > B", "Rest of B.\n\n### C\n\nc\n", 4, "A > B > C"),
        ("A > B", "## B\n\n#### D\n\nd\n\n### C\n\nc\n", 4, "A > B > D"),
        ("A > B", "## B\n\n#### D\n\nd\n\n### C\n\nc\n", 8, "A > B > C"),
        ("A > B", "\n\n## B\n\nb\n\n## E\n\ne\n", 8, "A > E"),
        ("A > x > B", "B\n---\n\nb\n\nE\n---\n\ne\n", 8, "A > x > E"),
        ("A", "# A\n\n```\n## no heading\n```\n\na\n", 6, "A"),
        ("A", "# A\n\n> ## quoted\n\na\n", 4, "A"),
        ("", "Before.\n\n### C\n\nc\n", 4, "C"),
        ("", "Before.\n\n### C\n\nc\n", 0, ""),
        ("A > API keys", "## API keys {#keys}\n\n### Rotate {#rotate}\n\nr\n", 4, "A > API keys > Rotate"),
        ("A > B", "echo x\n# a remark in a fence that is cut\necho y\n", 2, "A > B"),
        ("A > B", "# a remark in a fence that is cut\necho y\n", 1, "A > B"),
        ("A > B", "## B\n\ntext\n\n# a remark\n", 4, "A > B"),
        ("A", "# A\r\n\r\n## B\r\n\r\nb\r\n", 4, "A > B"),
        ("A > B", "##\n\nno name\n", 2, "A > B"),
        ("A > ", "##\n\nno name\n\n### C\n\nc\n", 6, "A > C"),
    ],
)
def test_the_section_of_a_line_is_the_path_of_headings_above_it(
    heading: str, text: str, line: int, section: str
) -> None:
    assert section_of(heading, text, line) == section


def test_an_excerpt_stands_in_the_section_of_its_best_line() -> None:
    text = "## Part 1\n\n### § 1\n\nRoads.\n\n### § 2\n\nLamps are white.\n"
    row = ChunkRow("a.md#1", "a.md", "The Act", "The Act > Part 1", text, {})
    assert row_excerpt(row, "white lamps", "english")[1] == "The Act > Part 1 > § 2"
    own = ChunkRow("a.md#1", "a.md", "The Act", "The Act > Part 1", "Shared.\n\n" + text, {}, own=text)
    assert row_excerpt(own, "white lamps", "english")[1] == "The Act > Part 1 > § 2"


@pytest.mark.parametrize(
    ("asked", "section"),
    [
        ("white lamp in front", "The Cycle Act > Part 1 > § 3 Lamps"),
        ("which cycle needs a third brake", "The Cycle Act > Part 1 > § 2 Brakes > Tandems"),
        ("who rides on a road", "The Cycle Act > Part 1 > § 1 Scope"),
    ],
)
def test_a_hit_names_the_section_that_its_excerpt_stands_in(tmp_path: Path, asked: str, section: str) -> None:
    place = make_workspace(tmp_path / "kb", embedding=False, documents={"act.md": ACT})
    place.index()
    hit = place.engine().search(asked, config_json("words", "keyword")).hits[0]
    assert (hit.chunk_id, hit.heading) == ("act.md#1", section)
