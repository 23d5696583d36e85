"""`hive judge`: statistics of decisions, thresholds, blind audits and learned rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import safe_line
from hive_agents.cli import judge_rules
from hive_agents.cli.judge_rules import short
from hive_agents.cli.surface import WHO_ASKS, Surface, figure, styled, with_surface

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(help="Decisions, thresholds, audits and learned rules.", no_args_is_help=True)
app.add_typer(judge_rules.app, name="rules")

_BLOCKS = " ▁▂▃▄▅▆▇█"


@app.command("stats")
@with_surface()
def stats(
    surface: Surface,
    since: Annotated[str | None, typer.Option("--since", help="From this ISO time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before this ISO time.")] = None,
) -> None:
    """Show rates, agreement with people, cost, thresholds and weights."""
    from hive_agents.judging import judge_stats

    value = judge_stats(surface.workspace, since=since, until=until)
    surface.show(value, *_stats_parts(value))


@app.command("calibrate")
@with_surface(as_user=WHO_ASKS)
def calibrate(
    surface: Surface,
    alpha: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.5, help="Highest accepted disagreement (default: judge.alpha)."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(min=0.001, max=0.5, help="Probability of a higher one (default: judge.delta).")
    ] = None,
) -> None:
    """Calibrate thresholds from audits; a second person has to approve a lower one (hive approvals)."""
    from hive_agents.judging import calibration

    place = surface.workspace
    by = surface.asker.requester()
    settings = place.settings.judge
    metrics = calibration.calibrate(
        place,
        alpha=settings.alpha if alpha is None else alpha,
        delta=settings.delta if delta is None else delta,
        by=by,
    )
    value = metrics.model_dump(mode="json") | {"approval_id": None, "ticket_ids": []}
    parts = _calibration_parts(value)
    if value["stronger"] is not None:
        parts += [styled("the stronger judge", "bold"), *_calibration_parts(value["stronger"])]
    if metrics.awaiting_approval:
        from hive_agents.judging import requests

        value["approval_id"] = requests.ask_for_thresholds(place, metrics, by, surface.asker.asking())
        types = ", ".join(map(_type_name, metrics.awaiting_approval))
        command = f"`hive approvals approve {value['approval_id']}`"
        parts.append(f"lower thresholds ({types}) wait for another person: {command}")
    if metrics.missed:
        from hive_agents.judging import requests

        value["ticket_ids"] = requests.open_missed_tickets(place, metrics, by, surface.asker.asking())
        for name, bins in metrics.missed.items():
            failing = f", at {', '.join(f'{at:.2f}' for at in bins)}" if bins else ""
            parts.append(f"MISSED {_type_name(name)}{failing}: all of it goes to a person until it is calibrated again")
    surface.show(value, *parts)
    raise typer.Exit(0 if metrics.status == "certified" else 1)


@app.command("audit")
@with_surface(as_user=WHO_ASKS)
def audit(
    surface: Surface,
    decision: Annotated[int | None, typer.Argument(help="The decision to audit; without it, list the queue.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="accept, retry, replan or escalate.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="Why.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many items of the queue.")] = 20,
) -> None:
    """List or answer audits: decisions drawn at random, shown without the judge's verdict."""
    from hive_agents.access import person
    from hive_agents.base import HiveError
    from hive_agents.judging import audits

    place = surface.workspace
    if decision is None:
        holder = surface.asker.decider().principal
        by = person(surface.as_user) if surface.as_user else None
        items = [item.to_json() for item in audits.queue(place, by=by, holder=holder)]
        lines = [
            f"{item['id']:>6}  {safe_line(item['goal_type']):<16} {short(item['result'])}" for item in items[:limit]
        ]
        lines.append(f"{len(items)} wait; answer with `hive judge audit ID --action accept|retry|replan|escalate`")
        surface.show({"items": items[:limit], "waiting": len(items)}, *lines)
        return
    if action is None:
        raise HiveError.of("HIVE-409", "an audit needs --action", fix="add --action accept|retry|replan|escalate")
    reviewer = surface.asker.reviewer()
    by = reviewer.by
    audited = audits.answer(place, decision, action.lower(), by, comment, reviewer.principal, reviewer.makers)
    drift = audited.drift
    value: dict[str, Any] = {
        "id": audited.id,
        "action": audited.action,
        "judge_action": audited.judge_action,
        "agrees": audited.agrees,
        "by": by,
        "drift": {"goal_type": drift.goal_type, "e_value": drift.e_value, "alarmed": drift.alarmed},
        "ticket_id": None,
    }
    word = "agrees" if audited.agrees else "differs"
    parts: list[Any] = [f"decision {audited.id}: you said {audited.action}, the judge {audited.judge_action} ({word})"]
    if drift.new:
        from hive_agents.judging import requests

        value["ticket_id"] = requests.open_drift_ticket(place, drift, by)
        goal_type = safe_line(drift.goal_type)
        parts.append(f"drift: all of {goal_type} is escalated until it is calibrated again")
    surface.show(value, *parts)


@app.command("propose")
@with_surface()
def propose(
    surface: Surface,
    certify: Annotated[bool, typer.Option("--certify", help="Certify what is kept by labels made after it.")] = False,
    use: Annotated[bool, typer.Option("--use", help="Judge by what is kept, if it is certified.")] = False,
) -> None:
    """Ask a model for a better prompt for the judge, by what people said; no judge uses it before it is certified."""
    from hive_agents.judging.learning import prompts

    surface.require_whole_view("propose a prompt")
    place = surface.workspace
    if use:
        kept = prompts.use(place, surface.asker.requester())
        line = "written to prompts/judge.md; its judge is to be audited anew"
        surface.show({"prompt": kept.prompt, "used": True}, line)
        return
    if not certify:
        kept = prompts.propose(place)
        line = f"kept, and used by no judge: decisions after number {kept.until} certify it (--certify)"
        surface.show({"prompt": kept.prompt, "until": kept.until}, *map(safe_line, kept.prompt.splitlines()), line)
        return
    kept, found, usage = prompts.certified(place)
    value = {"status": found.status, "threshold": found.threshold, "n": found.n, "looks": kept.looks}
    from_on = f" from {found.threshold:.2f} on" if found.threshold is not None else ""
    surface.show(
        value | {"needed": found.needed, "cost_usd": usage.usd},
        f"{found.status.upper()}{from_on}: {found.k} of {found.n} labels made after the proposal disagree",
    )
    raise typer.Exit(0 if found.status == "certified" else 1)


def _stats_parts(value: dict[str, Any]) -> list[Any]:
    overall = value["overall"]
    if not overall["n"]:
        return ["no decision has been logged", *_warnings(value)]
    lines: list[Any] = [
        styled(f"{overall['n']} decisions", "bold"),
        safe_line(f"  {value['window']['from']} to {value['window']['to']}"),
    ]
    for name, row in {"all": overall, **value["by_goal_type"]}.items():
        agreement = row["agreement"]
        lines.append(
            f"  {safe_line(name):<16} {row['n']:>6}  escalated {figure(row['escalation_rate'], 2)}"
            f"  rules {figure(row['rule_match_rate'], 2)}"
            f"  agreement {figure(agreement['rate'], 2)}"
            f" (at least {figure(agreement['lower95'], 2)}, n {agreement['n']})"
            f"  ${row['cost_usd']:.2f}"
        )
    lines.append("confidence")
    most = max((row["n"] for row in overall["confidence_histogram"]), default=0)
    lines += [f"  {row['lo']:.1f}  {bar(row['n'], most)} {row['n']}" for row in overall["confidence_histogram"]]
    days = value["over_time"]
    lines.append(
        f"escalations per day  {spark([day['escalation_rate'] for day in days])}  {safe_line(days[0]['day'])} on"
    )
    for name, row in value["thresholds"].items():
        lines.append(f"threshold {_type_name(name):<16} {row['value']:.2f}  {row['status']}")
    for name, row in value["weights"].items():
        shares = "  ".join(f"{source} {share:.2f}" for source, share in row.items() if source not in ("human", "set"))
        lines.append(f"weights   {_type_name(name):<16} {shares}{'  set in hive.toml' if row.get('set') else ''}")
    return lines + _warnings(value)


def _warnings(value: dict[str, Any]) -> list[Any]:
    return [styled(safe_line(f"  {warning}"), "yellow") for warning in value["warnings"]]


def _calibration_parts(value: dict[str, Any]) -> list[Any]:
    threshold, guarantee = value["recommended_threshold"], value["guarantee"]
    if guarantee is not None:
        at = [f"threshold {threshold:.2f}"] if threshold is not None else []
        at += [f"confidence {', '.join(f'{one:.2f}' for one in value['bins'])} by itself"] if value["bins"] else []
        lines: list[Any] = [
            styled(f"CERTIFIED {' and '.join(at)} (before: {value['previous']:.2f})", "green"),
            f"  people disagree with at most {guarantee['alpha']:.0%} there, at {1 - guarantee['delta']:.0%}"
            f" confidence; n = {guarantee['n']}, coverage {guarantee['coverage']:.0%}",
        ]
    else:
        lines = [
            styled(f"{value['status'].upper()} the threshold stays {value['previous']:.2f}", "yellow"),
            f"  {value['needed_audits']} more agreeing audits are needed, and all agree with a chance of"
            f" {value['chance']:.0%}; `hive judge audit` lists what waits",
        ]
        if value["status"] == "missed" and "*" in {name[:1] for name in value["missed"]}:
            lines = [styled("MISSED people disagree with more than the target", "red")]
    for row in value["accept_accuracy_by_confidence"]:
        lines.append(
            f"  {row['confidence']:.1f}  {bar(row['correct'], row['n'])} {row['correct']}/{row['n']},"
            f" at least {row['lower95']:.2f}"
        )
    lines += [
        f"  {safe_line(name)}: {type_threshold:.2f}" for name, type_threshold in value["threshold_by_goal_type"].items()
    ]
    return lines + _warnings(value)


def bar(value: float, most: float, width: int = 30) -> str:
    """Return a bar of block characters, rounded to an eighth of a character.

    >>> bar(3, 4, width=3), bar(0, 0, width=2)
    ('██▎', '  ')
    """
    eighths = round(8 * width * value / most) if most else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def spark(values: Sequence[float | None]) -> str:
    """Return a line of block characters, one for each value between 0 and 1; None is a blank.

    >>> spark([0.0, 0.5, 1.0, None])
    '▁▅█ '
    """
    return "".join(" " if value is None else _BLOCKS[1 + round(7 * value)] for value in values)


def _type_name(name: str) -> str:
    return safe_line(f"all types{name[1:]}" if name.startswith("*") else name)
