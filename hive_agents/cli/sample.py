"""`hive init`: a new workspace from the bundled sample, or an empty one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from hive_agents.base import HiveError, bundled
from hive_agents.base.files import atomic, atomic_write_text, disk_errors
from hive_agents.workspace import Workspace, trust

_DERIVED = (".hive", "active.json", "audit", "__pycache__")
_OF_THE_SAMPLE = ("documents", "evals", "embeddings", "access", "scripts", "hive.toml")
_GENERIC_FIELDS = {
    "title": {"type": "text"},
    "category": {"type": "keyword", "filterable": True},
    "content": {"type": "text"},
}


REPEATED = 0.5
"""The score factor of a chunk that consists only of lines that each page of a site repeats."""

_OPEN = """\
[access]
mode = "open"        # you, on this machine, read every document …
until_named = true   # … until access/ names people (docs/copilot.md)
"""


def init_workspace(folder: Path, *, empty: bool = False) -> Path:
    """Make a workspace, and return its path. Raises: HIVE-409 for a folder that isn't empty, HIVE-403."""
    path = folder.resolve()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise HiveError.of("HIVE-409", f"{folder} is not an empty folder", fix="name a new or an empty folder")
    with disk_errors(path):
        shutil.copytree(
            bundled("workspace"),
            path,
            ignore=shutil.ignore_patterns(*_DERIVED, *(_OF_THE_SAMPLE if empty else ())),
            dirs_exist_ok=True,
            copy_function=shutil.copyfile,
        )
        atomic_write_text(path / ".gitignore", ".hive/\n.hive-foreign-*/\n")
        if empty:
            (path / "documents").mkdir()
            _generic(path)
            _first_config(path)
            atomic_write_text(path / "hive.toml", _OPEN)
        atomic.atomic_symlink(path / "configs" / "active.json", "v1.json")
    trust(Workspace(path))
    return path


def _generic(path: Path) -> None:
    """Replace the sample's fields of the collection by generic ones."""
    file = path / "collections" / "knowledge-base.json"
    collection = json.loads(file.read_text(encoding="utf-8"))
    collection |= {"description": "", "fields": _GENERIC_FIELDS}
    atomic_write_text(file, json.dumps(collection, indent=2) + "\n")


def _first_config(path: Path) -> None:
    """Make the first config return each document once, and nothing where no document is near the question."""
    file = path / "configs" / "v1.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["description"] = (
        "Hybrid search, ten documents, those with the names of the question first; nothing where nothing is near it by "
        "meaning or by words"
    )
    config["retrieval"]["per_document"] = 1
    config["abstain"] = {"enabled": True}
    config["lift"] = {"enabled": True, "weight": 1.0}
    config["boilerplate"] = {"weight": REPEATED}
    atomic_write_text(file, json.dumps(config, indent=2) + "\n")
