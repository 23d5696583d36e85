"""`hive judge rules`: rules learned from people's decisions, and their stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.base import count, safe_line
from hive_agents.cli.surface import WHO_ASKS, Surface, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.judging.learning import stages
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Rules learned from people's decisions.", no_args_is_help=True)

RuleArgument = Annotated[str, typer.Argument(help="The rule's id.")]


@app.command("mine")
@with_surface(as_user=WHO_ASKS)
def mine(surface: Surface) -> None:
    """Find conditions under which people always decided alike, and request approval of rules with them."""
    from hive_agents.judging import DecisionLog, audits, requests
    from hive_agents.judging.learning import mining, stages

    place = surface.workspace
    author = surface.asker.requester() if surface.asker.is_named else "service:miner"
    rows = audits.seen(place, DecisionLog(place).rows(), surface.asker.token_holder())
    proposals, book = mining.mine(rows), stages.RuleBook(place)
    reasons = [] if proposals else mining.nothing_because(rows) or ["no decision has been logged"]
    values, lines = [], []
    for proposal in proposals:
        rule = book.propose(proposal, author)
        request = (
            requests.ask_for_rule(place, rule, surface.asker.token_holder()).id if rule.stage == "proposed" else None
        )
        values.append(proposal.model_dump(mode="json") | {"stage": rule.stage, "approval_id": request})
        evidence = f"{proposal.agreements}/{proposal.support}, at least {proposal.confidence:.0%}"
        line = f"{proposal.id}  {proposal.human_action:<9} {evidence}  {proposal.trigger_pattern}"
        lines.append(safe_line(f"{line}  ({request or rule.stage})"))
    lines += [count(len(values), "proposal"), *(safe_line(f"  {reason}") for reason in reasons)]
    surface.show({"proposals": values, "reasons": reasons}, *lines)


@app.command("list")
@with_surface()
def list_rules(surface: Surface) -> None:
    """List all rules, manual and learned, with people's agreement on their matches."""
    place = surface.workspace
    values = all_rules(place, surface.asker.token_holder())
    lines = [
        f"{short(rule['id']):<24} {rule['source']:<8} {short(rule['stage'] or rule['mode']):<11}"
        f" {short(rule['action']):<9} {short(rule['condition'])}"
        for rule in values
    ]
    surface.show({"rules": values}, *lines, f"{len(values)} rules")


@app.command("show")
@with_surface()
def show(surface: Surface, rule: RuleArgument) -> None:
    """Show a rule: its condition, and of a learned one evidence, examples and history."""
    from hive_agents.judging import load_rules

    for manual in load_rules(surface.workspace):
        if manual.id == rule:
            fields = manual.model_dump(mode="json")
            lines = [f"  {manual.condition}", f"  {manual.description}"]
            title = styled(safe_line(f"{rule}  manual  -> {fields['action']}"), "bold")
            surface.show(_row(fields, "manual", None) | {"rule": fields}, title, *map(safe_line, lines))
            return
    _show(_seen(surface, rule), surface)


@app.command("approve")
@with_surface(as_user=WHO_ASKS)
def approve(surface: Surface, rule: RuleArgument) -> None:
    """Approve a proposed rule as a shadow, which logs and does not act; security rules need two people.

    The same as `hive approvals approve` of its request.
    """
    from hive_agents.host import decide
    from hive_agents.judging import requests
    from hive_agents.judging.learning import stages

    place = surface.workspace
    request = requests.ask_for_rule(place, _seen(surface, rule))
    decided, _ = decide(place, request.id, "approve", **surface.asker.decider().named())
    _show(stages.RuleBook(place).get(rule), surface, decided.remaining_approvals)


@app.command("retire")
@with_surface(as_user=WHO_ASKS)
def retire(
    surface: Surface,
    rule: RuleArgument,
    reason: Annotated[str, typer.Option("--reason", help="The reason, kept in the history.")] = "",
) -> None:
    """Retire a learned rule for good."""
    from hive_agents.judging.learning import stages

    by = surface.asker.reviewer().by
    _show(stages.RuleBook(surface.workspace).retire(_seen(surface, rule).id, by, reason), surface)


def _seen(surface: Surface, rule_id: str) -> stages.LearnedRule:
    """Return a learned rule. Raises: HIVE-409 where there is none that the asker may see."""
    from hive_agents.judging import audits
    from hive_agents.judging.learning import unknown_rule

    for rule in audits.seen_rules(surface.workspace, surface.asker.token_holder()):
        if rule.id == rule_id:
            return rule
    raise unknown_rule(rule_id)


def all_rules(workspace: Workspace, holder: Principal | None) -> list[dict[str, Any]]:
    """Return the rules of `rules/*.json` in order of evaluation, then the learned ones that the holder of a token may
    see. Raises: as `load_rules`."""
    from hive_agents.judging import audits, load_rules

    manual = [_row(rule.model_dump(mode="json"), "manual", None) for rule in load_rules(workspace)]
    return manual + [rule_value(rule) for rule in audits.seen_rules(workspace, holder)]


def rule_value(rule: stages.LearnedRule) -> dict[str, Any]:
    """Return a learned rule's row of the list; matches and agreements are those of its current stage."""
    from hive_agents.judging import lower_bound

    evidence = rule.evidence
    value = _row({**rule.rule, "mode": rule.mode}, "learned", rule.stage)
    return value | {
        "matches": evidence.matches or evidence.n,
        "agreements": evidence.k,
        "lower95": lower_bound(evidence.k, evidence.n) if evidence.n else rule.proposal["confidence"],
    }


def _row(rule: dict[str, Any], source: str, stage: str | None) -> dict[str, Any]:
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


def _show(rule: stages.LearnedRule, surface: Surface, missing: int = 0) -> None:
    proposal = rule.proposal
    value = rule_value(rule) | {
        "rule": rule.fields,
        "proposal": proposal,
        "author": rule.author,
        "approved_by": list(rule.approved_by),
        "evidence": rule.evidence.to_json(),
        "history": list(rule.steps),
        "updated_at": rule.updated_at,
    }
    lines = [
        f"  {rule.rule['condition']}",
        f"  people agreed on {proposal['agreements']} of {proposal['support']}: at least {proposal['confidence']:.1%};"
        f" covers {proposal['coverage']:.0%} of the escalations",
        f"  examples: {', '.join(map(str, proposal['examples']))}",
        *(f"  look at: {case}" for case in proposal["edge_cases"]),
        *(f"  {step['at']}  {step['stage']:<11} {step['by']}  {step['reason']}" for step in rule.steps),
    ]
    title = styled(safe_line(f"{rule.id}  {rule.stage}  -> {rule.rule['action']}"), "bold")
    parts: list[Any] = [title, *map(safe_line, lines)]
    if missing:
        value["remaining_approvals"] = missing
        parts.append(styled(f"  {missing} more approval needed, by another person", "yellow"))
    surface.show(value, *parts)


def short(value: Any) -> str:
    """Return a value in one line of at most 80 characters."""
    import json

    text = safe_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 80 else text[:79] + "…"
