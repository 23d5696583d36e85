"""The length of an input is not the length of the work: caps at every door, and nothing long on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Chat, HiveError, Workspace
from hive_agents.access import known_principal
from hive_agents.base.files.lengths import LONGEST_QUESTION
from hive_agents.copilot import Request, ThreadStore, search
from hive_agents.models.embedding import WordPieces
from hive_agents.models.embedding.minilm import LocalMiniLM
from hive_agents.models.embedding.wordpieces import QUESTION_WINDOWS
from hive_agents.ranking.config import point_active
from hive_agents.workspace.trusted import trust
from tests.sample import copied_sample, hive
from tests.server.serving import SETTINGS, bearer, sample, served, token
from tests.server.test_mcp import connected

LONG = ("how do I rotate the key " * LONGEST_QUESTION)[:LONGEST_QUESTION]
TOO_LONG = LONG + "?"


def is_told(text: str) -> bool:
    """Whether a refusal says the limit."""
    return f"{LONGEST_QUESTION:,}" in text or str(LONGEST_QUESTION) in text


@pytest.mark.parametrize(
    "command", [("query",), ("query", "--as", "dana"), ("chat", "--as", "dana"), ("label", "--relevant", "a.md")]
)
def test_a_command_refuses_a_question_that_is_too_long(tmp_path: Path, command: tuple[str, ...]) -> None:
    place = copied_sample(tmp_path / "ws")
    ran = hive(command[0], "how do I rotate " * 70_000, *command[1:], "--json", "-w", place.root)
    assert (ran.code, ran.codes) == (2 if command[0] != "label" else ran.code, {"HIVE-105"})
    assert ran.code in (1, 2)
    assert is_told(ran.out)


async def test_the_library_refuses_a_question_that_is_too_long(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    dana = known_principal(place, "dana")
    with pytest.raises(HiveError, match="8,000 are the most"):
        place.engine().search(TOO_LONG)
    with pytest.raises(HiveError, match="8,000 are the most"):
        await search(place, dana, TOO_LONG)
    with pytest.raises(HiveError, match="8,000 are the most"):
        await Chat(place, dana).ask(Request(text=TOO_LONG))
    assert (await search(place, dana, LONG)).results


SPELLED_OUT = "ﷺ" * (LONGEST_QUESTION - 10)
"""Within the limit as it is sent, and eighteen times as long where words are read."""


async def test_a_question_that_grows_where_it_is_read_is_too_long(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    with pytest.raises(HiveError, match="8,000 are the most"):
        place.engine().search(SPELLED_OUT)
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "reader", "operator")
        for path in ("/api/query", "/api/golden/labels"):
            found = await client.post(path, json={"query": SPELLED_OUT}, headers=root)
            assert (found.status_code, is_told(found.text)) == (422, True), found.text
        found = await client.post("/api/query", json={"query": "où est la clé ﷺ"}, headers=root)
        assert found.status_code == 200


async def test_every_protocol_refuses_a_question_that_is_too_long(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    message = {"id": "m", "role": "user", "content": TOO_LONG}
    agui = {"threadId": "t", "runId": "r", "state": {}, "messages": [message], "tools": [], "context": []}
    doors: dict[str, dict[str, Any]] = {
        "/api/query": {"query": TOO_LONG},
        "/api/runs": {"input": {"text": TOO_LONG}},
        "/agui": agui | {"forwardedProps": {}},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": TOO_LONG}]},
        "/api/golden/labels": {"query": TOO_LONG},
    }
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", "reader", "operator")
        for path, body in doors.items():
            found = await client.post(path, json=body, headers=root)
            assert 400 <= found.status_code < 500, path
            assert is_told(found.text), found.text
        found = await client.get("/api/golden/pool", params={"query": TOO_LONG}, headers=root)
        assert found.status_code == 400
        assert is_told(found.text)
        async with connected(client, token(place, "root", "reader", "operator")) as session:
            for tool, name in (("query", "query"), ("ask", "question")):
                result = await session.call_tool(tool, {name: TOO_LONG})
                assert result.is_error
                assert is_told(result.content[0].text)


def test_the_first_windows_of_a_question_are_embedded_and_no_more() -> None:
    model = LocalMiniLM()
    words = " ".join(f"word{n} of {n * 7}" for n in range(4000))
    windows = WordPieces().windows(words, QUESTION_WINDOWS)
    assert len(windows) == QUESTION_WINDOWS < len(WordPieces().windows(words))
    beginning = words[: WordPieces().token_offsets(words)[sum(map(len, windows)) - 2 * len(windows)][0]]
    assert (model.embed_query(words) == model.embed_query(beginning)).all()
    assert (model.embed_query("rotate a key") == model.embed(["rotate a key"])[0]).all()


def without_limit(schema: dict[str, Any], names: dict[str, Any], path: str) -> Iterator[str]:
    """The strings, lists and maps in a schema that have no bound."""
    if "$ref" in schema:
        return (yield from without_limit(names[schema["$ref"].split("/")[-1]], names, path))
    for part in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(part, ()):
            yield from without_limit(one, names, path)
    bounded = {"maxLength", "enum", "const", "pattern"} & schema.keys()
    # The bytes of a file are bounded by `[server] upload_bytes`.
    if schema.get("type") == "string" and not bounded and schema.get("format") != "binary":
        yield path
    if schema.get("type") == "array":
        if "maxItems" not in schema:
            yield path
        yield from without_limit(schema.get("items", {}), names, f"{path}[]")
    if isinstance(values := schema.get("additionalProperties"), dict) and values:
        if "maxProperties" not in schema:
            yield path
        yield from without_limit(values, names, f"{path}{{}}")
    for name, one in schema.get("properties", {}).items():
        yield from without_limit(one, names, f"{path}.{name}")


async def test_every_door_says_how_much_it_takes(tmp_path: Path) -> None:
    """By introspection: the OpenAPI document's bodies and parameters, and the inputs of MCP's tools.

    Free objects, such as an agent's inputs, and the body of AG-UI's own package are bounded by the size of a body.
    """
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        document = (await client.get("/api/openapi.json", headers=bearer(place))).json()
        async with connected(client, token(place)) as session:
            tools = (await session.list_tools()).tools
    names = document["components"]["schemas"]
    faults, inputs = [], 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            for parameter in operation["parameters"]:
                inputs += 1
                faults += without_limit(parameter["schema"], names, f"{where} {parameter['name']}")
            body = operation.get("requestBody")
            if body is not None and not path.startswith("/agui"):
                inputs += 1
                for content in body["content"].values():
                    faults += without_limit(content["schema"], names, where)
    for tool in tools:
        inputs += 1
        faults += without_limit(tool.input_schema, tool.input_schema.get("$defs", {}), tool.name)
    assert not faults
    assert inputs > 80


async def test_a_health_check_is_answered_while_the_longest_question_is_worked_on(tmp_path: Path) -> None:
    place = copied_sample(tmp_path / "ws")
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
    place = Workspace(place.root)
    trust(place)
    point_active(place, place.configs / "v1.json")
    text = " ".join(f"word{n}" for n in range(LONGEST_QUESTION))[:LONGEST_QUESTION]
    async with served(place, roles=("http",)) as client:
        asked = asyncio.ensure_future(client.post("/api/query", json={"query": text}, headers=bearer(place)))
        answered = 0
        while not asked.done():
            assert (await client.get("/healthz")).status_code == 200
            answered += not asked.done()
        assert (await asked).status_code == 200
    assert answered >= 3


async def test_a_conversation_without_an_end_costs_its_last_hundred_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hive_agents.server import copilot

    assert copilot.MOST_TURNS == 100
    monkeypatch.setattr(copilot, "MOST_TURNS", 2)
    place = sample(tmp_path / "ws")
    dana = known_principal(place, "dana")
    chat = Chat(place, dana)
    for number in range(4):
        await chat.ask(Request(text=f"webhook retries, question {number}"))
    async with served(place) as client:
        who, path = bearer(place), f"/api/threads/{chat.thread_id}"
        shown = (await client.get(path, headers=who)).json()["turns"]
        assert [turn["text"][-1] for turn in shown] == ["2", "3"]
        runs = (await client.get(f"{path}/runs", headers=who)).json()["runs"]
        assert [one["request"]["text"][-1] for one in runs] == ["2", "3"]
        pages = [await client.get(at, headers=who) for at in (f"{path}/export", f"/chat/{chat.thread_id}")]
        # The first question is the page's title, too.
        assert [[f"question {n}" in page.text for n in (1, 2, 3)] for page in pages] == [[False, True, True]] * 2


async def test_a_conversation_is_found_by_its_questions_without_what_came_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader with fifty conversations of 400 turns took a place for half a minute, by one request of 12 kB."""
    place = sample(tmp_path / "ws")
    dana = known_principal(place, "dana")
    chat = Chat(place, dana)
    asked = [f"webhook retries, question {number}" for number in range(3)]
    for text in asked:
        await chat.ask(Request(text=text))

    def refused(*_: Any) -> None:
        raise AssertionError("what came of a turn is read")

    monkeypatch.setattr("hive_agents.copilot.threads._turn", refused)
    store = ThreadStore(place, dana)
    assert store.of_questions(asked) == chat.thread_id
    assert [store.of_questions(other) for other in (asked[:2], [*asked, "more"], ["before", *asked])] == [None] * 3
