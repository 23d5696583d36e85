"""Files of a folder that aren't imported: hidden, installed, built, or ignored by `.gitignore`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec, RegexPattern

from hive_agents.readers import ImportFailure, conversion

_ALWAYS = {"node_modules", "bower_components", "__pycache__", "__pypackages__", "site-packages", "_build"}
_MADE = {
    "build": ("pyproject.toml", "setup.py", "package.json", "CMakeLists.txt", "build.gradle", "build.gradle.kts"),
    "dist": ("pyproject.toml", "setup.py", "package.json"),
    "out": ("package.json", "CMakeLists.txt"),
    "target": ("Cargo.toml", "pom.xml", "build.sbt"),
    "vendor": ("go.mod", "composer.json", "Gemfile"),
    # Sphinx copies each page's source beside the page.
    "_sources": ("searchindex.js", "objects.inv"),
    "_static": ("searchindex.js", "objects.inv"),
}
"""Folders that are build output only beside one of these files: a guide may have a chapter called "build"."""
_MOST_BYTES = 100_000
_ANYWHERE, _FOLDERS = "^(?:.+/)?", "(?:/.+)?"
_BEFORE_STAR = re.compile(r"\[\^/\]\*((?:\\.|\[(?!\^/\]\*)\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\]()/*+?])*+)(?=\[\^/\]\*)")
"""What is between two stars within a folder's name, with the first of them, as pathspec writes them."""
_SPHINX_LISTS = re.compile(r"(?:gen|py-mod)index(?:-\w+)?\.html|search\.html")
_OF_A_WORKSPACE = frozenset(
    """access agents AGENTS.md audit collections configs documents embeddings evals goals hive.toml prompts rules
    scripts triggers uploads""".split()
)


def is_workspaces_own(path: Path, workspace: Path | None) -> bool:
    """Return whether a path is one of a workspace's own files or folders, which are never imported."""
    return workspace is not None and path.parent == workspace and path.name in _OF_A_WORKSPACE


def folder_is_ignored(folder: Path) -> str | None:
    """Return why a folder is ignored, None where it isn't."""
    name = folder.name
    if name.startswith("."):
        return "hidden"
    if name in _ALWAYS or name.endswith(".egg-info"):
        return "installed or built"
    if os.path.exists(folder / "pyvenv.cfg"):  # `Path.exists` would raise for a folder without access
        return "a virtual environment"
    beside = next((file for file in _MADE.get(name, ()) if (folder.parent / file).exists()), None)
    return f"build output, by the {beside} beside it" if beside else None


def file_is_ignored(file: Path) -> str | None:
    """Return why a file is ignored, None where it isn't."""
    if file.name.startswith("."):
        return "hidden"
    listed = _SPHINX_LISTS.fullmatch(file.name) and (file.parent / "searchindex.js").exists()
    return "a built index of pages, by the searchindex.js beside it" if listed else None


@dataclass(frozen=True)
class _Rules:
    folder: Path
    spec: GitIgnoreSpec


class GitIgnore:
    """The `.gitignore` files of a folder: its own, those above it in the repository, those below.

    Rules from above are dropped if they ignore the folder itself, which the user named.
    """

    def __init__(self, root: Path) -> None:
        above = []
        for folder in (root, *root.parents):
            above.append(folder)
            if (folder / ".git").exists():
                break
        else:
            above = [root]  # in no repository
        self._rules = [rules for folder in reversed(above[1:]) if (rules := _read(folder)) is not None]
        if above[1:] and self.ignores(root, is_folder=True):
            self._rules = []

    def enter(self, folder: Path) -> None:
        """Add the rules of a folder; a folder has to be entered before those in it."""
        rules = _read(folder)
        if rules is not None:
            self._rules.append(rules)

    def ignores(self, path: Path, *, is_folder: bool = False) -> bool:
        """Return whether the nearest rule that matches the path ignores it."""
        for rules in reversed(self._rules):
            if path != rules.folder and path.is_relative_to(rules.folder):
                relative = path.relative_to(rules.folder).as_posix() + ("/" if is_folder else "")
                verdict = rules.spec.check_file(relative).include
                if verdict is not None:
                    return verdict
        return False


def _read(folder: Path) -> _Rules | None:
    path = folder / ".gitignore"
    if not os.path.exists(path):  # or there is no access to the folder: its files are refused one by one
        return None
    try:
        with conversion.streamed(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except ImportFailure as failure:
        raise ImportFailure(f"{path} {failure}") from None
    if len(data) > _MOST_BYTES:
        raise ImportFailure(f"{path} has more than {_MOST_BYTES:,} bytes")
    try:
        rules = GitIgnoreSpec.from_lines(data.decode("utf-8", "replace").splitlines())
    except ValueError as error:
        raise ImportFailure(f"{path}: {error}") from error
    for rule in rules.patterns:
        if isinstance(rule, RegexPattern) and rule.regex is not None:
            rule.regex = re.compile(_without_backtracking(rule.regex.pattern))
    return _Rules(folder, rules)


def _without_backtracking(regex: str) -> str:
    r"""Return the expression of a line with atomic wildcards: what the first of two leaves is the most for the second.

    >>> _without_backtracking("^a[^/]*b[^/]*c")
    '^a(?>[^/]*?b)[^/]*c'
    >>> _without_backtracking("^(?:.+/)?a(?:/.+)?/b(?:/.+)?/c")
    '^(?>(?:.+?/)??a(?=/))(?>(?:/.+?)??/b(?=/))(?:/.+)?/c'
    """
    first, *middle = _BEFORE_STAR.sub(r"(?>[^/]*?\1)", regex).split(_FOLDERS)
    if not middle:
        return first
    if first.startswith(_ANYWHERE):
        first = f"^(?>(?:.+?/)??{first.removeprefix(_ANYWHERE)}(?=/))"
    atomic = "".join(f"(?>(?:/.+?)??{part}(?=/))" for part in middle[:-1])
    return f"{first}{atomic}{_FOLDERS}{middle[-1]}"
