"""Searches over HTTP: a template of the request, and a path to the doc_ids in the response."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urldefrag, urlsplit

from pydantic import Field

from hive_agents.base import HiveError
from hive_agents.base.files import FileFormat
from hive_agents.evaluation.golden import GoldenQuery
from hive_agents.evaluation.outside import FoundList
from hive_agents.evaluation.ranking_asking import source_failed
from hive_agents.evaluation.recorded_rankings import doc_id_of

MOST_BYTES = 50_000_000
"""Of a response; it is asked for as it is, since what is packed has no length that could be limited."""

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\*|\d+)\]")


class EndpointFile(FileFormat):
    """A request template; `{query}`, `{k}` and `{id}` are replaced in `url` and in the texts of `body`.

    `documents` is the path to the doc_ids, or to objects that have one. Values of `headers_ref` are env:NAME.
    """

    url: Annotated[str, Field(pattern=r"^https?://")]
    documents: str = "$[*]"
    method: Literal["GET", "POST"] = "GET"
    body: Any = None
    headers: dict[str, str] = {}
    headers_ref: dict[str, str] = {}
    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0


class EndpointSource:
    """A live source. Raises: HIVE-421 where a header's secret is missing, HIVE-105 for an invalid path."""

    live = True

    def __init__(self, name: str, file: EndpointFile, environment: Mapping[str, str] | None = None) -> None:
        import httpx

        self.name = name
        self._file = file
        self._steps = json_path(file.documents)
        headers = dict(file.headers)
        for header, reference in file.headers_ref.items():
            headers[header] = _secret(reference, os.environ if environment is None else environment)
        headers |= {"accept-encoding": "identity"}
        self._client = httpx.Client(headers=headers, timeout=file.timeout_seconds)
        self._failures = (httpx.HTTPError, httpx.InvalidURL, RecursionError, ValueError)

    def rank(self, query: GoldenQuery, k: int) -> FoundList:
        values = {"query": query.query, "k": k, "id": query.id}
        url = self._file.url
        for name, value in values.items():
            url = url.replace(f"{{{name}}}", quote(str(value), safe=""))
        body = None if self._file.body is None else filled(self._file.body, values)
        where = f'for query "{query.id}"'
        started = time.perf_counter()
        try:
            data = self._response(url, body, where)
            seconds = time.perf_counter() - started
            hits = at_path(json.loads(data), self._steps)
        except self._failures as error:
            raise source_failed(self.name, f"{type(error).__name__} {where}: {error}", "look at the endpoint") from None
        documents = [doc_id_of(hit) for hit in hits]
        if None in documents:
            why = f"what stands at {self._file.documents} {where} is no doc_id, and no object that has one"
            raise source_failed(self.name, why, "let `documents` lead to the doc_ids, such as $.hits.hits[*]._id")
        return FoundList(tuple(doc_id for doc_id in documents if doc_id is not None), seconds)

    def _response(self, url: str, body: Any, where: str) -> bytes:
        """Return the body of a response.

        Raises: HIVE-428 for a status other than 200, more than MOST_BYTES, or after `timeout_seconds`.
        """
        data, deadline = bytearray(), time.monotonic() + self._file.timeout_seconds
        with self._client.stream(self._file.method, url, json=body) as response:
            if response.status_code != 200:
                raise source_failed(self.name, f"status {response.status_code} {where}", "look at the endpoint")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise source_failed(self.name, f"its answer {where} is compressed", "let it answer what was asked for")
            for part in response.iter_raw():
                data += part
                if len(data) > MOST_BYTES:
                    why = f"its answer {where} has more than {MOST_BYTES // 1_000_000} MB"
                    raise source_failed(self.name, why, "let it return doc_ids, and no texts")
                if time.monotonic() > deadline:
                    why = f"its answer {where} has no end within {self._file.timeout_seconds:g} s"
                    raise source_failed(self.name, why, "look at the endpoint, or raise timeout_seconds in its file")
        return bytes(data)


def from_url(url: str) -> EndpointSource:
    """Return the endpoint of a URL template; its fragment is the path to the doc_ids.

    Raises: HIVE-409 where it has no `{query}`.
    """
    address, path = urldefrag(url)
    if "{query}" not in address:
        fix = "write http://host/search?q={query}&size={k}#$.hits[*].id"
        raise HiveError.of("HIVE-409", "the URL has no {query} in it", fix=fix)
    return EndpointSource(urlsplit(address).netloc, EndpointFile(url=address, documents=path or "$[*]"))


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Return the template with its placeholders replaced; a text that is just a placeholder becomes the value itself.

    >>> filled({"q": "title:{query}", "size": "{k}", "from": 0}, {"query": "keys", "k": 10})
    {'q': 'title:keys', 'size': 10, 'from': 0}
    """
    if isinstance(template, dict):
        return {key: filled(inner, values) for key, inner in template.items()}
    if isinstance(template, list):
        return [filled(inner, values) for inner in template]
    if not isinstance(template, str):
        return template
    if template[1:-1] in values and template == f"{{{template[1:-1]}}}":
        return values[template[1:-1]]
    return re.sub(r"\{(\w+)\}", lambda placeholder: str(values.get(placeholder[1], placeholder[0])), template)


def json_path(text: str) -> list[str | int | None]:
    """Return the steps of a path such as `$.hits.hits[*]._id`: keys, numbers, and None for `[*]`.

    Raises: HIVE-105 for other syntax of JSONPath.

    >>> json_path("$.hits[0].ids[*]"), json_path("results[*].id")
    (['hits', 0, 'ids', None], ['results', None, 'id'])
    """
    rest = text.removeprefix("$")
    steps: list[str | int | None] = []
    while rest:
        step = _STEP.match(rest)
        if step is None:
            fix = "use keys, [0] and [*]: $.hits.hits[*]._id"
            raise HiveError.of("HIVE-105", f'"{text}" is no path to doc_ids', path="documents", fix=fix, exit_code=2)
        key, position = step.groups()
        steps.append(key if key is not None else None if position == "*" else int(position))
        rest = rest[step.end() :]
    return steps


def at_path(value: Any, steps: list[str | int | None]) -> list[Any]:
    """Return the values at the end of a path; none where a key is missing.

    >>> at_path({"hits": [{"id": "a"}, {"id": "b"}]}, ["hits", None, "id"]), at_path({}, ["hits", None])
    (['a', 'b'], [])
    """
    values = [value]
    for step in steps:
        following: list[Any] = []
        for current in values:
            if step is None:
                following += current if isinstance(current, list) else []
            elif isinstance(step, int):
                following += current[step : step + 1] if isinstance(current, list) else []
            elif isinstance(current, dict) and step in current:
                following.append(current[step])
        values = following
    return values


def _secret(reference: str, environment: Mapping[str, str]) -> str:
    scheme, _, name = reference.partition(":")
    if scheme != "env" or not name:
        fix = "write env:NAME, and set the variable NAME"
        raise HiveError.of("HIVE-409", "that is no reference to a secret of an endpoint", path="headers_ref", fix=fix)
    if not environment.get(name):
        raise HiveError.of("HIVE-421", f"there is nothing behind {reference}", fix=f"set {name}", exit_code=2)
    return environment[name]
