"""Two pairs of eyes are two people's: whoever made the token that says who decides is behind it, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, Principal, local_user, mint, owner, same_hands
from hive_agents.access.logins import begin_session, login_code, session_of_token
from hive_agents.access.tokens import verify
from hive_agents.approvals import ApprovalStore, Approvers, filed_by, log
from hive_agents.host import decide
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.judging.learning.stages import RuleBook
from hive_agents.judging.requests import ask_for_rule
from hive_agents.server.auth import COOKIE, CSRF, csrf_of
from hive_agents.store import audit
from tests.access.conftest import write_access
from tests.approvals.asking import filing, refused
from tests.judging.test_mining import line
from tests.judging.test_stages import MINER, proposal
from tests.records import alter_json
from tests.sample import Ran, hive, write_config
from tests.server.serving import bearer, sample, served

EVERY_ROLE = frozenset({"reader", "approver", "operator", "admin"})
OWNER = local_user()
OWNER_NAME = OWNER.removeprefix("user:")


def held(place: Workspace, user: str, maker: Principal | None = None, tenant: str = "acme") -> Principal:
    """Return who holds a token that `maker` made, or the workspace's owner."""
    return verify(place, mint(place, Principal(tenant, user, roles=EVERY_ROLE), maker=maker).token)


def decider(place: Workspace, user: str, maker: Principal | None = None, tenant: str = "acme") -> dict[str, Any]:
    """Return the arguments of `ApprovalStore.decide` for the holder of such a token."""
    token = mint(place, Principal(tenant, user, roles=EVERY_ROLE), maker=maker).token
    return Asker(place, None, {"HIVE_TOKEN": token}).decider().named()


def four_eyes(place: Workspace, requester: str, principal: Principal | None = None) -> str:
    """Return the id of a request for which four eyes are needed."""
    asked = filing(requester=requester, context={"golden": True}, **filed_by(principal))
    return ApprovalStore(place).file(asked).id


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (["user:root"], ["user:root"], True),
        (["user:root"], ["user:dana", "user:root"], True),
        (["user:root"], ["user:dana", "user:kim", "user:root"], True),
        (["user:ann", "owner:ann"], ["user:dana", "owner:ann"], True),
        (["user:root"], ["user:dana", "user:ＲＯＯＴ"], True),
        (["user:root"], ["user:dana", "Root"], True),
        (["agent:worker", "user:root"], ["user:dana", "user:root"], True),
        (["user:kim", "user:root"], ["user:root"], True),
        (["user:kim", "user:root"], ["user:dana", "user:root"], True),
        (["user:root"], ["user:dana", "owner:root"], False),
        (["user:kim"], ["user:dana", "user:root", "owner:ann"], False),
        (["agent:worker"], ["user:worker"], False),
    ],
)
def test_who_may_be_behind_both(first: list[str], second: list[str], one: bool) -> None:
    assert same_hands(first, second) == one


def test_the_owners_signature_is_no_link_between_two_people(place: Workspace) -> None:
    """Whoever gives everybody a token is not everybody; what the owner does in person is another matter."""
    kim = held(place, "kim")
    assert filed_by(kim) == {"tenant": "acme", "makers": []}
    assert filed_by(owner()) == {"makers": [f"owner:{OWNER_NAME}"]}
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=2))).id
    approvals.decide(request, "approve", **Asker(place, None, {}).decider().named())
    with refused("HIVE-414"):
        approvals.decide(request, "approve", **decider(place, "dana"))
    assert approvals.decide(request, "approve", by="dana").status == "approved"


def test_the_owner_in_person_is_no_second_person_after_a_token_of_theirs(place: Workspace) -> None:
    """Whichever of the two agreed first."""
    approvals = ApprovalStore(place)
    in_person = [Asker(place, None, {}).decider().named(), by_link(place, None)]
    for who in in_person:
        request = approvals.file(filing(approvers=Approvers(min=2))).id
        approvals.decide(request, "approve", **decider(place, "dana"))
        with refused("HIVE-414"):
            approvals.decide(request, "approve", **who)
        assert approvals.decide(request, "approve", **decider(place, "eve")).status == "approved"


def test_nobody_decides_by_a_token_that_they_made_what_they_asked_for(place: Workspace) -> None:
    """Whatever the length of the chain, and whichever of the two tokens they made."""
    lee, approvals = held(place, "lee"), ApprovalStore(place)
    kim = held(place, "kim", lee)
    asked, by_kim = four_eyes(place, "user:lee", lee), four_eyes(place, "user:kim", kim)
    for request, who in [
        (asked, decider(place, "dana", lee)),
        (asked, decider(place, "dana", kim)),
        (asked, decider(place, "dana", held(place, "ＬＥＥ"))),
        (by_kim, decider(place, "lee")),
        (by_kim, decider(place, "dana", lee)),
    ]:
        with refused("HIVE-415"):
            approvals.decide(request, "approve", **who)
        with refused("HIVE-415"):
            approvals.delegate(request, to="eve", **{name: who[name] for name in ("by", "authn", "tenant", "makers")})
    with refused("HIVE-415"):  # nor by whom they hand it to
        approvals.delegate(by_kim, by="eve", to="lee")
    for request in (asked, by_kim):
        assert approvals.decide(request, "approve", **decider(place, "dana")).status == "approved"


def test_what_needs_no_four_eyes_may_be_decided_by_whoever_has_the_token(place: Workspace) -> None:
    lee = held(place, "lee")
    request = ApprovalStore(place).file(filing(requester="user:lee", kind="question", **filed_by(lee))).id
    assert ApprovalStore(place).decide(request, "approve", **decider(place, "dana", lee)).status == "approved"


def test_a_token_of_the_one_who_agreed_is_no_second_person(place: Workspace) -> None:
    """A rule for all types of goals holds for security goals, too, and takes two people."""
    dana, approvals = held(place, "dana"), ApprovalStore(place)
    DecisionLog(place).load(line(n, {"code": "eval(x)"}, "retry", tenant="acme") for n in range(2))
    proposed = proposal(goal_type="code")
    proposed = proposed.model_copy(update={"proposed_rule": proposed.proposed_rule | {"goal_types": []}})
    rule = RuleBook(place).propose(proposed, MINER)
    request = ask_for_rule(place, rule)
    assert request.approvers.min == 2
    decide(place, request.id, "approve", **decider(place, "dana"))
    with refused("HIVE-414"):
        decide(place, request.id, "approve", **decider(place, "eve", dana))
    assert (approvals.get(request.id).status, RuleBook(place).get(rule.id).stage) == ("pending", "proposed")
    decide(place, request.id, "approve", **decider(place, "finn"))
    assert RuleBook(place).get(rule.id).stage == "shadow"


def test_whose_token_another_made_may_still_reject(place: Workspace) -> None:
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=2))).id
    approvals.decide(request, "approve", **decider(place, "dana"))
    assert approvals.decide(request, "reject", **decider(place, "eve", held(place, "dana"))).status == "rejected"


def test_who_made_the_token_is_told_with_the_decision(place: Workspace) -> None:
    """In the row, in the audit log, and for a plain name, which is the local user's word."""
    approvals, dana = ApprovalStore(place), decider(place, "dana", held(place, "lee"))
    first = approvals.decide(approvals.file(filing()).id, "approve", **dana).decisions[0]
    assert (first.tenant, first.jti, first.maker) == ("acme", dana["jti"], "user:lee")
    assert first.jti
    told = list(audit.entries(place, log.KIND))[-1]["changes"]["decisions"][0]
    assert (told["by"], told["tenant"], told["jti"], told["maker"]) == ("user:dana", "acme", first.jti, "user:lee")
    local = Asker(place, "dana", {}).decider().named()
    second = approvals.decide(approvals.file(filing()).id, "approve", **local).decisions[0]
    assert (second.by, second.authn, second.jti, second.maker) == ("user:dana", "local", None, OWNER)


def test_decisions_of_earlier_releases_are_read(place: Workspace) -> None:
    """Neither their rows nor the lines of the log name tenant, id and maker."""
    approvals = ApprovalStore(place)
    request = approvals.decide(approvals.file(filing()).id, "approve", **decider(place, "dana"))
    entries = [dict(one) for one in log.histories(place)[request.id]]
    new = {"tenant", "jti", "maker", "makers"}
    for value in [one for entry in entries for one in entry["changes"].get("decisions", [])]:
        for name in new:
            del value[name]
    old = request.model_dump(mode="json", exclude={"makers"})
    old["decisions"] = [{name: part for name, part in one.items() if name not in new} for one in old["decisions"]]
    read = log.standing(type(request).model_validate(old), entries)
    assert (read.status, read.hash, read.decisions[0].maker) == ("approved", request.hash, None)


def test_the_makers_cannot_be_taken_out_of_a_row(place: Workspace) -> None:
    request = four_eyes(place, "user:kim", held(place, "kim", held(place, "lee")))
    alter_json(place, "approvals", "request", lambda found: found.pop("makers"))
    with refused("HIVE-413"):
        ApprovalStore(place).decide(request, "approve", **decider(place, "lee"))


def approve(place: Workspace, request: str, *arguments: str) -> Ran:
    return hive("approvals", "approve", request, *arguments, "-w", place.root, "--json")


def test_the_owner_who_asks_can_not_sign_a_second_person(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token says more than a plain name, which may still decide where names are believed, and is told as such."""
    write_access(place, "people.json", {"principals": {"dana": {"tenant": "acme", "roles": ["approver"]}}})
    first, second = four_eyes(place, OWNER, owner()), four_eyes(place, OWNER, owner())
    signed = hive("token", "--user", "dana", "-w", place.root, "--json").json["token"]
    with monkeypatch.context() as environ:
        environ.setenv("HIVE_TOKEN", signed)
        ran = approve(place, first)
    assert (ran.code, ran.codes) == (1, {"HIVE-415"})
    assert "sign in" in ran.json["diagnostics"][0]["fix"]
    assert approve(place, second, "--as", "dana").json["authn"] == "local"


def by_link(place: Workspace, user: str | None) -> dict[str, Any]:
    """Return the arguments of `ApprovalStore.decide` for the browser session of a link that the owner made."""
    return Asker.of(place, begin_session(place, login_code(place, user))).decider().named()


def test_the_owner_who_asks_can_not_sign_in_as_a_second_person(place: Workspace) -> None:
    """Whoever made the link is behind its session; what others ask for is theirs to decide by it."""
    write_access(place, "people.json", {"principals": {"dana": {"tenant": "acme", "roles": ["approver"]}}})
    approvals, dana, own = ApprovalStore(place), by_link(place, "dana"), by_link(place, None)
    assert (dana["by"], dana["authn"], dana["makers"]) == ("user:dana", "local", (f"owner:{OWNER_NAME}",))
    assert (own["by"], own["makers"], own["maker"]) == (OWNER, (f"owner:{OWNER_NAME}",), OWNER)
    asked = four_eyes(place, OWNER, owner())
    for who in (dana, own):
        with refused("HIVE-415"):
            approvals.decide(asked, "approve", **who)
        with refused("HIVE-415"):
            approvals.delegate(asked, to="eve", **{name: who[name] for name in ("by", "authn", "tenant", "makers")})
    other = approvals.decide(four_eyes(place, "user:kim", held(place, "kim")), "approve", **dana)
    decision = other.decisions[0]
    assert (other.status, decision.jti, decision.maker) == ("approved", dana["jti"], OWNER)
    assert decision.jti


def test_a_request_is_handed_to_nobody_of_another_tenant(place: Workspace) -> None:
    people = {"hana": {"tenant": "globex", "roles": ["approver"]}, "dana": {"tenant": "acme", "roles": ["approver"]}}
    write_access(place, "people.json", {"principals": people})
    approvals = ApprovalStore(place)
    request = approvals.file(filing(tenant="acme")).id
    for to in ("hana", "user:Hana"):
        with refused("HIVE-415"):
            approvals.delegate(request, by="ann", to=to)
    assert [one.to for one in approvals.delegate(request, by="ann", to="dana").delegations] == ["user:dana"]
    own = approvals.file(filing()).id
    assert approvals.delegate(own, by="ann", to="hana").delegations


def test_a_link_of_the_one_who_agreed_is_no_second_person(place: Workspace) -> None:
    write_access(place, "people.json", {"principals": {"dana": {"tenant": "acme", "roles": ["approver"]}}})
    approvals = ApprovalStore(place)
    request = approvals.file(filing(approvers=Approvers(min=2))).id
    approvals.decide(request, "approve", **by_link(place, None))
    with refused("HIVE-414"):
        approvals.decide(request, "approve", **by_link(place, "dana"))


@pytest.mark.parametrize("lee_asks", [True, False])
def test_the_makers_of_a_token_are_behind_its_session_too(place: Workspace, lee_asks: bool) -> None:
    lee = held(place, "lee")
    asked = four_eyes(place, "user:lee", lee) if lee_asks else four_eyes(place, OWNER, owner())
    token = mint(place, Principal("acme", "dana", roles=EVERY_ROLE), maker=lee if lee_asks else None).token
    dana = Asker.of(place, session_of_token(place, token)).decider()
    with refused("HIVE-415"):
        ApprovalStore(place).decide(asked, "approve", **dana.named())


async def test_a_page_offers_no_answer_to_the_owner_by_another_name(tmp_path: Path) -> None:
    place = sample(tmp_path / "w")
    asked, other = four_eyes(place, OWNER, owner()), four_eyes(place, "user:kim")
    async with served(place, roles=("http",)) as client:
        for user in ("dana", None):
            client.cookies.clear()
            await client.get("/login", params={"code": login_code(place, user)})
            for request, offered in ((asked, False), (other, True)):
                page = await client.get(f"/approvals/{request}")
                assert page.status_code == 200
                assert ('href="#answer"' in page.text) == offered, (user, request)


async def test_a_session_of_a_link_reads_and_decides_as_the_person_whom_it_names(tmp_path: Path) -> None:
    place = sample(tmp_path / "w")
    (place.documents / "theirs.md").write_text("---\ntenant: globex\nview: tenant\n---\n# Theirs\n\nText.\n")
    approvals = ApprovalStore(place)
    asked = [filing(tenant=tenant, title=tenant) for tenant in ("acme", "globex", "local")]
    theirs, other, own = (approvals.file(one).id for one in asked)
    quoting = approvals.file(filing(tenant="acme", title="quoting", context={"documents": ["theirs.md"]})).id
    async with served(place, roles=("http",)) as client:
        dana, anybody = (begin_session(place, login_code(place, user)) for user in ("dana", None))
        cookies = {session: {"Cookie": f"{COOKIE}={session}", CSRF: csrf_of(session)} for session in (dana, anybody)}
        listed = {}
        for session, headers in cookies.items():
            found = (await client.get("/api/approvals", headers=headers)).json()
            listed[session] = {one["title"] for one in found["items"]}
            assert found["waiting"] == len(listed[session])
        assert listed == {dana: {"acme", "local", "quoting"}, anybody: {"acme", "globex", "local", "quoting"}}
        statuses = {}
        for request in (theirs, other, own, quoting):
            body = {"verb": "approve"}
            path = f"/api/approvals/{request}/decide"
            statuses[request] = (await client.post(path, json=body, headers=cookies[dana])).status_code
        assert statuses == {theirs: 200, other: 404, own: 200, quoting: 403}
        shown = (await client.get(f"/api/approvals/{quoting}", headers=cookies[dana])).json()["request"]
        assert shown["context"]["documents"] == []
        delegated = await client.post(
            f"/api/approvals/{quoting}/delegate", json={"to": "hana"}, headers=cookies[dana]
        )  # fmt: skip
        assert (delegated.status_code, delegated.json()["code"]) == (403, "HIVE-415")


async def test_an_admin_alone_can_not_override_the_gate_over_http(tmp_path: Path) -> None:
    """Neither by a token of somebody else, nor by their own, nor can an admin of another tenant help."""

    async def decided(client: httpx.AsyncClient, request: str, headers: dict[str, str]) -> httpx.Response:
        return await client.post(f"/api/approvals/{request}/decide", json={"verb": "approve"}, headers=headers)

    place = sample(tmp_path / "w")
    write_config(place, "same", retrieval={"method": "keyword"})
    root = bearer(place, "root")
    async with served(place, roles=("http",)) as client:
        body = {"config": "same", "override": True, "reason": "we know"}
        found = await client.post("/api/deploy", json=body, headers=root)
        assert found.json().get("approval_id"), found.text
        asked = found.json()["approval_id"]
        makers = [root]
        for user in ("vera", "dana"):
            roles = {"user": user, "roles": ["approver", "admin"]}
            made = (await client.post("/api/tokens", json=roles, headers=makers[-1])).json()["token"]
            makers.append({"Authorization": f"Bearer {made}"})
        for headers in makers:
            found = await decided(client, asked, headers)
            assert (found.status_code, found.json()["code"]) == (403, "HIVE-415"), found.text
        elsewhere = await decided(client, asked, bearer(place, "hana"))
        assert elsewhere.status_code == 404, elsewhere.text
        request = (await client.get(f"/api/approvals/{asked}", headers=root)).json()["request"]
        assert (request["tenant"], request["status"], request["decisions"]) == ("acme", "pending", [])
        found = await decided(client, asked, bearer(place, "dana"))
        assert (found.status_code, found.json()["status"]) == (200, "approved"), found.text
