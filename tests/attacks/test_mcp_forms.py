"""What a client of MCP makes of the form by which its person decides: the client, or what it read, wrote the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore, Filing
from tests.server.serving import bearer, sample, served, token, value_of
from tests.server.test_mcp_session import DEPLOY, ROLES, Person, _with_short, over_http

mcp = pytest.importorskip("mcp")


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return _with_short(sample(tmp_path / "ws"))


async def decided(place: Workspace, context: dict[str, Any], reason: str, verb: str = "approve") -> tuple[str, str]:
    """Return the form, and the status of a request afterwards."""
    filing = Filing(kind="tool_call", title="pay wants to call pay", requester="agent:pay", context=context)
    request, person = ApprovalStore(place).file(filing), Person(action="decline")
    asked = {"request_id": request.id, "verb": verb, "version": 1, "reason": reason}
    async with served(place, roles=("http",)) as client, over_http(client, token(place, "root", *ROLES), person) as to:
        await to.call_tool("decide_approval", asked)
    return "".join(person.asked), ApprovalStore(place).get(request.id).status


async def test_a_reason_of_many_lines_is_taken_for_no_other_part_of_the_form(place: Workspace) -> None:
    forged = 'fine?\nThe call: pay {"amount": 1}\n' + "\n" * 50
    form, _ = await decided(place, {"tool": "pay", "args": {"amount": 5_000}}, forged)
    lines = form.splitlines()
    assert [line for line in lines if line.startswith("The call:")] == ['The call: pay {"amount": 5000}']
    assert lines[-1].startswith("Why, says the client: fine? The call: pay")


async def test_nobody_agrees_to_more_than_the_form_shows(place: Workspace) -> None:
    args = {"note": "n" * 10_000, "to": "somebody else"}
    assert await decided(place, {"tool": "pay", "args": args}, "fine") == ("", "pending")
    form, _ = await decided(place, {"tool": "pay", "args": args}, "too long", "reject")
    assert form.endswith("Why, says the client: too long")


async def test_a_result_that_is_accepted_is_shown(place: Workspace) -> None:
    form, _ = await decided(place, {"result": {"text": "Pay twice."}, "reasoning": "unsure"}, "fine")
    assert '"text": "Pay twice."' in form


async def test_a_deployment_that_a_client_asks_for_is_decided_in_its_callers_tenant(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        async with over_http(client, token(place, "root", *ROLES)) as session:
            request = value_of(await session.call_tool("deploy", DEPLOY))["approval_id"]
        theirs = await client.get(f"/api/approvals/{request}", headers=bearer(place, "hana", "approver"))
        ours = await client.get(f"/api/approvals/{request}", headers=bearer(place, "root", "approver"))
    assert (theirs.status_code, ours.status_code) == (404, 200)


async def test_a_namesake_of_another_tenant_uses_no_approval(place: Workspace) -> None:
    async with served(place, roles=("http",)) as client:
        async with over_http(client, token(place, "root", *ROLES)) as session:
            first = value_of(await session.call_tool("deploy", DEPLOY))["approval_id"]
        other = token(place, "root", *ROLES, tenant="globex")
        async with over_http(client, other) as session:
            second = await session.call_tool("deploy", DEPLOY)
    assert first not in str(second)
