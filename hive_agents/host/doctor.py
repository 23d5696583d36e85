"""What is wrong with a workspace or its surroundings, and how to mend it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from hive_agents.base import HiveError, count
from hive_agents.documents import collection_names, load_collection
from hive_agents.engines import find_copy, open_database, opensearch
from hive_agents.evaluation import held_out, load_golden
from hive_agents.gate import log_verdict
from hive_agents.goals import goal_ids, load_goal
from hive_agents.host.doctor_permissions import Check, CheckStatus, check_of, permissions
from hive_agents.host.languages import language_advice
from hive_agents.index import find_generation, generation, indexing
from hive_agents.judging import load_rules
from hive_agents.models import probing
from hive_agents.models.embedding import open_embedder
from hive_agents.ranking import check_config, find_active
from hive_agents.runs import at_work
from hive_agents.store import connected, moved, moved_to
from hive_agents.workspace import RemoteDatabase, Workspace, credentials, trusted
from hive_agents.workspace.settings import FILE

if TYPE_CHECKING:
    from hive_agents.store import postgres

LITTLE_DISK = 500 << 20
OLDEST_SERVER = 12
CLOCK_SKEW = 5.0
"""The allowed difference of this host's clock and the records server's, in seconds."""


def examine(workspace: Workspace, *, names_documents: bool = True) -> list[Check]:
    """Return the checks, each after those it depends on; none raises.

    Documents that nobody sees are counted, and named with `names_documents`.
    """
    parts: dict[str, Callable[[Workspace], Check | Iterator[Check]]] = {
        "settings": _settings,
        "collections": _collections,
        "model": _model,
        "chat models": _chat_models,
        "reranker": _reranker,
        "database": _database,
        "records": _records,
        "hosts": _hosts,
        "index": _index,
        "languages": _languages,
        "search": _search,
        "vectors": _vectors,
        "active config": _active,
        "golden set": _golden,
        "rules": _rules,
        "goals": _goals,
        "agents": _agents,
        "triggers": _triggers,
        "permissions": partial(permissions, names_documents=names_documents),
        "trust": _trust,
        "audit log": _audit,
        "disk": _disk,
    }
    found: list[Check] = []
    for name, part in parts.items():
        try:
            result = part(workspace)
            for check in [result] if isinstance(result, Check) else result:
                _add(found, check)
        except HiveError as error:
            for diagnostic in error.diagnostics:
                _add(found, check_of(name, diagnostic))
    return found


def _add(found: list[Check], check: Check) -> None:
    """Add a check; for a fault that an earlier check found, only that check's name."""
    for n, known in enumerate(found):
        if check.status == "fail" and known.message == check.message:
            if known.name != "settings" and check.name not in known.name.split(", "):
                found[n] = replace(known, name=f"{known.name}, {check.name}")
            return
    found.append(check)


def _settings(workspace: Workspace) -> Check:
    workspace.settings  # noqa: B018 - reading it is the check
    return Check("settings", "ok", "every key is known and in range")


def _collections(workspace: Workspace) -> Check:
    names = [load_collection(workspace, name).name for name in collection_names(workspace)]
    if not names:
        return Check("collections", "fail", "there is no collection", "add collections/<name>.json")
    return Check("collections", "ok", ", ".join(names))


def _model(workspace: Workspace) -> Check:
    embedder, why_not = open_embedder(workspace)
    if embedder is None:
        return check_of("model", why_not, "warn") if why_not else Check("model", "warn", "none")
    found = probing.tried_embedding(workspace)
    if not found.ok:
        return Check("model", "fail", found.error, found.fix)
    return Check("model", "ok", f"{embedder.model_id} embeds: {found.dimensions} dimensions, {found.seconds:.2f} s")


def _chat_models(workspace: Workspace) -> Iterator[Check]:
    roles = probing.configured_chat(workspace)
    if not roles:
        yield Check("chat models", "ok", "none: search, gate and the rules of the judge work without one")
    for found in probing.probed(workspace, list(roles)):
        what = f"{found.name} ({', '.join(roles[found.name])})"
        if not found.ok:
            fix = found.fix or "see `hive models test` and the server's own log"
            yield Check("chat models", "fail", f"{what}: {found.error}", fix)
            continue
        status: CheckStatus = "ok" if probing.is_fit(found) else "warn"
        yield Check("chat models", status, f"{what}: {probing.told_of(found)}", probing.TAKE_A_LARGER)


def _reranker(workspace: Workspace) -> Check:
    found = probing.tried_reranker(workspace)
    if found is None:
        return Check("reranker", "ok", "none")
    if not found.ok:
        return Check("reranker", "fail", f"{found.name}: {found.error}", found.fix)
    return Check("reranker", "ok", f"{found.name} scores two texts in {found.seconds:.2f} s")


def _database(workspace: Workspace) -> Check:
    if not workspace.database.exists():
        return Check("database", "warn", "there is none yet", "run `hive index`")
    with connected(workspace.database) as connection:
        verdict = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if verdict != "ok":
        return Check("database", "fail", f"HIVE-407: {verdict}", "run `hive index`: it sets the file aside")
    return Check("database", "ok", "the integrity check passed")


def _records(workspace: Workspace) -> Check:
    """Return the check of the records server: writable, with a correct clock and free connections."""
    place = workspace.records
    if not isinstance(place, RemoteDatabase):
        gone = None
        if place.exists():
            with connected(place) as file:
                gone = moved_to(file)
        return Check("records", "ok", "in .hive/hive.db") if gone is None else _moved(gone)
    with connected(place) as connection:
        if (gone := moved_to(connection)) is not None:
            return _moved(gone)
        state = cast("postgres.PostgresConnection", connection).state()
    told = (
        f"{place.name}: PostgreSQL {state.release}, schema {state.schema}, writable, "
        f"of {'no named workspace' if state.workspace is None else state.workspace}, "
        f"{state.connections} of {state.most} connections taken, clock {state.ahead:+.1f} s"
    )
    if int(state.release.split(".")[0]) < OLDEST_SERVER:
        return Check("records", "warn", told, f"upgrade the server to PostgreSQL {OLDEST_SERVER} or later")
    if state.connections > state.most * 0.9:
        return Check("records", "warn", told, "raise max_connections: each host takes one for each of its threads")
    if abs(state.ahead) > CLOCK_SKEW:
        return Check("records", "warn", told, "let this host keep time by NTP: times that people read are its own")
    return Check("records", "ok", told)


def _hosts(workspace: Workspace) -> Check:
    """Return whether what works in the workspace on this machine goes by `hive.toml` as it is: a process reads it
    once."""
    working, settings = at_work(workspace), workspace.root / FILE
    if not working:
        return Check("hosts", "ok", "no host is at work here")
    saved = settings.stat().st_mtime if settings.exists() else 0.0
    if older := sum(host.since < saved for host in working):
        told = f"of {len(working)} at work here, {older} began before hive.toml was saved, and by its text of then"
        return Check("hosts", "warn", told, "start `hive serve` again: a process reads hive.toml once")
    return Check("hosts", "ok", f"{len(working)} at work here, by hive.toml as it is")


def _moved(target: str) -> Check:
    told, *_ = moved(target, "").diagnostics
    return Check("records", "fail", f"{told.code}: {told.message}", told.fix or "")


def _index(workspace: Workspace) -> Check:
    if indexing.index_is_stale(workspace):
        return Check("index", "warn", "HIVE-406: documents changed since they were indexed", "run `hive index`")
    return Check("index", "ok", "up to date")


def _languages(workspace: Workspace) -> Iterator[Check]:
    told = list(language_advice(workspace, [live.collection for live in _live(workspace)]))
    yield from (Check("languages", "warn", what, fix) for what, fix in told)
    if not told:
        yield Check("languages", "ok", "documents and questions are in languages that are searched as such")


def _search(workspace: Workspace) -> Iterator[Check]:
    """Yield the checks of each collection's copy in the search engine for words, and of its vectors there."""
    settings = workspace.settings
    if not settings.search.url:
        yield Check("search", "ok", "words are searched here")
        return
    engine = opensearch.OpenSearch.of(workspace)
    with_vectors = True
    for live in _live(workspace):
        with_vectors = engine.ranks_vectors_of(live.collection, live.index_hash) and with_vectors
        where = f"words of {live.collection} in {engine.name}, release {engine.connection.version}"
        told = "how rare a word is counts over all documents there, not over each reader's; the gate measures this"
        yield Check("search", "ok", f"{where}: {told}")
    if settings.vectors.url:
        return
    if with_vectors:
        yield Check("search", "ok", f"vectors in {engine.name} by k-NN, exactly")
    elif opensearch.KNN in engine.connection.plugins:
        yield Check("search", "ok", "vectors stay local: the copy was made before the cluster had k-NN")
    else:
        yield Check("search", "ok", f"vectors stay local: {engine.name} has no k-NN plugin")


def _live(workspace: Workspace) -> list[generation.Generation]:
    """Return the generations of the indexes that searches use."""
    if not workspace.database.exists():
        return []
    with connected(workspace.database) as connection:
        found = [find_generation(connection, name) for name in collection_names(workspace)]
    return [one for one in found if one is not None]


def _vectors(workspace: Workspace) -> Iterator[Check]:
    """Yield the checks of each collection's copy in the database for vectors."""
    settings = workspace.settings.vectors
    if not settings.url:
        if not workspace.settings.search.url:  # else that check reports it
            yield Check("vectors", "ok", "searched here, exactly")
        return
    database = open_database(workspace)
    for live in _live(workspace):
        if live.embedding_model is None:
            continue
        copy = find_copy(database, live.collection, live.index_hash)
        held = f"{copy.chunks} vectors of {live.collection}"
        where = f"{held} in PostgreSQL at {database.shown}, pgvector {copy.shown}"
        if settings.search == "exact":
            yield Check("vectors", "ok", f"{where}, searched exactly")
        elif not copy.hnsw:
            fix = "run `hive index`: it builds the HNSW index"
            yield Check("vectors", "warn", f"{where}, searched exactly, for it has no HNSW index", fix)
        elif not copy.iterative:
            why = "with a filter or for a reader searched exactly, since this release can't go on behind a filter"
            yield Check("vectors", "warn", f"{where}, searched by HNSW: {why}", "upgrade pgvector to 0.8 or later")
        else:
            yield Check("vectors", "ok", f"{where}, searched by HNSW: nearly the nearest, not always all of them")


def _active(workspace: Workspace) -> Iterator[Check]:
    active = find_active(workspace)
    if active is None:
        yield Check("active config", "warn", "HIVE-408: nothing is deployed", "run `hive deploy CONFIG`")
        return
    # A file that differs from the deployed config would bypass the gate, so this is a failure.
    yield from (check_of("active config", warning) for warning in active.warnings)
    findings = check_config(workspace, active.stored, refresh=False)
    yield from (check_of("active config", finding) for finding in findings)
    if not active.warnings and not findings:
        gated = "deployed" if active.version else "never gated: honoured as the baseline"
        yield Check("active config", "ok", f"{active.stored.name}, {gated}")


def _golden(workspace: Workspace) -> Check:
    if not (workspace.root / "evals" / "golden.json").exists():
        return Check("golden set", "warn", "there is none", "write one with `hive label QUERY`")
    golden = load_golden(workspace)
    held = len(held_out(golden) or ())
    return Check("golden set", "ok", f"{len(golden)} queries, {held} of them held out")


def _rules(workspace: Workspace) -> Check:
    return Check("rules", "ok", f"{len(load_rules(workspace))} rules of people")


def _goals(workspace: Workspace) -> Iterator[Check]:
    yield from _sound("goals", goal_ids(workspace), lambda name: load_goal(workspace, name))


def _agents(workspace: Workspace) -> Iterator[Check]:
    from hive_agents.agents import deployed_text, spec, verify
    from hive_agents.supervision.health import stale_criteria

    yield from _sound("agents", spec.agent_ids(workspace), lambda name: verify.sound_agent(workspace, name))
    yield from (check_of("agents", one, "warn") for one in stale_criteria(workspace, deployed_text))


def _triggers(workspace: Workspace) -> Iterator[Check]:
    from hive_agents.triggers import files

    yield from _sound("triggers", files.trigger_ids(workspace), lambda name: files.sound_trigger(workspace, name))
    known: dict[str, str] = {}
    for spec in files.all_triggers(workspace)[0]:
        if spec.type == "webhook" and spec.enabled:
            with suppress(HiveError):  # without its secret it takes no request
                first = known.setdefault(credentials.resolve(workspace, spec.secret_ref).reveal(), spec.id)
                if first != spec.id:
                    message = f'HIVE-111: the webhooks "{first}" and "{spec.id}" have one secret by two references'
                    yield Check("triggers", "fail", message, "give each webhook a secret of its own")


def _sound(part: str, names: list[str], read: Callable[[str], object]) -> Iterator[Check]:
    """Yield a check per faulty file, or one with the number of files."""
    faults = 0
    for name in names:
        try:
            read(name)
        except HiveError as error:
            faults += 1
            yield from (check_of(part, found) for found in error.diagnostics)
    if not faults:
        yield Check(part, "ok", f"{len(names)} {part}")


def _trust(workspace: Workspace) -> Check:
    notice = trusted.untrusted_notice(workspace)
    return check_of("trust", notice, "warn") if notice else Check("trust", "ok", "nothing acts unasked")


def _audit(workspace: Workspace) -> Check:
    found = log_verdict(workspace)
    if not found.ok:
        fix = "restore audit/log.jsonl from version control or a backup; `hive explain HIVE-413` has more"
        return Check("audit log", "fail", f"HIVE-413: {found.reason}", fix)
    keyed = "keyed" if found.keyed else "unkeyed: detects accidents, not attackers (set HIVE_AUDIT_KEY)"
    return Check("audit log", "ok", f"{count(found.entries, 'entry')}, intact, {keyed}")


def _disk(workspace: Workspace) -> Check:
    free = shutil.disk_usage(workspace.root).free
    if free < LITTLE_DISK:
        return Check("disk", "warn", f"{free >> 20} MB are left", "free some space")
    return Check("disk", "ok", f"{free >> 30} GB are free")
