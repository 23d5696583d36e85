"""The workspace: a folder of files that people and agents edit, with derived state in `.hive/`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import disk_errors, guarded, locked, make_folder, unlinked
from hive_agents.workspace import machine

if TYPE_CHECKING:
    from hive_agents.workspace.settings import Settings


@dataclass(frozen=True)
class RemoteDatabase:
    """A schema of the PostgreSQL database in a workspace's settings."""

    url: str
    schema: str
    root: Path = field(compare=False)
    """The workspace's folder, whose trust and credentials the connection needs."""
    password_ref: str | None = field(default=None, compare=False, repr=False)
    """A reference to the password; None is the one in the settings."""
    is_target: bool = field(default=False, compare=False, repr=False)
    """Whether records are moved there, so that a new schema may be made while others are here still."""

    @property
    def name(self) -> str:
        """The name in diagnostics."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} ({self.schema})"

    def exists(self) -> bool:
        """Return True: its tables are made on first use."""
        return True


class Workspace:
    """One workspace folder: its paths, settings and lock. The public API adds index and engine, see `searchable`.

    Raises: HIVE-410 when `root` has no `collections/`.
    """

    waiting: Callable[[str], None] | None = None
    """Called with a description of the lock's holder when a wait takes over a second."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not (self.root / "collections").is_dir():
            raise HiveError.of(
                "HIVE-410",
                f"{os.fspath(root)} is not a workspace: it has no collections/",
                fix="run `hive init DIR` to make one, or name one with -w DIR",
            )
        guarded.guard(self.root)
        self.stands_for: Workspace | None = None
        """The workspace of which this is a temporary copy, and whose trust applies here."""

    @classmethod
    def find(cls, start: Path | None = None) -> Self:
        """Return the nearest folder upwards with `collections/`, else `./workspace`. Raises: HIVE-410."""
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "collections").is_dir():
                return cls(folder)
        if (here / "workspace" / "collections").is_dir():
            return cls(here / "workspace")
        raise HiveError.of(
            "HIVE-410",
            "no workspace here: neither this folder, nor one above it, nor ./workspace has collections/",
            fix="run `hive init DIR` to make one, or name one with -w DIR",
        )

    @property
    def documents(self) -> Path:
        return self.root / "documents"

    @property
    def configs(self) -> Path:
        return self.root / "configs"

    @cached_property
    def database(self) -> Path:
        return self.state / "hive.db"

    @cached_property
    def records(self) -> Path | RemoteDatabase:
        """The database of runs, approvals, events and all other records: the index's, or a server that hosts share."""
        storage = self.settings.storage
        return RemoteDatabase(storage.url, storage.namespace, self.root) if storage.url else self.database

    @cached_property
    def state(self) -> Path:
        """`.hive/`, readable only by its owner: it contains every document's text.

        Raises: HIVE-430 for one that was not made on this machine, HIVE-114 for a link.
        """
        folder = unlinked(self.root / ".hive")
        with disk_errors(folder):
            if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
                machine.make_state(folder)
            elif not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "it is no folder")
        if machine.origin(folder) is None:
            raise machine.foreign_state(".hive")
        return folder

    def state_folder(self, name: str) -> Path:
        """Return a folder below `.hive/`, made if needed and readable only by its owner."""
        folder = self.state / name
        with disk_errors(folder):
            make_folder(folder, 0o700)
        return folder

    @cached_property
    def settings(self) -> Settings:
        from hive_agents.workspace.settings import load_settings

        return load_settings(self.root, os.environ)

    def relative(self, path: Path) -> str:
        """Return `path` as diagnostics show it: below the workspace with `/`, else as it is."""
        # Links in parent folders are resolved; a link such as active.json itself keeps its name.
        for place in (Path(os.path.abspath(path)), path.absolute().parent.resolve() / path.name):
            if place.is_relative_to(self.root):
                return place.relative_to(self.root).as_posix()
        return path.as_posix()

    def json_files(self, folder: str) -> tuple[list[Path], list[Diagnostic]]:
        """Return the JSON files of a folder, by name, and diagnostics of entries that would silently be ignored.

        Raises: HIVE-403 for a folder that can't be read.
        """
        place, files, faults = self.root / folder, [], []
        try:
            entries = sorted(place.iterdir())
        except FileNotFoundError:
            entries = []
            if place.is_symlink():
                faults.append(_misplaced(folder, "is a link that leads nowhere", "make it a folder"))
        except NotADirectoryError:
            entries = []
            faults.append(_misplaced(folder, "is no folder", "make it a folder"))
        except OSError as error:
            fix = "make it a readable folder"
            raise HiveError.of("HIVE-403", f"{folder} cannot be read: {error.strerror}", file=folder, fix=fix) from None
        for entry in entries:
            is_json = entry.suffix.lower() == ".json"
            if is_json and entry.is_file():
                files.append(entry)
            elif is_json or (entry.is_dir() and not entry.name.startswith(".")):
                fix = f"put its files into {folder}/ itself, or move it out"
                faults.append(_misplaced(self.relative(entry), "is no file, so it is not read", fix))
        return files, faults

    @contextmanager
    def exclusive(self, what: str, timeout: float = 30.0) -> Iterator[None]:
        """Hold the lock of writers of index, deployments and golden set. Raises: HIVE-402 after `timeout` seconds."""
        with locked(self.state / "write.lock", what, timeout, waiting=self.waiting):
            yield

    def __repr__(self) -> str:
        return f"Workspace({str(self.root)!r})"


def _misplaced(file: str, what: str, fix: str) -> Diagnostic:
    return Diagnostic("HIVE-104", f"{file} {what}", file, "$", fix)
