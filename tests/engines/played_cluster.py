"""A cluster of the test's own on loopback: as much of OpenSearch as a copy needs, and every way of going away."""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.ports import lasting_port

_OK = 200
_NOT_FOUND = 404


class PlayedCluster:
    """Ranks by the number of a question's words that a chunk has.

    `refuse` closes its port, `freeze` lets it accept connections and answer nothing, `come_back` ends both. `asked`
    counts the requests that arrived, frozen or not, by the last part of their path.
    """

    def __init__(self) -> None:
        self.port = lasting_port()
        self.asked: Counter[str] = Counter()
        self._indices: dict[str, dict[str, Any]] = {}
        self._flows = threading.Event()
        self._http: ThreadingHTTPServer | None = None
        self.come_back()

    @property
    def url(self) -> str:
        return f"opensearch://127.0.0.1:{self.port}/played"

    def freeze(self) -> None:
        self._flows.clear()

    def refuse(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.socket.shutdown(socket.SHUT_RDWR)  # also where a forked process has inherited it
            self._http.server_close()
            self._http = None

    def come_back(self) -> None:
        self._flows.set()
        if self._http is None:
            self._http = _Server(("127.0.0.1", self.port), _handler(self))
            threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._flows.set()
        self.refuse()

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        self.asked[path.rpartition("/")[2] or "/"] += 1
        self._flows.wait()
        parts = [part for part in path.split("/") if part]
        name = parts[0] if parts else ""
        last = parts[-1] if parts else ""
        if not parts:
            return _OK, {"version": {"distribution": "opensearch", "number": "2.19.1"}}
        if name == "_msearch":
            lines = [json.loads(line) for line in body.splitlines()]
            found = [self._found(head["index"], search) for head, search in zip(lines[::2], lines[1::2], strict=True)]
            return _OK, {"responses": found}
        if name == "_cat":
            return _OK, []
        if last == "_bulk":
            lines = body.splitlines()
            pairs = zip(map(json.loads, lines[::2]), map(json.loads, lines[1::2]), strict=True)
            rows = [(head["create"]["_id"], row) for head, row in pairs]
            self._named(name)["rows"].update(rows)
            return _OK, {"errors": False, "items": [{"create": {"status": 201}} for _ in rows]}
        if name == "_aliases":
            for action in json.loads(body)["actions"]:
                (verb, wanted), = action.items()
                aliases = self._indices[wanted["index"]]["aliases"]
                aliases[wanted["alias"]] = {}
                if verb == "remove":
                    del aliases[wanted["alias"]]
            return _OK, {"acknowledged": True}
        if name == "_alias":
            holding = {one: found for one, found in self._indices.items() if last in found["aliases"]}
            return (_OK if holding else _NOT_FOUND), {one: {"aliases": {last: {}}} for one in holding}
        if last in ("_refresh", "_count"):
            return _OK, {"count": len(self._named(name)["rows"])}
        if last == "_search":
            return _OK, self._found(name, json.loads(body))
        if method == "PUT":
            made = json.loads(body)
            self._indices[name] = {"mappings": made["mappings"], "aliases": made["aliases"], "rows": {}}
            return _OK, {"acknowledged": True}
        if method == "DELETE":
            self._indices.pop(name, None)
            return _OK, {"acknowledged": True}
        shown = {"settings": {"index": {"creation_date": "1"}}}
        return _OK, {one: found | shown for one, found in self._indices.items()}

    def _found(self, name: str, search: dict[str, Any]) -> dict[str, Any]:
        return {"hits": {"hits": _hits(self._named(name)["rows"].values(), search)}}

    def _named(self, name: str) -> dict[str, Any]:
        return next(found for one, found in self._indices.items() if name == one or name in found["aliases"])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that has waited long enough is gone."""


def _handler(cluster: PlayedCluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handled(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, value = cluster.answer(self.command, self.path.partition("?")[0], body)
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handled

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _hits(rows: Any, asked: dict[str, Any]) -> list[Any]:
    if "query" not in asked:  # the number of the last chunk
        return [{"sort": [row["chunk"]]} for row in sorted(rows, key=lambda row: -row["chunk"])[:1]]
    allowed, query = None, asked["query"]
    if "bool" in query:
        (terms,) = (one["terms"]["chunk"] for one in query["bool"]["filter"])
        allowed, query = _numbers(base64.b64decode(terms[0])), query["bool"]["must"][0]
    words = set(query["match"]["words"].split())
    scored = [(len(words & set(re.split(r"\s+", row["words"]))), row["chunk"]) for row in rows]
    best = sorted((-score, chunk) for score, chunk in scored if score and (allowed is None or chunk in allowed))
    return [{"sort": [float(-score), chunk]} for score, chunk in best[: asked["size"]]]


def _numbers(bitmap: bytes) -> set[int]:
    """The members of a roaring bitmap without containers of bits, which small copies don't need."""
    _, count = struct.unpack_from("<II", bitmap)
    found: set[int] = set()
    at = 8 + 8 * count
    for n in range(count):
        key, most = struct.unpack_from("<HH", bitmap, 8 + 4 * n)
        low = struct.unpack_from(f"<{most + 1}H", bitmap, at)
        found.update((key << 16) + one for one in low)
        at += 2 * (most + 1)
    return found
