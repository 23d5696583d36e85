"""Bodies that cost more than they are long: forms with files, and those that anybody may send."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib import parse

import pytest
from starlette.requests import Request

from hive_agents import HiveError
from hive_agents.access import owner
from hive_agents.host import imports
from hive_agents.server.app import ROUTES
from hive_agents.server.documents import Upload
from hive_agents.server.forms import LONGEST_HEAD, LONGEST_TEXT, MOST_PARTS, form
from tests.server.serving import sample, served

FILE = b'Content-Disposition: form-data; name="file"; filename="lamp.md"'
FIELDS = b'Content-Disposition: form-data; name="fields"'
REQUEST = Request({"type": "http", "headers": [(b"content-type", b"multipart/form-data; boundary=b")]})


def body(*parts: tuple[bytes, bytes]) -> bytes:
    return b"".join(b"--b\r\n" + head + b"\r\n\r\n" + data + b"\r\n" for head, data in parts) + b"--b--\r\n"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"--b\r\n" * 300_000 + b"--b--\r\n", "it has more than 500 parts"),
        (b"--b" + b"\r\n--b" * 300_000, "it has more than 500 parts"),
        (body((b"a: b\r\n" * 300_000 + FILE, b"x")), "the head of a part has more than 16,384 bytes"),
        (body((FILE + b"a: b\r\n" * 300_000, b"x")), "the head of a part has more than 16,384 bytes"),
        (body((FILE[:-1] + b"a" * 2_000_000 + b'"', b"x")), "the head of a part has more than 16,384 bytes"),
        (b"--b\r\n" + b"a" * 2_000_000 + b"\r\n--b--\r\n", "the head of a part has more than 16,384 bytes"),
        (body((FIELDS, b"[" * 2_000_000), (FILE, b"x")), "fields has more than 1,000,000 bytes"),
    ],
)
def test_a_form_is_refused_before_anything_that_has_no_end_is_read(sent: bytes, why: str) -> None:
    read: list[int] = []

    class Parser:
        def parsestr(self, head: str) -> dict[str, str]:
            read.append(len(head))
            return {"content-disposition": head.partition(": ")[2]}

    with patch("hive_agents.server.forms.HeaderParser", Parser), pytest.raises(HiveError, match=why):
        form(Upload, REQUEST, sent)
    assert sum(read) < 100_000


def test_a_form_of_as_many_parts_as_may_be_is_read() -> None:
    found = form(Upload, REQUEST, body(*((FILE, b"x" * (LONGEST_TEXT + 1)) for _ in range(3)), (FIELDS, b'{"a": "b"}')))
    assert (len(found.file), found.fields) == (3, {"a": "b"})
    assert len(form(Upload, REQUEST, body(*[(FILE, b"x")] * MOST_PARTS)).file) == MOST_PARTS
    head = FILE + b"\r\nX: " + b"a" * (LONGEST_HEAD - len(FILE) - 100)
    assert form(Upload, REQUEST, body((head, b"x"))).file == [("lamp.md", b"x")]


def test_files_of_one_name_are_looked_up_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, looked = sample(tmp_path / "ws"), []
    found = imports.editing.outcome_of

    def outcome_of(workspace: Any, path: Path) -> Any:
        looked.append(path)
        return found(workspace, path)

    monkeypatch.setattr(imports.editing, "outcome_of", outcome_of)
    made = imports.DocumentImports(place).add(owner(), "user:me", [("same.md", b"# Lamp")] * 30)
    assert len({one.path for one in made.files}) == len(looked) == 30


async def test_no_form_that_anybody_may_send_is_read_on_the_thread_that_serves_all(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    threads: list[int] = []
    parse_qs = parse.parse_qs

    def seen(*given: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return parse_qs(*given, **named)

    forms = [route.path for route in ROUTES if "POST" in (route.methods or ()) and not route.path.startswith("/api/")]
    media = {"Content-Type": "application/x-www-form-urlencoded"}
    async with served(place, roles=("http",)) as client:
        with patch("urllib.parse.parse_qs", seen):
            statuses = [
                (
                    await client.post(
                        path.format(request_id="a", trigger="a", agent="a"), content=b"a=%41", headers=media
                    )
                ).status_code
                for path in forms
            ]
        long = await client.post("/login", content=b"a=%41" * 20_000, headers=media)
    assert len(threads) > 8
    assert threading.get_ident() not in threads
    assert max(statuses) < 500
    assert (long.status_code, long.json()["code"]) == (413, "HIVE-115")
