"""The longest input that each route allows, and one above it: answered or refused, beside a health check."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hive_agents.server.pages import entrance
from hive_agents.server.pages.entrance import PARTS
from tests.server.loops import work_on_this_thread
from tests.server.serving import bearer, sample, served

TAKEN = {"post /api/query", "post /api/queen/messages", "get /api/golden/pool"}
"""Some that do what the longest asks for."""
WORDS = "where is the quick report of key "


class Longest:
    """The longest values of a schema, longer by `extra`, by default of what has to be there alone.

    `bounded` is whether any had a limit. Of a long list each part is short, so that the body stays within its bytes.
    """

    def __init__(self, names: dict[str, Any], extra: int, *, whole: bool = False) -> None:
        self.names, self.extra, self.whole, self.bounded = names, extra, whole, False

    def of(self, schema: dict[str, Any], *, short: bool = False) -> Any:
        if "$ref" in schema:
            return self.of(self.names[schema["$ref"].split("/")[-1]], short=short)
        for part in ("anyOf", "oneOf"):
            if part in schema:
                return self.of(schema[part][0], short=short)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        match schema.get("type"):
            case "string" if "pattern" in schema or short:
                return "v1"
            case "string":
                self.bounded |= "maxLength" in schema
                most = schema.get("maxLength", 1_000) + self.extra
                return (WORDS * (most // len(WORDS) + 1))[: most - 1] + "y"
            case "array":
                self.bounded |= "maxItems" in schema
                one = self.of(schema.get("items", {}), short=True)
                return [one] * (1 if short else schema.get("maxItems", 10) + self.extra)
            case "object" if "properties" in schema:
                needed = schema["properties"] if self.whole else schema.get("required", ())
                return {name: self.of(schema["properties"][name], short=short) for name in needed}
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return False
            case "null":
                return None
        return {"text": "where is the key"}


def requests_of(document: dict[str, Any], extra: int) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The name of each operation that has a limit, its method and path, and what to send."""
    for path, methods in document["paths"].items():
        for (method, operation), whole in product(methods.items(), (True, False)):
            body = operation.get("requestBody")
            if not whole and (body is None or extra or path == "/v1/chat/completions"):
                continue  # the last one waits for its run, and nobody runs any here
            longest = Longest(document["components"]["schemas"], extra, whole=whole)
            where, query, headers = path, {}, {}
            for one in operation["parameters"]:
                value = longest.of(one["schema"])
                if one["in"] == "path":
                    where = where.replace(f"{{{one['name']}}}", "k" * len(value))
                elif one["in"] == "query":
                    query[one["name"]] = value
                else:
                    headers[one["name"]] = "k" * len(value)
            sent: dict[str, Any] = {}
            for media, content in body["content"].items() if body else ():
                value = longest.of(content["schema"])
                sent = {"json": value} if media == "application/json" else as_form(value)
            if longest.bounded:
                yield f"{method} {path}", method.upper(), where, {"params": query, "headers": headers} | sent


def as_form(value: dict[str, Any]) -> dict[str, Any]:
    """The options by which httpx sends a form with files."""
    files = [("file", (f"{number}.md", text.encode())) for number, text in enumerate(value.pop("file"))]
    data = {name: one if isinstance(one, str) else json.dumps(one) for name, one in value.items()}
    return {"files": files, "data": data}


@pytest.mark.parametrize("extra", [0, 1])
async def test_the_longest_that_a_route_allows_holds_up_nobody_and_one_more_is_refused(
    tmp_path: Path, extra: int
) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        who = bearer(place, "root", "reader", "operator", "approver", "admin")
        document = (await client.get("/api/openapi.json", headers=who)).json()
        statuses: dict[str, set[int]] = {}
        on_loop: dict[str, set[str]] = {}
        for name, method, path, how in requests_of(document, extra):
            request = client.build_request(method, path, **how | {"headers": who | how["headers"]})
            with work_on_this_thread() as called:
                answer, health = await asyncio.gather(client.send(request, stream=True), client.get("/healthz"))
                await answer.aclose()  # a stream may have no end
            assert health.status_code == 200
            statuses.setdefault(name, set()).add(answer.status_code)
            if called:
                on_loop[name] = called
    assert not on_loop
    assert not {name: found for name, found in statuses.items() if max(found) >= 500}
    if extra:
        assert not {name for name, found in statuses.items() if not found <= {400, 422}}
    else:
        assert {name for name, found in statuses.items() if min(found) < 300} >= TAKEN
    assert len(statuses) > 40


PAGES = [view for part in PARTS for view in part.pages.views]
SOURCES = Path(entrance.__file__).parent.glob("*.py")
FIELDS = {name for path in SOURCES for name in re.findall(r"(?:sent|get)\(\"(\w+)\"", path.read_text(encoding="utf-8"))}
"""What any page reads of a form or a query."""
BOUNDED = {f"hive_agents.base.files.lengths.{name}" for name in ("_characters", "_spelled_out")}
"""What looks at the length of a question that its page has cut."""


async def test_the_longest_form_and_query_of_a_page_hold_up_nobody(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    text = WORDS * (place.settings.server.body_bytes // len(FIELDS) // len(WORDS) - 1)
    statuses = set()
    async with served(place, roles=("http",)) as client:
        who = bearer(place, "root", "reader", "operator", "approver", "admin")
        for view in PAGES:
            path = re.sub(r"\{\w+(:path)?\}", "k" * 250, view.path)
            sent: dict[str, Any] = {"params": dict.fromkeys(sorted(FIELDS), text[: 60_000 // len(FIELDS)])}
            if view.method == "POST":
                sent = {"data": dict.fromkeys(sorted(FIELDS), text)}
            with work_on_this_thread() as called:
                answer, health = await asyncio.gather(
                    client.request(view.method, path, headers=who, **sent), client.get("/healthz")
                )
            assert (health.status_code, called - BOUNDED) == (200, set()), (view.method, path)
            assert answer.status_code < 500, (view.method, path)
            statuses.add(answer.status_code)
    assert statuses >= {200, 404}
