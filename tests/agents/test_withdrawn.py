"""A right that is taken away while a run is open: the next turn, the next effect and every log line know it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, mint, revoke
from hive_agents.access.tokens import verify
from hive_agents.agents import RunLog, ToolRegistry
from hive_agents.agents.bundled import bundled_tools
from hive_agents.agents.run import AgentRun
from hive_agents.approvals import WITHHELD, ApprovalStore, Filing
from hive_agents.base.errors import HiveError, RightsWithdrawn
from hive_agents.judging.decision_log import DecisionLog
from hive_agents.models import ChatResult, Message, Tool
from hive_agents.runs import RunStore
from tests.agents.conftest import GOAL, node, write_json
from tests.agents.loops import Told, agent, goal, say, sets, start
from tests.conftest import write_document
from tests.leaks.corpus import Doc, canaries, canary, make
from tests.people import token_of
from tests.sample import Ran, hive

WORDS = ("rotor", "pump", "beaker", "lamp", "valve")
DANA = Principal("acme", "dana", frozenset({"qa"}), frozenset({"reader", "operator"}))
KIM = Principal("acme", "kim", frozenset(), frozenset({"reader", "operator", "approver"}))
SECRET = "body of the secret zqb00001x"


def doc(number: int, folder: str, view: tuple[str, ...] = ()) -> Doc:
    return Doc(number, f"{folder}/{canary('p', number)}.md", ("acme",), view, "effective", WORDS, "t", "mei")


BY_VIEW, BY_GRANT, OPEN = doc(1, "lost", ("group:qa",)), doc(2, "granted"), doc(3, "open", ("tenant",))


def rules(place: Workspace, *, grant: bool = True, groups: Sequence[str] = ("qa",), dana: bool = True) -> None:
    principals = {KIM.user: {"tenant": "acme", "roles": sorted(KIM.roles)}}
    if dana:
        principals[DANA.user] = {"tenant": "acme", "groups": list(groups), "roles": sorted(DANA.roles)}
    grants = [{"tenant": "acme", "match": "granted/**", "view": ["user:dana"]}] if grant else []
    write_json(place, "access/people.json", {"principals": principals, "grants": grants})


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    place = make(tmp_path / "ws", [BY_VIEW, BY_GRANT, OPEN])
    write_json(place, "goals/digest.json", GOAL)
    rules(place)
    return place


def seen(messages: Sequence[Message]) -> set[int]:
    """The documents of which a prompt holds a word."""
    text = json.dumps([message.model_dump(mode="json") for message in messages])
    return {number for place, number in canaries(text) if place in "btvhkos"}


class Searcher:
    """Searches, repeats what it read, and goes on searching; between its turns something happens."""

    def __init__(self, *between: Callable[[], object]) -> None:
        self.between = list(between)
        self.prompts: list[set[int]] = []
        self.model = Told(self.answer)

    def answer(self, messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
        turn = len(self.prompts)
        self.prompts.append(seen(messages))
        look = ("search_documents", {"query": "rotor"})
        if turn == 0:
            return say([look])
        quoted = " ".join(f"{canary('b', number)}" for number in sorted(self.prompts[-1]))
        answer = say([look, ("save_data", {"filename": "notes.md", "text": quoted})])
        if turn > len(self.between):
            answer = say([sets("text", quoted)])
        else:
            self.between[turn - 1]()
        return answer.model_copy(update={"text": f"I read {quoted}"})


def begin(place: Workspace, searcher: Searcher, principal: Principal = DANA, **changes: Any) -> AgentRun:
    tools = bundled_tools(place, only=["search_documents"])
    spec = agent(node("read", tools=tools.all_names, output_keys=["text"]), **changes)
    return start(place, spec, searcher.model, tools=tools, principal=principal, goal=goal())


def withdraw_front_matter(place: Workspace) -> None:
    write_document(place, BY_VIEW.doc_id, dataclasses.replace(BY_VIEW, view=()).text)


LOSSES: dict[str, tuple[Callable[[Workspace], None], int]] = {
    "front matter": (withdraw_front_matter, BY_VIEW.number),
    "a grant": (lambda place: rules(place, grant=False), BY_GRANT.number),
    "a group": (lambda place: rules(place, groups=()), BY_VIEW.number),
}


@pytest.mark.parametrize("what", LOSSES)
def test_the_next_turn_knows_no_word_of_what_was_withdrawn(place: Workspace, what: str) -> None:
    """Neither the result that quoted it, nor what the model said of it, nor a new search."""
    lose, lost = LOSSES[what]
    searcher = Searcher(lambda: lose(place))
    result = begin(place, searcher).go()
    assert searcher.prompts[1] == {1, 2, 3}
    assert searcher.prompts[2] == {1, 2, 3} - {lost}
    assert result["status"] == "done"


def test_a_file_of_the_run_is_not_the_way_around(place: Workspace) -> None:
    told: list[str] = []
    steps = iter([
        [("search_documents", {"query": "rotor"})],
        [("save_data", {"filename": "notes.md", "text": canary("b", 2)})],
        [("load_data", {"filename": name}) for name in ("notes.md", "search_documents_1.txt")],
        [sets("text", "done")],
    ])  # fmt: skip

    def answer(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
        told.append(str(seen(messages)))
        calls = next(steps)
        if calls[0][0] == "load_data":
            rules(place, grant=False)
        return say(calls)

    searcher = Searcher()
    searcher.model = Told(answer)
    begin(place, searcher).go()
    assert told[-1] == "set()", "all was read before the grant went, and the files may quote all of it"


def test_the_next_node_knows_no_word_of_what_was_withdrawn(place: Workspace) -> None:
    prompts: list[set[int]] = []
    steps = iter([
        [("search_documents", {"query": "rotor"})],
        [sets("items", canary("b", 2))],
        [sets("text", "done")],
    ])  # fmt: skip

    def answer(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
        prompts.append(seen(messages))
        calls = next(steps)
        if len(prompts) == 2:
            rules(place, grant=False)
        return say(calls)

    tools = bundled_tools(place, only=["search_documents"])
    nodes = (
        node("read", tools=tools.all_names, output_keys=["items"]),
        node("write", input_keys=["items"], output_keys=["text"], system_prompt="Write of $items"),
    )
    for mode in ("continuous", "isolated"):
        rules(place)
        prompts.clear()
        steps = iter([
            [("search_documents", {"query": "rotor"})],
            [sets("items", canary("b", 2))],
            [sets("text", "done")],
        ])  # fmt: skip
        start(place, agent(*nodes, mode=mode), Told(answer), tools=tools, principal=DANA, goal=goal()).go()
        assert 2 in prompts[1]
        assert 2 not in prompts[2], mode


@pytest.mark.parametrize("what", ["a deleted principal", "a revoked token"])
def test_who_is_no_longer_somebody_has_no_further_effect(place: Workspace, what: str) -> None:
    called: list[str] = []

    def send(text: str) -> str:
        """Send it."""
        called.append(text)
        return "sent"

    token = mint(place, DANA, 600)

    def lose() -> None:
        if what == "a deleted principal":
            rules(place, dana=False)
        else:
            revoke(place, token.jti)

    prompts: list[int] = []

    def answer(messages: Sequence[Message], _: Sequence[Tool]) -> ChatResult:
        prompts.append(len(messages))
        if len(prompts) == 2:
            lose()
        return say([("send", {"text": str(len(prompts))})])

    tools = ToolRegistry()
    tools.register(send, side_effect="external", policy="allow")
    principal = verify(place, token.token) if what == "a revoked token" else DANA
    spec = agent(node("act", tools=["send"], output_keys=["text"]))
    run = start(place, spec, Told(answer), tools=tools, principal=principal, goal=goal())
    with pytest.raises(RightsWithdrawn):
        run.go()
    assert (called, len(prompts)) == (["1"], 2)
    row = RunStore(place).get(run.run_id).summary
    assert (row["status"], row["stopped_by"]) == ("stopped", "HIVE-417")
    with pytest.raises(RightsWithdrawn):
        AgentRun.resume(place, run.run_id, tools=tools, models=run.models).go()
    assert called == ["1"]


async def test_a_host_leaves_such_a_run_alone(place: Workspace) -> None:
    searcher = Searcher(lambda: rules(place, dana=False))
    run = begin(place, searcher)
    run.hosted = True
    with pytest.raises(RightsWithdrawn):
        await run.work()
    assert RunStore(place).get(run.run_id).status == "stopped"


def as_holder(place: Workspace, monkeypatch: pytest.MonkeyPatch, who: Principal, *arguments: str) -> Ran:
    monkeypatch.setenv("HIVE_TOKEN", token_of(place, who))
    return hive(*arguments, "-w", place.root)


def test_another_readers_log_shows_what_they_may_view(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator sees that a run of their tenant searched and spoke, and no word of documents that aren't theirs."""
    run = begin(place, Searcher(lambda: None))
    run.go()
    for verb in ("logs", "show"):
        ran = as_holder(place, monkeypatch, KIM, "runs", verb, run.run_id, "--json")
        assert ran.code == 0
        assert canaries(ran.out) == set(), verb
        assert WITHHELD in ran.out
        ran = as_holder(place, monkeypatch, KIM, "runs", verb, run.run_id)
        assert canaries(ran.out) == set(), verb
        mine = as_holder(place, monkeypatch, DANA, "runs", verb, run.run_id, "--json")
        assert {number for _, number in canaries(mine.out)} == {1, 2, 3}, verb
    rules(place, grant=False)
    for verb in ("logs", "show"):
        mine = as_holder(place, monkeypatch, DANA, "runs", verb, run.run_id, "--json")
        assert 2 not in {number for _, number in canaries(mine.out)}, verb


def test_a_log_that_is_followed_asks_again_for_each_line(place: Workspace) -> None:
    run = begin(place, Searcher(lambda: None))
    run.go()
    readers = iter([DANA, KIM])
    log = RunLog(place, run.row, lambda: next(readers))
    first = log.new()
    assert canaries(json.dumps(first)) != set()
    log._cursors.clear()
    assert canaries(json.dumps(log.new())) == set()


@pytest.mark.parametrize("what", [*LOSSES, "a deleted principal", "a revoked token"])
def test_the_next_line_of_a_log_that_is_followed_knows_what_was_withdrawn(place: Workspace, what: str) -> None:
    """Also where a token goes on to say otherwise."""
    run = begin(place, Searcher(lambda: None))
    run.go()
    token = mint(place, DANA, 600)
    log = RunLog(place, run.row, lambda: verify(place, token.token))
    assert {number for _, number in canaries(json.dumps(log.new()))} == {1, 2, 3}
    log._cursors.clear()
    if what in LOSSES:
        lose, lost = LOSSES[what]
        lose(place)
        assert lost not in {number for _, number in canaries(json.dumps(log.new()))}
        return
    if what == "a deleted principal":
        rules(place, dana=False)
    else:
        revoke(place, token.jti)
    with pytest.raises(HiveError, match="HIVE-417"):
        log.new()


@pytest.mark.parametrize("kind", ["tool_call", "question"])
def test_a_decider_is_not_shown_documents_that_they_may_not_view(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def send(text: str) -> str:
        """Send it."""
        return "sent"

    tools = bundled_tools(place, only=["search_documents"])
    tools.register(send, side_effect="external")
    asks = [("send", {"text": canary("b", 2)})] if kind == "tool_call" else [("ask_user", {"question": canary("b", 2)})]
    steps = iter([[("search_documents", {"query": "rotor"})], asks])
    policy = [{"match": "send", "decision": "ask"}, {"match": "*", "decision": "allow"}]
    spec = agent(node("act", tools=tools.all_names, output_keys=["text"]), tool_policy=policy)
    start(place, spec, Told(lambda *_: say(next(steps))), tools=tools, principal=DANA, goal=goal()).go()
    (request,) = ApprovalStore(place).list()
    shown = as_holder(place, monkeypatch, KIM, "approvals", "show", request.id, "--json")
    listed = as_holder(place, monkeypatch, KIM, "approvals", "list", "--json")
    assert canaries(shown.out + listed.out) == set()
    assert shown.json["context"]["agent"] == "digest"
    mine = as_holder(place, monkeypatch, DANA, "approvals", "show", request.id, "--json")
    assert ("b", 2) in canaries(mine.out)
    for verb in ("approve", "reject", "respond"):
        more = ("--message", "yes") if verb == "respond" else ()
        ran = as_holder(place, monkeypatch, KIM, "approvals", verb, request.id, *more, "--json")
        assert (ran.code, ran.codes) == (1, {"HIVE-415"}), verb
        assert canaries(ran.out + ran.err) == set()
    assert ApprovalStore(place).get(request.id).status == "pending"
    boss = dataclasses.replace(DANA, user="boss", roles=frozenset({"approver"}))
    handed = as_holder(place, monkeypatch, KIM, "approvals", "delegate", request.id, "--to", "boss", "--json")
    assert handed.code == 0
    assert canaries(handed.out) == set()
    ran = as_holder(place, monkeypatch, boss, "approvals", "reject", request.id, "--json")
    assert ran.codes == {"HIVE-415"}, "boss has the group and not the grant"
    monkeypatch.delenv("HIVE_TOKEN")
    assert hive("approvals", "reject", request.id, "-w", place.root, "--json").code == 0


def test_an_auditor_sees_no_work_that_rests_on_documents_that_they_may_not_view(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(place, Searcher())
    run.go()
    judgment = {"action": "accept", "confidence": 0.9, "reasoning": "", "signals": []}
    base = {"at": "2026-01-01T00:00:00+00:00", "goal_type": "g", "judge_hash": "a", "audit": 1, "judgment": judgment}
    rows = [
        {"run_id": run.run_id, "tenant": "acme", "result": canary("b", 2)},
        {"tenant": "globex"},
        {"tenant": "acme"},
    ]
    log = DecisionLog(place)
    log.load(json.dumps(base | {"result": "of nobody"} | row) for row in rows)
    quotes, foreign, open_ = [row.id for row in log.rows(goal_type="g")]
    mine = dataclasses.replace(DANA, roles=frozenset({"approver"}))

    def waiting(who: Principal) -> list[int]:
        ran = as_holder(place, monkeypatch, who, "judge", "audit", "--json")
        assert ran.code == 0
        # A decision of the run itself may have been drawn for an audit, too.
        return [item["id"] for item in ran.json["items"] if item["id"] in (quotes, foreign, open_)]

    assert waiting(mine) == [quotes, open_]
    assert waiting(KIM) == [open_]
    for hidden in (quotes, foreign):
        ran = as_holder(place, monkeypatch, KIM, "judge", "audit", str(hidden), "--action", "accept", "--json")
        unknown = as_holder(place, monkeypatch, KIM, "judge", "audit", "99", "--action", "accept", "--json")
        assert ran.code == unknown.code != 0
        assert ran.out.replace(str(hidden), "99") == unknown.out
    assert as_holder(place, monkeypatch, DANA, "judge", "audit").code == 1, "no approver, no auditor"
    assert as_holder(place, monkeypatch, mine, "judge", "audit", str(quotes), "--action", "accept").code == 0


def test_what_names_documents_is_decided_by_who_may_view_them(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ApprovalStore(place)
    filing = Filing(kind="ticket", title="stale?", requester="agent:digest", context={"documents": [BY_GRANT.doc_id]})
    request = store.file(filing)
    boss = dataclasses.replace(DANA, roles=frozenset({"approver"}))
    assert as_holder(place, monkeypatch, KIM, "approvals", "approve", request.id, "--json").codes == {"HIVE-415"}
    assert as_holder(place, monkeypatch, boss, "approvals", "approve", request.id, "--json").code == 0


def noted(place: Workspace) -> AgentRun:
    """A run of Dana's whose notes quote what it read."""
    run = begin(place, Searcher(), memory={"adapt": "user"})
    write_json(place, "agents/digest.json", run.agent.to_json())
    run.go()
    return run


def test_notes_are_shown_to_whoever_may_view_what_their_run_read(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after a person let them in, also to an admin, and to their own person once a right is gone."""
    run, admin = noted(place), dataclasses.replace(KIM, roles=KIM.roles | {"admin"})

    def shown(who: Principal, *verb: str) -> set[int]:
        ran = as_holder(
            place, monkeypatch, who, "agents", "memory", *verb, "--user", "dana", "--tenant", "acme", "--json"
        )
        return {number for _, number in canaries(ran.out + ran.err)}

    for let_in in (False, True):
        if let_in:
            assert shown(DANA, "accept", "digest", run.run_id) == {1, 2, 3}
        assert shown(DANA, "show", "digest") == {1, 2, 3}
        assert shown(admin, "show", "digest") == set()
        assert shown(admin, "accept", "digest", run.run_id) == set()
    rules(place, grant=False)
    assert shown(DANA, "show", "digest") == set()


def test_a_run_begins_with_no_note_of_what_was_withdrawn(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    run = noted(place)
    as_holder(place, monkeypatch, DANA, "agents", "memory", "accept", "digest", run.run_id)
    for lost in (False, True):
        if lost:
            rules(place, grant=False)
        later = Searcher()
        begin(place, later, memory={"adapt": "user"}).go()
        assert later.prompts[0] == (set() if lost else {1, 2, 3})


def test_what_a_run_says_by_its_notes_is_as_hidden_as_what_they_rest_on(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, admin = noted(place), dataclasses.replace(KIM, roles=KIM.roles | {"admin"})
    as_holder(place, monkeypatch, DANA, "agents", "memory", "accept", "digest", first.run_id)
    model = Told(lambda messages, _: say([sets("text", " ".join(canary("b", n) for n in sorted(seen(messages))))]))
    spec = agent(node("read", output_keys=["text"]), memory={"adapt": "user"})
    run = start(place, spec, model, principal=DANA, goal=goal())
    run.go()
    for words in (["runs", "logs", run.run_id], ["agents", "memory", "show", "digest", "--user", "dana"]):
        theirs, mine = [as_holder(place, monkeypatch, who, *words, "--json").out for who in (admin, DANA)]
        assert (canaries(theirs), {number for _, number in canaries(mine)}) == (set(), {1, 2, 3})
