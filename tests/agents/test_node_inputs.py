"""What a node is given reaches its model whole, wherever it comes from, or the file is named that has all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from hive_agents import Workspace
from hive_agents.models import ChatResult, Message, Tool
from hive_agents.runs import RunStore
from tests.agents.conftest import node, write_json
from tests.agents.loops import Told, agent, said, say, sets, start

ROWS = "\n".join(f"row {n:04} of the table" for n in range(400))
LONG = "\n".join(f"row {n:04} of the table" for n in range(2_000))


def whole(prompt: list[Message], text: str) -> bool:
    """As it is, or as JSON."""
    return any(text in message.content or json.dumps(text)[1:-1] in message.content for message in prompt)


def test_an_input_that_no_prompt_names_is_told_whole(place: Workspace) -> None:
    model = said([sets("items", 1)])
    spec = agent(node("collect", input_keys=["table"], output_keys=["items"], system_prompt="Count the rows."))
    start(place, spec, model, {"table": ROWS}).go()
    assert whole(model.prompts[0], ROWS)


@pytest.mark.parametrize("mode", ["continuous", "isolated"])
def test_inputs_of_a_later_node_are_told_whole(place: Workspace, mode: str) -> None:
    def answering(messages: Sequence[Message], tools: Sequence[Tool]) -> ChatResult:
        if not tools:
            return say("A summary.")
        return say([sets("text", "done") if "Do write." in messages[0].content else sets("items", ROWS)])

    model, table = Told(answering), LONG[:20_000]
    spec = agent(
        node("collect", input_keys=["table"], output_keys=["items"]),
        node("write", input_keys=["items", "table"], output_keys=["text"]),
        mode=mode,
        edges=[{"source": "collect", "target": "write", "on": "success"}],
    )
    assert start(place, spec, model, {"table": table}).go()["status"] == "done"
    last = model.prompts[-1]
    assert whole(last, table)
    in_call = any(call.args.get("value") == ROWS for message in last for call in message.tool_calls)
    assert in_call if mode == "continuous" else whole(last, ROWS)


def test_a_node_that_begins_again_in_a_conversation_of_its_own_is_given_its_inputs_again(place: Workspace) -> None:
    write_json(place, "rules/again.json", {"id": "again", "condition": "attempt < 2", "action": "retry"})
    model = Told(lambda _, tools: say([sets("items", 1)] if tools else "A summary."))
    spec = agent(node("collect", input_keys=["table"], output_keys=["items"]), mode="isolated")
    assert start(place, spec, model, {"table": ROWS}).go()["status"] == "done"
    assert whole(model.prompts[-1], ROWS)
    assert "[Judge feedback]" in str(model.prompts[-1])


@pytest.mark.parametrize("prompt", ["Count the rows.", "Count the rows of $table.", "Count. $inputs"])
@pytest.mark.parametrize("text", [LONG, ROWS], ids=["long", "for a small model"])
def test_what_is_too_long_is_in_a_file_that_is_named(place: Workspace, prompt: str, text: str) -> None:
    if text == ROWS:
        write_json(place, "hive.toml", "[agents]\ncontext_tokens = 4000\n")
        place = Workspace(place.root)
    last = text.splitlines()[-1]

    def answering(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
        told = "\n".join(message.content for message in messages)
        named = re.search(r"load_data\(filename='(input-table-[0-9a-f]{8}\.txt)'\)", told)
        assert named is not None
        asked = len(model.prompts) == 1
        return say(
            [
                ("load_data", {"filename": named[1], "offset": len(text.splitlines()) - 10})
                if asked
                else sets("items", 1)
            ]
        )

    model = Told(answering)
    spec = agent(node("collect", input_keys=["table"], output_keys=["items"], system_prompt=prompt))
    assert start(place, spec, model, {"table": text}).go()["status"] == "done"
    assert last not in str(model.prompts[0])
    assert last in str(model.prompts[1])


def test_what_no_file_can_hold_is_replaced_before_the_run_is_stored(place: Workspace) -> None:
    model = said([sets("items", 1)])
    spec = agent(node("collect", input_keys=["word"], output_keys=["items"]))
    run = start(place, spec, model, {"word": ("half", "a \ud83d")})
    assert run.go()["status"] == "done"
    assert RunStore(place).get(run.run_id).value["input"] == {"word": ["half", "a \ufffd"]}
