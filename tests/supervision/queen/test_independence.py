"""What her code can't do, by what it imports: no word to the health judge, no decision of a request."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from graphs.queen import graph
from tests.parsed import ROOT, nodes

QUEEN = [*(ROOT / "hive_agents/supervision/queen").glob("*.py"), ROOT / "graphs/queen.py"]
JUDGE = [*(ROOT / "hive_agents/supervision/health").glob("*.py"), *(ROOT / "graphs").glob("judge.py")]


def names(path: Path) -> set[str]:
    """What a file imports, and every name and attribute in it."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


@pytest.mark.static
@pytest.mark.parametrize(("files", "other"), [(QUEEN, ("health", "judge")), (JUDGE, ("queen",))])
def test_judge_and_queen_import_nothing_of_each_other(files: list[Path], other: tuple[str, ...]) -> None:
    for path in files:
        imports = {name for name in names(path) if "." in name}
        for part in other:
            assert not [n for n in imports if n.startswith((f"hive_agents.supervision.{part}", f"graphs.{part}"))]


@pytest.mark.static
def test_she_has_no_way_to_decide_a_request_or_to_read_a_secret() -> None:
    store_methods = {"carry_out", "delegate", "revise", "reveal", "get_secret"}
    for path in [*QUEEN, ROOT / "hive_agents/host/queen.py"]:
        found = names(path)
        assert not found & store_methods, path
        assert not [name for name in found if name.endswith((".carry_out", "decisions.decide", ".resolve"))], path
    calls = [
        ast.unparse(node)
        for path in QUEEN
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr == "decide"
    ]
    # Her own decisions on tickets; `ApprovalStore.decide` is another matter.
    assert set(calls) == {"session.escalations.decide", "session.rulings.decide"}


def test_the_graph_reads_like_the_diagram() -> None:
    assert {(edge.source, edge.target) for edge in graph.get_graph().edges} == {
        ("__start__", "hear"),
        ("hear", "decide"),
        ("hear", "think"),
        ("hear", "answer"),
        ("decide", "act"),
        ("think", "act"),
        ("think", "answer"),
        ("think", "say"),
        ("act", "think"),
        ("act", "say"),
        ("answer", "say"),
        ("say", "__end__"),
    }
