"""The records of proofs of identity: tokens made here, sessions, used sign-in links, what was ended of them, and how
much their users ask.

All hosts that share the records see the same at once. Each mint, revocation and end is an event of the tenant, and in
the audit log, from which revocations are restored where the records were lost.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hive_agents.access.principal import LOCAL_TENANT, Principal, named
from hive_agents.base import HiveError, TooMany
from hive_agents.base.files import guarded, read_bytes
from hive_agents.events import Event, EventLog, EventType
from hive_agents.store import RecordsConnection, audit, clock_of, connected, file_identity, transaction
from hive_agents.workspace import Workspace

ProofKind = Literal["token", "session"]
_ENDS = {"token": EventType.TOKEN_REVOKED, "session": EventType.SESSION_ENDED}
MOST_SESSIONS = 200
_ANY = ""
"""The tenant of an id that was revoked for all tenants."""
_OLD = "revoked_tokens"
_INSERT = (
    "INSERT INTO proofs (kind, id, tenant, user, roles, made_by, made_at, expires_at, ended_at, ended_by)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_END = "UPDATE proofs SET ended_at = ?, ended_by = ? WHERE ended_at IS NULL AND kind = ? AND id = ? AND tenant = ?"
_Ended = tuple[str, str, str | None, int | None, str]
"""(kind, id, tenant or None for all, expiry, time of its end)."""
_complete: set[tuple[object, ...]] = set()
"""The databases that hold what was revoked before, and the file of an earlier release that was read into them."""


@dataclass(frozen=True)
class ProofState:
    """What the records say of a proof: whether it was made here, whether it was ended, when all earlier proofs of its
    user were, and the second since 1970 until which it holds."""

    made: bool
    ended: bool
    all_ended_at: str | None
    until: int


def state(workspace: Workspace, kind: ProofKind, id: str | None, tenant: str, user: str) -> ProofState:
    """Return the present state of a proof. Raises: HIVE-402, 403, 407 or 417 where the records can't be read."""
    with _proofs(workspace) as connection:
        rows = connection.execute(
            "SELECT kind, made_at, ended_at, expires_at FROM proofs WHERE kind = ? AND id = ? AND tenant IN (?, ?)"
            " UNION ALL"
            " SELECT kind, made_at, ended_at, expires_at FROM proofs WHERE kind = 'person' AND id = ? AND tenant = ?",
            (kind, id or "", tenant, _ANY, user, tenant),
        ).fetchall()
    own = [row for row in rows if row[0] == kind]
    return ProofState(
        any(made_at is not None for _, made_at, *_ in own),
        any(ended_at is not None for _, _, ended_at, _ in own),
        next((ended_at for found, _, ended_at, _ in rows if found == "person"), None),
        max((expires_at or 0 for *_, expires_at in own), default=0),
    )


def begin(
    workspace: Workspace,
    kind: ProofKind,
    id: str,
    who: Principal,
    expires: int,
    makers: Sequence[str],
    require: Callable[[], object] = lambda: None,
) -> None:
    """Record a proof that is made, unless `require` raises once nobody else writes; a token also in the audit log.
    Makers are as those of a `Principal`."""
    roles = sorted(who.roles)
    row = (kind, id, who.tenant, who.user, json.dumps(roles), ",".join(makers), audit.now(), expires, None, None)
    with _proofs(workspace) as connection, transaction(connection):
        require()
        connection.execute(_INSERT, row)
        if kind == "token":
            about = {"jti": id, "user": who.user, "by": named(makers[0])}
            _tell(connection, EventType.TOKEN_MADE, who.tenant, about)
            rights = {"groups": sorted(who.groups), "roles": roles, "expires": expires}
            audit.append(workspace, EventType.TOKEN_MADE, tenant=who.tenant, **about, **rights)


def require_room(workspace: Workspace, who: Principal) -> None:
    """Raises: HIVE-433 where `MOST_SESSIONS` sessions that a user has begun would hold by now; those that they ended
    count, since each end stays in the audit log."""
    now = int(dt.datetime.now(dt.UTC).timestamp())
    query = (
        "SELECT count(*), min(expires_at) FROM proofs"
        " WHERE kind = 'session' AND made_at IS NOT NULL AND tenant = ? AND user = ? AND expires_at > ?"
    )
    with _proofs(workspace) as connection:
        begun, first = connection.execute(query, (who.tenant, who.user, now)).fetchone()
    if begun >= MOST_SESSIONS:
        message = f"{who.user} has signed in {begun} times within the life of a session"
        error = TooMany.of("HIVE-433", message, fix="use a session that you have, or sign in later", exit_code=1)
        error.retry_after = max(1, first - now)
        raise error


def use_once(workspace: Workspace, id: str, expires: int) -> bool:
    """Record the use of a sign-in link; return whether it is the first, on whichever host."""
    now = audit.now()
    with _proofs(workspace) as connection, transaction(connection):
        return connection.execute(_INSERT, ("link", id, _ANY, "", "[]", "", now, expires, now, "")).rowcount == 1


def hold(workspace: Workspace, kind: ProofKind, id: str, until: int) -> bool:
    """Let a proof hold until a second since 1970; return whether it still held."""
    now = int(dt.datetime.now(dt.UTC).timestamp())
    longer = "UPDATE proofs SET expires_at = ? WHERE kind = ? AND id = ? AND ended_at IS NULL AND expires_at > ?"
    with _proofs(workspace) as connection, transaction(connection):
        return connection.execute(longer, (until, kind, id, now)).rowcount == 1


def end(
    workspace: Workspace, kind: ProofKind, id: str, by: str, *, tenant: str | None = None, expires: int | None = None
) -> bool:
    """End a proof; return whether it was valid until now. With a `tenant` only one of that tenant is ended.

    One that the records don't know, such as an identity provider's token, is ended, too: until `expires`, if it's
    known.
    """
    now = audit.now()
    with _proofs(workspace) as connection, transaction(connection):
        wanted = "kind = ? AND id = ? AND made_at IS NOT NULL" + ("" if tenant is None else " AND tenant = ?")
        named = (kind, id) if tenant is None else (kind, id, tenant)
        made = connection.execute(f"SELECT tenant, user FROM proofs WHERE {wanted}", named).fetchone()
        whose, user = tuple(made) if made else (tenant or _ANY, "")
        if made:
            new = connection.execute(_END, (now, by, kind, id, whose)).rowcount == 1
        else:
            row = (kind, id, whose, user, "[]", None, None, expires, now, by)
            new = connection.execute(_INSERT, row).rowcount == 1
        about, told = {"jti": id, "user": user or None, "by": by}, _ENDS[kind]
        if new:
            _tell(connection, told, whose or LOCAL_TENANT, about)
    if new:  # after the end is committed: a damaged log doesn't keep a token valid
        audit.append(workspace, told, tenant=whose or None, **about, expires=expires)
    return new


def end_all(workspace: Workspace, user: str, tenant: str, by: str) -> tuple[int, int, int, list[str]]:
    """End all tokens and sessions that a user of a tenant has, also tokens that were not made here, and those that they
    made for others and may have kept; return the numbers of tokens and sessions that the records know, of the streams
    that end with them, and the others' names."""
    now, seconds = audit.now(), int(dt.datetime.now(dt.UTC).timestamp())
    of_user = "user = ? AND tenant = ? AND ended_at IS NULL AND kind = ? AND expires_at > ?"
    ended: dict[str, list[str]] = {}
    with _proofs(workspace) as connection, transaction(connection):
        for kind in ("token", "session"):
            query, values = f"SELECT id FROM proofs WHERE {of_user}", (user, tenant, kind, seconds)
            ended[kind] = [str(id) for (id,) in connection.execute(query, values).fetchall()]
        of_others = _made_for_others(connection, user, tenant)
        ended["token"] += of_others
        for kind, ids in ended.items():
            for id in ids:
                connection.execute(_END, (now, by, kind, id, tenant))
        open = "SELECT coalesce(sum(streams), 0) FROM open_streams WHERE tenant = ? AND user = ? AND until > ?"
        (streams,) = connection.execute(open, (tenant, user, seconds)).fetchone()
        mark = _INSERT.replace("DO NOTHING", "(kind, id, tenant) DO UPDATE SET ended_at = excluded.ended_at")
        connection.execute(mark, ("person", user, tenant, user, "[]", None, None, None, now, by))
        numbers, made_for = (len(ended["token"]), len(ended["session"])), sorted({*of_others.values()})
        about = {"user": user, "by": by, "tokens": numbers[0], "sessions": numbers[1], "made_for": made_for}
        _tell(connection, EventType.PERSON_ENDED, tenant, about)
    audit.append(workspace, EventType.PERSON_ENDED, tenant=tenant, **about, jtis=ended["token"])
    return *numbers, int(streams), made_for


def made_for(workspace: Workspace, user: str, tenant: str) -> list[str]:
    """Return the others whose tokens end with a user of a tenant, who made them."""
    with _proofs(workspace) as connection:
        return sorted({*_made_for_others(connection, user, tenant).values()})


def _made_for_others(connection: RecordsConnection, user: str, tenant: str) -> dict[str, str]:
    """Return {id: user} of the valid tokens of others that a user made, or that were made by such a token."""
    query = (
        "SELECT id, user, made_by FROM proofs WHERE kind = 'token' AND tenant = ? AND user <> ? AND made_at IS NOT NULL"
        " AND ended_at IS NULL AND expires_at > ?"
    )
    rows = connection.execute(query, (tenant, user, int(dt.datetime.now(dt.UTC).timestamp()))).fetchall()
    hand = Principal(tenant, user).hands[0]
    return {str(id): str(whose) for id, whose, makers in rows if hand in str(makers).split(",")}


def tell_streams(workspace: Workspace, host: str, open: Mapping[tuple[str, str], int], seconds: int) -> None:
    """Record how many streams each (tenant, user) has open on a host, for so many seconds."""
    until = int(dt.datetime.now(dt.UTC).timestamp()) + seconds
    insert = "INSERT INTO open_streams (host, tenant, user, streams, until) VALUES (?, ?, ?, ?, ?)"
    with connected(workspace.records) as connection, transaction(connection):
        connection.execute("DELETE FROM open_streams WHERE host = ? OR until < ?", (host, until - 2 * seconds))
        for (tenant, user), number in open.items():
            connection.execute(insert, (host, tenant, user, number, until))


def take_requests(workspace: Workspace, who: Principal, capacity: int, most: int) -> tuple[int, float]:
    """Take up to `most` requests out of a principal's bucket, which all hosts share and which gets `capacity` of them
    in a minute; return their number and what is left in it."""
    read = "SELECT requests, at FROM request_buckets WHERE tenant = ? AND user = ?"
    write = (
        "INSERT INTO request_buckets (tenant, user, requests, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (tenant, user) DO UPDATE SET requests = excluded.requests, at = excluded.at"
    )
    now = clock_of(workspace.records)()
    turn = f"requests {who.tenant} {who.user}"
    with connected(workspace.records) as connection, transaction(connection, turn):
        held, at = connection.execute(read, (who.tenant, who.user)).fetchone() or (capacity, now)
        held = min(float(capacity), held + max(0.0, now - at) * capacity / 60)
        taken = min(most, int(held))
        if taken:
            connection.execute(write, (who.tenant, who.user, held - taken, max(now, at)))
    return taken, held - taken


def issued_tokens(workspace: Workspace, tenant: str | None = None) -> list[dict[str, Any]]:
    """Return the tokens that were made here and haven't expired, of one tenant or of all, newest first: {jti, user,
    tenant, roles, made_by, made_at, expires_at, revoked_at}."""
    where, values = ("TRUE", ()) if tenant is None else ("tenant = ?", (tenant,))
    now = int(dt.datetime.now(dt.UTC).timestamp())
    query = (
        "SELECT id AS jti, user, tenant, roles, made_by, made_at, expires_at, ended_at FROM proofs"
        f" WHERE kind = 'token' AND made_at IS NOT NULL AND expires_at > ? AND {where} ORDER BY made_at DESC, id"
    )
    names = ("jti", "user", "tenant", "roles", "made_by", "made_at", "expires_at", "revoked_at")
    with _proofs(workspace) as connection:
        rows = [dict(zip(names, row, strict=True)) for row in connection.execute(query, (now, *values)).fetchall()]
    for row in rows:
        row |= {"roles": json.loads(row["roles"]), "made_by": named(row["made_by"].split(",")[0])}
        row["expires_at"] = dt.datetime.fromtimestamp(row["expires_at"], dt.UTC).isoformat()
    return rows


def forget_expired(workspace: Workspace, before: float) -> int:
    """Delete the records of proofs that expired before a time in seconds since 1970, and buckets of requests that have
    been full since; return the number of proofs."""
    if not workspace.records.exists():
        return 0
    with _proofs(workspace) as connection, transaction(connection):
        connection.execute("DELETE FROM request_buckets WHERE at < ?", (before - 60,))
        return connection.execute("DELETE FROM proofs WHERE expires_at < ?", (int(before),)).rowcount


def _tell(connection: RecordsConnection, type: EventType, tenant: str, payload: dict[str, Any]) -> None:
    EventLog.record(connection, [Event(type, tenant=tenant, payload=payload)])


def _proofs(workspace: Workspace) -> connected[RecordsConnection]:
    """Return a connection to records that hold all that was revoked."""
    place, old = workspace.records, f"{workspace.state}/{_OLD}"  # joined paths take most of the time otherwise
    database = file_identity(place) if isinstance(place, Path) else place
    key = (old, database, guarded.stamp(old))
    if key not in _complete:
        _restore(workspace, Path(old))
        if database is not None:
            _complete.add(key)
    return connected(place)


def _restore(workspace: Workspace, old: Path) -> None:
    """Take over what an earlier release revoked in a file, and, once, what the audit log says was revoked."""
    with connected(workspace.records) as connection:
        known = connection.execute("SELECT 1 FROM proofs WHERE kind = 'read' AND id = 'audit'").fetchone()
        ended = list(_of_file(old))
        if known is None:
            ended += _of_log(workspace)
        if known is None or ended:
            with transaction(connection):
                for kind, id, tenant, expires, at in [*ended, ("read", "audit", None, None, audit.now())]:
                    row = (kind, id, tenant or _ANY, "", "[]", None, None, expires, at, None)
                    connection.execute(_INSERT, row)


def _of_log(workspace: Workspace) -> Iterator[_Ended]:
    for kind, told in _ENDS.items():
        for entry in audit.recorded(workspace, told):
            yield kind, str(entry["jti"]), entry.get("tenant"), entry.get("expires"), entry["at"]
    for entry in audit.recorded(workspace, EventType.PERSON_ENDED):
        yield "person", str(entry["user"]), entry.get("tenant"), None, entry["at"]


def _of_file(path: Path) -> Iterator[_Ended]:
    """Yield the ids in the file, each with its tenant and its expiry where they are known, for each kind of proof.

    A line is `ID`, `ID,SECONDS` or `ID,SECONDS,TENANT`, where the seconds may be missing: no name has a comma.
    """
    try:
        lines = read_bytes(path).decode().splitlines()
        for id, *more in (line.strip().split(",") for line in lines if line.strip()):
            expires, tenant = (*more, None, None)[:2]
            if len(more) > 2 or (expires == "" and tenant is None):
                raise ValueError("a line that no release wrote")
            for kind in ("token", "session", "link"):
                yield kind, id, tenant, int(expires) if expires else None, audit.now()
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        fix = "make it readable; until then no token is accepted"
        message = "the list of revoked tokens cannot be read"
        raise HiveError.of("HIVE-417", message, file=f".hive/{_OLD}", fix=fix, exit_code=3) from None
