"""`docs/architecture.md` draws the layers that are enforced, and names files that there are."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from graphlib import TopologicalSorter

import pytest

from tests.parsed import ROOT, modules, nodes
from tests.test_budget import imports_of

pytestmark = pytest.mark.static

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:[\w.]+/)+[\w.]*)`")


def drawn() -> list[set[str]]:
    """Return the names of each layer of the drawing, from the top; a line that begins with blanks goes on."""
    layers: list[set[str]] = []
    for line in PAGE.split("```")[1].strip("\n").splitlines():
        names = set(re.findall(r"\w+", line[:48]))
        if line.startswith(" "):
            layers[-1] |= names
        else:
            layers.append(names)
    return layers


def test_the_drawing_has_the_layers_that_are_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (enforced,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    assert drawn() == [set(layer.replace("hive_agents.", "").split(" | ")) for layer in enforced]


def test_every_part_of_the_library_is_in_the_drawing() -> None:
    there = {
        path.stem
        for path in (ROOT / "hive_agents").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__", "__main__"} == set().union(*drawn()) - {"graphs"}


def test_files_that_the_page_names_are_there() -> None:
    bases = (ROOT / "hive_agents", ROOT)
    for name in PATH.findall(PAGE):
        assert any((base / name).exists() or (base / f"{name}.py").exists() for base in bases), name


DEFINED_TWICE = {
    "Budget": "the public name of limits, and what counts against them",
    "Call": "a tool's, and a request's to the server",
    "Effect": "a function of code that happens once, and what a person's decision carries out",
    "Trial": "of a flow in a test, and of the optimizer's proposals",
    "Certificate": "the gate certifies a config, calibration a judge",
    "Step": "each graph's nodes are steps of its own session and state",
    "Update": "each graph's nodes return an update of its own state",
    "Tool": "what an agent may use, and what a model is told of it",
    "Workspace": "the public one adds index and engine to the one below",
}


def test_a_class_or_an_alias_of_types_means_one_thing() -> None:
    names: Counter[str] = Counter()
    for path in modules().values():
        (module,) = (node for node in nodes(path) if isinstance(node, ast.Module))
        for node in module.body:
            match node:
                case ast.ClassDef(name=name):
                    names[name] += 1
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() | ast.Name()):
                    names[name] += not name.isupper() and name[0].isupper()
    assert {name for name, count in names.items() if count > 1} == DEFINED_TWICE.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = {module: imports_of(module) for module in modules()}
    assert "hive_agents.ranking.engine" in imports["hive_agents.evaluation.evaluate"], "names of packages are followed"
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle
