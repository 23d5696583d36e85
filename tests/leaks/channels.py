"""Every way out of the copilot, and for each what it may tell of a document."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from hive_agents.access import Principal, ViewGate
from hive_agents.base.errors import HiveError
from hive_agents.copilot import CopilotContext
from hive_agents.copilot.chat import Chat
from hive_agents.copilot.feedback import VERDICTS, FeedbackQueue
from hive_agents.copilot.session import vocabulary_of
from hive_agents.copilot.threads import past_turns
from hive_agents.runs import load_graph
from hive_agents.store import connected
from tests.leaks.corpus import NEVER, TEXT, VALUES, Doc, canaries, files
from tests.leaks.visits import Visit, collecting, own_words, told

Collect = Callable[[Visit], Awaitable[str]]
INDEX_TABLES = frozenset(
    "corpus_stats segments parts documents file_stamps chunks terms postings term_stats field_values embeddings".split()
) | {"sqlite_sequence"}
ID, VALUE, TEXTS = "p", "p" + VALUES, "p" + VALUES + TEXT


@dataclass(frozen=True)
class Channel:
    """`places` are what it may tell of a document that `whose` may view: the reader now, or when they asked."""

    collect: Collect
    places: str
    whose: str = "now"
    repeats: bool = True
    """Whether it may say again what the reader said."""


CHANNELS: dict[str, Channel] = {}


def channel(name: str, places: str, whose: str = "now", *, repeats: bool = True) -> Callable[[Collect], Collect]:
    def register(collect: Collect) -> Collect:
        CHANNELS[name] = Channel(collect, places, whose, repeats)
        return collect

    return register


def leaks(name: str, text: str, visit: Visit) -> set[tuple[str, int]]:
    """The canaries in a channel's text that have no right to be there."""
    rule = CHANNELS[name]
    docs: dict[str, Callable[[], set[int]]] = {
        "now": visit.sees,
        "asked": lambda: visit.saw,
        "ever": lambda: visit.saw | visit.sees(),
        "nobody": set,
        "reviewer": lambda: reviewed(visit),
    }
    known = docs[rule.whose]()
    allowed = {(place, number) for place in rule.places for number in known}
    assert not set(rule.places) & set(NEVER)
    return canaries(text) - allowed - (own_words(visit.said) if rule.repeats else set())


async def collected(visit: Visit, names: Collection[str] = ()) -> dict[str, str]:
    return {name: await CHANNELS[name].collect(visit) for name in names or CHANNELS}


def tried(*calls: Callable[[], Any]) -> str:
    """What the calls give, be it an error."""
    shown = []
    for call in calls:
        try:
            shown.append(json.dumps(call(), ensure_ascii=False, default=lambda value: repr(value)))
        except HiveError as error:
            shown.append(told(error))
    return "\n".join(shown)


def some(visit: Visit, count: int) -> list[Doc]:
    return visit.rng.sample(list(visit.documents), count)


def colleague(visit: Visit, role: str) -> Principal:
    return next(one for one in visit.people if one.tenant == visit.reader.tenant and role in one.roles)


def reviewers(visit: Visit) -> FeedbackQueue:
    who = colleague(visit, "approver")
    return FeedbackQueue(visit.workspace, who, ViewGate.of(visit.workspace, who), engine=visit.engine)


def reviewed(visit: Visit) -> set[int]:
    who = colleague(visit, "approver")
    return {doc.number for doc in visit.documents if visit.rules.allows(who, doc)}


@channel("reply", TEXTS)
async def _(visit: Visit) -> str:
    """What the last question brought."""
    return visit.replies[-1] if visit.replies else ""


@channel("transcript", TEXTS)
async def _(visit: Visit) -> str:
    fresh = Chat(visit.workspace, visit.reader, visit.chat.thread_id, engine=visit.engine)
    return tried(fresh.transcript)


@channel("render", TEXTS)
async def _(visit: Visit) -> str:
    return tried(*(lambda run=run: visit.chat.render(run) for run in [*visit.runs, visit.strangers[1]]))


@channel("document", TEXTS)
async def _(visit: Visit) -> str:
    targets = [visit.target(), *some(visit, 1)]
    visit.say(*(doc.doc_id for doc in targets))
    return tried(*(lambda doc=doc: visit.chat.document(doc.doc_id) for doc in targets))


@channel("filters", TEXTS)
async def _(visit: Visit) -> str:
    doc = visit.target()
    wrong = visit.rng.sample(
        [f"topic={doc.topic[:-2]}", f"owner={doc.owner}y", f"owner={doc.owner},x", "secret=x",
         f"tenant={doc.tenants[0]}", "view=group:", "keeper=zqk", "titel=x", "updated=soon", "category>a"], 3
    )  # fmt: skip
    visit.say(*wrong)
    return tried(*(lambda one=one: [str(f) for f in visit.chat.filters([one])] for one in wrong))


@channel("field_values", TEXTS)
async def _(visit: Visit) -> str:
    return tried(lambda: visit.chat.field_values(1000))


@channel("why", TEXTS)
async def _(visit: Visit) -> str:
    runs = [*visit.runs, visit.strangers[1]]
    return tried(
        *(
            lambda run=run, doc=doc: visit.chat.why(run, doc.doc_id)
            for run in runs
            for doc in (visit.target(), *some(visit, 1))
        )
    )


@channel("follow-ups", TEXTS)
async def _(visit: Visit) -> str:
    """Values of fields, titles and sections of documents, in what is offered and in what is asked by it."""
    runs = [*visit.runs, visit.strangers[1]]
    return tried(*(lambda run=run: [repr(one) for one in visit.chat.follow_ups(run)] for run in runs))


@channel("feedback", TEXTS)
async def _(visit: Visit) -> str:
    queue, rng = visit.chat.feedback(), visit.rng
    queue._now = lambda: (
        f"2025-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:00:00+00:00"
    )
    adds = [
        lambda run=run, doc=doc: repr(queue.add(run, rng.randrange(4), rng.choice(VERDICTS), doc_id=doc, comment="so"))
        for run in [*visit.runs, visit.strangers[1]]
        for doc in (some(visit, 1)[0].doc_id, None)
    ]
    shown = tried(*adds[:4])
    shown += tried(lambda: sorted(queue.given(visit.runs)))
    return shown + tried(lambda: [item.to_json() for item in queue.items() if item.run_id in visit.runs])


@channel("feedback review", ID, "reviewer")
async def _(visit: Visit) -> str:
    queue = reviewers(visit)
    return tried(lambda: [item.to_json() for item in [*queue.items(), *queue.waiting()] if item.run_id in visit.runs])


@channel("feedback results", TEXTS, "reviewer")
async def _(visit: Visit) -> str:
    """What the results that feedback is on show of their documents to whoever reviews it."""
    queue = reviewers(visit)
    return tried(lambda: [queue.result(item) for item in queue.items() if item.run_id in visit.runs])


@channel("threads", "")
async def _(visit: Visit) -> str:
    """Titles are the reader's words; another's thread is an unknown one."""
    threads, stranger = visit.chat.threads, visit.strangers[0]
    mine = tried(lambda: [one for one in threads.threads() if one["thread_id"] == visit.chat.thread_id])
    calls = (threads.require, threads.turns, threads.delete, lambda name: threads.rename(name, "mine"))
    errors = {tried(lambda call=call: call(stranger)).replace(stranger, "ID") for call in calls}
    errors |= {tried(lambda call=call: call("t1")).replace("t1", "ID") for call in calls}
    assert len(errors) == 1
    return mine + "".join(errors)


@channel("thread rows", VALUE, "asked")
async def _(visit: Visit) -> str:
    if visit.chat.thread_id is None:
        return ""
    return tried(lambda: visit.chat.threads.turns(visit.chat.thread_id or ""))


@channel("model context", VALUE)
async def _(visit: Visit) -> str:
    if visit.chat.thread_id is None:
        return ""
    vocabulary = vocabulary_of(visit.chat._certain())
    return repr(past_turns(visit.chat.threads, visit.chat.gate, visit.chat.thread_id, vocabulary))


@channel("trace", "", "nobody", repeats=False)
async def _(visit: Visit) -> str:
    operator = Chat(visit.workspace, colleague(visit, "operator"), engine=visit.engine)
    return tried(*(lambda run=run: operator.trace(run) for run in visit.runs)) + tried(
        *(lambda run=run: Chat(visit.workspace, visit.reader, engine=visit.engine).trace(run) for run in ["r0"])
    )


@channel("graph stream", VALUE)
async def _(visit: Visit) -> str:
    request = visit.request()
    visit.say(request.model_dump_json())
    context = CopilotContext(str(visit.workspace.root), principal=visit.reader, engine=visit.engine)
    value = {"run_id": "r-stream", "request": request.model_dump(mode="json")}
    parts = []
    with collecting(visit.logged):
        try:
            async for part in load_graph("worker").astream(
                value, {"recursion_limit": 100}, context=context, stream_mode=["updates", "values", "tasks", "debug"]
            ):
                parts.append(json.dumps(part, default=str))
        except HiveError as error:
            parts.append(told(error))
    return "\n".join(parts)


@channel("cursors", ID, "asked")
async def _(visit: Visit) -> str:
    return "\n".join(
        base64.urlsafe_b64decode(one + "=" * (-len(one) % 4)).decode("utf-8", "replace") for one in visit.cursors
    )


@channel("log records", "", "nobody", repeats=False)
async def _(visit: Visit) -> str:
    return "\n".join(visit.logged)


@channel("prompts", TEXTS)
async def _(visit: Visit) -> str:
    """What models were sent; filled where there are models."""
    return "\n".join(visit.prompts)


def rows(visit: Visit, table: str, column: str, keys: Collection[str | None]) -> str:
    with connected(visit.workspace.records) as connection:
        marks = ", ".join("?" * len(keys))
        return repr(connection.execute(f"SELECT * FROM {table} WHERE {column} IN ({marks})", list(keys)).fetchall())


TABLES = {
    "runs": ("thread_id", VALUE),
    "threads": ("thread_id", ""),
    "turns": ("thread_id", VALUE),
    "answers": ("run_id", TEXTS),
    "feedback": ("thread_id", ID),  # also of a document that may be viewed by now, and wasn't found then
    "approvals": ("run_id", ID),
    "events": ("run_id", ""),
    "judge_decisions": ("run_id", ID),
    "leases": ("thread_id", ""),
    "proofs": ("id", ""),  # of nobody's question: ids, names and roles
}
"""By which column a visit's rows are found, and what they may hold; a model's answer is the one text that is kept."""


def _table(name: str, column: str) -> Collect:
    async def collect(visit: Visit) -> str:
        return rows(visit, name, column, visit.runs if column == "run_id" else [visit.chat.thread_id])

    return collect


for _name, (_column, _places) in TABLES.items():
    CHANNELS[f"table {_name}"] = Channel(_table(_name, _column), _places, "ever" if _name == "feedback" else "asked")


@channel("state files", "", "nobody")
async def _(visit: Visit) -> str:
    """Everything in `.hive` but the database, which is looked at table by table."""
    state = visit.workspace.state
    skipped = ("hive.db", "hive.db-wal", "hive.db-shm")
    return "\n".join(
        f"{path.relative_to(state)} {path.read_bytes()!r}" for path in files(state) if path.name not in skipped
    )


@channel("hive chat", TEXTS)
async def _(visit: Visit) -> str:
    """The commands as a reader types them, text and JSON, stdout and stderr, with and without faults."""
    doc, thread, runs = some(visit, 1)[0], visit.chat.thread_id, visit.runs
    visit.say(doc.doc_id, doc.topic)
    calls: list[list[str]] = [
        ["chat", f"the {doc.words[0]} near the {doc.words[1]}"],
        ["chat", f"the {doc.words[0]}", "--json", "--doc", doc.doc_id],
        ["chat", "documents", "-f", f"topic={doc.topic}"],
        ["chat", "--threads"],
        ["chat", "hello", "--thread", visit.strangers[0]],
        ["chat", "--trace", visit.strangers[1]],
        ["feedback", "add", "--run", runs[-1] if runs else "r0", "--verdict", "relevant", "--doc", doc.doc_id],
        ["feedback", "review", "f0", "--accept"],
    ]
    if thread is not None:
        calls += [["chat", "--export", "--thread", thread], ["chat", "--thread", thread, "--rename", "mine"]]
    shown = [await asyncio.to_thread(hive, visit, *call) for call in visit.rng.sample(calls, 4)]
    if visit.reader.roles == {"reader"}:
        return "\n".join([*shown, await asyncio.to_thread(hive, visit, "feedback", "list")])
    # A reviewer reads what others asked, in their words.
    listed = json.loads(await asyncio.to_thread(hive, visit, "feedback", "list", "--json"))["items"]
    return "\n".join([*shown, *(str(item) for item in listed if item["by"] == visit.reader.user)])


def hive(visit: Visit, *arguments: str) -> str:
    from typer.testing import CliRunner

    from hive_agents.cli.main import command_line

    words = [*arguments, "--as", visit.reader.user, "-w", str(visit.workspace.root)]
    result = CliRunner().invoke(command_line(), words)
    problem = told(result.exception) if isinstance(result.exception, HiveError) else ""
    assert problem or result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output + problem


@channel("conversation", TEXTS)
async def _(visit: Visit) -> str:
    """Every command of the interactive chat, in a thread, which is where no event loop runs."""
    return await asyncio.to_thread(converse, visit)


def converse(visit: Visit) -> str:
    from rich.console import Console

    from hive_agents.cli.conversation import Conversation

    doc, out = visit.target(), io.StringIO()
    chat = Chat(visit.workspace, visit.reader, engine=visit.engine)
    talk = Conversation(chat, Console(file=out, width=400, markup=False, emoji=False, highlight=False), [])
    visit.say(doc.topic)
    own = visit.chat.thread_id or "t0"
    lines = [
        f"the {doc.words[0]} near the {doc.words[1]}", "/open 1", "/unfold", "/unfold 1", "/why 1",
        "/filters",
        f"/filters topic={doc.topic[:-1]}", "/filters tenant=acme", "/more", "/good 1", "/wrong 99", "/help",
        "/threads " + visit.strangers[0],
        "/threads " + own, "/new", "newest documents", "/more",
    ]  # fmt: skip
    for line in lines:
        try:
            talk.handle(line)
        except HiveError as error:
            out.write(told(error))
    return out.getvalue()
