"""The stages of a learned rule: proposed, approved, in the shadow, then acting on a growing share of runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hive_agents.access import same_person
from hive_agents.base import HiveError, NotFound
from hive_agents.goals import goal_type_of
from hive_agents.judging.decisions import SECURITY
from hive_agents.judging.learning.proposals import RuleProposal
from hive_agents.judging.sequential import Evidence
from hive_agents.store import RecordsConnection, audit, connected, transaction
from hive_agents.workspace import Workspace

ENDED = ("rolled_back", "retired")
_NEXT = {"shadow": "10", "10": "50", "50": "100"}
_ACTING = ("10", "50", "100")


@dataclass(frozen=True)
class LearnedRule:
    """A rule with its stage. `rule` holds an `EvaluationRule`'s fields, `steps` its changes of stage with reasons."""

    id: str
    stage: str
    rule: dict[str, Any]
    proposal: dict[str, Any]
    author: str
    approved_by: tuple[str, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    shadow_rate: float | None = None
    steps: tuple[dict[str, Any], ...] = ()
    updated_at: str = ""

    @property
    def mode(self) -> str:
        return "active" if self.stage in _ACTING else "shadow" if self.stage == "shadow" else "off"

    @property
    def approvers(self) -> int:
        """How many people have to approve it: two where it applies to security goals, as a rule without types does."""
        return 2 if SECURITY in map(goal_type_of, self.rule.get("goal_types") or [SECURITY]) else 1

    def acts_on(self, run_id: str) -> bool:
        """Return whether the rule decides in this run: the same for a run each time, and in more runs at each stage."""
        return self.stage in _ACTING and place_of(run_id, self.id) < int(self.stage)

    @property
    def fields(self) -> dict[str, Any]:
        """The `EvaluationRule` fields, with the approvers."""
        return {**self.rule, "metadata": {**self.rule["metadata"], "approved_by": list(self.approved_by)}}

    def for_run(self, run_id: str) -> dict[str, Any]:
        """Return the fields with the mode in this run."""
        return {**self.fields, "mode": "active" if self.acts_on(run_id) else "shadow"}


def place_of(run_id: str, rule_id: str) -> int:
    """Return a number from 0 to 99 for a run: a rule in a stage of p % acts on the runs below p.

    >>> place_of("r1", "learned_a") == place_of("r1", "learned_a"), 0 <= place_of("r2", "learned_a") < 100
    (True, True)
    """
    return int.from_bytes(hashlib.sha256(f"{run_id}\0{rule_id}".encode()).digest()[:8], "big") % 100


class RuleBook:
    """The learned rules of a workspace; each step is in the audit log."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def propose(self, proposal: RuleProposal, author: str) -> LearnedRule:
        """Enter a mined proposal. A known rule is returned unchanged, so that a retired one stays retired."""
        with connected(self.workspace.records) as connection, transaction(connection):
            existing = _find(connection, proposal.id)
            if existing is not None:
                return existing
            value = proposal.model_dump(mode="json")
            rule = LearnedRule(proposal.id, "proposed", value.pop("proposed_rule"), value, author)
            return self._keep(connection, _stepped(rule, "proposed", by=author))

    def approve(self, rule_id: str, by: str) -> LearnedRule:
        """Record an approval, which moves the rule to the shadow; security goals need two, none by the author.

        Raises: HIVE-409 for an unknown rule, one that is past approval, or a person who may not approve it.
        """
        with connected(self.workspace.records) as connection, transaction(connection):
            rule = _require_rule(connection, rule_id)
            if rule.stage != "proposed":
                raise HiveError.of(
                    "HIVE-409", f"{rule_id} is {rule.stage}, not proposed", fix="see `hive judge rules list`"
                )
            if same_person(by, rule.author):
                raise HiveError.of("HIVE-409", "who proposed a rule can't approve it", fix="ask another person")
            if any(same_person(by, before) for before in rule.approved_by):
                raise HiveError.of("HIVE-409", f"{by} has approved {rule_id} already", fix="ask a second person")
            rule = replace(rule, approved_by=(*rule.approved_by, by))
            complete = len(rule.approved_by) >= rule.approvers
            rule = _stepped(rule, "approved" if complete else "proposed", by=by)
            if complete:
                rule = _stepped(rule, "shadow", by=by)
            return self._keep(connection, rule, steps=2 if complete else 1)

    def retire(self, rule_id: str, by: str, reason: str = "") -> LearnedRule:
        """End the rule for good. Raises: HIVE-409 for an unknown or ended rule."""
        with connected(self.workspace.records) as connection, transaction(connection):
            rule = _require_rule(connection, rule_id)
            if rule.stage in ENDED:
                raise HiveError.of("HIVE-409", f"{rule_id} is {rule.stage} already", fix="see `hive judge rules list`")
            return self._keep(connection, _stepped(rule, "retired", by=by, reason=reason))

    def tried(self, matches: Mapping[str, bool]) -> None:
        """Record which rules, by id, were tried on a result, and whether they matched; unknown ids are ignored."""
        with connected(self.workspace.records) as connection, transaction(connection):
            for rule_id, matched in matches.items():
                rule = _find(connection, rule_id)
                if rule is not None:
                    self._note(connection, rule, rule.evidence.checked(matched))

    def observe(self, rule_id: str, agrees: bool) -> LearnedRule:
        """Record a person's decision on a result that the rule matches, which may promote or roll back the rule."""
        with connected(self.workspace.records) as connection, transaction(connection):
            rule = _require_rule(connection, rule_id)
            return self._note(connection, rule, rule.evidence.observed(agrees))

    def get(self, rule_id: str) -> LearnedRule:
        """Return a rule. Raises: HIVE-409 for an unknown one."""
        with connected(self.workspace.records) as connection, transaction(connection):
            return _require_rule(connection, rule_id)

    def rules(self) -> list[LearnedRule]:
        """Return all learned rules by id, also those that have ended."""
        with connected(self.workspace.records) as connection:
            rows = connection.execute("SELECT id, stage, rule, history, updated_at FROM learned_rules ORDER BY id")
            return [_rule(row) for row in rows]

    def for_run(self, run_id: str) -> list[dict[str, Any]]:
        """Return the `EvaluationRule` fields of every rule that is active or in the shadow in this run."""
        return [rule.for_run(run_id) for rule in self.rules() if rule.mode != "off"]

    def _note(self, connection: RecordsConnection, rule: LearnedRule, evidence: Evidence) -> LearnedRule:
        if rule.mode == "off":
            return rule
        moved = _moved(replace(rule, evidence=evidence))
        return self._keep(connection, moved, steps=int(moved.stage != rule.stage))

    def _keep(self, connection: RecordsConnection, rule: LearnedRule, steps: int = 1) -> LearnedRule:
        """Save a rule after its newest steps are in the audit log."""
        for step in rule.steps[len(rule.steps) - steps :]:
            audit.append(self.workspace, "judge.rule", rule=rule.id, **{k: v for k, v in step.items() if k != "at"})
        _save(connection, rule)
        return rule


def _moved(rule: LearnedRule) -> LearnedRule:
    """Return the rule in the stage that follows from its evidence; a promoted rule starts without any."""
    evidence, action = rule.evidence, str(rule.rule["action"])
    reason = evidence.alarm(rule.shadow_rate) if rule.stage in _ACTING else None
    if rule.stage == "shadow" and evidence.fails():
        reason = f"{evidence.n - evidence.k} of {evidence.n} decided otherwise by people"
    if reason is not None:
        return _stepped(rule, "rolled_back", by="system", reason=reason)
    if rule.stage in _NEXT and evidence.passes(action):
        rate = evidence.match_rate if rule.stage == "shadow" else rule.shadow_rate
        shown = f"{evidence.k} of {evidence.n} agreed"
        return replace(
            _stepped(rule, _NEXT[rule.stage], by="system", reason=shown), evidence=Evidence(), shadow_rate=rate
        )
    return rule


def _stepped(rule: LearnedRule, stage: str, *, by: str, reason: str = "") -> LearnedRule:
    step = {"at": audit.now(), "stage": stage, "by": by, "reason": reason}
    return replace(rule, stage=stage, steps=(*rule.steps, step))


def _find(connection: RecordsConnection, rule_id: str) -> LearnedRule | None:
    row = connection.execute(
        "SELECT id, stage, rule, history, updated_at FROM learned_rules WHERE id = ?", (rule_id,)
    ).fetchone()
    return _rule(row) if row is not None else None


def _require_rule(connection: RecordsConnection, rule_id: str) -> LearnedRule:
    rule = _find(connection, rule_id)
    if rule is None:
        raise unknown_rule(rule_id)
    return rule


def unknown_rule(rule_id: str) -> HiveError:
    return NotFound.of("HIVE-409", f'there is no learned rule "{rule_id}"', fix="see `hive judge rules list`")


def _rule(row: tuple[Any, ...]) -> LearnedRule:
    history = json.loads(row[3])
    return LearnedRule(
        id=row[0],
        stage=row[1],
        rule=json.loads(row[2]),
        proposal=history["proposal"],
        author=history["author"],
        approved_by=tuple(history["approved_by"]),
        evidence=Evidence.from_json(history["evidence"]),
        shadow_rate=history["shadow_rate"],
        steps=tuple(history["steps"]),
        updated_at=row[4],
    )


def _save(connection: RecordsConnection, rule: LearnedRule) -> None:
    history = {
        "proposal": rule.proposal,
        "author": rule.author,
        "approved_by": list(rule.approved_by),
        "evidence": rule.evidence.to_json(),
        "shadow_rate": rule.shadow_rate,
        "steps": list(rule.steps),
    }
    connection.execute(
        "INSERT INTO learned_rules (id, stage, rule, history, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET stage = excluded.stage, history = excluded.history,"
        " updated_at = excluded.updated_at",
        (
            rule.id,
            rule.stage,
            json.dumps(rule.rule, ensure_ascii=False),
            json.dumps(history, ensure_ascii=False),
            audit.now(),
        ),
    )
