"""A small knowledge base for tests, and the functions that change it.

Fixtures, each in the test's own folder:

- `workspace`: documents, one collection, three configs; never indexed, with the real embedding model.
- `text_workspace`: the same with `models.embedding = "none"`, for tests that need no vectors; indexes in milliseconds.
- `indexed`: a copy of `workspace` whose index is built; the way to search with vectors without embedding anything.

Functions (`from tests.conftest import write_config`): `make_workspace`, `write_document`, `write_config`,
`config_json`. Configs in every workspace: `v1` (hybrid), `words` (keyword), `meaning` (vector).
"""

from __future__ import annotations

import gc
import json
import shutil
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer
from hypothesis import HealthCheck, settings

from hive_agents import Workspace
from hive_agents.documents import DocumentFolder
from hive_agents.ranking import build_index
from hive_agents.store import connected

# Typer puts the command line together anew for every call, 60 ms of computing; tests call `hive` by the thousand.
typer.main.get_command = cache(typer.main.get_command)

# A busy machine takes its time; how long an example may take is nobody's promise.
settings.register_profile("untimed", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of each later collection of garbage: they stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return the argument's name for bytes that aren't text: compressed, signed or drawn at collection.

    Two workers must name a test alike, and such bytes, and their length, can hold the second in which they were made.
    """
    return None if not isinstance(val, bytes) or val.isascii() else argname


COLLECTION: dict[str, Any] = {
    "name": "kb",
    "fields": {
        "title": {"type": "text"},
        "category": {"type": "keyword", "filterable": True},
        "status": {"type": "keyword", "filterable": True},
        "labels": {"type": "keyword", "filterable": True},
        "effective": {"type": "date", "filterable": True},
        "version": {"type": "number", "filterable": True},
        "public": {"type": "boolean", "filterable": True},
        "owner": {"type": "keyword"},
        "content": {"type": "text"},
    },
    "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
}

DOCUMENTS = {
    "faqs/rotate-key.md": """---
title: How do I rotate an API key?
status: effective
effective: 2025-03-01
version: 2
public: true
labels: [auth, keys]
---
Open Settings, create a second key, deploy it, then revoke the first one. Both keys work for a day.
""",
    "faqs/lost-key.md": """---
title: I lost my API key
status: draft
effective: 2025-06-15
version: 1.5
public: true
labels: [auth]
---
A lost key can't be shown again. Revoke it and create a new one; requests with the old key fail at once.
""",
    "guides/webhooks.md": """---
status: effective
effective: 2024-11-30
version: 3
public: false
labels: [events, retries]
---
# Webhooks

A webhook tells your server that a run has finished.

## Retries

A delivery that fails is tried again five times, each time after twice the pause. Answer with status 200.

## Signatures

Every request carries a signature. Compute the HMAC of the body with your secret and compare.
""",
    "guides/centrifuge.md": """---
title: Balancing the centrifuge
status: effective
effective: 2025-01-10
version: 1
owner: dana
---
Place tubes of equal weight opposite each other. An unbalanced rotor stops the run with alarm 14.
""",
    "guides/pipettes.md": """---
title: Calibrating pipettes
status: retired
effective: 2023-02-01
version: 1
public: false
owner: kim
---
Pipettes are calibrated every six months with distilled water on a balance.
""",
    "reference/errors.md": """---
title: Error codes
version: 3
---
| code | meaning |
|---|---|
| 401 | the API key is wrong or revoked |
| 429 | too many requests |
""",
    "reference/limits.md": """# Rate limits

A workspace may send 100 requests a minute. Beyond it the answer is 429 and a pause to wait.
""",
    "welcome.md": """---
title: Welcome
---
This knowledge base describes the laboratory's instruments and the programming interface.
""",
}


def config_json(name: str, method: str = "hybrid", **blocks: Any) -> dict[str, Any]:
    """A config's JSON; `blocks` replace top-level keys, and `retrieval` is merged into the defaults."""
    retrieval = {"method": method, "top_k": 10, "rrf_k": 60} | blocks.pop("retrieval", {})
    return {"name": name, "collection": "kb", "retrieval": retrieval, **blocks}


def write_config(workspace: Workspace, name: str, method: str = "hybrid", **blocks: Any) -> Path:
    """Write `configs/<name>.json` and return its path."""
    path = workspace.configs / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config_json(name, method, **blocks), indent=2), encoding="utf-8")
    return path


def write_document(workspace: Workspace, doc_id: str, text: str) -> Path:
    """Write `documents/<doc_id>` and return its path."""
    path = workspace.documents / doc_id
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def make_workspace(root: Path, *, embedding: bool = True, documents: dict[str, str] = DOCUMENTS) -> Workspace:
    """A workspace in `root` with `documents`, the collection `kb` and three configs; nothing is indexed."""
    (root / "collections").mkdir(parents=True)
    (root / "documents").mkdir()
    (root / "collections" / "kb.json").write_text(json.dumps(COLLECTION, indent=2), encoding="utf-8")
    if not embedding:
        (root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
    workspace = Workspace(root)
    for doc_id, text in documents.items():
        write_document(workspace, doc_id, text)
    for name, method in {"v1": "hybrid", "words": "keyword", "meaning": "vector"}.items():
        write_config(workspace, name, method)
    return workspace


@pytest.fixture(scope="session", autouse=True)
def _machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """This machine's key and what is trusted on it are kept apart from those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIVE_HOME", str(tmp_path_factory.mktemp("machine")))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--storage",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="where workspaces keep their records: with the index, or in a schema for each test of a real server",
    )


@pytest.fixture(scope="session")
def _records_server(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.config.getoption("--storage") == "sqlite":
        yield None
        return
    from tests.real_engines import postgres

    with postgres() as server:
        yield server.url


_namespaces: list[str] = []
_EMPTY = """
    DO $$
    DECLARE found record; filled boolean;
    BEGIN
        FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = '{0}'
            AND tablename NOT IN ('schema_version', 'checkpoint_migrations')
        LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM {0}.%I)', found.tablename) INTO filled;
            IF filled THEN EXECUTE format('TRUNCATE {0}.%I RESTART IDENTITY CASCADE', found.tablename); END IF;
        END LOOP;
        FOR found IN SELECT sequencename FROM pg_sequences WHERE schemaname = '{0}' AND last_value IS NOT NULL
        LOOP
            EXECUTE format('ALTER SEQUENCE {0}.%I RESTART', found.sequencename);
        END LOOP;
    END $$
"""


@pytest.fixture(autouse=True)
def _records(
    _records_server: str | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A schema for the test; the next one has it, emptied, where this one left nobody at work in it."""
    if _records_server is None:
        yield
        return
    if request.node.get_closest_marker("sqlite_file"):
        pytest.skip("holds only where the records are files of this host")
    import psycopg

    namespace = _namespaces.pop() if _namespaces else f"t{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("HIVE_STORAGE__URL", _records_server)
    monkeypatch.setenv("HIVE_STORAGE__NAMESPACE", namespace)
    yield
    with psycopg.connect(_records_server, autocommit=True) as connection:
        connection.execute(b"SET lock_timeout = '1s'")
        try:
            connection.execute(_EMPTY.format(namespace).encode())
        except psycopg.Error:
            return
    _namespaces.append(namespace)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "ws")


@pytest.fixture
def text_workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path / "text", embedding=False)


@pytest.fixture(scope="session")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = make_workspace(tmp_path_factory.mktemp("built") / "ws")
    build_index(built)
    with connected(built.database) as records:
        records.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # a copy that is damaged has no second one in its log
    return built.root


@pytest.fixture
def indexed(_built: Path, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(_built, tmp_path / "indexed", symlinks=True))


def settle(workspace: Workspace) -> None:
    """Let the index know the files as if they had been written long before it read them."""
    with connected(workspace.database) as connection, patch("hive_agents.documents.documents.COARSEST", -(10**18)):
        DocumentFolder(workspace, connection).remember()
