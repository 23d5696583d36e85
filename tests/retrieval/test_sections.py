from pathlib import Path

import pytest

from hive_agents.retrieval.excerpts import row_excerpt
from hive_agents.retrieval.lanes import ChunkRow
from hive_agents.retrieval.sections import section_of
from tests.conftest import config_json, make_workspace

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
