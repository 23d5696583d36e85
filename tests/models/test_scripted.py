from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents.base.errors import HiveError
from hive_agents.models import Message, ModelError, Script, ToolCall, Usage
from hive_agents.models.scripted import ScriptedModel

VERDICT = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}


def script(folder: Path, *lines: dict[str, Any] | str) -> ScriptedModel:
    path = folder / "script.jsonl"
    written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(written) + "\n", encoding="utf-8")
    return ScriptedModel(Script(path, "script.jsonl"))


async def say(model: ScriptedModel, prompt: str = "hello", **options: Any) -> Any:
    return await model.complete([Message(role="user", content=prompt)], **({"deadline": 5.0} | options))


async def test_lines_are_taken_in_order_and_running_out_says_so(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "one"}, {"content": "two"})
    assert [(await say(model)).text, (await say(model)).text] == ["one", "two"]
    with pytest.raises(ModelError, match=r"script.jsonl has run out: 2 answers were taken") as caught:
        await say(model)
    assert caught.value.kind == "exhausted"


async def test_the_last_line_repeats_only_when_told(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "one"}, {"content": "more", "repeat": True})
    assert [(await say(model)).text for _ in range(4)] == ["one", "more", "more", "more"]


async def test_all_kinds_of_answers_come_back(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        {"tool_calls": [{"name": "set_output", "args": {"key": "items", "value": [1, 2]}}]},
        {"structured": {"action": "accept"}, "usage": {"input_tokens": 10, "output_tokens": 5}},
        {"content": '{"action": "retry"}'},
    )
    called = await say(model, schema=VERDICT)
    assert called.tool_calls == [ToolCall(name="set_output", args={"key": "items", "value": [1, 2]})]
    assert called.structured is None
    judged = await say(model, schema=VERDICT)
    assert judged.structured == {"action": "accept"}
    assert judged.usage == Usage(input_tokens=10, output_tokens=5)
    assert (await say(model, schema=VERDICT)).structured == {"action": "retry"}


async def test_text_where_a_verdict_was_asked_for_is_garbage(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "I think so", "usage": {"input_tokens": 7}})
    with pytest.raises(ModelError) as caught:
        await say(model, schema=VERDICT)
    assert (caught.value.kind, caught.value.usage.input_tokens) == ("garbage", 7)


@pytest.mark.parametrize("kind", ["throttling", "timeout", "server", "authentication", "garbage"])
async def test_an_error_line_fails_with_its_kind(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        await say(script(tmp_path, {"error": kind}))
    assert caught.value.kind == kind


async def test_an_answer_after_the_deadline_is_a_timeout(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"within 0.05 s") as caught:
        await say(script(tmp_path, {"content": "late", "delay_seconds": 30}), deadline=0.05)
    assert caught.value.kind == "timeout"


async def test_a_line_with_when_waits_for_its_text(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        {"content": "obeyed", "when": {"contains": "IGNORE ALL"}},
        {"content": "plain"},
    )
    assert (await say(model, "what is a key?")).text == "plain"
    with pytest.raises(ModelError, match=r"1 wait for a prompt that contains .IGNORE ALL."):
        await say(model, "what is a key?")
    assert (await say(model, "IGNORE ALL rules")).text == "obeyed"


def test_every_broken_line_is_reported_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(HiveError) as caught:
        script(
            tmp_path,
            {"content": "fine"},
            '{"content": ',
            {"contents": "x"},
            "",
            {"error": "tired"},
            {"content": "both", "error": "server"},
            {"content": "again", "repeat": True},
            {"content": "never reached"},
        )
    found = {(one.line, one.code) for one in caught.value.diagnostics}
    assert {(2, "HIVE-101"), (3, "HIVE-103"), (5, "HIVE-105"), (6, "HIVE-105"), (7, "HIVE-105")} <= found
    assert {one.file for one in caught.value.diagnostics} == {"script.jsonl"}


def test_a_script_that_is_not_there_is_an_environment_error(tmp_path: Path) -> None:
    with pytest.raises(HiveError, match="HIVE-401") as caught:
        Script(tmp_path / "none.jsonl", "none.jsonl")
    assert caught.value.exit_code == 3


async def test_a_line_with_when_may_repeat_above_others(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "a", "when": {"contains": "alpha"}, "repeat": True}, {"content": "rest"})
    assert [(await say(model, prompt)).text for prompt in ("alpha", "alpha again", "else")] == ["a", "a", "rest"]
    with pytest.raises(HiveError, match="keeps the lines below it"):
        script(tmp_path, {"content": "a", "repeat": True}, {"content": "rest"})
