"""What happens to a document, or to a right, while a request that was let in waits for others to write."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal, mint, revoke
from hive_agents.access.tokens import verify
from hive_agents.host import DocumentImports
from hive_agents.host.imports import DocumentImport
from hive_agents.runs import control, leases_of
from hive_agents.server import documents
from hive_agents.sync.editing import change_fields, delete_document
from hive_agents.sync.importing import import_documents
from tests.server.serving import bearer, sample, served

TEXTS = {"dana": b"# Wages\n\nNothing yet.\n", "root": b"# Wages\n\nThe secret sum is 4711.\n"}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    """The sample, where dana is an operator."""
    place = sample(tmp_path / "ws")
    people = place.root / "access" / "principals.json"
    listed = json.loads(people.read_text())
    listed["principals"]["dana"]["roles"] = ["operator", "reader"]
    people.write_text(json.dumps(listed))
    return place


@pytest.fixture
async def client(place: Workspace) -> AsyncIterator[httpx.AsyncClient]:
    async with served(place, roles=("http",)) as client:
        yield client


def who_may_view(place: Workspace, text: str) -> list[str]:
    found = [path.read_text() for path in (place.root / "documents").glob("wages*.md")]
    return [line for one in found if text in one for line in one.splitlines() if "user:" in line]


def added(place: Workspace, user: str) -> DocumentImport:
    labels = {"tenant": "acme", "view": [f"user:{user}"]}
    files = [("wages.md", TEXTS[user])]
    return DocumentImports(place).add(known_principal(place, user), f"user:{user}", files, labels=labels, chosen=True)


def carried_out(place: Workspace, made: DocumentImport) -> DocumentImport:
    lease = leases_of(place).acquire(f"import:{made.import_id}", made.import_id)
    assert lease is not None
    DocumentImports(place).carry_out(made.import_id, lease, threading.Event())
    return DocumentImports(place).get(made.import_id)


@pytest.mark.parametrize("order", [("dana", "root"), ("root", "dana")])
def test_a_file_that_waits_is_not_taken_by_the_next_of_its_name(place: Workspace, order: tuple[str, str]) -> None:
    """Two files of one name were one original: the first import read the second one's text with its own labels, so that
    an operator read what a colleague uploaded for others, and the other way round replaced it."""
    seen: set[tuple[str, str]] = set()
    for made in [added(place, user) for user in order]:
        carried_out(place, made)
        seen |= {(user, line) for user, text in TEXTS.items() for line in who_may_view(place, text.decode())}
    assert seen == {("dana", "- user:dana"), ("root", "- user:root")}


def test_who_uploads_again_while_it_waits_replaces_their_own_file(place: Workspace) -> None:
    assert [added(place, "root").files[0].doc_id for _ in range(2)] == ["wages.md", "wages.md"]


@pytest.mark.parametrize("taken", ["view", "role", "proof", "document"])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_change_of_a_document_that_waited_counts_by_the_rights_of_when_it_is_written(
    place: Workspace, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, method: str, taken: str
) -> None:
    """Whoever held a change back by an import of their own kept what was taken from them meanwhile, or changed the
    document of another tenant that has the name by now."""
    path, people = place.root / "documents" / "wages.md", place.root / "access" / "principals.json"
    path.write_text("---\ntenant: acme\nview: [tenant]\n---\n\n# Wages\n")
    who = bearer(place, "dana", "operator", "reader")
    assert (await client.get("/api/documents", params={"search": "wages"}, headers=who)).json()["documents"]
    after = path.read_text()

    def meanwhile(*given: Any) -> Any:
        """What another one does while the change waits for the lock."""
        nonlocal after
        if taken == "view":
            path.write_text("---\ntenant: acme\nview: ['user:alice']\n---\n\n# Wages\n")
        elif taken == "document":
            path.write_text("---\ntenant: globex\nview: [tenant]\n---\n\n# Theirs\n")
        elif taken == "role":
            listed = json.loads(people.read_text())
            listed["principals"]["dana"]["roles"] = ["reader"]
            people.write_text(json.dumps(listed))
        else:
            control.end_person(place, "dana", "acme", "user:root")
        after = path.read_text()
        return (change_fields if method == "PATCH" else real)(*given)

    real = documents.document_deleted
    if method == "PATCH":
        monkeypatch.setattr(documents.editing, "change_fields", meanwhile)
    else:
        monkeypatch.setattr(documents, "document_deleted", meanwhile)
    body = {"json": {"grants": ["user:dana"]}} if method == "PATCH" else {}
    answer = await client.request(method, "/api/documents/wages.md", headers=who, **body)
    assert answer.status_code in (401, 403, 404)
    assert path.read_text() == after


def test_what_may_not_be_done_is_asked_before_each_write(place: Workspace) -> None:
    path = place.root / "documents" / "wages.md"
    path.write_text("# Wages\n")

    def refuse() -> None:
        raise PermissionError

    with pytest.raises(PermissionError):
        change_fields(place, "wages.md", {"view": ["tenant"]}, refuse)
    with pytest.raises(PermissionError):
        delete_document(place, "wages.md", refuse)
    assert path.read_text() == "# Wages\n"


@pytest.mark.parametrize("taken", ["view", "role", "entry", "token", "proof"])
def test_an_upload_that_waited_counts_by_the_rights_of_when_it_is_carried_out(place: Workspace, taken: str) -> None:
    """What was let in became a document with readers of its sender's choice, also where the sender was ended, or lost
    the role or the document that it replaces, before a host came to it."""
    path, people = place.root / "documents" / "wages.md", place.root / "access" / "principals.json"
    listed = json.loads(people.read_text())
    carried_out(place, added(place, "dana"))
    token = mint(place, known_principal(place, "dana"))
    sender = verify(place, token.token)
    files, labels = [("wages.md", b"# Wages\n\nFrom now on for everybody.\n")], {"tenant": "acme", "view": ["tenant"]}
    made = DocumentImports(place).add(sender, "user:dana", files, labels=labels, chosen=True)
    if taken == "view":
        change_fields(place, "wages.md", {"view": ["user:alice"]})
    elif taken == "role":
        listed["principals"]["dana"]["roles"] = ["reader"]
    elif taken == "entry":
        del listed["principals"]["dana"]
    elif taken == "token":
        revoke(place, token.jti)
    else:
        control.end_person(place, "dana", "acme", "user:root")
    people.write_text(json.dumps(listed))
    before = path.read_text()
    done = carried_out(place, made)
    assert (done.status, path.read_text()) == ("failed", before)
    assert "no longer" in (done.files[0].message or "") or "goes no further" in (done.files[0].message or "")
    assert import_documents(place).changed == [], "what was refused comes in by no later import"
