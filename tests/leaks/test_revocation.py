"""What was shown yesterday is gone today where the grant is gone; the reader's own words stay."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, ViewGate, mint, revoke
from hive_agents.access.tokens import verify
from hive_agents.base.errors import HiveError
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.feedback import A_HOUR, FeedbackQueue
from hive_agents.copilot.reply import GONE
from hive_agents.copilot.session import vocabulary_of
from hive_agents.copilot.threads import past_turns
from hive_agents.ranking import build_index
from tests.conftest import write_document
from tests.copilot.chats import use_models
from tests.leaks.corpus import Doc, Rules, canaries, canary, make, readers
from tests.leaks.visits import told

PEOPLE = readers()
READER, REVIEWER, OPERATOR = PEOPLE[0], PEOPLE[1], PEOPLE[2]
WORDS = ("rotor", "pump", "beaker", "lamp", "valve")


def doc(number: int, status: str, folder: str = "open") -> Doc:
    return Doc(number, f"{folder}/{canary('p', number)}.md", ("acme",), (), status, WORDS, canary("v", number), "mei")


OPEN, SECRET, DRAFT = doc(1, "effective"), doc(2, "effective", "lost"), doc(3, "draft", "lost")
BOTH = Rules(grants=(("acme", "**", ("tenant",)),))
LESS = Rules(grants=(("acme", "open/**", ("tenant",)),))


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    workspace = make(tmp_path / "ws", [OPEN, SECRET, DRAFT])
    BOTH.write(workspace, PEOPLE)
    return workspace


def fault(call: Any) -> str:
    with pytest.raises(HiveError) as caught:
        call()
    return told(caught.value)


async def test_a_revoked_document_takes_its_turns_along(place: Workspace) -> None:
    chat = Chat(place, READER)
    shown = await chat.ask(Request(text="how long is the rotor kept near the pump?"))
    listed = await chat.ask(Request(text="effective documents"))
    assert {SECRET.number, OPEN.number} <= {number for _, number in canaries(json.dumps(shown))}
    LESS.write(place, PEOPLE)
    turns = chat.transcript()
    assert [turn["notice"] for turn in turns] == [GONE, GONE]
    assert [turn["text"] for turn in turns] == ["how long is the rotor kept near the pump?", "effective documents"]
    assert canaries(json.dumps(turns)) == set()
    assert turns[0]["results"] == [] == turns[1]["filters"]
    unknown = fault(lambda: chat.why(shown["run_id"], "gone.md"))
    assert fault(lambda: chat.why(shown["run_id"], SECRET.doc_id)) == unknown
    rank = next(result["rank"] for result in shown["results"] if result["doc_id"] == SECRET.doc_id)
    unknown = fault(lambda: chat.feedback().add(shown["run_id"], 99, "relevant"))
    assert fault(lambda: chat.feedback().add(shown["run_id"], rank, "relevant")) == unknown
    assert fault(lambda: chat.document(SECRET.doc_id)).replace(SECRET.doc_id, "gone.md") == fault(
        lambda: chat.document("gone.md")
    )
    assert chat.thread_id is not None
    vocabulary = vocabulary_of(chat._certain())
    assert past_turns(chat.threads, chat.gate, chat.thread_id, vocabulary) == []
    BOTH.write(place, PEOPLE)
    assert chat.transcript()[1] == listed | {"text": "effective documents"}


async def test_a_follow_up_after_revocation_knows_nothing_of_it(place: Workspace) -> None:
    """The same as in a thread whose turns never were."""
    chat, fresh = Chat(place, READER), Chat(place, READER)
    await chat.ask(Request(text="draft documents"))
    LESS.write(place, PEOPLE)
    for text in ("open the first one", "and only effective?", "what about the rotor?"):
        again, anew = await chat.ask(Request(text=text)), await fresh.ask(Request(text=text))
        for ids in (again, anew):
            ids |= {"thread_id": "", "run_id": ""}
        assert again == anew, text


async def test_values_that_only_revoked_documents_have_are_withdrawn(place: Workspace) -> None:
    """A question back, and a list without results, name values; the values go with the documents."""
    chat = Chat(place, READER)
    asked = await chat.ask(Request(text="show me stuff"))
    assert asked["options"]
    none = await chat.ask(Request(text="the zebra in draft documents"))
    LESS.write(place, PEOPLE)
    turns = chat.transcript()
    assert [turn["notice"] for turn in turns] == [GONE, GONE]
    assert "lost" not in json.dumps(turns)
    assert "lost" in json.dumps(asked)
    assert none["filters"]


async def test_a_deleted_document_is_as_gone_as_a_revoked_one(place: Workspace) -> None:
    chat = Chat(place, READER)
    await chat.ask(Request(text="effective documents"))
    LESS.write(place, PEOPLE)
    revoked = chat.transcript()
    BOTH.write(place, PEOPLE)
    (place.documents / SECRET.doc_id).unlink()
    build_index(place)
    assert chat.transcript() == revoked


async def test_front_matter_counts_as_it_is_now(place: Workspace) -> None:
    """Taken from its tenant in the file, a document is gone before anybody indexes it again."""
    chat = Chat(place, READER)
    await chat.ask(Request(text="effective documents"))
    write_document(place, SECRET.doc_id, SECRET.text.replace('"acme"', '"globex"'))
    shown = [*chat.transcript(), await chat.ask(Request(text="the rotor near the pump"))]
    assert SECRET.number not in {number for _, number in canaries(json.dumps(shown))}


async def test_others_threads_and_runs_are_unknown(place: Workspace) -> None:
    mine = Chat(place, READER)
    reply = await mine.ask(Request(text="effective documents"))
    thread, run = reply["thread_id"], reply["run_id"]
    namesake = Principal("globex", READER.user)
    for who in (REVIEWER, OPERATOR, namesake):
        other = Chat(place, who)
        assert fault(lambda who=who: Chat(place, who, thread)).replace(thread, "t0") == fault(
            lambda who=who: Chat(place, who, "t0")
        )
        for call in (other.render, lambda run, o=other: o.why(run, OPEN.doc_id),
                     lambda run, o=other: o.feedback().add(run, 1, "relevant")):  # fmt: skip
            assert fault(lambda call=call: call(run)).replace(run, "r0") == fault(lambda call=call: call("r0"))
        assert other.threads.threads() == []
    stranger = Chat(place, Principal("globex", "boss", roles=frozenset({"operator"})))
    assert fault(lambda: stranger.trace(run)).replace(run, "r0") == fault(lambda: stranger.trace("r0"))
    assert Chat(place, OPERATOR).trace(run)["strategy"] == "MetadataOnly"


async def test_feedback_is_reviewed_by_another_who_sees_the_document(place: Workspace) -> None:
    chat = Chat(place, READER)
    reply = await chat.ask(Request(text="the rotor near the pump"))
    item = chat.feedback().add(reply["run_id"], None, "relevant", doc_id=SECRET.doc_id)
    reviewer = FeedbackQueue(place, REVIEWER, ViewGate.of(place, REVIEWER))
    elsewhere = Principal("globex", "kim", roles=frozenset({"approver"}))
    foreign = FeedbackQueue(place, elsewhere, ViewGate.of(place, elsewhere))
    assert [one.id for one in reviewer.items()] == [item.id]
    assert foreign.items() == []
    LESS.write(place, PEOPLE)
    assert reviewer.items() == chat.feedback().items() == []
    unknown = fault(lambda: reviewer.review("f0", accept=True))
    assert fault(lambda: reviewer.review(item.id, accept=True)).replace(item.id, "f0") == unknown
    assert fault(lambda: foreign.review(item.id, accept=True)).replace(item.id, "f0") == unknown
    BOTH.write(place, PEOPLE)
    own = Principal(READER.tenant, READER.user, READER.groups, frozenset({"approver"}))
    assert "four eyes" in fault(lambda: FeedbackQueue(place, own, chat.gate).review(item.id, accept=True))
    assert "HIVE-415" in fault(lambda: chat.feedback().review(item.id, accept=True))


async def test_an_answer_is_reviewed_by_whoever_may_view_all_that_it_was_made_from(place: Workspace) -> None:
    """Its words may be those of a document which the reviewer can't open, cited or not."""
    words = f"The rotor is kept near the pump for 9 days, says {canary('b', SECRET.number)} [1]."
    use_models(place, answer=[{"content": words, "repeat": True}])
    place = Workspace(place.root)
    chat = Chat(place, READER)
    reply = await chat.ask(Request(text="how long is the rotor kept near the pump?"))
    assert reply["answer"] == words
    item = chat.feedback().add(reply["run_id"], None, "wrong")
    reviewer = FeedbackQueue(place, REVIEWER, ViewGate.of(place, REVIEWER))
    assert [one.answer for one in reviewer.items()] == [words]
    LESS.write(place, PEOPLE)
    assert reviewer.items() == chat.feedback().items() == []
    assert fault(lambda: reviewer.review(item.id, accept=True)).replace(item.id, "f0") == fault(
        lambda: reviewer.review("f0", accept=True)
    )
    unknown = fault(lambda: chat.feedback().add(reply["run_id"], 99, "relevant"))
    assert fault(lambda: chat.feedback().add(reply["run_id"], None, "wrong")) == unknown


async def test_feedback_has_a_limit(place: Workspace) -> None:
    chat = Chat(place, READER)
    reply = await chat.ask(Request(text="the rotor near the pump"))
    queue = chat.feedback()
    now = ["2025-01-01T10:00:00+00:00"]
    queue._now = lambda: now[0]
    runs = [reply["run_id"]]
    for number in range(A_HOUR):
        if number % 3 == 0:
            runs.append((await chat.ask(Request(text="the rotor near the pump")))["run_id"])
        queue.add(runs[-1], None, "relevant", doc_id=(OPEN, SECRET, DRAFT)[number % 3].doc_id)
    assert "HIVE-415" in fault(lambda: queue.add(runs[0], 1, "relevant"))
    now[0] = "2025-01-01T11:00:01+00:00"
    queue.add(runs[0], 1, "relevant")


@pytest.mark.parametrize("gone", ["the tenant", "the view", "the file"])
async def test_values_of_withdrawn_front_matter_are_no_values(place: Workspace, gone: str) -> None:
    """Nobody indexed again: neither what can be filtered by, nor counts, questions back, or a list's reply tell it."""
    everybody = Rules()
    mine = dataclasses.replace(DRAFT, view=("tenant",))
    write_document(place, mine.doc_id, mine.text)
    write_document(place, OPEN.doc_id, dataclasses.replace(OPEN, view=("tenant",)).text)
    everybody.write(place, PEOPLE)
    build_index(place)
    chat, fresh = Chat(place, READER), Chat(place, READER)
    assert "draft" in chat.field_values()["status"]
    if gone == "the file":
        (place.documents / DRAFT.doc_id).unlink()
    else:
        changed = dataclasses.replace(mine, **({"tenants": ("globex",)} if gone == "the tenant" else {"view": ()}))
        write_document(place, DRAFT.doc_id, changed.text)
    shown = [chat.field_values(), await chat.ask(Request(text="show me stuff"))]
    assert "draft" not in json.dumps(shown)
    assert canaries(json.dumps(shown)) & {("v", DRAFT.number), ("t", DRAFT.number)} == set()
    unknown = fault(lambda: chat.filters(["status=nonesuch"]))
    assert fault(lambda: chat.filters(["status=draft"])).replace("draft", "nonesuch") == unknown
    for text in ("draft documents", "the rotor near the pump"):
        reply = await chat.ask(Request(text=text))
        assert DRAFT.doc_id not in json.dumps(reply)
    build_index(place)
    again = [fresh.field_values(), await fresh.ask(Request(text="show me stuff"))]
    for one in (shown[1], again[1]):
        one |= {"thread_id": "", "run_id": ""}
    assert shown == again, "as if it had been indexed again"


@pytest.mark.parametrize("what", ["a group", "the principal", "the token"])
async def test_a_conversation_knows_the_reader_as_they_are_now(place: Workspace, what: str) -> None:
    """Also where a token vouches for them: what the workspace has withdrawn since, the token doesn't bring back."""
    guarded = dataclasses.replace(SECRET, view=(f"group:{next(iter(READER.groups))}",))
    write_document(place, SECRET.doc_id, guarded.text)
    Rules().write(place, PEOPLE)
    build_index(place)
    token = mint(place, READER, 600)
    chat = Chat(place, lambda: verify(place, token.token))
    assert chat.document(SECRET.doc_id)["doc_id"] == SECRET.doc_id
    if what == "a group":
        Rules().write(place, [dataclasses.replace(READER, groups=frozenset()), *PEOPLE[1:]])
        assert "not found" in fault(lambda: chat.document(SECRET.doc_id))
        assert SECRET.doc_id not in json.dumps(await chat.ask(Request(text="the rotor near the pump")))
        return
    if what == "the principal":
        Rules().write(place, PEOPLE[1:])
    else:
        revoke(place, token.jti)
    for use in (lambda: chat.document(SECRET.doc_id), chat.transcript, chat.field_values, lambda: chat.threads):
        assert "HIVE-417" in fault(use)
    with pytest.raises(HiveError, match="HIVE-417"):
        await chat.ask(Request(text="the rotor near the pump"))
