"""Files of a source: a file, a folder, a pattern, or a revision of a git repository on disk."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from hive_agents.base import HiveError
from hive_agents.readers import MAX_BYTES, ImportFailure, TableRow, read
from hive_agents.sync.git import git_output
from hive_agents.sync.ignoring import GitIgnore, file_is_ignored, folder_is_ignored, is_workspaces_own

_GIT_SECONDS = 120
_IN_A_MAILDIR = re.compile(r"\d+\.[^/]+")
_OWN = "the workspace's own"
_DEEPEST = 200
"""Levels of folders; Python walks them by calls within calls."""
_NEITHER = "neither a file nor a folder"
_MOST_LISTED = 10_000_000
"""Bytes of the list of a revision's files: some hundred thousand."""
_LINK, _SUBMODULE = "120000", "160000"


@dataclass(frozen=True)
class SourceFile:
    """One file of a source: `file` is its path below the source, `read` returns its bytes (raises ImportFailure).

    A `row` of a table is a file as well, below its table as if that were a folder; so is a mail of a mailbox, and what
    is attached to one: `within` levels below the file on disk, with its name in `part`. `path` is that of a file that
    is on disk itself.
    """

    file: PurePosixPath
    shown: str
    read: Callable[[], bytes]
    row: TableRow | None = None
    within: int = 0
    part: PurePosixPath | None = None
    path: Path | None = None
    settings: frozenset[str] = frozenset()

    @property
    def origin(self) -> PurePosixPath:
        """The file on disk; for a row its table."""
        return self.file.parents[self.within - 1] if self.within else self.file

    @property
    def place(self) -> PurePosixPath:
        """The path that determines the doc_id."""
        if self.part is None:
            return self.file
        table = PurePosixPath(self.origin.name.removesuffix(".gz")).stem
        return self.origin.parent / table / self.part


@dataclass
class Listing:
    """The files of a source.

    `refused` has the reason for each path that can't be listed or followed; files below it don't count as deleted.
    `ignored` counts the files and folders left out, by reason. `labels` are the tenant and the readers of documents, by
    file on disk or in a source elsewhere, where these aren't the whole source's.
    """

    found: list[SourceFile] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def ignore(self, why: str) -> None:
        self.ignored[why] = self.ignored.get(why, 0) + 1

    def below(self, only: PurePosixPath) -> Listing:
        """Return the files that are `only`, or in it."""
        found = [file for file in self.found if file.file.is_relative_to(only)]
        refused = {file: why for file, why in self.refused.items() if PurePosixPath(file).is_relative_to(only)}
        return Listing(found, refused)


def list_files(path: Path, pattern: str = "", rev: str | None = None, *, workspace: Path | None = None) -> Listing:
    """Return the files of a source, in order of names.

    `pattern` is a glob below `path`; `rev` names a revision of the git repository that `path` is in. The own files of
    `workspace` are left out.
    Raises: ImportFailure where the source itself can't be listed.
    """
    if rev is not None:
        return _revision(path, rev)
    if not path.exists():
        raise ImportFailure("no such file")
    if not path.is_dir():
        if not path.is_file():
            raise ImportFailure(_NEITHER)
        return Listing([_on_disk(path, Path(path.name))])
    try:
        return _folder(path, _matching(path, pattern) if pattern else None, workspace)
    except RecursionError:  # where a pattern is looked for
        raise ImportFailure(f"has folders more than {_DEEPEST} deep, which no pattern reaches") from None


def _folder(root: Path, wanted: set[Path] | None, workspace: Path | None) -> Listing:
    walk = _FolderWalk(root.resolve(), wanted, workspace)
    for name, subfolders, files in os.walk(walk.inside, onerror=walk.unreadable):
        folder = Path(name)
        if not walk.enters(folder):
            subfolders.clear()
            continue
        subfolders[:] = [below for below in sorted(subfolders) if walk.goes_on_below(folder / below)]
        for below in sorted(files):
            walk.take(folder / below)
    return walk.listing


class _FolderWalk:
    """A walk through the folder `inside` without ignored files; with `wanted`, only for these files."""

    def __init__(self, inside: Path, wanted: set[Path] | None, workspace: Path | None) -> None:
        self.inside, self.listing = inside, Listing()
        self._wanted, self._workspace, self._rules = wanted, workspace, GitIgnore(inside)
        self._reached = None if wanted is None else wanted.union(*(path.parents for path in wanted))

    def unreadable(self, error: OSError) -> None:
        """Refuse a folder that can't be listed. Raises: ImportFailure where it is the source itself."""
        folder = Path(str(error.filename))
        if folder.resolve() == self.inside:
            raise ImportFailure(f"cannot be listed: {error.strerror}")
        self._refuse(folder, f"cannot be read: {error.strerror}")

    def enters(self, folder: Path) -> bool:
        """Add the rules of a folder's .gitignore; return whether it could be read."""
        try:
            self._rules.enter(folder)
        except ImportFailure as failure:
            if folder == self.inside:
                raise
            self._refuse(folder, str(failure))
            return False
        return True

    def goes_on_below(self, path: Path) -> bool:
        """Return whether to descend into a folder; count or refuse it if not."""
        why = folder_is_ignored(path) or (".gitignore" if self._rules.ignores(path, is_folder=True) else None)
        if is_workspaces_own(path, self._workspace):
            why = _OWN
        if why is not None:
            self.listing.ignore(why)
        elif len(path.parts) - len(self.inside.parts) > _DEEPEST:
            self._refuse(path, f"more than {_DEEPEST} folders deep")
        elif not path.is_symlink():
            return True
        elif self._reached is None or path in self._reached:  # else the pattern matches nothing below it
            self._refuse(path, "a link to a folder; import the folder itself")
        return False

    def take(self, path: Path) -> None:
        """Add a file to the listing as found, ignored or refused."""
        if self._wanted is not None and path not in self._wanted:
            return
        why = file_is_ignored(path)
        if why is None and is_workspaces_own(path, self._workspace):
            why = _OWN
        if why is None and self._rules.ignores(path):
            why = ".gitignore"
        if why is not None:
            self.listing.ignore(why)
        elif (reason := _refusal(path, self.inside)) is not None:
            self._refuse(path, reason)
        else:
            self.listing.found.append(_on_disk(path, path.relative_to(self.inside)))

    def _refuse(self, path: Path, why: str) -> None:
        self.listing.refused[_key(path.relative_to(self.inside))] = why


def _refusal(path: Path, inside: Path) -> str | None:
    """Return why a path in a folder isn't imported, None for a file."""
    # `Path.resolve` would raise for a link to itself.
    if not Path(os.path.realpath(path)).is_relative_to(inside):
        return "a link that leaves the folder"
    try:
        return None if path.is_file() else "a link that leads nowhere" if path.is_symlink() else _NEITHER
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _matching(root: Path, pattern: str) -> set[Path]:
    """Return the files that a pattern matches, and all files below the folders that it matches."""
    inside = root.resolve()
    matches: set[Path] = set()
    for name in glob.iglob(pattern, root_dir=inside, recursive=True):
        path = inside / name
        if path.is_dir() and "**" not in pattern:  # a pattern with ** matches the files below by itself
            matches |= {Path(folder, file) for folder, _, files in os.walk(path) for file in files}
        else:
            matches.add(path)
    return matches


def _on_disk(path: Path, relative: Path) -> SourceFile:
    file = PurePosixPath(_key(relative))
    if file.parent.name in ("cur", "new") and _IN_A_MAILDIR.fullmatch(file.name):
        # A name that stays the same when the mail is read or flagged.
        name = re.split(r"[:;!]2,", file.name)[0].replace(".", "-")
        file = file.parent.parent / f"{name}.eml"
    return SourceFile(file, str(path), lambda: read(path), path=path)


def _key(relative: Path) -> str:
    """Return a path as in records, with bytes that aren't UTF-8 escaped."""
    return relative.as_posix().encode("utf-8", "backslashreplace").decode()


def commit_of(path: Path, rev: str) -> str:
    """Return the commit of a revision. Raises: ImportFailure where the repository has no such revision."""
    folder, _ = _existing(path)
    try:
        return _git(folder, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}").decode().strip()
    except ImportFailure as failure:
        raise ImportFailure(f"has no revision {rev}: {failure}") from None


def _existing(path: Path) -> tuple[Path, PurePosixPath]:
    """Return the nearest existing folder, and the path below it: a path may exist in a revision only."""
    folder = next(above for above in (path, *path.parents) if above.is_dir())
    return folder, PurePosixPath(path.relative_to(folder).as_posix())


def _revision(path: Path, rev: str) -> Listing:
    folder, below = _existing(path)
    commit = commit_of(path, rev)
    listing = Listing()
    exists = False
    blobs: list[tuple[PurePosixPath, str]] = []
    wanted = ["--", str(below)] if below.parts else []
    for entry in _git(folder, "ls-tree", "-r", "-z", commit, *wanted, most=_MOST_LISTED).split(b"\0"):
        if not entry:
            continue
        attributes, _, name = entry.partition(b"\t")
        mode, _, oid = attributes.decode().split()
        file = PurePosixPath(name.decode("utf-8", "backslashreplace"))
        if not file.is_relative_to(below):
            continue
        exists = True
        file = file.relative_to(below) if file != below else PurePosixPath(file.name)
        if any(part.startswith(".") for part in file.parts):
            listing.ignore("hidden")
        elif mode == _SUBMODULE:
            listing.refused[str(file)] = "a submodule; import its own repository"
        elif mode == _LINK:
            listing.refused[str(file)] = "a link in a revision; import what it points to"
        else:
            blobs.append((file, oid))
    if not exists:
        raise ImportFailure(f"is not in the revision {rev}")
    contents = _Blobs(folder, [oid for _, oid in blobs])
    for file, oid in blobs:
        listing.found.append(SourceFile(file, f"{rev}:{file}", lambda oid=oid: contents.of(oid)))  # type: ignore[misc]
    return listing


class _Blobs:
    """Contents of a revision's files by object id, within MAX_BYTES."""

    def __init__(self, folder: Path, oids: list[str]) -> None:
        self._folder = folder
        self._sizes = self._read_sizes(oids)

    def of(self, oid: str) -> bytes:
        if self._sizes.get(oid, 0) > MAX_BYTES:
            raise ImportFailure(f"larger than {MAX_BYTES // 1_000_000} MB; split it")
        return _git(self._folder, "cat-file", "blob", oid)

    def _read_sizes(self, oids: list[str]) -> dict[str, int]:
        output = _git(self._folder, "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(oids))
        lines = (line.split() for line in output.decode().splitlines())
        return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def _git(folder: Path, *arguments: str, stdin: str = "", most: int = MAX_BYTES) -> bytes:
    """Return the output of a git command, run without hooks, network and prompts. Raises: ImportFailure."""
    isolation = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
    command = ["-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    try:
        return git_output(command, seconds=_GIT_SECONDS, most=most, stdin=stdin.encode(), env=isolation)
    except FileNotFoundError:
        raise ImportFailure("reading a revision needs git, which isn't installed") from None


def split_pattern(text: str) -> tuple[Path, str]:
    """Return the folder above a pattern and the pattern below it; the path and "" where it is no pattern.

    >>> split_pattern("docs/v3.*/**")
    (PosixPath('docs'), 'v3.*/**')

    Raises: HIVE-409 for an empty name, such as an unset shell variable: it would mean the current folder.
    """
    if not text.strip():
        raise HiveError.of("HIVE-409", "the name of a source is empty", fix="name a file, a folder or a glob")
    path = Path(text)
    if path.exists() or not glob.has_magic(text):
        return path, ""
    parts = path.parts
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:fixed]), str(Path(*parts[fixed:]))


def below_one_another(paths: list[Path]) -> Iterator[Path]:
    """Yield the paths that are below no other of them, each once: a shell's `**` gives folders and their files."""
    resolved = {path.resolve(): path for path in paths}
    for real_path, path in resolved.items():
        if not any(parent in resolved for parent in real_path.parents):
            yield path
