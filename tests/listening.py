"""Servers that run in threads of a test's own process, and end with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import HTTPServer


@contextmanager
def answering(server: HTTPServer) -> Iterator[str]:
    """Yield the address of an HTTP server while it runs."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def listening(speak: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port on which `speak` gets each connection, in a thread of its own."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=speak, args=(listens.accept()[0],), daemon=True).start()

    with socket.create_server((host, 0)) as listens:
        threading.Thread(target=accept, daemon=True).start()
        yield listens.getsockname()[1]
        listens.shutdown(socket.SHUT_RDWR)
