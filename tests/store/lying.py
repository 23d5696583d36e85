"""A server that speaks PostgreSQL's protocol and lies: a real one's answers, changed on their way."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from tests.listening import listening

Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Lie:
    """Of answers whose first columns are `columns`: what each row becomes, and the type of all columns, if another."""

    columns: tuple[str, ...]
    told: Callable[[Row], Sequence[Row]]
    type: int = 0


@contextmanager
def lying(server: str, lie: Lie) -> Iterator[int]:
    """Give the port at which the server on that socket is asked, in clear text, and answers with the lie."""

    def speak(near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far, suppress(OSError):
            far.connect(server)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_passed, args=(near, far), daemon=True).start()
            _told(far, near, lie)

    with listening(speak) as at:
        yield at


def _passed(near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while sent := near.recv(65_536):
            far.sendall(sent)
        far.shutdown(socket.SHUT_RDWR)


def _told(far: socket.socket, near: socket.socket, lie: Lie) -> None:
    """Pass on message by message; a row as the lie has it."""
    with far.makefile("rb") as answers:
        _changed(answers, near, lie)


def _changed(answers: BinaryIO, near: socket.socket, lie: Lie) -> None:
    concerned = False
    while head := answers.read(5):
        kind, body = head[:1], answers.read(struct.unpack("!i", head[1:])[0] - 4)
        messages = [body]
        if kind == b"T":
            names, body = _described(body, lie)
            concerned = names[: len(lie.columns)] == lie.columns
            messages = [body] if concerned else messages
        elif kind == b"D" and concerned:
            messages = [_row(row) for row in lie.told(_fields(body))]
        near.sendall(b"".join(kind + struct.pack("!i", len(one) + 4) + one for one in messages))


def _described(body: bytes, lie: Lie) -> tuple[tuple[str, ...], bytes]:
    names, made, place = [], body[:2], 2
    while place < len(body):
        end = body.index(b"\0", place)
        names.append(body[place:end].decode())
        table, column, type, *rest = struct.unpack("!ihihih", body[end + 1 : end + 19])
        made += body[place : end + 1] + struct.pack("!ihihih", table, column, lie.type or type, *rest)
        place = end + 19
    return tuple(names), made


def _fields(body: bytes) -> Row:
    found: list[bytes | None] = []
    place = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (size,) = struct.unpack("!i", body[place : place + 4])
        place += 4
        found.append(None if size < 0 else body[place : place + size])
        place += max(size, 0)
    return tuple(found)


def _row(fields: Row) -> bytes:
    told = [struct.pack("!i", -1) if one is None else struct.pack("!i", len(one)) + one for one in fields]
    return struct.pack("!h", len(fields)) + b"".join(told)
