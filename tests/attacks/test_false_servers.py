"""A false server that speaks PostgreSQL's protocol gets no password, and neither the terminal nor a traceback."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hive_agents import HiveError, Workspace
from hive_agents.engines.postgres import open_database
from hive_agents.store import connected
from tests.listening import listening
from tests.models.trusting import workspace_with
from tests.sample import hive

pytest.importorskip("psycopg")
pytestmark = pytest.mark.sqlite_file  # they name servers themselves

PASSWORD = "hunter2-4711"
EVIL = b"\x1b]0;owned\x07\x1b[31mred\rcr"
ASKS = {"password": struct.pack("!ci", b"R", 8) + struct.pack("!i", 3)}
ASKS["md5"] = struct.pack("!cii", b"R", 12, 5) + b"salt"
_FIELDS = b"SERROR\0VERROR\0C28000\0M" + EVIL + b"\0D" + EVIL + b"\0H" + EVIL + b"\0\0"
REFUSES, NOTICE = (kind + struct.pack("!i", len(_FIELDS) + 4) + _FIELDS for kind in (b"E", b"N"))
LETS_IN = struct.pack("!cii", b"R", 8, 0) + NOTICE + struct.pack("!cic", b"Z", 5, b"I")
_COLUMN = b"v\0" + struct.pack("!ihihih", 0, 0, 1700, -1, -1, 0)
LIES = b"".join(
    kind + struct.pack("!i", len(body) + 4) + body
    for kind, body in (
        (b"T", struct.pack("!h", 1) + _COLUMN),
        (b"D", struct.pack("!hi", 1, 3) + b"abc"),
        (b"C", b"SELECT 1\0"),
        (b"Z", b"I"),
    )
)
_TLS, _GSS = 80877103, 80877104


@contextmanager
def false_server(answer: bytes, *, then: bytes = b"") -> Iterator[tuple[int, list[bytes]]]:
    """(port, what clients sent after the `answer` to their greeting; `then` answers everything else)."""
    heard: list[bytes] = []

    def speak(client: socket.socket) -> None:
        with suppress(OSError, struct.error), client:
            while struct.unpack("!ii", client.recv(8))[1] in (_TLS, _GSS):
                client.sendall(b"N")
            client.recv(10_000)
            client.sendall(answer)
            while told := client.recv(10_000):
                heard.append(told)
                client.sendall(then)
                if not (then or answer == LETS_IN):
                    break

    with listening(speak, "0.0.0.0") as port:
        yield port, heard


def place_at(
    root: Path, monkeypatch: pytest.MonkeyPatch, section: str, host: str, port: int, options: str = ""
) -> Workspace:
    monkeypatch.setenv("HIDDEN_KEY", PASSWORD)
    url = f"postgresql://hive@{host}:{port}/x{options}"
    return workspace_with(root, f'[{section}]\nurl = "{url}"\npassword_ref = "env:HIDDEN_KEY"\n', monkeypatch)


def connect(place: Workspace, section: str) -> None:
    if section == "storage":
        with connected(place.records):
            pass
    else:
        open_database(place).connect()


@pytest.mark.parametrize("section", ["storage", "vectors"])
@pytest.mark.parametrize("asked", ASKS)
def test_a_server_that_could_be_anybody_gets_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, asked: str
) -> None:
    """0.0.0.0 leads here, but says as little of who answers as any name does."""
    with false_server(ASKS[asked]) as (port, heard):
        place = place_at(tmp_path / "ws", monkeypatch, section, "0.0.0.0", port)
        with pytest.raises(HiveError) as refused:
            connect(place, section)
    (told,) = refused.value.diagnostics
    assert not any(heard)
    assert told.code == {"storage": "HIVE-403", "vectors": "HIVE-434"}[section]
    assert "sslmode=verify-full" in str(told.fix)
    assert PASSWORD not in told.message


@pytest.mark.parametrize(("host", "options"), [("127.0.0.1", ""), ("0.0.0.0", "?require_auth=password")])
def test_who_says_so_or_is_on_this_machine_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, options: str
) -> None:
    with false_server(ASKS["password"]) as (port, heard):
        place = place_at(tmp_path / "ws", monkeypatch, "storage", host, port, options)
        with pytest.raises(HiveError):
            connect(place, "storage")
    assert PASSWORD.encode() in heard[0]


@pytest.mark.parametrize("says", ["refuses", "notice and refuses"])
def test_what_a_server_says_moves_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    answer, then = (REFUSES, b"") if says == "refuses" else (LETS_IN, NOTICE + REFUSES + LIES[-6:])
    with false_server(answer, then=then) as (port, _):
        told = hive("runs", "-w", place_at(tmp_path / "ws", monkeypatch, "storage", "127.0.0.1", port).root)
    assert told.code == 3
    assert "red" in told.err
    assert not {"\x1b", "\x07", "\r"} & set(told.out + told.err)


def test_a_server_that_answers_something_else_is_a_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with false_server(LETS_IN, then=LIES) as (port, _):
        told = hive("runs", "-w", place_at(tmp_path / "ws", monkeypatch, "storage", "127.0.0.1", port).root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-407"})


@pytest.mark.slow
@pytest.mark.parametrize("then", [b"", NOTICE * 100], ids=["silent", "notices"])
def test_a_server_that_lets_in_and_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: bytes
) -> None:
    with false_server(LETS_IN, then=then) as (port, _):
        place = place_at(tmp_path / "ws", monkeypatch, "storage", "127.0.0.1", port)
        with pytest.raises(HiveError, match="lets in, and answers nothing"):
            connect(place, "storage")
