"""Whether no forbidden document matches or five hundred do: the same bytes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.access.keys import local_key
from hive_agents.base.errors import HiveError
from hive_agents.copilot import DocumentFilter, Request
from hive_agents.copilot.chat import Chat
from hive_agents.workspace.trusted import trust
from tests.leaks.corpus import FOLDERS, STATUSES, TENANTS, WORDS, Doc, Rules, canary, make, readers
from tests.leaks.visits import told
from tests.real_engines import postgres

READER = readers()[0]
BOSS = Principal(READER.tenant, "boss", roles=frozenset({"operator"}))
RULES = Rules(grants=(("acme", "guides/**", (f"user:{READER.user}",)),))
QUESTIONS = [
    "how long is the rotor kept near the pump?",
    "clean the beaker with the lamp",
    "zebra",
    f"what about {canary('b', 700)}?",
    "newest documents",
    "effective documents",
    f"documents with topic {canary('v', 3)}",
    f"documents with topic {canary('v', 700)}",
    f"only {canary('o', 701)[:-1]}y",
    "released documents about the rotor",
    "the pump in draft documents since February 2025",
    "documents since June 2025",
    "hello",
    "what can you do?",
    "show me stuff",
    "and the second one?",
    "only effective",
    "open the first one",
    f"documents by {canary('o', 702)}",
    "guides about the rotor",
    "sops about the rotor",
]
EXPRESSIONS = [
    f"topic={canary('v', 700)}", f"topic={canary('v', 3)}", "topic=made-up", f"owner={canary('o', 701)[:-1]}",
    "status=drat", "category=sops", "category=guides", "tenant=globex", "tenant=acme", "view=group:qa",
    "colour=red", "keeper=x",
    "titel=x", "updated>2025-06-01", "updated=2025-01-01", "status>=a", "topic!=made-up",
]  # fmt: skip
"""Values of visible documents, of hidden ones, and of none."""


def visible(count: int) -> list[Doc]:
    return [document(n, ("acme",), "guides") for n in range(1, count + 1)]


def forbidden(count: int) -> list[Doc]:
    """Of the reader's own tenant and of others; alike to the last word but for the canaries."""
    return [
        document(700 + n, ("acme",) if n % 2 else (TENANTS[1 + n % 4 // 2],), FOLDERS[1 + n % 2] if n % 2 else "guides")
        for n in range(count)
    ]


def document(n: int, tenants: tuple[str, ...], folder: str) -> Doc:
    words = tuple(WORDS[(n * step + step) % len(WORDS)] for step in (1, 3, 5, 9, 11))
    path = f"{folder}/{WORDS[n % 7]}-{canary('p', n)}.md"
    return Doc(n, path, tenants, (), STATUSES[n % 3], words, canary("v", n), canary("o", n))


def both(
    tmp_path: Path, shown: int, hidden: int, *, settings: str = "", embedding: bool = False, server: str = ""
) -> list[Workspace]:
    """A workspace without and one with forbidden documents; cursors are signed with one key."""
    found = []
    for name, documents in {"without": visible(shown), "with": [*visible(shown), *forbidden(hidden)]}.items():
        place = make(tmp_path / name, documents, settings=settings, embedding=embedding)
        if server:
            with (place.root / "hive.toml").open("a", encoding="utf-8") as file:
                file.write(f'[storage]\nurl = "{server}"\nnamespace = "is_{name}"\n')
            place = Workspace(place.root)
            trust(place)
        RULES.write(place, [READER, BOSS])
        found.append(place)
    local_key(found[0])
    shutil.copy(found[0].state / "local.key", found[1].state / "local.key")
    return found


def bytes_of(value: Any) -> str:
    """Without ids: those are random."""
    if isinstance(value, dict) and "thread_id" in value:
        value = {name: part for name, part in value.items() if name not in ("thread_id", "run_id")}
    return json.dumps(value, ensure_ascii=False)


def tried(call: Callable[[], Any]) -> str:
    try:
        return bytes_of(call())
    except HiveError as error:
        return told(error)


async def conversation(place: Workspace) -> list[str]:
    """Everything that the reader can find out, in one long thread."""
    chat, shown, runs = Chat(place, READER), [], []
    cursors: list[str | None] = [None]
    requests = [Request(text=text) for text in QUESTIONS]
    secret, known, unknown = forbidden(1)[0].doc_id, visible(3)[2].doc_id, "guides/gone.md"
    requests += [Request(text="the rotor", doc_id=doc_id) for doc_id in (secret, known, unknown)]
    requests += [
        Request(text=text, pinned=[DocumentFilter(field=field, op=op, value=value)])
        for text in ("the rotor", "newest documents")
        for field, op, value in (
            ("topic", "eq", canary("v", 700)), ("topic", "in", [canary("v", 3)]), ("tenant", "eq", "globex"),
            ("status", "not_in", ["draft"]), ("updated", "gte", "2025-03-01"), ("owner", "not_in", ["made-up"]),
        )
    ]  # fmt: skip
    for request in requests:
        try:
            reply = await chat.ask(request)
        except HiveError as error:
            shown.append(told(error))
            continue
        runs.append(reply["run_id"])
        shown.append(bytes_of(reply))
    for text in ("newest documents", "effective documents"):
        cursors = [None]
        for cursor in cursors:
            reply = await chat.ask(Request(text=text, cursor=cursor))
            shown.append(bytes_of(reply))
            cursors += [reply["next_cursor"]] if reply["next_cursor"] else []
    shown += [bytes_of(turn) for turn in chat.transcript()]
    shown.append(bytes_of(chat.field_values(1000)))
    shown += [tried(lambda one=one: [str(f) for f in chat.filters([one])]) for one in EXPRESSIONS]
    shown += [tried(lambda one=one: chat.document(one)) for one in (secret, known, unknown)]
    shown += [tried(lambda run=run: chat.why(run, known)).replace(run, "") for run in runs]
    shown += [tried(lambda: str(chat.feedback().add(runs[0], None, "relevant", doc_id=secret)))]
    operator = Chat(place, BOSS)
    for run in runs:
        trace = operator.trace(run)
        shown.append(json.dumps({name: trace[name] for name in ("strategy", "hybrid", "counts", "models", "notes")}))
    return shown


@pytest.mark.parametrize(
    ("threshold", "hidden"),
    [(0, 50), (1000, 50), *(pytest.param(threshold, 500, marks=pytest.mark.slow) for threshold in (0, 1000))],
)
async def test_five_hundred_forbidden_documents_change_no_byte(tmp_path: Path, threshold: int, hidden: int) -> None:
    """By keyword, all strategies; `hybrid_threshold` takes both branches of a filtered search."""
    settings = f'[models]\nembedding = "none"\n[copilot]\nhybrid_threshold = {threshold}\n'
    without, with_them = both(tmp_path, 24, hidden, settings=settings)
    first, second = await conversation(without), await conversation(with_them)
    strategies = {json.loads(one)["strategy"] for one in first if one.startswith('{"route"')}
    assert strategies == {"MetadataOnly", "ContentOnly", "Hybrid", "NoMatch", "NeedsClarification"}
    for number, pair in enumerate(zip(first, second, strict=True)):
        assert pair[0] == pair[1], number
    assert canary("v", 701) not in "".join(second)


@pytest.mark.slow
async def test_five_hundred_forbidden_documents_change_no_byte_of_meaning(tmp_path: Path) -> None:
    """With vectors: cosines, ranks and relevance too."""
    without, with_them = both(tmp_path, 24, 500, embedding=True)
    assert await conversation(without) == await conversation(with_them)


@pytest.mark.slow
@pytest.mark.sqlite_file  # it names a server itself
async def test_five_hundred_forbidden_documents_change_no_byte_where_the_records_are_on_a_server(
    tmp_path: Path,
) -> None:
    with postgres() as server:
        without, with_them = both(tmp_path, 24, 500, server=server.url)
        assert await conversation(without) == await conversation(with_them)
        assert int(server.run("SELECT count(*) FROM is_with.turns")) >= len(QUESTIONS)


async def test_a_hidden_value_is_an_unknown_value(tmp_path: Path) -> None:
    """A value that only hidden documents have is answered as where nobody has it: in words, and as a filter."""
    made_up, hidden = both(tmp_path, 12, 40)
    for field, value in (("topic", canary("v", 700)), ("owner", canary("o", 701)), ("category", "sops")):
        for form in ("{}={}", "{}!={}", "{}=x,{}"):
            one = [form.format(field, value)]
            first, second = (
                tried(lambda p=place, o=one: str(Chat(p, READER).filters(o))) for place in (made_up, hidden)
            )
            assert first == second
            assert "HIVE-208" in first
        for text in ("documents with {1} {0}", "documents by {0}", "only {0}", "the rotor in {0} documents"):
            asked = Request(text=text.format(value, field))
            assert bytes_of(await Chat(made_up, READER).ask(asked)) == bytes_of(await Chat(hidden, READER).ask(asked))


async def test_a_cursor_is_good_for_one_reader_and_one_question(tmp_path: Path) -> None:
    (place,) = both(tmp_path, 24, 40)[1:]
    other = Principal("acme", "other", READER.groups)
    Rules(grants=(("acme", "guides/**", ("tenant",)),)).write(place, [READER, other])
    cursor = (await Chat(place, READER).ask(Request(text="newest documents")))["next_cursor"]
    refused = []
    for reader, text, place_of in (
        (other, "newest documents", cursor), (Principal("globex", READER.user), "newest documents", cursor),
        (READER, "effective documents", cursor), (READER, "newest documents", cursor[:-4] + "AAAA"),
        (READER, "newest documents", cursor[4:]), (READER, "newest documents", "é"),
        (READER, "newest documents", "A" * 90),
    ):  # fmt: skip
        with pytest.raises(HiveError) as caught:
            await Chat(place, reader).ask(Request(text=text, cursor=place_of))
        refused.append(told(caught.value))
    assert len(set(refused)) == 1
    assert (await Chat(place, READER).ask(Request(text="newest documents", cursor=cursor)))["results"]


async def test_query_vectors_stay_in_memory_and_apart(indexed: Workspace) -> None:
    """Nothing in `.hive` but the conversation grows with a question, and another reader embeds it anew."""
    engine = indexed.engine()
    index = engine.index("kb")
    everything = np.ones(index.n_documents, np.bool_)
    mine, theirs = (index.within(everything, owner=("acme", user)) for user in ("a", "b"))
    before = {path.name for path in indexed.state.rglob("*")}
    mine.vector(["a question that nobody asked"], 5, None)
    assert len(mine._query_vectors) == 1
    assert len(theirs._query_vectors) == len(index._query_vectors) == 0
    assert {path.name for path in indexed.state.rglob("*")} == before
    assert b"nobody asked" not in indexed.database.read_bytes()
