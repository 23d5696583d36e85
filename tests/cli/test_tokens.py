"""`HIVE_TOKEN` on every command that starts, steers or deploys something: its holder asks, and nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.ranking import versions
from hive_agents.ranking.config import point_active
from hive_agents.runs import RunStore
from tests.agents.conftest import GOAL, agent_json, write_json
from tests.cli.test_run import ASK, INPUT, command, script, sets
from tests.cli.test_runs import PEOPLE
from tests.conftest import make_workspace
from tests.people import token_of
from tests.sample import copied_sample, write_config

TRIGGER = {"id": "nightly", "type": "cron", "agent": "digest", "schedule": "0 2 * * *", "input": {"topic": "bees"}}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = make_workspace(tmp_path / "ws", embedding=False)
    write_json(place, "goals/digest.json", GOAL)
    write_json(place, "agents/digest.json", agent_json())
    write_json(place, "access/people.json", PEOPLE)
    write_json(place, "triggers/nightly.json", TRIGGER)
    point_active(place, place.configs / "words.json")
    script(place, sets("items", [1]), sets("text", "bees"))
    return place


def hold(monkeypatch: pytest.MonkeyPatch, place: Workspace, user: str, *roles: str, tenant: str = "acme") -> None:
    holder = Principal(tenant, user, frozenset(), frozenset(roles or ("reader",)))
    monkeypatch.setenv("HIVE_TOKEN", token_of(place, holder))


CHANGES: list[tuple[Any, ...]] = [
    ("trigger", "add", "weekly", "--agent", "digest", "--cron", "0 2 * * 1", "--input", '{"topic": "bees"}'),
    ("trigger", "list"),
    ("trigger", "fire", "nightly"),
    ("trigger", "remove", "nightly"),
    ("deploy", "v1"),
    ("deploy", "v1", "--override", "--reason", "because"),
    ("rollback",),
    ("optimize", "--iterations", "1"),
]


@pytest.mark.parametrize("arguments", CHANGES, ids=lambda one: "-".join(one[:2]))
@pytest.mark.parametrize(("given", "code"), [("a reader", "HIVE-415"), ("", "HIVE-417"), ("x.y.z", "HIVE-417")])
def test_a_reader_or_a_refused_token_changes_nothing(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, ...], given: str, code: str
) -> None:
    if given == "a reader":
        hold(monkeypatch, place, "dana")
    else:
        monkeypatch.setenv("HIVE_TOKEN", given)
    before = sorted(path.read_bytes() for path in place.root.glob("*/*.json"))
    ran = command(place, *arguments, "--json")
    assert ran.codes == {code}
    assert RunStore(place).list() == []
    assert sorted(path.read_bytes() for path in place.root.glob("*/*.json")) == before


def test_an_operators_deployment_and_rollback_bear_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied_sample(tmp_path / "w")
    write_config(place, "same")
    hold(monkeypatch, place, "kim", "operator")
    assert command(place, "deploy", "same", "--allow-inconclusive").code == 0
    assert command(place, "rollback").code == 0
    made = [one for one in versions(place) if one.decision != "first"]
    assert len(made) == 2
    assert {(one.by, one.authn) for one in made} == {("user:kim", "token")}


def test_a_run_is_resumed_only_by_who_may_steer_it(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    script(place, ASK, sets("items", [1]), sets("text", "bees"))
    hold(monkeypatch, place, "dana")
    run = command(place, "run", "digest", *INPUT, "--json").json["run_id"]
    assert RunStore(place).get(run).user == "dana"
    for user, tenant, roles in (("amy", "acme", "approver"), ("eve", "globex", "admin")):
        hold(monkeypatch, place, user, roles, tenant=tenant)
        ran = command(place, "run", "--resume", run, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-409"}), user
    for user, role in (("dana", "reader"), ("kim", "operator")):
        hold(monkeypatch, place, user, role)
        assert command(place, "run", "--resume", run, "--json").json["status"] == "waiting", user
    monkeypatch.setenv("HIVE_TOKEN", "")
    assert command(place, "run", "--resume", run, "--json").codes == {"HIVE-417"}
    assert command(place, "run", "digest", *INPUT, "--json").codes == {"HIVE-417"}


def test_a_trigger_of_another_tenant_is_as_unknown_as_none(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(place, "access/services.json", {"principals": {"service:nightly": {"tenant": "acme"}}})
    hold(monkeypatch, place, "eve", "operator", tenant="globex")
    assert command(place, "trigger", "list", "--json").json["triggers"] == []
    for verb in ("fire", "remove"):
        hidden, missing = (command(place, "trigger", verb, id, "--json") for id in ("nightly", "nobodys"))
        assert (hidden.code, hidden.out) == (2, missing.out.replace("nobodys", "nightly"))
    add = ("trigger", "add", "mine", "--agent", "digest", "--every", "60", "--input", '{"topic": "bees"}', "--json")
    assert command(place, *add, "--run-as", "service:nightly").codes == {"HIVE-415"}
    assert command(place, *add).code == 0
    hold(monkeypatch, place, "kim", "operator")
    assert command(place, "trigger", "fire", "nightly", "--json").code == 0
    assert [(run.tenant, run.user) for run in RunStore(place).list()] == [("acme", "service:nightly")]


def test_another_tenants_optimization_is_resumed_by_nobody_else(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result, over what its owner may view, was shown to the operators of every tenant."""
    kim = Principal("acme", "kim", roles=frozenset({"operator"}))
    value = {"golden": None, "deploy": False, "settings": {}}
    run, _ = RunStore(place).insert("optimizer", value, owner=kim, status="queued")
    hold(monkeypatch, place, "eve", "operator", tenant="globex")
    other = command(place, "optimize", "--resume", run.run_id, "--json")
    missing = command(place, "optimize", "--resume", "r-missing", "--json")
    assert (other.code, other.codes) == (missing.code, missing.codes) == (2, {"HIVE-409"})
    assert other.out.replace(run.run_id, "r-missing") == missing.out
    assert RunStore(place).get(run.run_id).status == "queued"
