"""Real engines for the tests of exports: found on this machine, started for a while, or a reason why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def _postgres_programs() -> Path | None:
    """The folder of a PostgreSQL's programs that knows vectors."""
    spec = find_spec("pgserver")
    bundled = [Path(spec.origin).parent / "pginstall" / "bin"] if spec and spec.origin else []
    for programs in [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *bundled]:
        share = programs.parent / "share" / "postgresql"
        debian = Path("/usr/share/postgresql") / programs.parent.name
        if any((folder / "extension" / "vector.control").is_file() for folder in (share, debian)):
            return programs
    return None


class Postgres:
    """A server on a socket in a folder of its own, as a user who isn't root."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)

    def _run(self, program: str, *arguments: object, text: str = "") -> str:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self._folder)}
        ran = subprocess.run(
            [str(self._programs / program), *map(str, arguments)],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            user=self._user,
            cwd=self._folder,
            env=environment,
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        return ran.stdout

    def start(self) -> None:
        data = self._folder / "data"
        self._run("initdb", "-D", data, "-U", "hive", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8", "-N")
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        self._run("pg_ctl", "-D", data, "-o", options, "-l", self._folder / "log", "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "-w", "stop")

    def run(self, sql: str, *settings: str) -> str:
        connection = ("-h", self._folder, "-U", "hive", "-d", "postgres")
        return self._run("psql", *connection, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *settings, text=sql)

    def ask(self, function: str, questions: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """The rows of each question; its parameters are bound as text, as a driver would."""
        calls = []
        for values in questions:
            given = [f"asked => {_text(values.get('query', ''))}", f"reader => {_texts(values['reader'])}"]
            if "embedding" in values:
                given.append(f"meant => '{json.dumps(values['embedding'])}'")
            rows = f"SELECT * FROM hive.{function}({', '.join(given)}) ORDER BY 1"
            calls.append(f"SELECT coalesce(json_agg(found), '[]')::text FROM ({rows}) AS found;")
        # Aggregates of rows are written over several lines.
        lines = self.run("\n".join(calls), "-R", "\x1e").split("\x1e") if calls else []
        found, decoder, rest = [], json.JSONDecoder(), "".join(lines).strip()
        while rest:
            rows, end = decoder.raw_decode(rest)
            found.append(rows)
            rest = rest[end:].strip()
        return found


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, values))}]::text[]"


@contextmanager
def postgres() -> Iterator[Postgres]:
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL with pgvector on this machine")
    folder = Path(tempfile.mkdtemp(prefix="hive-pg-", dir="/tmp"))
    server = Postgres(programs, folder)
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
