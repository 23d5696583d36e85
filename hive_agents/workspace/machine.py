"""Properties of this machine: its key, which `.hive` folders were made here, its cores.

The key is in the folder `HIVE_HOME`, by default `$XDG_STATE_HOME/hive-agents`, else `~/.local/state/hive-agents`. A
`.hive` contains a random id and the id's HMAC by the key: one from another machine has no valid one, and one that is
copied or moved on this machine stays valid.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shutil
import sys
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write, disk_errors, make_folder, read_bytes, unlinked

VARIABLE = "HIVE_HOME"
ORIGIN = "origin"
"""The file in `.hive` with id and HMAC."""


def home() -> Path:
    """Return the folder for this machine's state outside of workspaces. Raises: HIVE-403 without a home folder."""
    path, base, user = map(os.environ.get, (VARIABLE, "XDG_STATE_HOME", "HOME"))
    return _home(path, base, user) if not path or os.path.isabs(path) else Path(os.path.abspath(path))


@lru_cache(maxsize=16)
def _home(path: str | None, base: str | None, user: str | None) -> Path:
    """Return the folder by these variables: each check of trust asks for it."""
    if path:
        return Path(os.path.normpath(path))
    try:
        state = Path(base) if base and os.path.isabs(base) else (Path(user) if user else Path.home()) / ".local/state"
    except RuntimeError:
        fix = f"set {VARIABLE} to a folder to keep"
        raise HiveError.of("HIVE-403", "this user has no home folder", fix=fix) from None
    return state / "hive-agents"


def cores() -> int:
    """Return the number of threads for parallel computation: the cores that this process may use, 8 at most."""
    available = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(available, 8)


def make_state(folder: Path) -> None:
    """Make a workspace's state folder with its mark, unless there is one that isn't empty.

    Raises: HIVE-403, HIVE-114.
    """
    # Renamed when it is complete: another process never sees it without its mark.
    new = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.tmp")
    make_folder(new, 0o700)
    try:
        adopt(new)
        with suppress(FileExistsError):
            _rename(new, unlinked(folder))
    finally:
        shutil.rmtree(new, ignore_errors=True)


def adopt(folder: Path) -> None:
    """Mark a state folder as made on this machine. Raises: HIVE-403, HIVE-114."""
    id = secrets.token_hex(16)
    atomic_write(folder / ORIGIN, json.dumps({"id": id, "mark": _mark(id)}).encode(), mode=0o600)


def origin(folder: Path) -> str | None:
    """Return the id of a state folder that was made on this machine; None for any other. Raises: HIVE-114."""
    try:
        record = json.loads(read_bytes(folder / ORIGIN))
        id, mark = record["id"], record["mark"]
        return id if hmac.compare_digest(mark.encode(), _mark(id).encode()) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def bound(secret: bytes) -> bytes:
    """Return the key of 32 bytes that this machine alone derives from a secret in a state folder. Raises: HIVE-403.

    Whoever plants a file there doesn't know the key.
    """
    return hmac.new(_key(), b"bound\0" + secret, hashlib.sha256).digest()


def foreign_state(shown: str) -> HiveError:
    """Return HIVE-430 for a state folder of another machine."""
    return HiveError.of(
        "HIVE-430",
        f"{shown} was not made on this machine: what it holds may have been prepared by somebody else",
        file=shown,
        fix="`hive trust --rebuild` sets it aside, and `hive index` builds it anew; if it is yours, from an earlier"
        " release or another machine, `hive trust` takes it over",
    )


def set_aside(folder: Path) -> Path:
    """Rename a state folder, and return its new path. Raises: HIVE-403."""
    aside = folder.with_name(f"{folder.name}-foreign-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}")
    with disk_errors(folder):
        unlinked(folder).rename(aside)
    return aside


def _rename(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`, unless another process has made it."""
    try:
        new.rename(folder)
    except OSError:
        if not folder.is_dir() or not any(folder.iterdir()):
            raise


def _mark(id: str) -> str:
    return hmac.new(_key(), f"state\0{id}".encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """Return the machine's key, made on first use; concurrent processes get the same one."""
    path = home() / "key"
    try:
        key = read_bytes(path)
    except FileNotFoundError:
        key = b""
    except OSError as error:
        raise _unusable(path, error.strerror or "unreadable") from None
    if len(key) == 32:
        return key
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_name(f".key.{secrets.token_hex(8)}.tmp")
        atomic_write(new, secrets.token_bytes(32), mode=0o600)
        try:
            if key:  # damaged: folders that it marked become foreign
                new.replace(path)
            else:
                os.link(new, path)
        except FileExistsError:
            pass  # another process was first
        finally:
            new.unlink(missing_ok=True)
        return read_bytes(path)
    except OSError as error:
        raise _unusable(path, error.strerror or "not writable") from None
    except HiveError as error:
        raise _unusable(path, error.diagnostics[0].message) from None


def _unusable(path: Path, why: str) -> HiveError:
    fix = f"set {VARIABLE} to a folder that you can write, and keep it: it tells your workspaces from a stranger's"
    return HiveError.of("HIVE-403", f"this machine's key can't be kept in {path.parent}: {why}", fix=fix)
