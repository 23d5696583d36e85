"""`hive credentials` as people meet it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.cli.main import main

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


class Stdin(io.TextIOWrapper):
    """Standard input that holds these bytes, and is no terminal."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


@pytest.fixture
def place(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", KEY)
    return text_workspace.root


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_value_comes_from_stdin_and_is_never_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"hunter2\n"))
    assert called(capsys, "credentials", "set", "github", "--value-stdin", "-w", str(place))[0] == 0
    assert called(capsys, "credentials", "list", "-w", str(place)) == (0, {"credentials": [{"name": "github"}]})
    assert "hunter2" not in (place / ".hive" / "credentials.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("stdin", "options", "code", "exit_code"),
    [(b"\xff\xfe hunter2", ["--value-stdin"], "HIVE-112", 2), (b"", [], "HIVE-409", 2)],
)
def test_what_cannot_be_a_value_is_refused_without_saying_it(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stdin: bytes,
    options: list[str],
    code: str,
    exit_code: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(stdin))
    ended, told = called(capsys, "credentials", "set", "github", *options, "-w", str(place))
    assert ended == exit_code
    assert f'"{code}"' in json.dumps(told)
    assert "hunter2" not in json.dumps(told)


def test_a_reader_has_no_credentials_to_see_or_change(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minted = called(capsys, "token", "--user", "ann", "--tenant", "acme", "-w", str(place))[1]["token"]
    monkeypatch.setenv("HIVE_TOKEN", str(minted))
    for command in (["list"], ["delete", "github"]):
        ended, told = called(capsys, "credentials", *command, "-w", str(place))
        assert ended == 1
        assert '"HIVE-415"' in json.dumps(told)
