"""Files of a workspace are opened in one place: no other module reads or writes them by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.parsed import ROOT, modules, nodes

pytestmark = pytest.mark.static

METHODS = {"read_bytes", "read_text", "write_bytes", "write_text"}
ALLOWED = {
    "hive_agents/cli/answering.py": "a patch that the user names",
    "hive_agents/cli/label.py": "a file of questions that the user names",
    "hive_agents/cli/main.py": "/dev/null",
    "hive_agents/cli/terminal.py": "/dev/null",
    "hive_agents/copilot/foreign.py": "shipped with the package",
    "hive_agents/copilot/language.py": "shipped with the package",
    "hive_agents/judging/german.py": "the package's own table of words",
    "hive_agents/documents/content.py": "shipped with the package",
    "hive_agents/base/resources.py": "shipped with the package",
    "hive_agents/readers/conversion.py": "files that the user imports, from anywhere",
    "hive_agents/models/prices.py": "shipped with the package",
    "hive_agents/models/embedding/minilm.py": "the model's weights, by the path of the settings",
    "hive_agents/models/embedding/e5.py": "the weights of an installed package",
    "hive_agents/models/embedding/wordpieces.py": "the vocabulary of the package",
    "hive_agents/cli/sample.py": "a workspace that is being made",
    "hive_agents/server/pages/assets.py": "the package's own files",
    "hive_agents/server/pages/language.py": "the package's own texts",
}


def opens(tree: Iterable[ast.AST]) -> list[int]:
    """Lines that open a file by its path: `open(…)`, `os.open(…)`, `path.open(…)` with a mode, `path.read_text()` …"""
    found = []
    for node in tree:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            found.append(node.lineno)
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            mode = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            opened = node.func.attr == "open" and (owner == "os" or (isinstance(mode, str) and 0 < len(mode) < 4))
            if opened or node.func.attr in METHODS:
                found.append(node.lineno)
    return found


def test_workspaces_are_read_and_written_by_the_package_files_alone() -> None:
    found = {}
    for path in modules().values():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("hive_agents/base/files/") and (lines := opens(nodes(path))):
            found[name] = lines
    assert found.keys() == ALLOWED.keys(), {name: found[name] for name in found.keys() - ALLOWED.keys()}
