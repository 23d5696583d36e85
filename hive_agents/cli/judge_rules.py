"""`hive judge rules`: rules that were learned from what people decided, and their stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, styled, with_surface
from hive_agents.text import count, safe_line

if TYPE_CHECKING:
    from hive_agents.judging.learning import LearnedRule
    from hive_agents.workspace import Workspace

app = typer.Typer(help="Rules learned from what people decided.", no_args_is_help=True)

WHO_ACTS = "Who acts (default: the local user)."
RuleArgument = Annotated[str, typer.Argument(help="The rule's id.")]


@app.command("mine")
@with_surface(as_user=WHO_ACTS)
def mine(surface: Surface) -> None:
    """Look for conditions under which people always decided the same, and ask people to approve them."""
    from hive_agents.judging import DecisionLog
    from hive_agents.judging.learning import RuleBook, mine, nothing_because
    from hive_agents.runtime import ask_for_rule

    place = surface.workspace
    author = surface.asker.requester() if surface.asker.is_named else "service:miner"
    rows = DecisionLog(place).rows()
    proposals, book = mine(rows), RuleBook(place)
    reasons = [] if proposals else nothing_because(rows) or ["no decision has been logged"]
    values, lines = [], []
    for p in proposals:
        rule = book.propose(p, author)
        request = ask_for_rule(place, rule).id if rule.stage == "proposed" else None
        values.append(p.model_dump(mode="json") | {"stage": rule.stage, "approval_id": request})
        line = (
            f"{p.id}  {p.human_action:<9} {p.agreements}/{p.support}, at least {p.confidence:.0%}  {p.trigger_pattern}"
        )
        lines.append(safe_line(f"{line}  ({request or rule.stage})"))
    told = [f"  {reason}" for reason in reasons]
    surface.show(
        {"proposals": values, "reasons": reasons}, *lines, count(len(values), "proposal"), *map(safe_line, told)
    )


@app.command("list")
@with_surface()
def list_rules(surface: Surface) -> None:
    """Every rule, by hand and learned, with what people said of its matches."""
    place = surface.workspace
    values = all_rules(place)
    lines = [
        f"{short(r['id']):<24} {r['source']:<8} {short(r['stage'] or r['mode']):<11} {short(r['action']):<9}"
        f" {short(r['condition'])}"
        for r in values
    ]
    surface.show({"rules": values}, *lines, f"{len(values)} rules")


@app.command("show")
@with_surface()
def show(surface: Surface, rule: RuleArgument) -> None:
    """One learned rule: its condition, evidence, examples and history."""
    from hive_agents.judging.learning import RuleBook

    _show(RuleBook(surface.workspace).get(rule), surface)


@app.command("approve")
@with_surface(as_user=WHO_ACTS)
def approve(surface: Surface, rule: RuleArgument) -> None:
    """Let a proposed rule into the shadow, where it logs and does not act; security rules take two people.

    The same as `hive approvals approve` of its request.
    """
    from hive_agents.judging.learning import RuleBook
    from hive_agents.runtime import ask_for_rule, decide

    place = surface.workspace
    request = ask_for_rule(place, RuleBook(place).get(rule))
    decided, _ = decide(place, request.id, "approve", **surface.asker.decider().named())
    _show(RuleBook(place).get(rule), surface, decided.remaining_approvals)


@app.command("retire")
@with_surface(as_user=WHO_ACTS)
def retire(
    surface: Surface,
    rule: RuleArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "",
) -> None:
    """End a learned rule for good."""
    from hive_agents.judging.learning import RuleBook

    place = surface.workspace
    _show(RuleBook(place).retire(rule, surface.asker.reviewer().by, reason), surface)


def all_rules(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the rules of `rules/*.json` as they are asked, then the learned ones. Raises: as `load_rules`."""
    from hive_agents.judging import load_rules
    from hive_agents.judging.learning import RuleBook

    found = [_listed(rule.model_dump(mode="json"), "manual", None) for rule in load_rules(workspace)]
    return found + [rule_value(rule) for rule in RuleBook(workspace).rules()]


def rule_value(rule: LearnedRule) -> dict[str, Any]:
    """Return a learned rule's row of the list; matches and agreements are of its present stage."""
    from hive_agents.judging import lower_bound

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


def _show(rule: LearnedRule, surface: Surface, missing: int = 0) -> None:
    value = rule_value(rule) | {
        "rule": rule.fields,
        "proposal": rule.proposal,
        "author": rule.author,
        "approved_by": list(rule.approved_by),
        "evidence": rule.evidence.to_json(),
        "history": list(rule.steps),
        "updated_at": rule.updated_at,
    }
    proposal = rule.proposal
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
