"""Packages whose public names are loaded on first use: each name is there, typed, and costs nothing before."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("hive_agents", "hive_agents.expressions", "hive_agents.files", "hive_agents.store")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_all_can_be_had(package: str) -> None:
    module = import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_of_all_and_no_others(package: str) -> None:
    module = import_module(package)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    typed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(package)
        for alias in node.names
        if alias.name != "lazy"
    }
    assert typed == set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_the_package_loads_none_of_its_files(package: str) -> None:
    code = f"import sys, {package}; print([name for name in sys.modules if name.startswith('{package}.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ast.literal_eval(found) == (["hive_agents.lazy"] if package == "hive_agents" else [])


def test_a_name_that_is_not_public_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'hive_agents\.files' has no attribute 'nothing'"):
        import_module("hive_agents.files", "hive_agents.store").nothing  # noqa: B018
