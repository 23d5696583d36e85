from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from hive_agents.base.errors import HiveError
from hive_agents.base.files import Format
from hive_agents.models import Chain, Message, Meter, ModelError, Script, Usage, open_chain
from hive_agents.workspace.settings import Settings
from hive_agents.workspace.settings.keys import Models
from tests.models.trusting import endpoint_settings, workspace_at, workspace_with

ASK = [Message(role="user", content="Is it good?")]
FAST = Settings(models=Models(deadline_seconds=0.2))


class Verdict(Format):
    action: Literal["accept", "retry"]
    confidence: float = Field(ge=0, le=1)


def chain(folder: Path, *scripts: list[dict[str, Any]], meter: Meter | None = None) -> Chain:
    names = []
    for number, lines in enumerate(scripts):
        (folder / f"{number}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        names.append(f"scripted:{number}.jsonl")
    return open_chain(names, FAST, workspace=workspace_at(folder), meter=meter)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ({"error": "throttling"}, "throttling"),
        ({"error": "timeout"}, "timeout"),
        ({"error": "server"}, "server"),
        ({"error": "garbage"}, "garbage"),
        ({"content": "late", "delay_seconds": 30}, "timeout"),
        ({"structured": {"action": "accept", "confidence": 7}}, "garbage"),
        ({"content": "not JSON"}, "garbage"),
    ],
)
async def test_what_another_model_may_do_better_moves_on(tmp_path: Path, line: dict[str, Any], kind: str) -> None:
    good = {"structured": {"action": "accept", "confidence": 0.9}}
    meter = Meter()
    result = await chain(tmp_path, [line], [good], meter=meter).complete(ASK, schema=Verdict)
    assert Verdict.model_validate(result.structured).action == "accept"
    assert result.model == "scripted:1.jsonl"
    assert (meter.calls, meter.attempts, meter.failures) == (1, 2, {kind: 1})


async def test_a_refused_login_ends_the_call(tmp_path: Path) -> None:
    models = chain(tmp_path, [{"error": "authentication"}], [{"content": "never asked"}])
    with pytest.raises(ModelError) as caught:
        await models.complete(ASK)
    assert caught.value.kind == "authentication"
    assert models.meter.attempts == 1


async def test_a_script_that_ran_out_is_not_hidden_by_the_next_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="run out"):
        await chain(tmp_path, [], [{"content": "never asked"}]).complete(ASK)


@pytest.mark.parametrize(
    ("kinds", "expected"), [(["server", "server"], "server"), (["server", "throttling"], "exhausted")]
)
async def test_when_all_fail_the_error_names_each(tmp_path: Path, kinds: list[str], expected: str) -> None:
    with pytest.raises(ModelError, match=r"all 2 models failed: scripted:0.jsonl.*scripted:1.jsonl") as caught:
        await chain(tmp_path, *[[{"error": kind}] for kind in kinds]).complete(ASK)
    assert caught.value.kind == expected


async def test_usage_of_failed_attempts_counts(tmp_path: Path) -> None:
    usage = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    models = chain(tmp_path, [{"content": "no JSON", **usage}], [{"content": '{"a": 1}', **usage}])
    result = await models.complete(ASK, schema={"type": "object"})
    assert result.usage == models.meter.usage == Usage(input_tokens=20, output_tokens=10)
    assert models.meter.to_json()["by_model"]["scripted:0.jsonl"]["input_tokens"] == 10


def test_the_meter_names_models_without_a_price() -> None:
    meter = Meter()
    meter.add("bedrock:somebody.new", Usage(input_tokens=5, priced=False))
    meter.add("scripted:x", Usage(input_tokens=5))
    assert meter.unpriced == ["bedrock:somebody.new"]


def test_a_chain_costs_what_the_dearest_of_its_models_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cheap = endpoint_settings("http://127.0.0.1:1/v1", "cheap", endpoint="price = {input = 1.0, output = 2.0}")
    dear = endpoint_settings("http://127.0.0.1:1/v1", "dear", endpoint="price = {input = 3.0, output = 3.0}")
    place = workspace_with(tmp_path / "ws", cheap + dear.removeprefix("[models]\n"), monkeypatch)
    chain = open_chain(["cheap:m", "dear:m"], place.settings, workspace=place, by_user=True)
    assert chain.rate == 3e-6
    (place.root / "s.jsonl").write_text('{"content": "x"}\n', encoding="utf-8")
    assert open_chain(["scripted:s.jsonl"], place.settings, workspace=place).rate == 0.0


async def test_roles_of_a_run_use_up_one_script_together(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"content": "plan"}\n{"content": "answer"}\n', encoding="utf-8")
    scripts: dict[Path, Script] = {}
    place = workspace_at(tmp_path)
    planner, answer = (open_chain(["scripted:s.jsonl"], FAST, workspace=place, scripts=scripts) for _ in range(2))
    assert (await planner.complete(ASK)).text == "plan"
    assert (await answer.complete(ASK)).text == "answer"


def test_a_role_without_models_uses_those_for_chat() -> None:
    settings = Settings(models=Models(chat=["scripted:a"], judge=["scripted:b"]))
    assert (settings.models.of("planner"), settings.models.of("judge")) == (["scripted:a"], ["scripted:b"])


@pytest.mark.parametrize(
    ("names", "code", "exit_code"),
    [([], "HIVE-401", 3), (["gpt"], "HIVE-105", 1), (["bedrock:"], "HIVE-105", 1), (["nobody:x"], "HIVE-401", 3)],
)
def test_names_that_lead_nowhere_are_diagnostics(names: list[str], code: str, exit_code: int) -> None:
    with pytest.raises(HiveError) as caught:
        open_chain(names, FAST)
    assert (caught.value.diagnostics[0].code, caught.value.exit_code) == (code, exit_code)
