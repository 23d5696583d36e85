"""Finer scores than a model gives itself: verdicts averaged over prompts, and cascades from a cheap to a strong judge.

A model that only ever says .9 and .95 can't be certified from one confidence on. Asked several times, with different
people's examples, it disagrees with itself where people disagree with it, and the average says so.

Source: simulated annotators and cascades of "Trust or Escalate" (Jung et al. 2024).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hive_agents.access import ViewGate
from hive_agents.goals import Goal
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.decisions import JudgedCase
from hive_agents.judging.evaluators import Evaluator, EvaluatorFault, ModelEvaluator, evaluator, hashed
from hive_agents.judging.passages import stems
from hive_agents.judging.verdict import FeedbackContext, Judgment, Signal
from hive_agents.store import connected, documents_read

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.judging.certify import Certificate
    from hive_agents.judging.thresholds import Threshold
    from hive_agents.workspace import Workspace


class Averaged:
    """An evaluator that asks several and averages them: it has the action that they support most, and its confidence is
    their mean support, a verdict of another action counting 1 - its confidence. The fault of one is its fault.

    >>> async def sure(goal, result, context):
    ...     return Judgment(action="accept", confidence=0.9, reasoning="complete")
    >>> async def unsure(goal, result, context):
    ...     return Judgment(action="retry", confidence=0.6, reasoning="a source is missing")
    >>> found = asyncio.run(Averaged([sure, sure, unsure])(Goal(id="g", name="G"), {}, None))
    >>> found.action, round(found.confidence, 3), found.signals[0].detail
    (<JudgmentAction.ACCEPT: 'accept'>, 0.733, '2 of 3 verdicts. complete')
    """

    def __init__(self, evaluators: Iterable[Any]) -> None:
        self._evaluators: list[Evaluator] = [evaluator(source) for source in evaluators]
        if not self._evaluators:
            raise ValueError("an average needs an evaluator")

    @property
    def fingerprint(self) -> str:
        return hashed("averaged", *(each.fingerprint for each in self._evaluators))

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        answers = await asyncio.gather(*(each(goal, result, context) for each in self._evaluators))
        support = {
            action: sum(one.confidence if one.action is action else 1 - one.confidence for one in answers)
            for action in sorted({one.action for one in answers})
        }
        action = max(support, key=lambda one: support[one])
        same = [one for one in answers if one.action is action]
        best = max(same, key=lambda one: one.confidence)
        confidence = round(support[action] / len(answers), 6)
        detail = f"{len(same)} of {len(answers)} verdicts. {best.reasoning}"
        signal = Signal(source="llm", action=action, confidence=confidence, detail=detail)
        named = list(dict.fromkeys(name for one in answers for name in one.violations))
        return best.model_copy(update={"confidence": confidence, "signals": [signal], "violations": named})


class Cascade:
    """An evaluator that asks stages in their order, each with its certificate, until one is certified to decide.

    A verdict that no certificate covers is a fault, `low_confidence`, which a person decides. Certify each of k stages
    at delta / k, on the cases that reach it: then what they let through together disagrees with people in alpha at
    most, at 1 - delta.
    """

    def __init__(self, stages: Iterable[tuple[Any, Certificate]]) -> None:
        self._stages = [(evaluator(source), certificate) for source, certificate in stages]

    @property
    def fingerprint(self) -> str:
        parts = [f"{each.fingerprint} {one.threshold} {one.bins}" for each, one in self._stages]
        return hashed("cascade", *parts)

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        verdict = None
        for each, certificate in self._stages:
            verdict = await each(goal, result, context)
            if certificate.status == "certified" and certificate.decides(verdict.confidence):
                return verdict
        said = "nothing was asked" if verdict is None else f"the last says {verdict.action} at {verdict.confidence:g}"
        raise EvaluatorFault("low_confidence", f"No stage is certified to decide: {said}.")


class Stronger:
    """An evaluator that is asked where another one, with the fingerprint `first`, isn't sure enough.

    Which cases these are depends on the other one's threshold, so another threshold makes another judge of this one.
    """

    def __init__(self, source: Evaluator, first: str, stands: Threshold) -> None:
        self._source = source
        self.fingerprint = hashed("stronger", source.fingerprint, first, f"{stands.value} {stands.bins}")

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        return await self._source(goal, result, context)


class Annotators:
    """An evaluator that asks a model under `prompts` prompts, each with the examples of another person, and averages.

    `rows` are labelled decisions that the model may be shown, whoever asks, or a function that returns them; of these
    only those up to number `until` are examples. Both numbers belong to the fingerprint: what certifies this judge was
    decided by it, so later, and is never an example. A higher `until` is another judge, to be audited anew.
    """

    def __init__(
        self,
        model: ModelEvaluator,
        rows: Sequence[JudgedCase] | Callable[[], Sequence[JudgedCase]],
        *,
        until: int,
        prompts: int = 5,
    ) -> None:
        self._model, self._rows, self._until, self._prompts = model, rows, until, prompts

    @property
    def fingerprint(self) -> str:
        return hashed("annotators", self._model.fingerprint, str(self._prompts), str(self._until))

    async def __call__(self, goal: Goal, result: Any, context: FeedbackContext | None) -> Judgment:
        rows = await asyncio.to_thread(self._rows) if callable(self._rows) else self._rows
        shown = examples_for(rows, result, self._prompts, until=self._until) or [""] * self._prompts
        return await Averaged(self._model.with_examples(one) for one in shown)(goal, result, context)


EACH = 3
"""Examples in a prompt."""
LONGEST = 2_000
"""The most characters of an example."""
MOST_SHOWN = EACH * (LONGEST + 100)
"""About the most characters of examples in a prompt."""


def shareable(
    workspace: Workspace, until: int, tenant: str, run_id: str | None, reader: Callable[[], Principal | None]
) -> list[JudgedCase]:
    """Return the labelled decisions up to number `until` that may be examples in a judgement for `reader`.

    What a model says of the run at hand may repeat them, so whoever may see that run must be allowed to see them:
    they are of runs of the same person and tenant that read only what the run at hand has read, and the reader may view
    it all now. Outside of runs the workspace's owner, who can read the files, gets all of the tenant's, and anybody
    else none, since nothing says what these hold.
    """
    who = reader()
    rows = [row for row in DecisionLog(workspace).rows(tenant=tenant, last=until) if row.labels]
    if run_id is None:
        return rows if who is None else []
    with connected(workspace.records) as connection:
        same = "SELECT tenant, user FROM runs WHERE run_id = ?"
        found = connection.execute(f"SELECT run_id FROM runs WHERE (tenant, user) = ({same})", (run_id,))
        own = {str(each) for (each,) in found.fetchall()}
    read = {
        each: frozenset().union(*documents_read(workspace, each).values())
        for each in {run_id, *own.intersection(row.run_id or "" for row in rows)}
    }
    here = read[run_id]
    visible = here if who is None else ViewGate.of(workspace, who).allowed(sorted(here))
    return [row for row in rows if row.run_id in own and read[row.run_id] <= visible]


def examples_for(rows: Sequence[JudgedCase], result: Any, prompts: int, *, until: int) -> list[str]:
    """Return the examples for each of several prompts: people's verdicts on work that is like `result`.

    Each prompt has those of one person, as long as there are people. Decisions after number `until` are left out.
    """
    wanted = stems(_text(result))
    by_person: dict[str, list[tuple[float, JudgedCase, str]]] = {}
    for row in rows:
        for label in row.labels if row.id <= until else ():
            words = stems(_text(row.result))
            likeness = len(wanted & words) / (len(wanted | words) or 1)
            by_person.setdefault(label.by, []).append((likeness, row, label.action))
    people = sorted(by_person, key=lambda name: (-len(by_person[name]), name))
    found = []
    for number in range(prompts if people else 0):
        cases = sorted(by_person[people[number % len(people)]], key=lambda one: (-one[0], one[1].id))
        first = number // len(people) * EACH
        shown = [{"result": _text(row.result)[:LONGEST], "verdict": action} for _, row, action in cases[first:][:EACH]]
        found.append("\n".join(json.dumps(one, ensure_ascii=False) for one in shown))
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
