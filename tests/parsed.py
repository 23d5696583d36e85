"""The sources as they are parsed: once for a process, however many checks look at them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules() -> dict[str, Path]:
    """Return the path of each module of the package and of `graphs` by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for top in ("hive_agents", "graphs")
        for path in sorted((ROOT / top).rglob("*.py"))
    }


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return every node of a file, its module first."""
    gc.disable()  # a tree is a million objects that stay: looking for garbage among them takes longer than parsing
    try:
        return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    finally:
        gc.freeze()
        gc.enable()
