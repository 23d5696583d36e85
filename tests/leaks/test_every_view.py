"""Every route, MCP tool and command, found by introspection, tells an operator the same bytes, whether or not there is
what they may not view: documents, their titles and fields, labels, questions and tags.

The arguments are those of `plausible`.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.access.who import TOKEN
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.optimizer import OptimizeRun
from hive_agents.server.app import ROUTES
from hive_agents.server.meta import described
from tests.cli.test_surface import commands
from tests.leaks.pairs import ASKED, MARK, bearer, pair, settled, token
from tests.leaks.plausible import ARGUMENTS, NONE, Missing, calls, given, named, words_of
from tests.leaks.test_commands_of_a_token import ELSEWHERE
from tests.sample import hive
from tests.server.serving import served
from tests.server.test_leaks_http import OF_THE_MOMENT

VARYING = OF_THE_MOMENT | {"content-length"}
SENT = {"GET": 0, "POST": 1, "PATCH": 2, "DELETE": 3}
"""In this order: what is deleted can't be read afterwards."""
PAGE_QUERIES: tuple[dict[str, str], ...] = ({}, {"query": ASKED}, {"tag": MARK}, {"verdict": "accept"})
STEPS = re.compile(
    r'data: \{"type":"STEP_(?:STARTED|FINISHED)",'
    r'"stepName":"(?:rewrite|route|retrieve|rerank|permission_gate|finalize)"\}\n\n'
)
"""A stream shows the steps since it began to follow its run: none of a run that was faster. They are the graph's."""
ENDLESS = ("/api/events/stream", "/api/changes")
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class Call:
    """One request; `told` names it in a failure."""

    def __init__(self, method: str, path: str, query: Mapping[str, Any], body: Any, names: Mapping[str, str]) -> None:
        self.method, self.path, self.told = method, path, f"{method} {path} {dict(query)} {json.dumps(body)}"
        self._names, self._query, self._body = names, query, body

    async def answer(self, client: httpx.AsyncClient, headers: dict[str, str]) -> str:
        body = json.loads(named(json.dumps(self._body), self._names)) if self._body is not None else None
        query = {name: named(value, self._names) for name, value in self._query.items()}
        path = named(self.path, self._names)
        async with client.stream(self.method, path, params=query, json=body, headers=headers) as response:
            sent = ""
            try:
                async with asyncio.timeout(0.3 if self.path in ENDLESS else 60):
                    async for piece in response.aiter_text():
                        sent += piece
            except TimeoutError:
                assert self.path in ENDLESS, self.told
        kept = {name: value for name, value in response.headers.items() if name not in VARYING}
        return f"{response.status_code} {json.dumps(kept)}\n{STEPS.sub('', sent)}"


def routes(names: Mapping[str, str], *, thorough: bool) -> Iterator[Call]:
    """Every route, those that change something last; where it is `thorough`, with each argument that it may have."""
    document = described()
    for method in SENT:
        for route in ROUTES:
            assert isinstance(route, Route)
            if method not in (route.methods or ()):
                continue
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
            operation = document["paths"].get(path, {}).get(method.lower())
            every = of_route(method, path, operation, document, names)
            yield from every if thorough else islice(every, 1)


def of_route(
    method: str, path: str, operation: dict[str, Any] | None, document: dict[str, Any], names: Mapping[str, str]
) -> Iterator[Call]:
    inside = {f"{{{name}}}" if f"{{{name}}}" in ARGUMENTS else name: True for name in re.findall(r"\{(\w+)\}", path)}
    queries: dict[str, bool] = {}
    fields: dict[str, bool] = {}
    for parameter in operation["parameters"] if operation is not None else ():
        if parameter["in"] == "query":
            queries[parameter["name"]] = parameter["required"]
    if operation is not None and "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        reference = content["schema"]["$ref"]
        schema = document["components"]["schemas"][reference.rpartition("/")[2]]
        fields = {name: name in schema.get("required", ()) for name in schema.get("properties", ())}
    try:
        every = list(calls({**inside, **queries, **fields}))
    except Missing as error:
        pytest.fail(f"add plausible values to ARGUMENTS of tests/leaks/plausible.py for {method} {path}: {error}")
    for arguments in every:
        filled = path
        for name in inside:
            filled = filled.replace(name if name.startswith("{") else f"{{{name}}}", str(arguments[name]))
        query = given({name: arguments[name] for name in queries if name in arguments})
        body = given({name: arguments[name] for name in fields if name in arguments}) if method != "GET" else None
        for more in PAGE_QUERIES if operation is None and method == "GET" else ({},):
            yield Call(method, filled, {**query, **more}, body, names)


async def tools(
    client: httpx.AsyncClient, place: Workspace, names: Mapping[str, str], *, thorough: bool
) -> Iterator[Call]:
    """Every MCP tool, and every resource."""
    headers = bearer(place) | MCP

    async def sent(method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        text = (await client.post("/mcp", json=body, headers=headers)).text
        found: dict[str, Any] = json.loads(re.sub(r"^(?:event: message\s+)?data: ", "", text.strip()))["result"]
        return found

    bodies = []
    for tool in (await sent("tools/list"))["tools"]:
        schema = tool["inputSchema"]
        required = schema.get("required", ())
        try:
            every = list(calls({name: name in required for name in schema.get("properties", ())}))
        except Missing as error:
            pytest.fail(f"add plausible values to ARGUMENTS of tests/leaks/plausible.py for {tool['name']}: {error}")
        bodies += [
            ("tools/call", {"name": tool["name"], "arguments": given(arguments)})
            for arguments in every[: None if thorough else 1]
        ]
    uris = [one["uri"] for one in (await sent("resources/list"))["resources"]]
    for template in (await sent("resources/templates/list"))["resourceTemplates"]:
        uris.append(re.sub(r"\{\w+\}", MARK, template["uriTemplate"]))
    bodies += [("tools/list", {}), ("resources/list", {}), *(("resources/read", {"uri": uri}) for uri in uris)]
    return iter([
        Call("POST", "/mcp", {}, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, names)
        for method, params in bodies
    ])  # fmt: skip


async def worked_in(place: Workspace) -> dict[str, str]:
    """The ids of what the operator did in a workspace: a conversation, and a search for a better config."""
    kim = known_principal(place, "kim")
    reply = await Chat(place, kim).ask(Request(text=ASKED))
    run = OptimizeRun.start(place, golden=None, deploy=False, settings={"iterations": 1, "evaluations": 10}, owner=kim)
    await asyncio.to_thread(run.go)
    return {"RUN": reply["run_id"], "THREAD": reply["thread_id"], "SEARCH": run.run_id}


async def over_http(place: Workspace, *, thorough: bool) -> dict[str, str]:
    names = await worked_in(place)
    answers: dict[str, str] = {}
    async with served(place) as client:
        headers = bearer(place)
        made = [*routes(names, thorough=thorough), *await tools(client, place, names, thorough=thorough)]
        first = [call for call in made if call.method == "GET"]
        for call in [*first, *(call for call in made if call.path == "/mcp"), *made[len(first) : -1]]:
            accept = headers | MCP if call.path == "/mcp" else headers
            answers[call.told] = settled(place, await call.answer(client, accept))
    return answers


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_no_route_and_no_tool_tells_an_operator_of_what_is_hidden(tmp_path: Path, thorough: bool) -> None:
    pytest.importorskip("mcp")
    without, beside = [await over_http(place, thorough=thorough) for place in pair(tmp_path)]
    assert not (found := differences(without, beside)), "\n\n".join(found)


def differences(without: Mapping[str, str], beside: Mapping[str, str]) -> list[str]:
    return [
        f"{call}\n--- without\n{without.get(call)}\n--- with\n{beside.get(call)}"
        for call in {**without, **beside}
        if without.get(call) != beside.get(call)
    ]


COUNTED = frozenset({"index", "doctor", "backup", "export", "storage"})
"""Commands that tell operators how many documents there are, which they may know: numbers aren't compared."""
UNORDERED = frozenset({"chat --threads"})
"""Lists whose rows of one second stand in any order."""


def lines(*, thorough: bool) -> Iterator[list[str]]:
    """Every command with its required arguments, and where it is `thorough` with each other one beside them."""
    for spoken, command in commands():
        name = " ".join(spoken)
        if name in ELSEWHERE:
            continue
        base: list[str] = []
        more: list[list[str]] = []
        for parameter in command.params:
            if parameter.name in ("workspace", "json", "quiet"):
                continue
            try:
                values = words_of(name, parameter.name)
            except Missing as error:
                pytest.fail(f"add plausible values to WORDS of tests/leaks/plausible.py for hive {name}: {error}")
            shown = [written(parameter, value) for value in values if value is not NONE]
            if parameter.required:
                base += shown[0]
                more += shown[1:]
            else:
                more += shown
        yield [*spoken, *base]
        yield from ([*spoken, *base, *one] for one in (more if thorough else ()))


def written(parameter: Any, value: Any) -> list[str]:
    """One argument as it stands in a command line."""
    texts = [str(each) for each in (value if isinstance(value, list) else [value])]
    if parameter.param_type_name == "argument":
        return texts
    if parameter.nargs > 1:
        return [parameter.opts[0], *texts]
    return [parameter.opts[0]] if value is True else [part for text in texts for part in (parameter.opts[0], text)]


def by_command(place: Workspace, names: dict[str, str], *, thorough: bool) -> dict[str, str]:
    answers = {}
    folder = place.root.parent
    (folder / "new.md").write_text("# New\n\nA new one.\n", encoding="utf-8")
    files = {"OUT": "out", "INCOMING": "new.md", "RECEIPT": "none.json"}
    names = names | {name: str(folder / file) for name, file in files.items()}
    for line in lines(thorough=thorough):
        ran = hive(*(named(word, names) for word in line), "--json", "-w", place.root)
        warned = "".join(part for part in ran.err.splitlines(True) if "left" not in part)  # not its progress
        text = settled(place, f"{ran.code}\n{ran.out}\n{warned}")
        text = "\n".join(sorted(text.splitlines())) if " ".join(line) in UNORDERED else text
        answers[" ".join(line)] = re.sub(r"\d+", "N", text) if " ".join(line).startswith(tuple(COUNTED)) else text
    return answers


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_command_tells_an_operator_of_what_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    told = []
    for place in pair(tmp_path):
        monkeypatch.setenv(TOKEN, token(place))
        monkeypatch.chdir(place.root)
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        told.append(by_command(place, asyncio.run(worked_in(place)), thorough=thorough))
    without, beside = told
    assert not (found := differences(without, beside)), "\n\n".join(found)
