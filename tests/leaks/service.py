"""A permission service over real HTTP that can be told to misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.listening import answering

Answer = Callable[[dict[str, Any]], "bytes | int | None"]


class Service:
    """`answer` gets the question and gives the body, a status, or None to hang up; `asked` counts questions."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []
        self.answer: Answer = allowing(lambda _: True)
        self.released = threading.Event()


def allowing(may: Callable[[str], bool]) -> Answer:
    return lambda question: json.dumps({"allowed": [one for one in question["doc_ids"] if may(one)]}).encode()


@contextmanager
def serving() -> Iterator[Service]:
    service: Service

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.asked.append(question)
            answer = service.answer(question)
            if answer is None:
                return
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            if isinstance(answer, bytes):
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with answering(server) as url:
        service = Service(url)
        try:
            yield service
        finally:
            service.released.set()
