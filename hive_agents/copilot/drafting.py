"""Canary turns: result lists that are drafted from those of the active config and of the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy

from hive_agents.access import Principal
from hive_agents.base import HiveError, NotFound
from hive_agents.copilot.outcome import Result, Trace
from hive_agents.copilot.plan import RouterDecision, SearchStrategy
from hive_agents.copilot.session import Candidates, TurnSession
from hive_agents.copilot.steps import run_search
from hive_agents.copilot.threads import ThreadStore
from hive_agents.gate import canary, interleaving
from hive_agents.index import StaleIndex
from hive_agents.ranking import StoredConfig
from hive_agents.workspace import Workspace

_DRAFTED = (SearchStrategy.CONTENT_ONLY, SearchStrategy.HYBRID)


async def drafted(session: TurnSession, decision: RouterDecision, results: list[Result]) -> list[Result]:
    """Return the results to show: `results`, or where the turn takes part in a canary, a draft of both configs' lists.

    Both lists have passed the gate. Turns in which a model or the permission service failed take no part.
    """
    searched = decision.route == "documents.search" and decision.strategy in _DRAFTED
    if not searched or session.outage or session.gate.fault is not None:
        return results
    enrolment = canary.canary_for(session.workspace, session.run_id, session.reader, session.request.text)
    if enrolment is None:
        return results
    running, reader, question = enrolment
    if running.version.config_hash != session.active.hash:  # deployed while this turn runs
        return results
    before = await results_under(running.previous, session, decision)
    if before is None or not (results or before):
        return results
    shown, teams = interleaved(results, before, canary.draft_seed(running.version.id, session.run_id))
    kind: canary.ImpressionKind = (
        "drafted" if teams.strip(interleaving.NEITHER) else "alike" if results and before else "one_sided"
    )
    session.impression = canary.Impression(session.run_id, running.version.id, kind, teams, reader, question)
    if kind != "drafted":
        return results
    session.drafted_with = {"version": running.version.id, "previous": running.previous.hash}
    session.trace.notes.append(f"canary: drafted with {running.previous.name}")
    return shown


def interleaved(results: Sequence[Result], before: Sequence[Result], seed: str) -> tuple[list[Result], str]:
    """Return both lists drafted into one, and the config that placed each document, as one letter each.

    A document in both lists is shown as in `results`.
    """
    by_id = {result.doc_id: result for result in (*before, *results)}
    draft = interleaving.team_draft([one.doc_id for one in results], [one.doc_id for one in before], seed)
    return [by_id[doc_id] for doc_id in draft.order], draft.teams


async def results_under(
    stored: StoredConfig, session: TurnSession, decision: RouterDecision, doc_id: str | None = None
) -> list[Result] | None:
    """Return the results of the turn's plan under another config, gated as its own; None where that can't search."""
    other = copy(session)
    other.active, other.config = stored, stored.config
    other.found, other.trace, other.count = Candidates(), Trace(), None
    try:
        results = await run_search(other, decision, doc_id)
    except StaleIndex:
        raise
    except HiveError as error:  # for example its reranker is gone: the reader's turn must not fail
        session.trace.notes.append(f"canary: {stored.name} can't search: {error.diagnostics[0].code}")
        return None
    return None if other.outage or session.gate.fault is not None else results


def credit_open(workspace: Workspace, reader: Principal, doc_id: str) -> None:
    """Credit the config that placed an opened document in the latest of the reader's lists that shows it."""
    runs = canary.open_impressions(workspace, reader)
    threads = ThreadStore(workspace, reader) if runs else None
    for run_id in runs:
        with suppress(NotFound):  # the reader deleted that conversation
            assert threads is not None
            shown = [result.doc_id for result in threads.turn(run_id).outcome.results]
            if doc_id in shown:
                canary.credit(workspace, run_id, shown.index(doc_id) + 1, "open")
                return
