from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli.surface import ConfigArgument, GoldenOption, HistoryReasonOption, Surface, styled, with_surface

if TYPE_CHECKING:
    from rich.text import Text

    from hive_agents.gate import GateFinding

_STYLES = {"passed": "green", "first": "green", "inconclusive": "yellow", "blocked": "red"}


@with_surface()
def command(
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
    reason: HistoryReasonOption = None,
    golden: GoldenOption = None,
) -> None:
    """Deploy a config if it passes the gate."""
    from hive_agents.base import HiveError
    from hive_agents.cli.configs import tell_cost_of_look
    from hive_agents.evaluation import load_golden
    from hive_agents.gate import deploy
    from hive_agents.host import ask_for_override
    from hive_agents.ranking import named_config

    if override and not (reason and reason.strip()):
        raise HiveError.of("HIVE-409", "--override needs a reason", fix='add --reason "…"')
    if override and accept_tag:
        why = "--override asks another person to overrule the gate, --accept-tag accepts a tag's loss in your name"
        raise HiveError.of("HIVE-409", why, fix="use one of the two")
    place = surface.workspace
    operator = surface.asker.operator("deploy configs", *(["approver"] if override or accept_tag else []))
    requester = surface.asker.requester() if override else ""  # may refuse, so before a use of the holdout is spent
    reviewer = surface.asker.reviewer() if accept_tag else None
    viewer = surface.asker.viewer()
    stored, queries = named_config(place, config), load_golden(place, golden)
    outcome = deploy(
        place,
        stored,
        queries,
        allow_inconclusive=allow_inconclusive,
        accept_tags=accept_tag or (),
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
        lost, accepted = outcome.shown.lost_tags, outcome.shown.accepted_tags
        if len(lost) == len(outcome.shown.reasons) > 0 and not override:  # only lost tags block it
            tags = " ".join(f"--accept-tag {shlex.quote(change.tag)}" for change in (*accepted, *lost))
            parts.append(safe_line(f'to accept these losses: hive deploy {stored.name} {tags} --reason "…"'))
        if override:
            approval = ask_for_override(place, stored, outcome, str(reason), requester, surface.asker.asking())
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
    if result.powered is not None:
        cheap, (low, high) = result.powered, result.powered.ci95
        lines.append(
            f"  with {cheap.n_cheap} cheap labels, of weight {cheap.weight:.2f}: {cheap.difference:+.3f}"
            f" (95 %: {low:+.3f} to {high:+.3f}), p = {cheap.p_value:.4f}: this decides"
        )
    return lines
