"""A wire to a server that is cut at a chosen moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Moment = Literal["before", "after"]
_COMMIT, _READY = b"COMMIT\0", b"Z\0\0\0\5"


class Wire:
    """Passes everything on; of a COMMIT it loses the question, or the answer, as often as it was told to."""

    def __init__(self, server: str) -> None:
        self.cuts = 0
        self._server, self._left, self._moment = server, 0, "after"
        self._skipped = 0
        self._guard = threading.Lock()
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listens.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, times: int, moment: Moment, *, after: int = 0) -> None:
        """Lose so many from now on, once `after` others have passed."""
        with self._guard:
            self._left, self._moment, self._skipped = times, moment, after

    def close(self) -> None:
        self._listens.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listens.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                threading.Thread(target=self._pass, args=(near, far), daemon=True).start()

    def _pass(self, near: socket.socket, far: socket.socket) -> None:
        answering = threading.Event()
        answering.set()
        back = threading.Thread(target=self._back, args=(near, far, answering), daemon=True)
        back.start()
        with suppress(OSError):
            while sent := near.recv(65_536):
                if _COMMIT in sent and (moment := self._taken()) is not None:
                    answering.clear()
                    if moment == "after":
                        far.sendall(sent)
                        back.join()  # until the server has answered
                    break
                far.sendall(sent)
        for end in (near, far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        back.join()
        near.close()
        far.close()

    def _back(self, near: socket.socket, far: socket.socket, answering: threading.Event) -> None:
        with suppress(OSError):
            while told := far.recv(65_536):
                if answering.is_set():
                    near.sendall(told)
                elif _READY in told:
                    return
        with suppress(OSError):
            near.shutdown(socket.SHUT_RDWR)  # who waits for an answer of a server that left learns it

    def _taken(self) -> str | None:
        with self._guard:
            if self._skipped and self._left:
                self._skipped -= 1
                return None
            if not self._left:
                return None
            self._left -= 1
            self.cuts += 1
            return self._moment


@contextmanager
def wired(server: str) -> Iterator[Wire]:
    """A wire to the server's socket."""
    wire = Wire(server)
    try:
        yield wire
    finally:
        wire.close()
