"""PostgreSQL by TLS, with a real server: who is taken for it, and what is told of one that isn't."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.engines.postgres import open_database
from hive_agents.store import connected
from hive_agents.store.database import disconnect
from hive_agents.workspace.trusted import trust
from tests.conftest import make_workspace
from tests.real_engines import Postgres, postgres, postgres_with_tls
from tests.tls import Authority

pytest.importorskip("psycopg")
pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


@dataclass(frozen=True)
class Servers:
    """One with a good certificate for localhost, and one whose certificate has expired."""

    good: Postgres
    expired: Postgres
    known: Path
    unknown: Path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    programs = postgres_with_tls()
    if programs is None:
        pytest.skip("no PostgreSQL with TLS on this machine")
    folder = tmp_path_factory.mktemp("certificates")
    ours, other = Authority(folder, "ours"), Authority(folder, "other")
    late = ours.issue("localhost", days=-1)
    with postgres(programs, certificate=ours.issue("localhost")) as good, postgres(programs, certificate=late) as old:
        yield Servers(good, old, ours.file, other.file)


def at(root: Path, section: str, host: str, server: Postgres, options: str) -> Workspace:
    place = make_workspace(root, embedding=False, documents={})
    with (root / "hive.toml").open("a", encoding="utf-8") as file:
        file.write(
            f'[{section}]\nurl = "postgresql://hive@{host}:{server.port}/postgres?sslmode=verify-full{options}"\n'
        )
    trust(Workspace(root))
    return Workspace(place.root)


def connect(place: Workspace, section: str) -> None:
    if section == "vectors":
        open_database(place).connect().close()
        return
    with connected(place.records) as connection:
        row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    disconnect(place.records)
    assert row[0]


@pytest.mark.parametrize("section", ["storage", "vectors"])
def test_a_server_whose_certificate_is_in_order_is_used(servers: Servers, tmp_path: Path, section: str) -> None:
    connect(at(tmp_path / "ws", section, "localhost", servers.good, f"&sslrootcert={servers.known}"), section)


@pytest.mark.parametrize("section", ["storage", "vectors"])
@pytest.mark.parametrize(
    ("case", "told", "fix"),
    [
        ("another host", "does not match host name", "name the server in the url as its certificate does"),
        ("expired", "certificate verify failed", "has expired"),
        ("unknown authority", "certificate verify failed", "sslrootcert=FILE"),
        ("no authority", "root certificate file", "sslrootcert=FILE"),
    ],
)
def test_another_one_is_told_with_what_helps(
    servers: Servers, tmp_path: Path, section: str, case: str, told: str, fix: str
) -> None:
    host = "127.0.0.1" if case == "another host" else "localhost"
    server = servers.expired if case == "expired" else servers.good
    authority = {"unknown authority": servers.unknown, "no authority": tmp_path / "none.pem"}.get(case, servers.known)
    place = at(tmp_path / "ws", section, host, server, f"&sslrootcert={authority}")
    with pytest.raises(HiveError) as refused:
        connect(place, section)
    (found,) = refused.value.diagnostics
    assert found.code == {"storage": "HIVE-403", "vectors": "HIVE-434"}[section]
    assert (told in found.message, fix in str(found.fix)) == (True, True), found
    assert found.file
