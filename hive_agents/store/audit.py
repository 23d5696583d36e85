"""The audit log: append-only, one JSON object a line, chained so that a changed line shows.

It is the file `audit/log.jsonl`, or lines of a table where hosts share their records. It is authoritative for
deployments, uses of a holdout and decisions. With a key in `HIVE_AUDIT_KEY` the chain is an HMAC that only a holder of
the key can continue; without one it is a plain hash, which detects accidents and not attackers. `.hive/audit.head`
records the log's end after this host's last write, so that a cut shows; it is written after the line, and lags behind
after a crash between the two.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.base import AuditFault, HiveError
from hive_agents.base.files import atomic_write, read_bytes
from hive_agents.store.audit_lines import FileLines, LogLines, TableLines, entry_in
from hive_agents.store.moved import MOVED
from hive_agents.workspace import RemoteDatabase, Workspace

if TYPE_CHECKING:
    from hive_agents.store.database import DatabasePlace

FILE = "audit/log.jsonl"
HEAD = ".hive/audit.head"
Head = tuple[int, str]
"""(number of lines, digest of the last of them)."""


@dataclass(frozen=True)
class LogFile:
    """A log outside of a workspace; its end is not recorded, so a cut at its end doesn't show."""

    path: Path


Place = Workspace | LogFile
"""Whose log: the workspace's audit log, or a file."""


@dataclass(frozen=True)
class AuditVerdict:
    """`first_bad` is the 1-based line that breaks the chain, or is missing; `head` the last good line's digest.

    `reason` is what is wrong with the log; "" where nothing is.
    """

    ok: bool
    entries: int
    first_bad: int | None
    keyed: bool
    head: str
    reason: str = ""


def append(place: Place, kind: str, **fields: Any) -> dict[str, Any]:
    """Add an entry, wait until it is on disk, and return it with `seq`, `at` and `digest`.

    A log that was cut can still be written to; the missing lines stay recorded.

    Raises: HIVE-101 for a damaged line, HIVE-413 where `.hive/audit.head` can't be read.
    """
    entry = extend(place, kind, lambda _: fields)
    assert entry is not None
    return entry


def extend(
    place: Place, kind: str, fields_of: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any] | None]
) -> dict[str, Any] | None:
    """Add an entry as `append`, with fields made from the entries so far, under the log's lock; None adds nothing."""
    medium = _medium(place)
    if isinstance(medium, FileLines):
        medium.require_here()
    with medium.writing() as write:
        log = _read(place)
        if log.damaged is not None:
            raise _damage(log.damaged, medium.name)
        before = log.entries
        fields = fields_of(before)
        if fields is None:
            return None
        last = before[-1] if before else None
        entry = {
            "seq": (last["seq"] if last else 0) + 1,
            "at": now(),
            "kind": kind,
            **fields,
            "previous": last["digest"] if last else "",
        }
        entry["digest"] = _digest(entry, _key())
        heads = None if isinstance(place, LogFile) else _heads(place)
        write(entry["seq"], json.dumps(entry, ensure_ascii=False, sort_keys=True))
        if heads is not None and not isinstance(place, LogFile):
            lost = heads[:1] if len(heads) > 1 or not all(_has(before, head) for head in heads) else []
            heads = [*lost, (len(before) + 1, entry["digest"])]
            atomic_write(place.state / "audit.head", json.dumps(heads).encode(), mode=0o600)
        return entry


def entries(place: Place, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the entries in order, except a last line that a crash truncated.

    Raises: HIVE-101 for a damaged line that is not the last.
    """
    medium = _medium(place)
    return (entry for entry in _lines(medium, medium.data()) if kind is None or entry["kind"] == kind)


def recorded(workspace: Workspace, kind: str) -> Sequence[dict[str, Any]]:
    """Return the entries of a kind, oldest first; a file that hasn't changed since the last call isn't read again.

    Raises: HIVE-101 for a damaged line.
    """
    log = _read(workspace)
    if log.damaged is not None:
        raise _damage(log.damaged, _medium(workspace).name)
    return [entry for entry in log.entries if entry["kind"] == kind]


def vouched(workspace: Workspace, kind: str) -> Sequence[dict[str, Any]]:
    """Return the entries of a kind from a verified log, which may be acted on.

    Raises: HIVE-413 for a broken log.
    """
    entries, verdict = intact(workspace, kind)
    if not verdict.ok:
        raise broken(verdict)
    return entries


def intact(workspace: Workspace, kind: str) -> tuple[Sequence[dict[str, Any]], AuditVerdict]:
    """Return the entries of a kind, oldest first, as far as the chain holds, and the verdict on the whole log.

    Lines are counted by position; after a break, their numbers prove nothing.
    """
    log, verdict = _verified(workspace)
    whole = log.entries if verdict.ok else log.entries[: (verdict.first_bad or 1) - 1]
    return [entry for entry in whole if entry["kind"] == kind], verdict


def broken(verdict: AuditVerdict) -> HiveError:
    """Return HIVE-413 for a broken log, with what to do."""
    return HiveError.of(
        "HIVE-413",
        f"the audit log can't be relied on: {verdict.reason}",
        file=FILE,
        path="$",
        line=verdict.first_bad,
        fix="restore audit/log.jsonl from version control or a backup; `hive explain HIVE-413` has more",
        exit_code=1,
    )


def reaches(workspace: Workspace, count: int, head: str) -> bool:
    """Return whether the log still contains the head that a certificate names."""
    return count == 0 or _has(tuple(entries(workspace)), (count, head))


def verify(place: Place) -> AuditVerdict:
    """Check the chain from the first line, and in a workspace its end against the recorded head."""
    return _read(place).verdict if isinstance(place, LogFile) else _verified(place)[1]


def lacking(verdict: AuditVerdict, head: Head) -> AuditVerdict:
    """Return the verdict on a log that lacks a head recorded elsewhere."""
    count = head[0]
    cut = f"it ends at line {verdict.entries}, and {count} lines were written"
    reason = cut if verdict.entries < count else f"line {count} is not the one that was written"
    return replace(verdict, ok=False, first_bad=min(count, verdict.entries + 1), reason=reason)


@contextmanager
def held(workspace: Workspace) -> Iterator[bytes]:
    """Yield the log's lines, under its lock."""
    medium = _medium(workspace)
    with medium.writing(long=True):
        yield medium.data()


def lines_beside(workspace: Workspace, records: DatabasePlace) -> bytes:
    """Return the lines of the log that belongs to `records`, which need not be the workspace's."""
    return _lines_in(workspace, records).data()


def copy_beside(workspace: Workspace, records: DatabasePlace, lines: bytes) -> None:
    """Replace the lines of the log that belongs to `records`.

    Raises: HIVE-413 where they don't extend its present lines: a log only grows.
    """
    medium = _lines_in(workspace, records)
    if not lines.startswith(medium.data()):
        fix = "move that log away, and keep it: it tells what was decided there"
        message = f"the audit log in {medium.name} isn't the beginning of the one to be copied"
        raise HiveError.of("HIVE-413", message, file=medium.name, fix=fix, exit_code=1)
    medium.replace(lines)


def seal_file(workspace: Workspace, target: str) -> None:
    """Refuse further lines to the log in the file; `target` describes its new place."""
    atomic_write(workspace.state / MOVED, target.encode(), mode=0o600)


def unseal_file(workspace: Workspace) -> None:
    """Allow further lines in the log in the file."""
    (workspace.state / MOVED).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Log:
    """A reading of the log; `damaged` is the line that ended it, if one did."""

    entries: tuple[dict[str, Any], ...]
    verdict: AuditVerdict
    damaged: int | None = None


_EMPTY = _Log((), AuditVerdict(True, 0, None, False, ""))
MOST_WALKS = 4
"""Logs whose last reading is cached."""


@dataclass(frozen=True)
class _Walk:
    """A log's last reading: `size` bytes with a SHA-256, `whole` where they end with a newline."""

    stamp: tuple[int, ...]
    key: bytes | None
    size: int
    digest: bytes
    whole: bool
    log: _Log

    def begins(self, data: bytes) -> bool:
        """Return whether `data` begins with this reading, and the reading is sound."""
        sound = self.whole and self.log.verdict.ok and self.size <= len(data)
        return sound and hashlib.sha256(memoryview(data)[: self.size]).digest() == self.digest


_walks: dict[LogLines, _Walk] = {}


def _verified(workspace: Workspace) -> tuple[_Log, AuditVerdict]:
    try:
        heads = _heads(workspace)  # before the log, so that a line written meanwhile can't make the head lead
    except AuditFault as error:
        log = _read(workspace)
        return log, replace(log.verdict, ok=False, reason=error.diagnostics[0].message)
    log = _read(workspace)
    if not log.verdict.ok:
        return log, log.verdict
    if len(heads) > 1:  # whichever history is there, the other one is missing
        lost = lacking(log.verdict, heads[0])
        return log, replace(lost, reason=f"it was cut before line {heads[0][0]}, and written to since then")
    if heads and not _has(log.entries, heads[0]):
        return log, lacking(log.verdict, heads[0])
    return log, log.verdict


def _medium(place: Place) -> LogLines:
    if isinstance(place, LogFile):
        return FileLines(place.path, place.path.name)
    # Unlike `records`, reading the log doesn't check whose `.hive` it is.
    return _lines_in(place, place.records) if place.settings.storage.url else _file_lines(place)


def _lines_in(workspace: Workspace, records: DatabasePlace) -> LogLines:
    """Return the log that belongs to records."""
    if isinstance(records, RemoteDatabase):
        return TableLines(records)
    return _file_lines(workspace)


def _file_lines(workspace: Workspace) -> LogLines:
    return FileLines(workspace.root / FILE, FILE, workspace)


def _read(place: Place) -> _Log:
    medium = _medium(place)
    stamp = medium.stamp()
    if stamp is None:
        return _Log((), AuditVerdict(True, 0, None, _key() is not None, ""))
    return _walked(medium, stamp, _key())


def _walked(medium: LogLines, stamp: tuple[int, ...], key: bytes | None) -> _Log:
    """Return the log as it is now; of one that has only grown, only the new lines are read and verified."""
    cached = _walks.get(medium)
    if cached is not None and (cached.stamp, cached.key) == (stamp, key):
        return cached.log
    data = medium.data()
    grown = cached if cached is not None and cached.key == key and cached.begins(data) else None
    log = _extended(grown.log, medium, data, grown.size, key) if grown else _extended(_EMPTY, medium, data, 0, key)
    _walks.pop(medium, None)
    _walks[medium] = _Walk(stamp, key, len(data), hashlib.sha256(data).digest(), data.endswith(b"\n"), log)
    while len(_walks) > MOST_WALKS:
        _walks.pop(next(iter(_walks)), None)
    return log


def _extended(log: _Log, medium: LogLines, data: bytes, start: int, key: bytes | None) -> _Log:
    """Return `log` extended by the lines from the byte `start` on."""
    entries, previous = list(log.entries), log.verdict.head
    verdict, damaged = None, None
    try:
        for entry in _lines(medium, data, start):
            entries.append(entry)
            if verdict is None and (why := _fault(entry, len(entries), previous, key)):
                verdict = AuditVerdict(False, len(entries), len(entries), key is not None, previous, why)
            previous = entry["digest"]
    except HiveError as error:
        damaged = error.diagnostics[0].line
        why = f"line {damaged} is damaged"
        verdict = verdict or AuditVerdict(False, len(entries), damaged, key is not None, previous, why)
    verdict = verdict or AuditVerdict(True, len(entries), None, key is not None, previous)
    return _Log(tuple(entries), verdict, damaged)


def _fault(entry: Mapping[str, Any], number: int, previous: str, key: bytes | None) -> str:
    """Return why an entry can't be the log's next; "" where it can."""
    if not _signs(entry, key):
        if key is not None and _signs(entry, None):
            return f"line {number} was written without a key, and HIVE_AUDIT_KEY is set: it must be from line 1 on"
        return f"line {number} was edited, or written with another HIVE_AUDIT_KEY than now"
    if entry.get("previous") != previous or entry["seq"] != number:
        return f"line {number} doesn't follow from the line before"
    return ""


def _signs(entry: Mapping[str, Any], key: bytes | None) -> bool:
    return hmac.compare_digest(entry["digest"].encode("utf-8", "surrogatepass"), _digest(entry, key).encode())


def _has(entries: Sequence[Mapping[str, Any]], head: Head) -> bool:
    count, digest = head
    return 0 < count <= len(entries) and entries[count - 1]["digest"] == digest


def _heads(workspace: Workspace) -> list[Head]:
    """Return the recorded heads: the last one, preceded by the one that a cut log lacked when it was written to."""
    try:
        heads = json.loads(read_bytes(workspace.state / "audit.head"))
        return [(int(count), str(digest)) for count, digest in heads]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, OverflowError, RecursionError):
        fix = "restore it from a backup; `hive explain HIVE-413` has more"
        raise HiveError.of("HIVE-413", f"{HEAD} is damaged", file=HEAD, path="$", fix=fix, exit_code=1) from None


def _lines(medium: LogLines, data: bytes, start: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the entries from the byte `start` on, where a line begins."""
    lines = data[start:].split(b"\n")
    first = data.count(b"\n", 0, start) + 1
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        entry = entry_in(line)
        if entry is not None:
            yield entry
        elif number == first + len(lines) - 1:
            return
        else:
            raise _damage(number, medium.name)


def _damage(line: int, file: str) -> HiveError:
    fix = f"restore {file} from version control or a backup"
    return HiveError.of("HIVE-101", "a line of the audit log is damaged", file=file, path="$", line=line, fix=fix)


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _digest(entry: Mapping[str, Any], key: bytes | None) -> str:
    body = {name: value for name, value in entry.items() if name != "digest"}
    data = json.dumps(body, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass")
    return hmac.new(key, data, hashlib.sha256).hexdigest() if key else hashlib.sha256(data).hexdigest()


def _key() -> bytes | None:
    value = os.environ.get("HIVE_AUDIT_KEY", "")
    return value.encode() or None
