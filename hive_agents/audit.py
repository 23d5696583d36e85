"""The audit log: append-only, one JSON object a line, chained so that a changed line shows.

`audit/log.jsonl` is authoritative for deployments, uses of a holdout and decisions. With a key in
`HIVE_AUDIT_KEY` the chain is an HMAC that only a holder of the key can continue; without one it is a
plain hash, which detects accidents and not attackers.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from hive_agents.errors import HiveError
from hive_agents.files import append_line, disk_errors, locked
from hive_agents.workspace import Workspace

FILE = "audit/log.jsonl"


@dataclass(frozen=True)
class Verdict:
    """`first_bad` is the 1-based line that breaks the chain; `head` the last line's digest."""

    ok: bool
    entries: int
    first_bad: int | None
    keyed: bool
    head: str


def append(workspace: Workspace, kind: str, **fields: Any) -> dict[str, Any]:
    """Add an entry and wait until it is on disk; returns it with `seq`, `at` and `digest`."""
    with locked(workspace.state / "audit.lock", "writing the audit log"):
        _mend_last_line(workspace)
        last = next(iter(deque(entries(workspace), maxlen=1)), None)
        entry = {
            "seq": (last["seq"] if last else 0) + 1,
            "at": now(),
            "kind": kind,
            **fields,
            "previous": last["digest"] if last else "",
        }
        entry["digest"] = _digest(entry, _key())
        append_line(workspace.root / FILE, json.dumps(entry, ensure_ascii=False, sort_keys=True))
        return entry


def entries(workspace: Workspace, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """The entries in order. A last line cut short by a crash was never promised to anybody, and is left out.

    Raises: HIVE-101 for a damaged line that is not the last.
    """
    path = workspace.root / FILE
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = _entry(line)
        if entry is None:
            if number == len(lines):
                return
            fix = "restore audit/log.jsonl from version control or a backup"
            raise HiveError.of(
                "HIVE-101", "a line of the audit log is damaged", file=FILE, path="$", line=number, fix=fix
            )
        if kind is None or entry["kind"] == kind:
            yield entry


def recorded(workspace: Workspace, kind: str) -> Sequence[dict[str, Any]]:
    """The entries of a kind, oldest first; a file that hasn't changed since the last call is not read again."""
    try:
        status = (workspace.root / FILE).stat()
    except OSError:
        return ()
    return _recorded(workspace, kind, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _recorded(workspace: Workspace, kind: str, changed: int, size: int) -> Sequence[dict[str, Any]]:  # noqa: ARG001
    return tuple(entries(workspace, kind))


def reaches(workspace: Workspace, count: int, head: str) -> bool:
    """Whether the log still goes on from the head that a certificate names; one cut or rewritten before it doesn't."""
    return count == 0 or next((entry["digest"] for entry in islice(entries(workspace), count - 1, None)), None) == head


def verify(workspace: Workspace) -> Verdict:
    """Walk the chain from the first line."""
    key, previous, count = _key(), "", 0
    try:
        for count, entry in enumerate(entries(workspace), start=1):
            sound = hmac.compare_digest(entry["digest"].encode("utf-8", "surrogatepass"), _digest(entry, key).encode())
            if not sound or entry.get("previous") != previous or entry["seq"] != count:
                return Verdict(False, count, count, key is not None, previous)
            previous = entry["digest"]
    except HiveError as error:
        return Verdict(False, count, error.diagnostics[0].line, key is not None, previous)
    return Verdict(True, count, None, key is not None, previous)


def _entry(line: bytes) -> dict[str, Any] | None:
    """The entry in a line; None where it is none, cut short or damaged."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    types = {"seq": int, "kind": str, "digest": str}
    sound = all(isinstance(entry.get(name), kind) for name, kind in types.items())
    return entry if sound else None


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _digest(entry: Mapping[str, Any], key: bytes | None) -> str:
    body = {name: value for name, value in entry.items() if name != "digest"}
    data = json.dumps(body, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    return hmac.new(key, data, hashlib.sha256).hexdigest() if key else hashlib.sha256(data).hexdigest()


def _key() -> bytes | None:
    value = os.environ.get("HIVE_AUDIT_KEY", "")
    return value.encode() or None


def _mend_last_line(workspace: Workspace) -> None:
    """Drop what a crash left of an entry; a whole entry that only lacks its end is kept, as readers saw it."""
    path = workspace.root / FILE
    if not path.exists():
        return
    data = path.read_bytes()
    start = data.rfind(b"\n") + 1
    if start == len(data):
        return
    with disk_errors(path), path.open("r+b") as file:
        if _entry(data[start:]) is None:
            file.truncate(start)
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")
