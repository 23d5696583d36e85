"""What a person approved is deployed once, whoever carries it out again, and whatever served since."""

from __future__ import annotations

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalRequest, ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents.gate.approved import deploy_approved, deployed_for
from hive_agents.ranking import find_active, versions
from tests.conftest import write_config
from tests.sample import hive
from tests.topics import NO_FAQS, indexed_engine, write_golden


@pytest.fixture
def approved(topics: Workspace) -> ApprovalRequest:
    """`twin` is no better than `careful`, which serves; a person wants it all the same, and another one agrees."""
    write_golden(topics)
    indexed_engine(topics)
    write_config(topics, "twin", "keyword", filters=NO_FAQS, description="an equal")
    assert hive("deploy", "careful", "-w", topics.root, "--json").code == 0
    asked = hive("deploy", "twin", "--override", "--reason", "we know", "-w", topics.root, "--json").json
    store = ApprovalStore(topics)
    store.decide(asked["approval_id"], "approve", by="dana")
    return store.get(asked["approval_id"])


def carried_out(place: Workspace, request: ApprovalRequest) -> int:
    return deploy_approved(place, request.id, request.context, request.decisions[-1].model_dump()).id


def test_a_request_that_is_carried_out_again_makes_no_second_version(
    topics: Workspace, approved: ApprovalRequest
) -> None:
    assert deployed_for(topics, approved.id) is None
    first = carried_out(topics, approved)
    assert carried_out(topics, approved) == first
    assert [one.name for one in versions(topics)] == ["twin", "careful"]


def test_a_request_that_is_carried_out_again_undoes_no_rollback(topics: Workspace, approved: ApprovalRequest) -> None:
    """A process that died in between, or an optimizer that goes on after a restart, comes later than people."""
    first = carried_out(topics, approved)
    assert hive("rollback", "-w", topics.root, "--json").json["deployed"] == "careful"
    assert carried_out(topics, approved) == first
    active = find_active(topics)
    assert active is not None
    assert active.stored.name == "careful"


def test_a_config_that_was_changed_since_is_not_deployed(topics: Workspace, approved: ApprovalRequest) -> None:
    write_config(topics, "twin", "keyword", filters=NO_FAQS, description="another one")
    with pytest.raises(HiveError) as error:
        carried_out(topics, approved)
    assert error.value.diagnostics[0].code == "HIVE-307"
