"""Finer scores, measured with simulated judges whose truth is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hive_agents import Goal, HybridJudge, Judgment, JudgmentAction, Runtime, Workspace
from hive_agents.judging import Annotators, Cascade, Certificate, DecisionLog, ModelEvaluator, drift, judge_stats
from hive_agents.judging.calibration import calibrate
from hive_agents.judging.evaluators import fingerprint_of
from hive_agents.judging.finer import Averaged, examples_for
from hive_agents.models import ChatResult, Message, Usage

ACCEPT, RETRY, REPLAN, ESCALATE = JudgmentAction
GOAL = Goal(id="g", name="G", goal_type="summary")
PROMPTS = 5


class World:
    """Cases that people accept or not, and how clear each is: of unclear ones a verdict is nearly a coin.

    Whatever it is asked, a model says .9 or .95, and means nothing by it. A prompt's examples decide each verdict anew;
    the strong model finds half of the unclear cases clear.
    """

    def __init__(self, seed: int, n: int = 800) -> None:
        rng = np.random.default_rng([seed, 39])
        self.clear = rng.random(n) < 0.7
        self.cheap = rng.random((n, PROMPTS)) < np.where(self.clear, 0.985, 0.6)[:, None]
        strong = self.clear | (rng.random(n) < 0.5)
        self.strong = rng.random((n, PROMPTS)) < np.where(strong, 0.985, 0.6)[:, None]
        self.said = rng.choice([0.9, 0.95], (n, PROMPTS))


def averaged(right: np.ndarray, said: np.ndarray) -> list[tuple[float, bool]]:
    """(confidence, whether the majority is right), as `Averaged` gives them."""
    support = np.where(right, said, 1 - said).mean(axis=1)
    return [(round(float(max(one, 1 - one)), 6), bool(one >= 0.5)) for one in support]


def outcome(decided: list[bool], n: int) -> tuple[float, bool]:
    return len(decided) / n, bool(decided) and 1 - np.mean(decided) > 0.05


def measured(seed: int) -> dict[str, tuple[float, bool]]:
    """Certified on 400 labels, measured on 20,000 other cases: (share decided, whether over 5 % of it is wrong)."""
    sample, rest = World(seed, 400), World(10_000 + seed, 20_000)
    found = {}
    once = Certificate.of(zip(sample.said[:, 0].tolist(), sample.cheap[:, 0].tolist(), strict=True))
    asked = zip(rest.said[:, 0].tolist(), rest.cheap[:, 0].tolist(), strict=True)
    found["one prompt"] = outcome([same for at, same in asked if once.decides(at)], 20_000)
    cheap, strong = averaged(sample.cheap, sample.said), averaged(sample.strong, sample.said)
    truth, deeper = averaged(rest.cheap, rest.said), averaged(rest.strong, rest.said)
    alone = Certificate.of(cheap)
    found["averaged"] = outcome([same for at, same in truth if alone.decides(at)], 20_000)
    first = Certificate.of(cheap, delta=0.05)
    left = [second for (at, _), second in zip(cheap, strong, strict=True) if not first.decides(at)]
    then = Certificate.of(left, delta=0.05)
    decided = []
    for (at, same), (other, deep) in zip(truth, deeper, strict=True):
        if first.decides(at):
            decided.append(same)
        elif then.decides(other):
            decided.append(deep)
    found["cascade"] = outcome(decided, 20_000)
    return found


def test_averages_are_certified_where_one_prompt_is_not_and_a_cascade_decides_more() -> None:
    worlds = [measured(seed) for seed in range(50)]
    share = {name: float(np.mean([world[name][0] for world in worlds])) for name in worlds[0]}
    violated = {name: float(np.mean([world[name][1] for world in worlds])) for name in worlds[0]}
    assert share["one prompt"] <= 0.02
    assert share["averaged"] >= 0.5
    assert share["cascade"] >= share["averaged"]
    assert max(violated.values()) <= 0.10


def verdict(action: JudgmentAction, confidence: float, **more: Any) -> Any:
    async def says(*_: Any) -> Judgment:
        return Judgment(action=action, confidence=confidence, reasoning=f"so {action}", **more)

    return says


async def test_an_average_has_the_action_with_the_most_support() -> None:
    found = await Averaged([verdict(ACCEPT, 0.9), verdict(RETRY, 0.95), verdict(RETRY, 0.6, violations=["pii"])])(
        GOAL, {}, None
    )
    assert (found.action, found.confidence, found.violations) == (RETRY, round((0.1 + 0.95 + 0.6) / 3, 6), ["pii"])


async def test_a_cascade_asks_the_next_stage_only_where_the_first_is_not_certified() -> None:
    certified, none = Certificate.of([(0.9, True)] * 60), Certificate.of([])
    asked = []

    async def strong(*_: Any) -> Judgment:
        asked.append("strong")
        return Judgment(action="retry", confidence=0.95, reasoning="wrong")

    for sure, action, calls in ((0.9, ACCEPT, 0), (0.8, RETRY, 1)):
        cascade = Cascade([(verdict(ACCEPT, sure), certified), (strong, certified)])
        assert (await HybridJudge(llm=cascade).evaluate(GOAL, {})).action is action
        assert len(asked) == calls
    left = await HybridJudge(llm=Cascade([(verdict(ACCEPT, 0.99), none)])).evaluate(GOAL, {})
    assert (left.action, left.escalation_reason) == (ESCALATE, "low_confidence")


class Model:
    """Accepts at .9, and keeps its prompts."""

    name = "kept:model"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def complete(self, messages: list[Message], **_: Any) -> ChatResult:
        self.prompts.append(messages[0].content)
        said = {"action": "accept", "confidence": 0.9, "reasoning": "complete"}
        return ChatResult(text="", structured=said, usage=Usage(input_tokens=7))


def labelled(place: Workspace) -> DecisionLog:
    log = DecisionLog(place)
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "summary", "judge_hash": "old", "audit": 1}
    judgment = {"action": "accept", "confidence": 0.9, "signals": []}
    texts = [("a letter about refunds", "amira"), ("a report on pumps", "amira"), ("refunds of a letter", "bo"),
             ("a letter on refunds, later", "bo")]  # fmt: skip
    label = {"action": "retry", "at": "2026-01-02", "blind": True}
    log.load(
        json.dumps({**base, "judgment": judgment, "result": text, "labels": [{**label, "by": f"user:{by}"}]})
        for text, by in texts
    )
    return log


async def test_each_prompt_has_another_persons_examples_and_none_of_what_certifies(text_workspace: Workspace) -> None:
    log, model = labelled(text_workspace), Model()
    judge = Annotators(ModelEvaluator(model), log.rows(), until=3, prompts=2)
    found = await judge(GOAL, "a letter about refunds", None)
    assert (found.action, found.confidence) == (ACCEPT, 0.9)
    first, second = model.prompts
    assert "report on pumps" in first
    assert first.index('letter about refunds", "verdict') < first.index("report on pumps"), "the most alike first"
    assert "refunds of a letter" in second
    assert not any("later" in prompt for prompt in model.prompts)
    more = Annotators(ModelEvaluator(model), log.rows(), until=4, prompts=2)
    assert more.fingerprint != judge.fingerprint, "what was audited before certifies it no more"
    assert examples_for([], "x", 5, until=9) == []


async def test_a_setting_asks_the_model_of_the_workspace_several_times(text_workspace: Workspace) -> None:
    once = Runtime(text_workspace).judge(GOAL, llm=Model()).fingerprint
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\nprompts = 3\n")
    place, model = Workspace(text_workspace.root), Model()
    runtime = Runtime(place)
    judgment = await runtime.evaluate(GOAL, {"text": "all"}, llm=model)
    assert (judgment.action, len(model.prompts)) == (ACCEPT, 3)
    row = DecisionLog(place).rows()[0]
    assert (row.llm_calls, row.input_tokens, row.proposal) == (3, 21, ("accept", 0.9))
    assert row.judge_hash == runtime.judge(GOAL, llm=model).fingerprint != once
    assert fingerprint_of([]) == "none"


def test_what_a_judge_is_shown_never_certifies_it(text_workspace: Workspace) -> None:
    log = DecisionLog(text_workspace)
    label = {"action": "accept", "by": "user:bo", "at": "2026-01-02", "blind": True}
    judgment = {"action": "accept", "confidence": 0.9, "signals": []}
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "summary", "judge_hash": "one", "audit": 1}
    log.load(json.dumps({**base, "judgment": judgment, "result": "x", "labels": [label]}) for _ in range(60))
    assert calibrate(text_workspace).status == "certified"
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\nexamples_until = 20\n")
    after = calibrate(Workspace(text_workspace.root))
    assert after.status != "certified"
    assert "20 labels of decisions up to 20, which the judge is shown as examples" in after.warnings


class Sure(Model):
    """Says the same of everything, under its own name."""

    def __init__(self, name: str, action: str, confidence: float) -> None:
        super().__init__()
        self.name, self.said = name, {"action": action, "confidence": confidence, "reasoning": "so"}

    async def complete(self, messages: list[Message], **_: Any) -> ChatResult:
        self.prompts.append(messages[0].content)
        return ChatResult(text="", structured=self.said, usage=Usage(input_tokens=7))


async def cascaded(place: Workspace, cheap: Sure, strong: Sure, times: int, human: str) -> None:
    runtime = Runtime(place)
    for number in range(times):
        found = await runtime.evaluate(GOAL, {"text": str(number)}, llm=cheap, stronger=strong)
        runtime.record_human(found.decision_id, human, "user:amira", blind=True)


async def test_a_stronger_model_is_asked_where_the_first_is_not_sure_and_each_is_certified_by_its_own_audits(
    text_workspace: Workspace,
) -> None:
    file = text_workspace.root / "hive.toml"
    named = '[models]\nstronger_judge = ["scripted:strong.jsonl"]'
    file.write_text(file.read_text().replace("[models]", named) + "[judge]\naudit_rate = 1.0\n")
    place = Workspace(text_workspace.root)
    strong = Sure("strong", "retry", 0.9)
    await cascaded(place, Sure("cheap", "accept", 0.95), strong, 70, "accept")
    assert strong.prompts == [], "what the first is sure of isn't asked again"
    await cascaded(place, Sure("cheap", "accept", 0.6), strong, 70, "retry")
    assert len(strong.prompts) == 70
    last = DecisionLog(place).rows()[-1]
    assert (last.action, last.llm_calls, last.input_tokens) == ("retry", 2, 14), "both count for the budget"
    found = calibrate(place)
    assert (found.status, found.guarantee.delta, found.guarantee.n) == ("certified", 0.05, 70)
    assert found.recommended_threshold > 0.6, "what it was unsure of and wrong about shows that it can't decide that"
    stronger = found.stronger
    assert (stronger.status, stronger.guarantee.delta, stronger.guarantee.n) == ("certified", 0.05, 70)
    assert {"summary", "summary [STRONGER]"} <= judge_stats(place)["thresholds"].keys()


async def test_a_stronger_model_that_misses_its_target_is_stopped_and_the_first_is_not(
    text_workspace: Workspace,
) -> None:
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\naudit_rate = 1.0\n")
    place, strong = Workspace(text_workspace.root), Sure("strong", "accept", 0.95)
    await cascaded(place, Sure("cheap", "accept", 0.9), strong, 60, "accept")
    await cascaded(place, Sure("cheap", "accept", 0.6), strong, 30, "retry")
    assert drift.states(place)["summary [STRONGER]"].alarmed
    assert "summary" not in {name for name, state in drift.states(place).items() if state.alarmed}
    assert calibrate(place).missed.keys() == {"* [STRONGER]"}
    runtime = Runtime(place)
    for confidence, action in ((0.9, ACCEPT), (0.6, ESCALATE)):
        said = await runtime.evaluate(GOAL, "x", llm=Sure("cheap", "accept", confidence), stronger=strong)
        assert said.action is action


async def test_where_the_first_model_stands_belongs_to_what_the_stronger_one_is_certified_for(
    text_workspace: Workspace,
) -> None:
    runtime, strong = Runtime(text_workspace), Sure("strong", "accept", 0.95)
    await runtime.evaluate(GOAL, "x", llm=Sure("cheap", "accept", 0.6), stronger=strong)
    with (text_workspace.root / "hive.toml").open("a") as settings:
        settings.write("[judge]\nllm_confidence_threshold = 0.8\n")
    await Runtime(Workspace(text_workspace.root)).evaluate(
        GOAL, "x", llm=Sure("cheap", "accept", 0.6), stronger=strong
    )
    (first, one), (same, other) = (row.judge_hash.split(">") for row in DecisionLog(text_workspace).rows())
    assert first == same
    assert one != other
