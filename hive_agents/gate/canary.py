"""The canary of a deployed config: interleaved lists with the previous config, credited by readers' reactions.

An impression is a drafted list. Its reader's opens and opinions credit the side that placed the document, until the
impression settles as won, lost or tied. Ranks, letters and keyed hashes are stored: no document, question or person.

A reader who asks twice can tell which side placed a document. So no reader decides alone, except those who may roll
back anyway: of any other `PER_READER` decided searches count, and a decision must hold without any single reader.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hive_agents.access import OPERATORS, Principal, local_key
from hive_agents.base import HiveError, Stale
from hive_agents.gate.interleaving import ALARM, NEW, PREVIOUS, e_value, still_missing
from hive_agents.ranking import StoredConfig, Version, versions
from hive_agents.store import audit, connected
from hive_agents.workspace import Workspace

ImpressionKind = Literal["drafted", "alike", "one_sided"]
CanarySignal = Literal["open", "relevant", "distractor", "outdated", "wrong_document"]
CanaryOutcome = Literal["worse", "better"]
CanaryState = Literal["off", "none", "running", "confirmed", "rolled_back"]

# An opinion outweighs an open: a page is opened before it is found to be outdated.
CREDIT: dict[CanarySignal, int] = {"open": 1, "relevant": 2, "distractor": -2, "outdated": -2, "wrong_document": -2}
PER_READER = 5
"""How many decided searches of one reader count: enough for a decision by three agreeing readers, not by two."""
BY = "canary"
CONFIRMED = "canary.confirmed"
_UNBOUND = "operator "
_log = logging.getLogger("hive_agents.gate")


@dataclass(frozen=True)
class Canary:
    """The version that serves, and the config that served before it."""

    version: Version
    previous: StoredConfig

    def takes(self, run_id: str, share: float) -> bool:
        """Return whether the turn of this run belongs to the share; the same for a run each time."""
        digest = hashlib.sha256(f"{draft_seed(self.version.id, run_id)}\0share".encode()).digest()
        return int.from_bytes(digest[:8]) < share * 2**64


@dataclass(frozen=True)
class Impression:
    """A list shown to a reader of the canary's share; `teams` as in `Draft`, empty where nothing was drafted."""

    run_id: str
    version: int
    kind: ImpressionKind
    teams: str
    reader: str
    asked: str


@dataclass(frozen=True)
class Tally:
    """Counts of one canary's impressions. `silent` ones settled without any reaction of their reader.

    `worse` and `better` are the (lost, won) that count for either decision: without the reader whose absence weakens it
    most.
    """

    drafted: int = 0
    alike: int = 0
    one_sided: int = 0
    open: int = 0
    won: int = 0
    lost: int = 0
    tied: int = 0
    silent: int = 0
    readers: int = 0
    credit_new: int = 0
    credit_previous: int = 0
    worse: tuple[int, int] = (0, 0)
    better: tuple[int, int] = (0, 0)

    @property
    def e_worse(self) -> float:
        return e_value(*self.worse)

    @property
    def e_better(self) -> float:
        lost, won = self.better
        return e_value(won, lost)


@dataclass(frozen=True)
class CanaryStatus:
    """The state is `none` where no deployed config can have a canary; with it and with `off` the rest is empty."""

    state: CanaryState
    share: float
    version: int | None = None
    config: str | None = None
    previous: str | None = None
    since: str | None = None
    tally: Tally = Tally()

    def to_json(self) -> dict[str, Any]:
        tally, running = self.tally, self.state == "running"
        return asdict(self) | {
            "tally": asdict(tally),
            "e_worse": tally.e_worse,
            "e_better": tally.e_better,
            "alarm": ALARM,
            "losses_missing": still_missing(*tally.worse) if running else None,
            "wins_missing": still_missing(*reversed(tally.better)) if running else None,
        }


def draft_seed(version: int, run_id: str) -> str:
    """Return the seed of a turn's draft, the same for a turn each time."""
    return f"{version}\0{run_id}"


def running_canary(workspace: Workspace) -> Canary | None:
    """Return the active config's canary; None where the share is 0, no other config was deployed before, it was rolled
    back to, or its canary is decided."""
    if not workspace.settings.canary.share:
        return None
    canary = _canary_of(versions(workspace))
    return canary if canary is not None and canary.version.id not in _confirmed(workspace) else None


def _confirmed(workspace: Workspace) -> dict[int, str]:
    """Return the times of confirmation by version."""
    return {int(entry["version"]): str(entry["at"]) for entry in audit.recorded(workspace, CONFIRMED)}


def _canary_of(history: Sequence[Version]) -> Canary | None:
    if not history or history[0].via == "rollback":
        return None
    active = history[0]
    before = next((version for version in history if version.id == active.previous), None)
    if before is None or before.config_hash == active.config_hash:
        return None
    previous = before.stored
    return Canary(active, previous) if previous.config.collection == active.stored.config.collection else None


def canary_for(workspace: Workspace, run_id: str, reader: Principal, question: str) -> tuple[Canary, str, str] | None:
    """Return the canary that this turn takes part in, with keyed hashes of its reader and of the question.

    None outside of the share, and for a repeated question: each question of a reader counts once.
    """
    share = workspace.settings.canary.share
    canary = running_canary(workspace) if share else None
    if canary is None or not canary.takes(run_id, share):
        return None
    voice, asked = _voice(workspace, reader), _hashed(workspace, reader, " ".join(question.casefold().split()))
    with connected(workspace.records) as connection:
        repeated = connection.execute(
            "SELECT 1 FROM canary_impressions WHERE version = ? AND asked = ? AND run_id <> ?",
            (canary.version.id, asked, run_id),
        ).fetchone()
    return None if repeated is not None else (canary, voice, asked)


def _voice(workspace: Workspace, reader: Principal) -> str:
    """Return a reader's keyed hash, marked if they may roll back themselves."""
    return (_UNBOUND if reader.roles & set(OPERATORS) else "") + _hashed(workspace, reader)


def _hashed(workspace: Workspace, reader: Principal, question: str = "") -> str:
    identity = "\0".join(["canary", reader.tenant, reader.user, question])
    return hmac.new(local_key(workspace), identity.encode(), hashlib.sha256).hexdigest()


def record_impression(workspace: Workspace, impression: Impression, *, now: str | None = None) -> None:
    """Store an impression, once, and decide by the settled ones."""
    at = now or audit.now()
    settles = dt.datetime.fromisoformat(at) + dt.timedelta(minutes=workspace.settings.canary.settle_minutes)
    with connected(workspace.records) as connection:
        connection.execute(
            "INSERT OR IGNORE INTO canary_impressions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*asdict(impression).values(), at, settles.isoformat(timespec="seconds")),
        )
    _try_to_decide(workspace, at)


def open_impressions(workspace: Workspace, reader: Principal, *, now: str | None = None) -> list[str]:
    """Return the runs of a reader's impressions that can still be credited, latest first."""
    canary = running_canary(workspace)
    if canary is None:
        return []
    with connected(workspace.records) as connection:
        rows = connection.execute(
            "SELECT run_id FROM canary_impressions WHERE version = ? AND reader = ? AND kind = 'drafted'"
            " AND settles_at > ? ORDER BY at DESC, rowid DESC",
            (canary.version.id, _voice(workspace, reader), now or audit.now()),
        ).fetchall()
    return [run_id for (run_id,) in rows]


def credit(workspace: Workspace, run_id: str, rank: int, signal: CanarySignal, *, now: str | None = None) -> None:
    """Credit the side that placed the document at `rank`, if the run is an impression that hasn't settled.

    A document is opened once; of opinions on it the last one counts.
    """
    if running_canary(workspace) is None:
        return
    at, kind = now or audit.now(), "open" if signal == "open" else "opinion"
    with connected(workspace.records) as connection:
        connection.execute(
            "INSERT INTO canary_credits SELECT run_id, ?, ?, ? FROM canary_impressions"
            " WHERE run_id = ? AND kind = 'drafted' AND settles_at > ?"
            " ON CONFLICT (run_id, rank, kind) DO UPDATE SET value = excluded.value",
            (rank, kind, CREDIT[signal], run_id, at),
        )
    _try_to_decide(workspace, at)


def _try_to_decide(workspace: Workspace, at: str) -> None:
    """Decide during a reader's request, which doesn't fail if the decision does: the next request tries again."""
    try:
        decide_canary(workspace, now=at)
    except HiveError as error:
        _log.warning("the canary can't be decided: %s", error)


def decide_canary(workspace: Workspace, *, now: str | None = None) -> CanaryOutcome | None:
    """Roll the config back where the settled impressions prove it worse, confirm it where they prove it better."""
    canary = running_canary(workspace)
    if canary is None:
        return None
    tally = _tally(workspace, canary.version.id, now or audit.now())
    if tally.e_worse >= ALARM:
        return "worse" if _rolled_back(workspace, canary, tally) else None
    if tally.e_better >= ALARM:
        _confirm(workspace, canary, tally)
        return "better"
    return None


def _rolled_back(workspace: Workspace, canary: Canary, tally: Tally) -> bool:
    from hive_agents.gate.deploy import rollback  # a chat that only draws lists needn't import the gate

    decided = tally.won + tally.lost
    reason = (
        f"the canary shows {canary.version.name} worse than {canary.previous.name}: it lost {tally.lost} of {decided} "
        f"decided searches, E = {tally.e_worse:.1f}"
    )
    try:
        rollback(workspace, reason=reason, by=BY, authn=BY, of=canary.version.id)
    except Stale:  # somebody deployed or rolled back meanwhile
        return False
    return True


def _confirm(workspace: Workspace, canary: Canary, tally: Tally) -> None:
    version = canary.version
    decision = {"version": version.id, "config": version.name, "won": tally.won, "lost": tally.lost}

    def fields(before: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        confirmed = any(entry["kind"] == CONFIRMED and entry["version"] == version.id for entry in before)
        return None if confirmed else decision | {"e_value": round(tally.e_better, 3)}

    audit.extend(workspace, CONFIRMED, fields)


def canary_status(workspace: Workspace, *, now: str | None = None) -> CanaryStatus:
    """Return the status of the active config's canary, or of the one that was rolled back last."""
    share, history = workspace.settings.canary.share, versions(workspace)
    canary, at = _canary_of(history), now or audit.now()
    state: CanaryState = "running"
    if canary is not None:
        version, previous = canary.version, canary.previous.name
        confirmed = _confirmed(workspace)
        if version.id in confirmed:
            state, at = "confirmed", confirmed[version.id]
        elif not share:
            return CanaryStatus("off", share)
    elif len(history) > 1 and history[0].via == "rollback" and history[0].by == BY:
        version, previous, at, state = history[1], history[0].name, history[0].at, "rolled_back"
    else:
        return CanaryStatus("none" if share else "off", share)
    tally = _tally(workspace, version.id, at)
    return CanaryStatus(state, share, version.id, version.name, previous, version.at, tally)


def _tally(workspace: Workspace, version: int, now: str) -> Tally:
    with connected(workspace.records) as connection:
        shown = connection.execute(
            "SELECT run_id, kind, teams, reader, settles_at FROM canary_impressions WHERE version = ?"
            " ORDER BY settles_at, rowid",
            (version,),
        ).fetchall()
        credits: dict[str, list[tuple[int, int]]] = {}
        for run_id, rank, value in connection.execute(
            "SELECT c.run_id, c.rank, c.value FROM canary_credits c JOIN canary_impressions i ON i.run_id = c.run_id"
            " WHERE i.version = ?",
            (version,),
        ):
            credits.setdefault(run_id, []).append((rank, value))
    counts: Counter[str] = Counter()
    readers = set()
    decided: dict[str, Counter[str]] = {}
    for run_id, kind, teams, reader, settles_at in shown:
        counts[kind] += 1
        if kind != "drafted":
            continue
        by_team = {NEW: 0, PREVIOUS: 0}
        for rank, value in credits.get(run_id, ()):
            if 0 < rank <= len(teams) and teams[rank - 1] in by_team:
                by_team[teams[rank - 1]] += value
        counts["credit_new"] += by_team[NEW]
        counts["credit_previous"] += by_team[PREVIOUS]
        if run_id in credits:
            readers.add(reader)
        outcome = _outcome(by_team[NEW] - by_team[PREVIOUS], run_id in credits, settles_at <= now)
        counts[outcome] += 1
        voice = decided.setdefault(reader, Counter())
        if outcome in ("won", "lost") and (reader.startswith(_UNBOUND) or voice.total() < PER_READER):
            voice[outcome] += 1
    counts_without = _without_each(decided)
    worse = min(counts_without, key=lambda pair: e_value(*pair))
    better = min(counts_without, key=lambda pair: e_value(*reversed(pair)))
    return Tally(**counts, readers=len(readers), worse=worse, better=better)


def _without_each(decided: Mapping[str, Counter[str]]) -> list[tuple[int, int]]:
    """Return (lost, won) of all readers but one, for each that may be left out: operators never are."""
    lost, won = (sum(voice[outcome] for voice in decided.values()) for outcome in ("lost", "won"))
    bound = [voice for reader, voice in decided.items() if not reader.startswith(_UNBOUND)]
    return [(lost - voice["lost"], won - voice["won"]) for voice in bound] or [(lost, won)]


def _outcome(difference: int, credited: bool, settled: bool) -> str:
    if not settled:
        return "open"
    if not credited:
        return "silent"
    return "won" if difference > 0 else "lost" if difference < 0 else "tied"
