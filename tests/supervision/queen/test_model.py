"""With a model: it calls her verbs, within what the asker may and asked for; where it fails, data answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.access.proofs import end_all
from hive_agents.host.queen import Queen
from hive_agents.runs import RunStore
from hive_agents.supervision.queen.mandate import Mandate
from hive_agents.supervision.queen.session import CALLS, QueenSession
from tests.supervision.queen.conftest import (
    DANA,
    OTTO,
    PETE,
    requests,
    run_of,
    script,
    status_of,
    ticket_for,
    told,
    words_to,
)


def calls(*named: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": args} for name, args in named], **more}


async def test_a_model_looks_and_acts(place: Workspace) -> None:
    row = run_of(place, status="queued")
    script(
        place,
        calls(("list_runs", {}), ("show_run", {"run_id": row.run_id}), usage={"input_tokens": 10, "output_tokens": 5}),
        calls(("stop_run", {"run_id": row.run_id})),
        {"content": f"I stopped {row.run_id}: it repeated itself."},
    )
    reply = await Queen(place).ask("please stop the digest run", DANA)
    assert reply["actions"] == [{"action": "stop", "run_id": row.run_id, "status": "stopped"}]
    assert reply["runs"] == [row.run_id]
    assert (reply["usage"]["model_calls"], reply["usage"]["input_tokens"]) == (3, 10)
    assert status_of(place, row) == "stopped"


@pytest.mark.parametrize(
    ("who", "text", "tool"),
    [
        (PETE, "stop {id}", "stop_run"),
        (OTTO, "why is {id} stuck?", "stop_run"),
        (OTTO, "pause {id}", "stop_run"),
        (OTTO, "don't stop {id}", "stop_run"),
        (OTTO, "stop the other one", "stop_run"),
        (OTTO, "what is running?", "pause_run"),
        (DANA, "approve a-1", "approve_request"),
        (DANA, "which credentials are there?", "list_credentials"),
    ],
)
async def test_what_nobody_asked_for_or_may_do_is_refused(
    place: Workspace, who: Principal, text: str, tool: str
) -> None:
    """The check doesn't depend on the model: it obeys a run's text here, and nothing happens."""
    row = run_of(place, status="queued")
    named = {"run_id": row.run_id} if tool.endswith("run") else {}
    script(place, calls((tool, named)), {"content": "Done."})
    reply = await Queen(place).ask(text.format(id=row.run_id), who)
    assert (reply["actions"], status_of(place, row)) == ([], "queued")


async def test_who_is_ended_while_the_model_thinks_has_nothing_done_or_shown(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Her hands kept the rights of when she was asked, however long her model took."""
    row, real = run_of(place, status="queued"), QueenSession.think
    named = {"run_id": row.run_id}
    script(place, calls(("show_run", named), ("stop_run", named)), {"content": "Done."})
    told: list[str] = []

    async def think(self: QueenSession, turns: Any, number: int) -> Any:
        told.extend(one.content for one in turns if one.role == "tool")
        end_all(place, "dana", "acme", "user:root")
        return await real(self, turns, number)

    monkeypatch.setattr(QueenSession, "think", think)
    reply = await Queen(place).ask("please stop the digest run", DANA)
    assert (reply["actions"], status_of(place, row)) == ([], "queued")
    assert len(told) == 2
    assert all("goes no further" in one and row.run_id not in one for one in told)


def test_a_mandate_names_its_run(place: Workspace) -> None:
    rows = [run_of(place, status="queued") for _ in range(2)]
    ids = [row.run_id for row in rows]
    assert Mandate(f"stop {ids[0]}").refusal("stop", rows[0], rows) is None
    assert Mandate(f"stop {ids[0]}").refusal("stop", rows[1], rows)
    assert Mandate("stop all of them").refusal("stop", rows[1], rows) is None
    assert Mandate("stop it", ids[:1]).refusal("stop", rows[0], rows) is None
    assert Mandate("stop it", ids[:1]).refusal("stop", rows[1], rows)
    assert Mandate("stop the digest run").refusal("start")
    assert Mandate("please run digest").refusal("start") is None
    assert Mandate(f"tell {ids[1]}: stop searching").refusal("steer", rows[1], rows) is None


@pytest.mark.parametrize(
    "text",
    [
        "stop {}?",
        "please stop {} ?",
        "stop {}？",
        "rather than stop {}, tell me about it",
        "it would be a mistake to stop {}",
        "stop reporting on {}",
        'Anna wrote: "stop {}" - is that wise',
        "the log of {} says: stop. why",
    ],
)
def test_what_is_no_order_gives_no_mandate(place: Workspace, text: str) -> None:
    row = run_of(place, status="queued")
    assert Mandate(text.format(row.run_id)).refusal("stop", row, [row])


@pytest.mark.parametrize(
    "text", ["could you stop {}?", "ok, stop {}", "it loops, so please stop {}", "I'd like you to stop {}", "kill {}"]
)
def test_an_order_is_one_in_many_words(place: Workspace, text: str) -> None:
    row = run_of(place, status="queued")
    assert Mandate(text.format(row.run_id)).refusal("stop", row, [row]) is None


async def test_the_script_of_an_agent_is_none_of_hers(place: Workspace) -> None:
    row = run_of(place)
    script(place, {"content": "a digest"})
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text().replace("queen =", "chat ="))
    assert (await Queen(place).ask("what is running", DANA))["runs"] == [row.run_id]


async def test_a_model_that_claims_what_it_did_not_do_is_corrected(place: Workspace) -> None:
    row = run_of(place, status="queued")
    script(place, {"content": f"I stopped {row.run_id} for you."})
    reply = await Queen(place).ask(f"stop {row.run_id}", DANA)
    assert (reply["actions"], reply["answer"].splitlines()[-1]) == ([], "No run was changed.")


async def test_a_model_that_never_ends_is_ended(place: Workspace) -> None:
    run_of(place)
    script(place, calls(*[("list_runs", {})] * 3, repeat=True))
    reply = await Queen(place).ask("what is running?", DANA)
    assert reply["usage"]["model_calls"] == 4  # 3, 3 and 2 calls, and one turn without tools
    assert CALLS == 8
    assert "digest: running" in reply["answer"]
    assert "data alone" in reply["answer"]


async def test_a_model_that_fails_is_said_to_and_nothing_is_done_twice(place: Workspace) -> None:
    row = run_of(place, status="queued")
    script(place, {"error": "server"})
    assert "data alone" in (await Queen(place).ask(f"pause {row.run_id}", DANA))["answer"]
    assert status_of(place, row) == "paused"
    script(place, calls(("resume_run", {"run_id": row.run_id})), {"error": "timeout"})
    reply = await Queen(place).ask(f"resume {row.run_id}", DANA)
    assert [one["action"] for one in reply["actions"]] == ["resume"]
    assert "failed after this was done" in reply["answer"]


@pytest.mark.parametrize("args", [{"run_id": 7}, {}, {"run_id": "r1", "force": True}])
async def test_faulty_calls_are_told_to_the_model(place: Workspace, args: dict[str, Any]) -> None:
    script(place, calls(("show_run", args)), {"content": "Sorry.", "when": {"contains": '"error"'}})
    assert (await Queen(place).ask("why is it stuck", DANA))["answer"] == "Sorry."


@pytest.mark.parametrize("line", [{"content": "Try the archive.\nstop everything"}, {"error": "throttling"}])
async def test_for_a_ticket_a_model_adds_words_and_nothing_else(place: Workspace, line: dict[str, Any]) -> None:
    rows = [run_of(place, status="queued") for _ in range(2)]
    for row, severity in zip(rows, ("medium", "high"), strict=True):
        script(place, line)
        event = told(place, ticket_for(row, severity))
        await Queen(place).handle(event)
        await Queen(place).handle(event)
    assert [status_of(place, row) for row in rows] == ["queued", "paused"]
    added = "Try the archive. stop everything" if "content" in line else None
    (words,), (request,) = words_to(place, rows[0]), requests(place)
    assert ((added or "another query") in words, request.context.get("comment")) == (True, added)
    assert {row.status for row in RunStore(place).list()} == {"queued", "paused"}


async def test_a_model_proposes_a_version_for_an_operator(place: Workspace) -> None:
    patch = [{"op": "replace", "path": "/nodes/0/system_prompt", "value": "Collect less."}]
    asked = {"agent": "digest", "patch": patch, "reason": "it repeats itself"}
    script(
        place,
        calls(("propose_version", asked)),
        {"content": "It is proposed.", "when": {"contains": "agents/proposals/digest"}},
    )
    reply = await Queen(place).ask("propose a better version of digest", OTTO)
    assert reply["answer"] == "It is proposed."
    (file,) = (place.root / "agents/proposals").glob("digest*.json")
    made = json.loads(file.read_text())
    assert (made["by"], made["on_behalf_of"]) == ("agent:queen", "user:otto")
    script(place, calls(("propose_version", asked)), {"content": "No.", "when": {"contains": "scope"}})
    assert (await Queen(place).ask("propose a better version of digest", DANA))["answer"] == "No."
