"""What an agent remembers from run to run: only what a person let in, and gone with the run that it came from."""

from __future__ import annotations

from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolRegistry
from hive_agents.agents.run import AgentRun
from hive_agents.host import delete_run
from hive_agents.memory import AcceptedNotes
from tests.agents.conftest import node, write_json
from tests.agents.loops import Told, agent, said, sets, start, words
from tests.sample import Ran, hive

SPEC = agent(node("collect", output_keys=["items"]), memory={"adapt": "user"})
ITEMS = [sets("items", ["T1 was refunded"])]


@pytest.fixture
def noting(place: Workspace) -> Workspace:
    write_json(place, "agents/digest.json", SPEC.to_json())
    return place


def memory(place: Workspace, *arguments: object) -> Ran:
    return hive("agents", "memory", *arguments, "-w", place.root, "--json")


def ran(place: Workspace, model: Told) -> AgentRun:
    run = start(place, SPEC, model)
    assert run.go()["status"] == "done"
    return run


def system(model: Told) -> str:
    return model.prompts[0][0].content


def test_what_a_run_noted_waits_until_a_person_lets_it_in(noting: Workspace) -> None:
    first = ran(noting, said(ITEMS))
    shown = memory(noting, "show", "digest").json
    assert shown["notes"] == []
    assert [one["run_id"] for one in shown["proposals"]] == [first.run_id]
    second = said(ITEMS)
    ran(noting, second)
    assert "T1 was refunded" not in system(second)
    assert memory(noting, "accept", "digest", first.run_id, "--as", "dana").code == 0
    (note,) = memory(noting, "show", "digest").json["notes"]
    assert (note["run_id"], note["by"], "T1 was refunded" in note["text"]) == (first.run_id, "user:dana", True)
    third = said(ITEMS)
    ran(noting, third)
    assert "T1 was refunded" in system(third)
    assert "accepted by user:dana" in system(third)


def test_notes_can_be_written_changed_and_forgotten(noting: Workspace) -> None:
    assert memory(noting, "edit", "digest", "--text", "be brief", "--as", "dana").code == 0
    assert (
        memory(noting, "edit", "digest", "1", "--text", "be kind", "--as", "dana").json["notes"][0]["text"] == "be kind"
    )
    assert memory(noting, "edit", "digest", "2", "--text", "no").code == 2
    assert memory(noting, "clear", "digest").json["removed"] == 1
    assert memory(noting, "show", "digest").json["notes"] == []


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ("run", ["accept", "digest", "RUN"]),
        ("run", ["edit", "digest", "--text", "x"]),
        ("thread", ["edit", "digest", "--text", "x"]),
        ("user", ["accept", "digest", "RUN", "--thread", "t1"]),
    ],
)
def test_a_note_that_no_run_would_begin_with_is_refused(place: Workspace, kept: str, words: list[str]) -> None:
    spec = agent(node("collect", output_keys=["items"]), memory={"adapt": kept})
    write_json(place, "agents/digest.json", spec.to_json())
    run = start(place, spec, said(ITEMS))
    run.go()
    refused = memory(place, *(run.run_id if word == "RUN" else word for word in words))
    assert (refused.code, refused.json["diagnostics"][0]["code"]) == (2, "HIVE-409")


def test_what_a_thread_noted_is_accepted_for_the_runs_of_that_thread(place: Workspace) -> None:
    spec = agent(node("collect", output_keys=["items"]), memory={"adapt": "thread"})
    write_json(place, "agents/digest.json", spec.to_json())
    first = start(place, spec, said(ITEMS), thread_id="t1")
    first.go()
    assert memory(place, "accept", "digest", first.run_id).json["thread"] == "t1"
    same, other = said(ITEMS), said(ITEMS)
    start(place, spec, same, thread_id="t1").go()
    start(place, spec, other, thread_id="t2").go()
    assert ("T1 was refunded" in system(same), "T1 was refunded" in system(other)) == (True, False)


def test_a_run_that_is_deleted_takes_its_notes_with_it(noting: Workspace) -> None:
    first = ran(noting, said(ITEMS))
    memory(noting, "accept", "digest", first.run_id)
    memory(noting, "edit", "digest", "--text", "be brief")
    delete_run(noting, first.run_id)
    notes = AcceptedNotes(noting, tenant="local", agent_id="digest", of="local").all()
    assert [note.text for note in notes] == ["be brief"]
    assert memory(noting, "show", "digest").json["proposals"] == []


def test_nobody_reads_another_persons_notes(noting: Workspace) -> None:
    people: dict[str, Any] = {
        "tenants": {"acme": {"admins": ["user:root"]}},
        "principals": {name: {"tenant": "acme", "groups": [], "roles": ["reader"]} for name in ("dana", "sam")},
    }
    write_json(noting, "access/principals.json", people)
    assert memory(noting, "edit", "digest", "--text", "mine", "--as", "dana").code == 0
    assert memory(noting, "show", "digest", "--as", "dana").json["notes"][0]["text"] == "mine"
    assert memory(noting, "show", "digest", "--as", "sam").json["notes"] == []
    asked = memory(noting, "show", "digest", "--user", "dana", "--as", "sam")
    assert asked.json["diagnostics"][0]["code"] == "HIVE-415"


@pytest.mark.parametrize("name", ["save_data", "edit_data"])
def test_files_are_written_as_the_policy_allows(noting: Workspace, name: str) -> None:
    arguments = {"filename": "adapt.md", "text": "x"} if name == "save_data" else {
        "filename": "adapt.md", "old": "## Outputs", "new": "## Outputs\n- pay: me"}  # fmt: skip
    model = said([(name, arguments)], ITEMS)
    spec = SPEC.model_copy(update={"tool_policy": agent(tool_policy=[{"match": "*", "decision": "deny"}]).tool_policy})
    run = start(noting, spec, model, tools=ToolRegistry())
    assert run.go()["status"] == "done"
    assert any(f"there is no {name} here" in one for one in words(run))
    assert "pay: me" not in model.prompts[-1][0].content
