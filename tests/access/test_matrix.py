"""Who may do what: each row of the table in `docs/access.md`, through the door that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, Principal, ViewGate, known_principal, local_user, mint, owner, service_principal
from hive_agents.access.logins import begin_session, login_code
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.ranking import build_index
from hive_agents.ranking.config import point_active
from hive_agents.runs import AGENT_GRAPH, RunStore, Scope
from hive_agents.server.auth import COOKIE, CSRF, csrf_of
from hive_agents.workspace.trusted import trust
from tests.access.conftest import write_access
from tests.approvals.asking import filing
from tests.conftest import make_workspace, write_config
from tests.server.serving import SETTINGS, served

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
DOCUMENTS = {
    "acme.md": "---\ntenant: acme\nview: tenant\n---\n# Acme\n\nText.\n",
    "globex.md": "---\ntenant: globex\nview: tenant\n---\n# Globex\n\nText.\n",
}
TENANTS = ("acme", "globex", "local")
ROLES = ("reader", "approver", "operator", "admin")
SERVICE = "service:nightly"
PEOPLE = {name: {"tenant": "acme", "roles": [name]} for name in ROLES} | {
    SERVICE: {"tenant": "acme", "roles": list(ROLES)},
}
RUNS = [("local", "local"), ("globex", "hana"), *(("acme", user) for user in (*ROLES, SERVICE, "other"))]


class Row(NamedTuple):
    """A row of the table; the cells after `by` say what is allowed."""

    who: str
    by: str
    reads: str
    runs: str
    operates: str
    asks: str
    decides: str
    administers: str

    @property
    def user(self) -> str | None:
        """The name in `access/*.json`; None for the owner and for nobody."""
        last = self.who.split()[-1]
        return {"owner": None, "named": None, "nobody": None, "service": SERVICE}.get(last, last)


TABLE = PAGE.read_text(encoding="utf-8").partition("<!-- matrix -->")[2].strip().partition("\n\n")[0].splitlines()
MATRIX = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in TABLE[2:]]
HTTP = ("bearer token", "session")
ON_THE_COMMAND_LINE = [row for row in MATRIX if row.by not in HTTP]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("matrix") / "ws", embedding=False, documents=DOCUMENTS)
    with (made.root / "hive.toml").open("a") as settings:
        settings.write(SETTINGS + '[access]\nmode = "open"\nuntil_named = true\n')
    place = Workspace(made.root)
    write_config(place, "v1", "keyword")
    point_active(place, place.configs / "v1.json")
    build_index(place)
    for tenant, user in RUNS:
        principal = None if tenant == "local" else Principal(tenant, user)
        RunStore(place).insert(AGENT_GRAPH, {}, agent="digest", owner=principal, status="done")
    return place


@pytest.fixture
def people(place: Workspace) -> Workspace:
    write_access(place, "people.json", {"tenants": {"acme": {}, "globex": {}}, "principals": PEOPLE})
    trust(place)
    return place


def signed(place: Workspace, row: Row) -> str:
    """Return the token, or the session of a link, that the row's person holds."""
    if row.by == "session":
        return begin_session(place, login_code(place, row.user))
    return mint(place, known_principal(place, str(row.user))).token if row.user is not None else ""


def reads(seen: Iterable[str]) -> str:
    return {frozenset(DOCUMENTS): "everything", frozenset({"acme.md"}): "tenant"}.get(frozenset(seen), "nothing")


def runs(users: set[str], user: str | None) -> str:
    if "hana" in users:
        return "every tenant"
    return "no" if not users else "own" if users == {user} else "tenant"


def decides(tenants: Iterable[str]) -> str:
    words = {TENANTS: "every tenant", ("acme", "local"): "tenant", ("local",): "workspace", (): "no"}
    return words[tuple(sorted(tenants))]


def requests(place: Workspace) -> dict[str, str]:
    """File a request of each tenant, and return their ids by tenant."""
    return {tenant: ApprovalStore(place).file(filing(tenant=tenant)).id for tenant in TENANTS}


def asks(asker: Asker, user: str | None) -> str:
    try:
        name = asker.requester()
    except HiveError:
        return "no"
    own = local_user() if user is None else user if ":" in user else f"user:{user}"
    return "as themselves" if name == own else name


def worked(call: Callable[[], Any]) -> bool:
    try:
        call()
    except HiveError:
        return False
    return True


def through(asker: Asker, place: Workspace, row: Row) -> Row:
    """Return the row as the functions behind every command have it."""

    def viewed() -> frozenset[str]:
        return ViewGate.of(place, asker.reader()).allowed(list(DOCUMENTS))

    def reached() -> set[str]:
        return {run.user for run in Scope(asker.caller().principal).runs(place)}

    def decided(request: str) -> bool:
        return worked(lambda: ApprovalStore(place).decide(request, "approve", **asker.decider().named()))

    return row._replace(
        reads=reads(viewed() if worked(viewed) else ()),
        runs=runs(reached() if worked(reached) else set(), row.user),
        operates="yes" if worked(lambda: asker.operator("measure")) else "no",
        asks=asks(asker, row.user),
        decides=decides(tenant for tenant, request in requests(place).items() if decided(request)),
        administers="workspace" if worked(lambda: asker.require_role("use credentials", "admin")) else "no",
    )


@pytest.mark.parametrize("row", ON_THE_COMMAND_LINE, ids=lambda row: f"{row.who} by {row.by}")
def test_on_the_command_line(people: Workspace, row: Row) -> None:
    if row.who.endswith("nobody is named"):
        (people.root / "access" / "people.json").unlink()
    environ = {"HIVE_TOKEN": signed(people, row)} if row.by == "HIVE_TOKEN" else {}
    named = row.user if row.by == "--as" else None
    assert through(Asker(people, named, environ), people, row) == row


async def over_http(client: httpx.AsyncClient, place: Workspace, row: Row) -> Row:
    """Return the row as a server has it."""
    proof = signed(place, row)
    headers = {"Authorization": f"Bearer {proof}"} if row.by == "bearer token" and proof else {}
    if row.by == "session":
        headers = {"Cookie": f"{COOKIE}={proof}", CSRF: csrf_of(proof)}

    async def sent(method: str, path: str, **how: Any) -> httpx.Response:
        return await client.request(method, path, headers=headers, **how)

    seen = [name for name in DOCUMENTS if (await sent("GET", f"/api/documents/{name}")).status_code == 200]
    listed = await sent("GET", "/api/runs", params={"limit": 100})
    users = {RunStore(place).get(run["run_id"]).user for run in listed.json().get("runs", [])}
    answer = {"verb": "approve"}
    answered = {
        tenant: await sent("POST", f"/api/approvals/{request}/decide", json=answer)
        for tenant, request in requests(place).items()
    }
    tokens = [tenant for tenant in ("acme", "globex") if (
        await sent("POST", "/api/tokens", json={"user": "kim", "tenant": tenant})
    ).status_code == 201]  # fmt: skip
    return row._replace(
        reads=reads(seen),
        runs=runs(users, row.user),
        operates="yes" if (await sent("GET", "/api/history")).status_code == 200 else "no",
        asks=asks(Asker.of(place, proof), row.user),
        decides=decides(tenant for tenant, found in answered.items() if found.status_code == 200),
        administers={2: "every tenant", 1: "tenant", 0: "no"}[len(tokens)],
    )


async def test_over_http(people: Workspace) -> None:
    async with served(people, roles=("http",)) as client:
        found = [await over_http(client, people, row) for row in MATRIX if row.by in HTTP]
    assert found == [row for row in MATRIX if row.by in HTTP]


def test_a_service_that_runs_unattended_has_what_the_files_give_it(people: Workspace) -> None:
    """`run_as` is no proof either: triggers name it, and only whoever may write them does."""
    assert service_principal(people, "nightly") == known_principal(people, SERVICE)
    unknown = service_principal(people, "weekly")
    assert (unknown.tenant, unknown.roles) == ("local", frozenset())
    assert not ViewGate.of(people, unknown).allowed(list(DOCUMENTS))


def test_the_owner_views_nothing_by_being_the_owner(people: Workspace) -> None:
    """Where people are named, every role of the owner opens no document: a session of theirs shows none by accident."""
    assert not ViewGate.of(people, owner()).allowed(list(DOCUMENTS))


def test_each_way_in_has_its_rows() -> None:
    ways = {(row.by, row.who.split()[-1]) for row in MATRIX}
    tokens = {(by, role) for by in ("HIVE_TOKEN", *HTTP, "--as") for role in ROLES}
    others = {("command line", "owner"), ("command line", "named"), ("session", "owner"), ("--as", "stranger")}
    without_a_person = {(by, who) for by in ("HIVE_TOKEN", "bearer token") for who in ("service", "nobody")}
    assert ways == tokens | others | without_a_person
