"""The judges of a workspace, with its rules, learned rules and calibrated thresholds, and the decision log."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, NotFound
from hive_agents.goals import Goal, goal_type_of
from hive_agents.judging.decision_log import DecisionLog, Spent
from hive_agents.judging.decisions import ACTIONS, UNTYPED
from hive_agents.judging.evaluators import Evaluator, ModelEvaluator, Unavailable, evaluator, fingerprint_of
from hive_agents.judging.finer import Annotators, Averaged, Stronger, shareable
from hive_agents.judging.hybrid import ESCALATE, HybridJudge
from hive_agents.judging.labels import enter
from hive_agents.judging.learning.stages import RuleBook
from hive_agents.judging.requests import ask_for_judgment, open_drift_ticket
from hive_agents.judging.rules import EvaluationRule, load_rules
from hive_agents.judging.thresholds import GLOBAL, Threshold, standing
from hive_agents.judging.verdict import FeedbackContext, Judgment
from hive_agents.models import Usage, open_chain
from hive_agents.store import briefly
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.models import ChatModel


class Runtime:
    """Judges one run's results in a workspace, logs the decisions, and records people's labels.

    `workspace` is a folder; None looks for one upwards from the current one. `run_id` determines which learned rules
    act: the same run always has the same ones. Without one, each Runtime makes up an id, and the log has none. `reader`
    returns who asks, None for the workspace's owner. Only the model is cached between calls, so that
    people's decisions, in any process, apply to the next result.

    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import EvaluationRule, Goal, Runtime
    >>> folder = TemporaryDirectory()
    >>> Path(folder.name, "collections").mkdir()
    >>> runtime = Runtime(folder.name)
    >>> rule = EvaluationRule(id="unsafe", condition="'eval(' in result['code']", action="retry")
    >>> goal = Goal(id="g", name="G", goal_type="code")
    >>> judgment = asyncio.run(runtime.evaluate(goal, {"code": "eval(x)"}, rules=[rule]))
    >>> judgment.action, judgment.rule_id, judgment.decision_id
    (<JudgmentAction.RETRY: 'retry'>, 'unsafe', 1)
    >>> runtime.record_human(1, "retry", "user:amira")
    >>> runtime.record_outcome(1, "succeeded")
    >>> folder.cleanup()
    """

    def __init__(
        self,
        workspace: Workspace | Path | str | None = None,
        *,
        tenant: str = "local",
        run_id: str | None = None,
        reader: Callable[[], Principal | None] | None = None,
    ) -> None:
        if workspace is None:
            workspace = Workspace.find()
        self.workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self.tenant = tenant
        self.run_id = run_id or f"r{uuid.uuid4().hex[:10]}"
        # A made-up id isn't logged, since rules are mined from decisions of different runs.
        self._logged_run = run_id
        self._reader = reader or (lambda: None)

    def judge(
        self,
        goal: Goal | str | None = None,
        *,
        llm: Any = None,
        panel: Sequence[Any] = (),
        rules: Iterable[EvaluationRule] = (),
    ) -> HybridJudge:
        """Return a judge with the current rules and thresholds; call this again for the next result.

        Its rules are `rules`, those of the workspace's `rules/` and the learned ones, each in its stage. Thresholds
        are those calibrated for these evaluators, of every goal type that was calibrated or audited, and of `goal`, a
        goal or a goal type; types with a drift alarm are escalated to a person. `llm` and `panel` are as for
        `HybridJudge`; None is the workspace's model, if hive.toml names one.

        Raises: HIVE-111 where two rules have one id, level 1 for a rule file that can't be read.
        """
        return self._judge(goal, self._evaluators(llm, panel, None), None, [*rules, *load_rules(self.workspace)])

    async def evaluate(
        self,
        goal: Goal,
        result: Any,
        context: FeedbackContext | None = None,
        *,
        llm: Any = None,
        panel: Sequence[Any] = (),
        stronger: Any = None,
        rules: Iterable[EvaluationRule] = (),
        attempt: int = 1,
    ) -> Judgment:
        """Judge a result and log the decision, whose number is the judgment's `decision_id`.

        Where one model alone isn't sure enough, `stronger` is asked; None is hive.toml's `models.stronger_judge`.
        An escalation is not filed for a person: see `file_judgment`. A model that can't be opened escalates
        `model_error`, a rule file that can't be read `rule_error`: the work is done. Raises: HIVE-111 as `judge`, and
        errors of the log.
        """
        judgment, log = await self.weigh(
            goal, result, context, llm=llm, panel=panel, stronger=stronger, rules=rules, attempt=attempt
        )
        return judgment.model_copy(update={"decision_id": await asyncio.to_thread(log)})

    async def weigh(
        self,
        goal: Goal,
        result: Any,
        context: FeedbackContext | None = None,
        *,
        llm: Any = None,
        panel: Sequence[Any] = (),
        stronger: Any = None,
        rules: Iterable[EvaluationRule] = (),
        attempt: int = 1,
    ) -> tuple[Judgment, Callable[[], int]]:
        """Return the judgment of `evaluate`, and what logs the decision and returns its number, in the transaction of
        whoever records what comes of it."""
        spending = _Spending()
        try:
            evaluators = self._evaluators(llm, panel, spending)  # not in a thread: two would open two models
            again = None if panel else self._again(llm, stronger, spending)
        except HiveError as error:
            evaluators, again = [Unavailable(error.diagnostics[0].message)], None

        def present() -> HybridJudge | HiveError:
            try:
                known = load_rules(self.workspace)
            except HiveError as error:
                return error
            return self._judge(goal, evaluators, again, [*rules, *known])

        judge = await briefly(present)
        if isinstance(judge, HiveError):
            why = f"The rules can't be read: {judge.diagnostics[0].message}"
            judgment = Judgment(action=ESCALATE, confidence=0.0, reasoning=why, escalation_reason="rule_error")
            by = "none"
        else:
            judgment = await judge.evaluate(goal, result, context, attempt=attempt)
            by = judge.logged_as(judgment)
        if judgment.tried:
            await asyncio.to_thread(self._note_tried, judgment)
        calls = spending.calls or None
        return judgment, partial(self._logged, goal, result, judgment, ACTIONS, by, spending.total, calls)

    def log_decision(
        self,
        goal: Goal | str | None,
        result: Any,
        judgment: Judgment,
        *,
        options: Sequence[str] = ACTIONS,
        judge: HybridJudge | str = "none",
        usage: Spent | None = None,
        llm_calls: int | None = None,
    ) -> int:
        """Log a judgement, unless it is logged already; return the decision's number.

        `goal` may be a goal type, `options` are the possible actions, `judge` is the judge or its fingerprint: what is
        learned from the decision applies to that judge. 5 % of the automatic decisions (10 % for security) are drawn
        for blind audit. It blocks: call it in a thread from a coroutine.
        """
        if judgment.decision_id is not None:
            return judgment.decision_id
        by = judge.logged_as(judgment) if isinstance(judge, HybridJudge) else judge
        number = self._logged(goal, result, judgment, options, by, usage, llm_calls)
        if judgment.tried:
            self._note_tried(judgment)
        return number

    def _logged(
        self,
        goal: Goal | str | None,
        result: Any,
        judgment: Judgment,
        options: Sequence[str],
        judge: str,
        usage: Spent | None,
        llm_calls: int | None,
    ) -> int:
        kind, goal_id = _type_of(goal) or UNTYPED, goal.id if isinstance(goal, Goal) else None
        return DecisionLog(self.workspace).log(
            judgment, kind, goal_id, result, self._logged_run, judge, usage, self.tenant, llm_calls, options
        )

    def _note_tried(self, judgment: Judgment) -> None:
        RuleBook(self.workspace).tried({name: bool(found) for name, found in judgment.tried.items()})

    def record_human(
        self, decision_id: int | None, action: str, by: str, *, blind: bool = False, comment: str | None = None
    ) -> None:
        """Record a person's verdict: accept, retry, replan or escalate; `blind` when the judge's was not shown.

        It is weighed in calibration, in the drift test, whose alarm opens a ticket, and for each learned rule that
        matched. Of an automatic decision only a blind audit of a drawn one counts.
        Raises: HIVE-409 for an unknown decision or action, and for a `by` that is no person or has labelled it before.
        """
        state = enter(self.workspace, _logged(decision_id), str(action), by, blind=blind, comment=comment)
        if state.new:
            open_drift_ticket(self.workspace, state, by)

    def record_outcome(self, decision_id: int | None, outcome: str) -> None:
        """Record the outcome of a decision: `succeeded` or `failed`; of a retry, whether it improved the result.

        Raises: HIVE-409 for an unknown decision or outcome.
        """
        DecisionLog(self.workspace).outcome(_logged(decision_id), outcome)

    def file_judgment(
        self,
        decision_id: int | None,
        *,
        title: str | None = None,
        thread_id: str | None = None,
        told: bool = False,
    ) -> str:
        """File a request to judge a logged result, once; return its id. `told` is as in `ApprovalStore.file`.

        Approving enters the label `accept` in the decision log; rejecting, or responding with what has to be improved,
        enters the evaluator's proposal instead, else `retry`.
        Raises: HIVE-409 for an unknown decision.
        """
        decision = DecisionLog(self.workspace).get(_logged(decision_id))
        return ask_for_judgment(self.workspace, decision, title=title, thread_id=thread_id, told=told)

    def _judge(
        self,
        goal: Goal | str | None,
        evaluators: Sequence[Evaluator],
        again: Evaluator | None,
        rules: Iterable[EvaluationRule],
    ) -> HybridJudge:
        judged_by, name = fingerprint_of(evaluators), _type_of(goal) or UNTYPED
        thresholds = standing(self.workspace, {name, UNTYPED}, judged_by)
        stronger = None
        if again is not None:
            then = evaluator(Stronger(again, judged_by, thresholds[name]), self.workspace)
            own = standing(self.workspace, {name, UNTYPED}, then.fingerprint, stronger=True)
            stronger = self._hybrid([], [then], own)
        learned = [EvaluationRule(**fields) for fields in RuleBook(self.workspace).for_run(self.run_id)]
        try:
            return self._hybrid([*rules, *learned], evaluators, thresholds, stronger)
        except ValueError as error:
            if isinstance(error, HiveError):
                raise
            raise HiveError.of("HIVE-111", str(error), file="rules", fix="give one of them another id") from None

    def _hybrid(
        self,
        rules: Iterable[EvaluationRule],
        evaluators: Sequence[Evaluator],
        thresholds: dict[str, Threshold],
        stronger: HybridJudge | None = None,
    ) -> HybridJudge:
        return HybridJudge(
            rules,
            panel=evaluators,
            # For types without data: the threshold of all types together.
            llm_confidence_threshold=thresholds.pop(GLOBAL).value,
            thresholds={name: threshold.value for name, threshold in thresholds.items()},
            bins={name: threshold.bins for name, threshold in thresholds.items()},
            holds={name: "drift" for name, threshold in thresholds.items() if threshold.status == "drift"},
            stronger=stronger,
            workspace=self.workspace,
        )

    def _again(self, llm: Any, stronger: Any, spending: _Spending | None) -> Evaluator | None:
        """Return the evaluator to ask where a model isn't sure enough; where evidence isn't, a person is asked."""
        asked = llm if llm is not None else self._model
        stronger = stronger if stronger is not None else self._stronger_model
        if asked is None or stronger is None or not isinstance(evaluator(asked), ModelEvaluator):
            return None
        return self._evaluator(stronger, spending)

    def _evaluators(self, llm: Any, panel: Sequence[Any], spending: _Spending | None) -> list[Evaluator]:
        sources = [llm if llm is not None else self._model, *panel]
        return [self._evaluator(source, spending) for source in sources if source is not None]

    def _evaluator(self, source: Any, spending: _Spending | None) -> Evaluator:
        found = evaluator(source, self.workspace)
        if not isinstance(found, ModelEvaluator) or found is source:
            return found
        found = found.counted(spending.add) if spending is not None else found
        settings = self.workspace.settings.judge
        times, until = settings.prompts or 1, settings.examples_until
        if until is not None:
            rows = partial(shareable, self.workspace, until, self.tenant, self._logged_run, self._reader)
            return evaluator(Annotators(found, rows, until=until, prompts=times), self.workspace)
        return found if times == 1 else evaluator(Averaged([found] * times), self.workspace)

    @cached_property
    def _model(self) -> ChatModel | None:
        """One for all judgements, since a scripted model continues where it was."""
        settings = self.workspace.settings
        names = settings.models.of("judge")
        return open_chain(names, settings, workspace=self.workspace) if names else None

    @cached_property
    def _stronger_model(self) -> ChatModel | None:
        names = self.workspace.settings.models.stronger_judge
        return open_chain(names, self.workspace.settings, workspace=self.workspace) if names else None


class _Spending:
    """Counts the calls of models for one judgement, and their usage."""

    def __init__(self) -> None:
        self.calls, self.total = 0, Usage()

    def add(self, usage: Usage) -> None:
        self.calls, self.total = self.calls + 1, self.total + usage


def _logged(decision_id: int | None) -> int:
    """Return `decision_id`. Raises: HIVE-409 for None, the id of a judgment that wasn't logged."""
    if decision_id is None:
        raise NotFound.of("HIVE-409", "this judgment was never logged", fix="judge with Runtime.evaluate")
    return decision_id


def _type_of(goal: Goal | str | None) -> str | None:
    name = goal.goal_type if isinstance(goal, Goal) else goal
    return goal_type_of(name) if name is not None else None
