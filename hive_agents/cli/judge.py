"""`hive judge`: what the judge did, its thresholds, blind audits and learned rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, figure, open_workspace, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_agents.judging.learning import LearnedRule
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Decisions, thresholds, audits and learned rules.", no_args_is_help=True)
rules = typer.Typer(help="Rules learned from what people decided.", no_args_is_help=True)
app.add_typer(rules, name="rules")

AsOption = Annotated[str | None, typer.Option("--as", help="Who acts (default: the local user).")]
RuleArgument = Annotated[str, typer.Argument(help="The rule's id.")]
_BLOCKS = " ▁▂▃▄▅▆▇█"


@app.command("stats")
def stats(
    since: Annotated[str | None, typer.Option("--since", help="From this ISO time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before this ISO time.")] = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rates, agreement with people, cost, thresholds and weights."""
    from hive_agents.judging.stats import judge_stats

    value = judge_stats(open_workspace(workspace), since=since, until=until)
    Surface(json, quiet).show(value, *_stats_parts(value))


@app.command("calibrate")
def calibrate(
    alpha: Annotated[float, typer.Option(min=0.0, max=0.5, help="Most disagreement that is let through.")] = 0.05,
    delta: Annotated[float, typer.Option(min=0.001, max=0.5, help="Probability of missing that.")] = 0.10,
    approve: Annotated[int | None, typer.Option("--approve", help="Put a lower threshold that waits in force.")] = None,
    as_: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn thresholds from audits; a lower one takes effect when a second person approves it."""
    from hive_agents.judging import calibration

    surface, place = Surface(json, quiet), open_workspace(workspace)
    by = as_ or _user()
    if approve is not None:
        applied = calibration.apply_threshold(place, approve, by)
        value: dict[str, Any] = {"calibration": approve, "threshold": applied.value, "status": applied.status, "by": by}
        surface.show(value, f"threshold {applied.value:.2f} is in force")
        return
    metrics = calibration.calibrate(place, alpha=alpha, delta=delta, by=by)
    value = metrics.model_dump(mode="json") | {"approval_id": None}
    parts = _calibration_parts(value)
    if metrics.awaiting_approval:
        from hive_agents.approvals import file_request

        title = "lower the judge's threshold for " + ", ".join(map(_type_name, metrics.awaiting_approval))
        value["approval_id"] = file_request(place, kind="threshold", title=title, context=dict(value), requester=by)
        numbers = ", ".join(f"`--approve {number}`" for number in metrics.awaiting_approval.values())
        parts.append(f"lower thresholds wait for another person (request {value['approval_id']}): {numbers}")
    surface.show(value, *parts)
    raise typer.Exit(0 if metrics.status == "certified" else 1)


@app.command("audit")
def audit(
    decision: Annotated[int | None, typer.Argument(help="The decision to answer; without it, the queue.")] = None,
    action: Annotated[str | None, typer.Option("--action", help="accept, retry, replan or escalate.")] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="Why.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most items of the queue.")] = 20,
    as_: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """The auditor's queue: decisions drawn at random, shown without the judge's verdict."""
    from hive_agents.errors import HiveError
    from hive_agents.judging import audits

    surface, place = Surface(json, quiet), open_workspace(workspace)
    by = as_ or _user()
    if decision is None:
        items = [item.to_json() for item in audits.queue(place, by=as_)]
        lines = [f"{item['id']:>6}  {item['goal_type']:<16} {_short(item['result'])}" for item in items[:limit]]
        lines.append(f"{len(items)} wait; answer with `hive judge audit ID --action accept|retry|replan|escalate`")
        surface.show({"items": items[:limit], "waiting": len(items)}, *lines)
        return
    if action is None:
        raise HiveError.of("HIVE-409", "an audit needs --action", fix="add --action accept|retry|replan|escalate")
    done = audits.answer(place, decision, action.lower(), by, comment)
    value: dict[str, Any] = {
        "id": done.id,
        "action": done.action,
        "judge_action": done.judge_action,
        "agrees": done.agrees,
        "by": by,
        "drift": {"goal_type": done.drift.goal_type, "e_value": done.drift.e_value, "alarmed": done.drift.alarmed},
        "ticket_id": None,
    }
    word = "agrees" if done.agrees else "differs"
    parts: list[Any] = [f"decision {done.id}: you said {done.action}, the judge {done.judge_action} ({word})"]
    if done.drift.new:
        from hive_agents.approvals import file_request

        title = f"the judge has drifted on {done.drift.goal_type}: everything of this type is escalated"
        value["ticket_id"] = file_request(place, kind="ticket", title=title, context=dict(value), requester=by)
        parts.append(f"drift: all of {done.drift.goal_type} is escalated until it is calibrated again")
    surface.show(value, *parts)


@rules.command("mine")
def mine(
    as_: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Look for conditions under which people always decided the same, and propose them."""
    from hive_agents.judging.decision_log import DecisionLog
    from hive_agents.judging.learning import RuleBook, mine

    place = open_workspace(workspace)
    proposals = mine(DecisionLog(place).rows())
    book, author = RuleBook(place), as_ or "service:miner"
    stages = {proposal.id: book.propose(proposal, author).stage for proposal in proposals}
    values = [proposal.model_dump(mode="json") | {"stage": stages[proposal.id]} for proposal in proposals]
    lines = [
        f"{p.id}  {p.human_action:<9} {p.agreements}/{p.support}, at least {p.confidence:.0%}  {p.trigger_pattern}"
        for p in proposals
    ]
    Surface(json, quiet).show({"proposals": values}, *lines, f"{len(values)} proposals")


@rules.command("list")
def list_rules(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Every rule, by hand and learned, with what people said of its matches."""
    place = open_workspace(workspace)
    values = all_rules(place)
    lines = [
        f"{r['id']:<24} {r['source']:<8} {r['stage'] or r['mode']:<11} {r['action']:<9} {_short(r['condition'])}"
        for r in values
    ]
    Surface(json, quiet).show({"rules": values}, *lines, f"{len(values)} rules")


@rules.command("show")
def show(
    rule: RuleArgument, workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """One learned rule: its condition, evidence, examples and history."""
    from hive_agents.judging.learning import RuleBook

    _show(RuleBook(open_workspace(workspace)).get(rule), Surface(json, quiet))


@rules.command("approve")
def approve(
    rule: RuleArgument,
    as_: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let a proposed rule into the shadow, where it logs and does not act; security rules take two people."""
    from hive_agents.judging.learning import RuleBook

    _show(RuleBook(open_workspace(workspace)).approve(rule, as_ or _user()), Surface(json, quiet))


@rules.command("retire")
def retire(
    rule: RuleArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "",
    as_: AsOption = None,
    workspace: WorkspaceOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """End a learned rule for good."""
    from hive_agents.judging.learning import RuleBook

    _show(RuleBook(open_workspace(workspace)).retire(rule, as_ or _user(), reason), Surface(json, quiet))


def all_rules(workspace: Workspace) -> list[dict[str, Any]]:
    """The rules of `rules/*.json`, then the learned ones."""
    from hive_agents import jsontext
    from hive_agents.judging.learning import RuleBook

    found: list[dict[str, Any]] = []
    for path in sorted((workspace.root / "rules").glob("*.json")):
        name = workspace.relative(path)
        rule = jsontext.parse(jsontext.decode(path.read_bytes(), name), name)
        if isinstance(rule, dict):
            found.append(_listed(rule, "manual", None))
    return found + [rule_value(rule) for rule in RuleBook(workspace).rules()]


def rule_value(rule: LearnedRule) -> dict[str, Any]:
    """A learned rule's row of the list; matches and agreements are of its present stage."""
    from hive_agents.judging.certify import lower_bound

    evidence = rule.evidence
    value = _listed({**rule.rule, "mode": rule.mode}, "learned", rule.stage)
    return value | {
        "matches": evidence.matches or evidence.n,
        "agreements": evidence.k,
        "lower95": lower_bound(evidence.k, evidence.n) if evidence.n else rule.proposal["confidence"],
    }


def _listed(rule: dict[str, Any], source: str, stage: str | None) -> dict[str, Any]:
    return {
        "id": rule.get("id"),
        "source": source,
        "mode": rule.get("mode", "active"),
        "stage": stage,
        "priority": rule.get("priority", 0),
        "action": str(rule.get("action", "")).lower(),
        "condition": rule.get("condition"),
        "goal_types": rule.get("goal_types", []),
        "matches": None,
        "agreements": None,
        "lower95": None,
    }


def _show(rule: LearnedRule, surface: Surface) -> None:
    value = rule_value(rule) | {
        "rule": rule.rule,
        "proposal": rule.proposal,
        "author": rule.author,
        "approved_by": list(rule.approved_by),
        "evidence": rule.evidence.to_json(),
        "history": list(rule.steps),
        "updated_at": rule.updated_at,
    }
    proposal = rule.proposal
    parts: list[Any] = [
        styled(f"{rule.id}  {rule.stage}  -> {rule.rule['action']}", "bold"),
        f"  {rule.rule['condition']}",
        f"  people agreed on {proposal['agreements']} of {proposal['support']}: at least {proposal['confidence']:.1%};"
        f" covers {proposal['coverage']:.0%} of the escalations",
        f"  examples: {', '.join(map(str, proposal['examples']))}",
        *(f"  look at: {case}" for case in proposal["edge_cases"]),
        *(f"  {step['at']}  {step['stage']:<11} {step['by']}  {step['reason']}" for step in rule.steps),
    ]
    surface.show(value, *parts)


def _stats_parts(value: dict[str, Any]) -> list[Any]:
    overall = value["overall"]
    if not overall["n"]:
        return ["no decision has been logged"]
    lines: list[Any] = [
        styled(f"{overall['n']} decisions", "bold"),
        f"  {value['window']['from']} to {value['window']['to']}",
    ]
    for name, row in {"all": overall, **value["by_goal_type"]}.items():
        agreed = row["agreement"]
        lines.append(
            f"  {name:<16} {row['n']:>6}  escalated {figure(row['escalation_rate'], 2)}"
            f"  rules {figure(row['rule_match_rate'], 2)}"
            f"  agreement {figure(agreed['rate'], 2)} (at least {figure(agreed['lower95'], 2)}, n {agreed['n']})"
            f"  ${row['cost_usd']:.2f}"
        )
    lines.append("confidence")
    most = max((row["n"] for row in overall["confidence_histogram"]), default=0)
    lines += [f"  {row['lo']:.1f}  {bar(row['n'], most)} {row['n']}" for row in overall["confidence_histogram"]]
    days = value["over_time"]
    lines.append(f"escalations per day  {spark([day['escalation_rate'] for day in days])}  {days[0]['day']} on")
    for name, row in value["thresholds"].items():
        lines.append(f"threshold {_type_name(name):<16} {row['value']:.2f}  {row['status']}")
    return lines


def _calibration_parts(value: dict[str, Any]) -> list[Any]:
    found, guarantee = value["recommended_threshold"], value["guarantee"]
    if guarantee is not None:
        lines: list[Any] = [
            styled(f"CERTIFIED threshold {found:.2f} (before: {value['previous']:.2f})", "green"),
            f"  people disagree with at most {guarantee['alpha']:.0%} above it, at {1 - guarantee['delta']:.0%}"
            f" confidence; n = {guarantee['n']}, coverage {guarantee['coverage']:.0%}",
        ]
    else:
        lines = [
            styled(f"{value['status'].upper()} the threshold stays {value['previous']:.2f}", "yellow"),
            f"  {value['needed_audits']} more agreeing audits are needed; `hive judge audit` lists what waits",
        ]
    for row in value["accept_accuracy_by_confidence"]:
        lines.append(
            f"  {row['confidence']:.1f}  {bar(row['correct'], row['n'])} {row['correct']}/{row['n']},"
            f" at least {row['lower95']:.2f}"
        )
    lines += [f"  {name}: {threshold:.2f}" for name, threshold in value["threshold_by_goal_type"].items()]
    return lines + [styled(f"  {warning}", "yellow") for warning in value["warnings"]]


def bar(value: float, most: float, width: int = 30) -> str:
    """A bar of block characters, an eighth of one exact.

    >>> bar(3, 4, width=3), bar(0, 0, width=2)
    ('██▎', '  ')
    """
    eighths = round(8 * width * value / most) if most else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)


def spark(values: Sequence[float | None]) -> str:
    """A line of block characters, one a value between 0 and 1; nothing known is a blank.

    >>> spark([0.0, 0.5, 1.0, None])
    '▁▅█ '
    """
    return "".join(" " if value is None else _BLOCKS[1 + round(7 * value)] for value in values)


def _type_name(name: str) -> str:
    return "all types" if name == "*" else name


def _short(value: Any) -> str:
    import json

    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def _user() -> str:
    from hive_agents.verification.deploy import local_user

    return local_user()
