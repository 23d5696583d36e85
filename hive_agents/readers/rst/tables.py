"""Tables of the parsed tree as rows of cells."""

from __future__ import annotations

from collections.abc import Callable

from docutils import nodes


def rows_of(node: nodes.table, text: Callable[[nodes.Element], str]) -> list[list[str]]:
    """Return the cells' text, the head's rows first, or an empty row; spanning cells are followed by empty ones."""
    rows: list[list[str]] = []
    below: dict[int, int] = {}  # column -> rows that a cell above still covers
    for row in node.findall(nodes.row):
        cells: list[str] = []
        for entry in row.findall(nodes.entry):
            _skip_covered(cells, below)
            start = len(cells)
            cells += [text(entry), *[""] * int(entry.get("morecols", 0))]
            if entry.get("morerows"):
                below.update(dict.fromkeys(range(start, len(cells)), int(entry["morerows"])))
        _skip_covered(cells, below)
        rows.append(cells)
    if not any(True for _ in node.findall(nodes.thead)):
        rows.insert(0, [""] * len(rows[0]) if rows else [])
    return rows


def _skip_covered(cells: list[str], below: dict[int, int]) -> None:
    while below.get(len(cells), 0):
        below[len(cells)] -= 1
        cells.append("")
