"""Packages whose public names are loaded on first use: each name is there, typed, and costs nothing before."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import hive_agents
from tests.parsed import modules, nodes
from tests.test_budget import doors

ROOT = Path(str(hive_agents.__file__)).parent
PACKAGES = sorted(
    ".".join(("hive_agents", *stub.parent.relative_to(ROOT).parts)) for stub in ROOT.rglob("__init__.pyi")
)


def test_every_package_of_the_library_has_a_stub() -> None:
    packages = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert packages - {name.rpartition(".")[2] for name in PACKAGES} == {"supervision"}  # its two halves have their own


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_all_can_be_had(package: str) -> None:
    module = import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_the_package_loads_none_of_its_files(package: str) -> None:
    code = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(found) == []


@pytest.mark.static
def test_outsiders_import_packages_and_not_their_files() -> None:
    packages = {".".join(("hive_agents", *face.parent.relative_to(ROOT).parts)) for face in ROOT.rglob("__init__.py")}
    reached = [
        f"{module.relative_to(ROOT.parent)}: {node.module}"
        for module in modules().values()
        for node in nodes(module)
        if isinstance(node, ast.ImportFrom)
        and str(node.module).count(".") > 1
        and str(node.module).startswith("hive_agents.")
        and node.module not in packages
        and str(node.module).split(".")[1] != _home(module)
    ]
    assert reached == []


@pytest.mark.static
def test_a_module_that_outsiders_use_by_its_name_is_handed_on_by_its_package() -> None:
    hidden = [
        f"{path.relative_to(ROOT.parent)}: {node.module}.{alias.name}"
        for path in modules().values()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and str(node.module) in doors().keys() - {"hive_agents"}
        for alias in node.names
        if modules().get(f"{node.module}.{alias.name}", Path("__init__.py")).name != "__init__.py"
        and str(node.module).split(".")[1] != _home(path)
        and alias.name not in doors()[str(node.module)]
    ]
    assert hidden == []


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        import_module("hive_agents.base.files", "hive_agents.store").nothing  # noqa: B018


def _home(module: Path) -> str:
    """Return the package of the library in which a module lives, or an empty string."""
    parts = module.relative_to(ROOT.parent).parts
    return parts[1] if parts[0] == "hive_agents" and len(parts) > 2 else ""
