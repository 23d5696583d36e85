from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import (
    AcceptOption,
    ConfigArgument,
    GoldenOption,
    HistoryReasonOption,
    Surface,
    count,
    figure,
    styled,
    with_surface,
)

if TYPE_CHECKING:
    from rich.text import Text

    from hive_agents.gate import CanaryStatus, GateFinding
    from hive_agents.workspace import Workspace


_STYLES = {"passed": "green", "first": "green", "inconclusive": "yellow", "blocked": "red"}


@with_surface()
def deploy(
    surface: Surface,
    config: ConfigArgument,
    allow_inconclusive: Annotated[
        bool, typer.Option("--allow-inconclusive", help="Deploy also a config that is equal, or better without proof.")
    ] = False,
    override: Annotated[
        bool,
        typer.Option("--override", help="Ask another person to deploy it despite the gate; needs --reason."),
    ] = False,
    accept_tag: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-tag",
            metavar="TAG",
            help="Accept this tag's loss, so that its HIVE-303 doesn't block; repeatable, needs --reason.",
        ),
    ] = None,
    accept: AcceptOption = None,
    reason: HistoryReasonOption = None,
    golden: GoldenOption = None,
) -> None:
    """Deploy a config if it passes the gate."""
    from hive_agents.base import HiveError
    from hive_agents.cli.configs import tell_cost_of_look
    from hive_agents.evaluation import load_golden
    from hive_agents.gate import deploy
    from hive_agents.host import decisions
    from hive_agents.ranking import named_config

    if override and not (reason and reason.strip()):
        raise HiveError.of("HIVE-409", "--override needs a reason", fix='add --reason "…"')
    accepts = bool(accept_tag or accept)
    if override and accepts:
        why = "--override asks another person to overrule the gate, to accept a loss is done in your own name"
        raise HiveError.of("HIVE-409", why, fix="use one of the two")
    place = surface.workspace
    operator = surface.asker.operator("deploy configs", *(["approver"] if override or accepts else []))
    requester = surface.asker.requester() if override else ""  # may refuse, so before a use of the holdout is spent
    reviewer = surface.asker.reviewer() if accepts else None
    viewer = surface.asker.viewer()
    surface.refresh_index()  # labels follow renamed documents
    stored, queries = named_config(place, config), load_golden(place, golden)
    outcome = deploy(
        place,
        stored,
        queries,
        allow_inconclusive=allow_inconclusive,
        accept_tags=accept_tag or (),
        accept=accept or (),
        reason=reason,
        by=reviewer.by if reviewer else operator,
        authn=surface.asker.authn,
        viewer=viewer,
        before_look=lambda: tell_cost_of_look(surface, queries, stored),
    )
    surface.warn(outcome.warnings)
    value = outcome.to_json()
    parts = gate_parts(outcome.shown)
    if outcome.deployed:
        before = f" (before: {outcome.previous})" if outcome.previous else ""
        parts.append(f"deployed {outcome.deployed}{before}")
    else:
        parts.append(
            f"{outcome.previous} stays active; `hive compare {outcome.previous} {stored.name}` shows the queries"
        )
        shown = outcome.shown
        if len(shown.lost_tags) + len(shown.lost_readers) == len(shown.reasons) > 0 and not override:
            flags = [f"--accept-tag {shlex.quote(change.tag)}" for change in (*shown.accepted_tags, *shown.lost_tags)]
            flags += [f"--accept {name}" for name in (*shown.accepted, *shown.lost_readers)]
            parts.append(safe_line(f'to accept these losses: hive deploy {stored.name} {" ".join(flags)} --reason "…"'))
        if override:
            approval = decisions.ask_for_override(
                place, stored, outcome, str(reason), requester, surface.asker.asking()
            )
            value |= {"approval_id": approval, "override": {"reason": reason}}
            parts.append(f"approval request {approval} waits for another person")
    surface.show(value, *parts)
    raise typer.Exit(0 if outcome.deployed else 1)


def decision_line(decision: str, name: str) -> Text:
    """Return the gate's decision on a config or an agent."""
    word = "PASSED" if decision == "first" else decision.upper()
    return styled(word, f"bold {_STYLES[decision]}") + f" {name}"


def gate_parts(result: GateFinding) -> list[Any]:
    """Return the gate's decision and its figures as lines."""
    from hive_agents.evaluation import readers_lines

    lines: list[Any] = [decision_line(result.decision, result.candidate.config)]
    lines += [safe_line(f"  {reason.code}: {reason.message}") for reason in result.reasons]
    lines += [f"  watch: {safe_line(str(change))}; not shown, so it stops nobody" for change in result.watch]
    lines += [f"  accepted: {safe_line(str(change))}" for change in result.accepted_tags]
    if result.difference is None or result.active is None:
        lines.append("  there is no active config: nothing to compare with")
        figure = result.candidate.metrics["nudcg"]
        if figure is not None:  # there is a query whose labels the asker may view
            lines.append(f"  nUDCG {figure:.3f} over {len(result.candidate.queries)} queries")
        return lines
    d, new, old = result.difference, result.candidate.metrics, result.active.metrics
    low, high = d.ci95
    evidence = "all queries; no holdout, so it is the tuning set"
    if result.use:
        evidence = f"holdout, use {result.use.j} of it"
    elif result.split:
        evidence = "holdout, no use of it: both rank alike"
    lines += [
        f"  nUDCG {old['nudcg']:.3f} -> {new['nudcg']:.3f} ({d.difference:+.3f}; 95 %: {low:+.3f} to {high:+.3f})",
        f"  distractors per query {old['distractors']:.2f} -> {new['distractors']:.2f};"
        f" {d.wins} won, {d.losses} lost, {d.ties} tied",
        f"  p = {d.p_value:.4f} against {result.alpha:.4f}, n = {d.n} ({evidence})"
        + (f"; gains from {d.mde:.3f} on would show" if d.mde else ""),
    ]
    lines += [f"  {line}" for line in readers_lines(result.readers.to_json() if result.readers else None)]
    lines += [f"  accepted: what readers lose by {name}" for name in result.accepted]
    if result.powered is not None:
        cheap, (low, high) = result.powered, result.powered.ci95
        lines.append(
            f"  with {cheap.n_cheap} cheap labels, of weight {cheap.weight:.2f}: {cheap.difference:+.3f}"
            f" (95 %: {low:+.3f} to {high:+.3f}), p = {cheap.p_value:.4f}: this decides"
        )
    return lines


@with_surface()
def rollback(surface: Surface, reason: HistoryReasonOption = None) -> None:
    """Activate the previous config again; repeat to go further back."""
    from hive_agents.gate import rollback

    place = surface.workspace
    by = surface.asker.operator("roll configs back")
    version, before = rollback(place, reason=reason, by=by, authn=surface.asker.authn)
    value: dict[str, Any] = {"deployed": version.name, "previous": before, **_measured(place)}
    lines = [f"{version.name} is active again (before: {before})"]
    if value["metrics"]:
        figures = ", ".join(f"{name} {figure(value['metrics'][name])}" for name in ("nudcg", "ndcg", "distractors"))
        queries, held_out = count(value["queries"], "query"), value["held_out"]
        difference = f", and not the {held_out} held out alone as in a deployment" if held_out else ""
        lines.append(f"  as measured now, over all {queries} of the golden set{difference}: {figures}")
    surface.show(value, *lines)


def _measured(workspace: Workspace) -> dict[str, Any]:
    """Return the restored config's metrics as measured now, and the number of queries and of held-out ones.

    A rollback isn't gated: when nothing can be measured, the metrics are None.
    """
    from contextlib import suppress

    from hive_agents.base import HiveError
    from hive_agents.evaluation import evaluate, held_out, load_golden

    with suppress(HiveError):
        golden = load_golden(workspace)
        evaluation = evaluate(workspace, golden=golden)
        held = len(held_out(golden) or ())
        return {"metrics": evaluation.metrics, "queries": len(evaluation.queries), "held_out": held}
    return {"metrics": None, "queries": 0, "held_out": 0}


@with_surface()
def history(surface: Surface) -> None:
    """List the deployments, newest first, with what each step brought and cost, and what can still be proved."""
    from rich.table import Table

    from hive_agents.evaluation import readers
    from hive_agents.gate import TagChange, holdout
    from hive_agents.ranking import versions

    surface.asker.operator("see the history", "approver")
    viewer = surface.asker.viewer()
    rows = [
        {
            "id": version.id,
            "config": version.name,
            "config_hash": version.config_hash,
            "at": version.at,
            "by": version.by,
            "authn": version.authn,
            "decision": version.decision,
            "via": version.via,
            "reason": version.reason,
            "evaluation": version.evaluation if viewer is None else None,  # it measured everything
            "active": number == 0,
        }
        for number, version in enumerate(versions(surface.workspace))
    ]
    table, notes = Table(), []
    for name in ("", "id", "config", "at", "by", "via", "decision", "nUDCG"):
        table.add_column(name, no_wrap=name != "by", overflow="fold")
    for row in rows:
        evaluation = row["evaluation"] if isinstance(row["evaluation"], dict) else {}
        nudcg = (evaluation.get("candidate") or {}).get("nudcg")
        table.add_row(
            "●" if row["active"] else "",
            str(row["id"]),
            str(row["config"]),
            str(row["at"])[:16].replace("T", " "),
            *(str(row[name]) for name in ("by", "via", "decision")),
            figure(nudcg),
        )
        difference = evaluation.get("difference") or {}
        if row["decision"] == "passed" and "nudcg" in difference:
            figures = {"n": difference["n"], "difference": difference["nudcg"], "p_value": difference["p_value"]}
            told = readers.step_line(figures | {"alpha": evaluation["alpha"], "readers": evaluation.get("readers")})
            notes.append(safe_line(f"{row['id']} {row['config']}: {told}"))
        for change in evaluation.get("accepted_tags", ()):
            loss = f"{change['tag']} falls {TagChange(**change, blocks=True).figures}"
            notes.append(safe_line(f"{row['id']} {row['config']}: {row['by']} accepted that {loss}: {row['reason']}"))
    left = holdout.proof_of(surface.workspace) if viewer is None else None
    if left is not None:
        notes.append(str(left))
    value = {"versions": rows, "proof": left.to_json() if left is not None else None}
    surface.show(value, table if rows else "nothing was deployed yet", *notes)


class CanaryVerb(StrEnum):
    status = "status"


VerbArgument = Annotated[CanaryVerb, typer.Argument(help="Only `status`, the default.")]


@with_surface()
def canary(surface: Surface, verb: VerbArgument = CanaryVerb.status) -> None:  # noqa: ARG001
    """Compare the config that serves with the previous one by readers' clicks and feedback."""
    from hive_agents.gate import canary_status

    surface.asker.operator("see the canary")
    status = canary_status(surface.workspace)
    surface.show(status.to_json(), *_canary_parts(status))


def _canary_parts(status: CanaryStatus) -> list[Any]:
    if status.config is None:
        why = "[canary] share in hive.toml is 0" if status.state == "off" else "no deployed config has one before it"
        return [f"no canary: {why}"]
    tally, states = status.tally, {"rolled_back": "rolled back", "running": "undecided"}
    settled = tally.won + tally.lost + tally.tied + tally.silent
    head = safe_line(f"{status.config} against {status.previous}: {states.get(status.state, status.state)}")
    uninformative = f"{tally.alike} alike under both, {tally.one_sided} found by one alone"
    credit = f"{status.config} {tally.credit_new}, {status.previous} {tally.credit_previous}"
    worse, better = f"E worse {figure(tally.e_worse, 2)}", f"E better {figure(tally.e_better, 2)}"
    parts = [
        head,
        f"  {count(tally.drafted, 'list')} drafted of {status.share:.0%} of searches; {uninformative}",
        f"  {settled} settled: {tally.won} won, {tally.lost} lost, {tally.tied} tied, {tally.silent} without a word",
        safe_line(f"  credit: {credit}; by {count(tally.readers, 'reader')}"),
        f"  {worse}, {better}, without any one reader; 20 decides",
    ]
    if status.state == "running":
        lost, won = (status.to_json()[name] for name in ("losses_missing", "wins_missing"))
        missing = (
            f"{lost} more lost in a row roll it back, {won} more won confirm it; {tally.open} not settled yet"
            if lost and won
            else "nothing; the host, or the next search or click, carries it out"
        )
        parts.append(f"  missing: {missing}")
    return parts
