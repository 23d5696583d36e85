"""One reader's conversation with the copilot: each question is a run, each answer a turn of the thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hive_agents.access import OPERATORS, RESERVED, Principal, Standing, ViewGate, owner
from hive_agents.base import HiveError, NotFound
from hive_agents.copilot import drafting, feedback
from hive_agents.copilot.documents import declared, document_filters, require_known
from hive_agents.copilot.dropped import DroppedFile, DroppedFiles
from hive_agents.copilot.follow_ups import FollowUp, follow_ups
from hive_agents.copilot.foreign import searched_for
from hive_agents.copilot.plan import DocumentFilter, SearchStrategy
from hive_agents.copilot.reply import fresh_reply, render_reply, viewable_rows
from hive_agents.copilot.run import QuestionRun, require_question
from hive_agents.copilot.session import Request, certain_scope, may_open, open_scope, vocabulary_of
from hive_agents.copilot.steps import matching
from hive_agents.copilot.threads import ThreadStore, Turn, trace_of
from hive_agents.index import ScopedIndex, parse_filters
from hive_agents.ranking import SearchEngine, StoredConfig, active_config
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.models import Script

OnNode = Callable[[str], None]


class Chat:
    r"""A conversation of one reader with the copilot.

    `thread_id` continues a thread of the reader; None begins a new one.

    `who` is a verified principal, for short calls, or a function that returns one, such as `Identity.principal`, and is
    called at the beginning of each operation; None is the local owner, who sees all of an open workspace. `reader` is
    the principal that it returned last.

    Raises: HIVE-409 for a thread of somebody else, HIVE-417 where `who` returns another user than at first, and
    whatever `who` raises.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> from hive_agents import Principal
    >>> chat = Chat(place, Principal("local", "me"))
    >>> chat.reader.user, chat.thread_id, Chat(place).reader.tenant
    ('me', None, 'local')
    >>> folder.cleanup()
    """

    def __init__(
        self,
        workspace: Workspace,
        who: Principal | Callable[[], Principal] | None = None,
        thread_id: str | None = None,
        *,
        engine: SearchEngine | None = None,
    ) -> None:
        self.workspace, self._who = workspace, who if who is not None else owner()
        self.reader = self._who if isinstance(self._who, Principal) else self._who()
        self._standing = Standing.of(workspace, self.reader)
        self.engine = engine or SearchEngine(workspace)
        self.thread_id = thread_id
        self._threads = ThreadStore(workspace, self.reader)
        self._scripts: dict[Path, Script] = {}
        if thread_id is not None:
            self._threads.require(thread_id)

    @property
    def threads(self) -> ThreadStore:
        self._recognise()
        return self._threads

    @property
    def active(self) -> StoredConfig:
        """The config that serves. Raises: HIVE-408 where there is none."""
        return active_config(self.workspace).stored

    @property
    def gate(self) -> ViewGate:
        return ViewGate.of(self.workspace, self.reader)

    def _recognise(self) -> None:
        """Update the reader: tokens expire and groups change while a conversation is open."""
        principal = self._who if isinstance(self._who, Principal) else self._who()
        if (principal.tenant, principal.user) != (self.reader.tenant, self.reader.user):
            message = f"this conversation is {self.reader.user}'s, and somebody else speaks now"
            raise HiveError.of("HIVE-417", message, fix="begin another conversation", exit_code=2)
        self.reader = self._standing.of_today(principal).now(self.workspace)

    async def ask(self, request: Request | str, on_node: OnNode | None = None) -> dict[str, Any]:
        """Return the reply to one question, a text or a request; `on_node` gets the name of each node that begins.

        Raises: HIVE-409 for nothing asked, HIVE-408 without an active config, HIVE-401 for a model that can't be had.
        """
        self._recognise()
        request = Request(text=request) if isinstance(request, str) else request
        require_question(request)
        if self.thread_id is None:
            self.thread_id = self._threads.create(request.text)
        else:
            self._threads.name(self.thread_id, request.text)
        run = QuestionRun.start(
            self.workspace,
            self._standing.of_today(self.reader),
            request,
            self.thread_id,
            self.engine,
            scripts=self._scripts,
            on_node=on_node,
        )
        try:
            result = await run.work()
        except BaseException:
            run.store.update(run.run_id, "failed", among="running")  # the attempt had not begun
            raise
        turn, session = run.turn, run.session
        if turn is None or session is None:
            why = f"somebody {result['status']} this question: run {run.run_id}"
            fix = f"hive runs resume {run.run_id}, and a host answers it; or ask again"
            raise HiveError.of("HIVE-409", why, fix=fix, exit_code=1)
        conclusion = session.conclusion
        # Models take seconds, in which a token or a permission can end; a figure is made where it is rendered.
        if session.meter.calls or turn.outcome.tally is not None:
            self._recognise()
            answer = conclusion.model_answer
            return render_reply(session.index, self.gate, turn, answer, session.vocabulary, self._files(turn.thread_id))
        text = conclusion.answer.text if conclusion.answer else None
        files = self._files(turn.thread_id)
        return fresh_reply(session.index, turn, text, conclusion.rows, session.vocabulary, files)

    def transcript(self, last: int | None = None) -> list[dict[str, Any]]:
        """Return the replies of the thread, or the `last` ones, rendered as they may be seen now.

        Each has `text`, the reader's words.
        """
        self._recognise()
        if self.thread_id is None:
            return []
        return [self._render(turn) | {"text": turn.text} for turn in self._threads.turns(self.thread_id, last)]

    def render(self, run_id: str, *, unfold: bool = False) -> dict[str, Any]:
        """Return the reply of an earlier turn, as it may be seen now, with `unfold` more of each passage.

        Raises: HIVE-409.
        """
        return self._render(self.threads.turn(run_id), unfold=unfold)

    def _render(self, turn: Turn, *, unfold: bool = False) -> dict[str, Any]:
        answer = self._threads.answer(turn.run_id)
        vocabulary = vocabulary_of(self._certain())
        files = self._files(turn.thread_id)
        return render_reply(self._scope(), self.gate, turn, answer, vocabulary, files, unfold=unfold)

    @property
    def files(self) -> DroppedFiles:
        """The files of the conversation. Raises: HIVE-409 where none has begun."""
        self._recognise()
        if self.thread_id is None:
            raise HiveError.of("HIVE-409", "no conversation has begun", fix="ask, or name one of yours", exit_code=2)
        return self._files(self.thread_id)

    def _files(self, thread_id: str) -> DroppedFiles:
        return DroppedFiles(self.workspace, self.reader, thread_id)

    def drop(self, name: str, data: bytes) -> DroppedFile:
        """Have a file searched by the questions of this conversation from now on.

        Raises: HIVE-105 with the reason why it can't be read, HIVE-402 while another file is being read, HIVE-409
        where the conversation is gone, HIVE-433 where as much is kept as may be.
        """
        passages = self.files.convert(name, data)
        return self.files.add(name, passages)  # reading takes a while, in which a right may end

    def follow_ups(self, run_id: str) -> list[FollowUp]:
        """Return what may be asked after a turn, from what the reader may view now; nothing where the turn shows
        documents that they no longer may. Raises: HIVE-409."""
        turn, gate = self.threads.turn(run_id), self.gate
        scope = self._scope()
        known = certain_scope(self.workspace, self.engine, self.reader, scope, gate)
        vocabulary = vocabulary_of(known)
        rows = viewable_rows(scope, gate, turn.outcome, vocabulary)
        return follow_ups(known, vocabulary, turn.text, turn.outcome, rows or [])

    def document(self, doc_id: str) -> dict[str, Any]:
        """Return {doc_id, title, metadata, text} of a document. Raises: HIVE-409, alike for unknown and not allowed."""
        self._recognise()
        index = self._scope()
        allowed = may_open(self.workspace, index, self.gate, doc_id)
        rows = index.rows(index.chunks_of(doc_id).tolist()) if allowed else []
        if not rows:
            raise NotFound.of(
                "HIVE-409", f"{doc_id} is not found", fix="name it as a result does, by its doc_id", exit_code=2
            )
        drafting.credit_open(self.workspace, self.reader, doc_id)
        metadata = {name: value for name, value in rows[0].metadata.items() if name not in RESERVED}
        text = "\n\n".join(row.in_document for row in rows)
        return {"doc_id": doc_id, "title": rows[0].title, "metadata": metadata, "text": text}

    def filters(self, expressions: Sequence[str]) -> list[DocumentFilter]:
        """Return the filters that expressions of a command line denote.

        Raises: HIVE-409, 206 to 208; a hidden value counts as unknown.
        """
        self._recognise()
        index = self._certain()
        fields = declared(index.collection).fields
        filters = document_filters(parse_filters(expressions, {name: field.type for name, field in fields.items()}))
        require_known(index, filters)
        return filters

    def field_values(self, most: int = 12) -> dict[str, list[str]]:
        """Return the fields that a reader may filter by, with values of documents that they may view.

        Dates and numbers have no values: they are filtered by bounds. Other fields without a value are left out.
        """
        self._recognise()
        fields = vocabulary_of(self._certain()).fields
        return {
            name: list(words.values[:most])
            for name, words in fields.items()
            if words.values or words.type in ("date", "number")
        }

    def why(self, run_id: str, doc_id: str) -> dict[str, Any]:
        """Return how a document was ranked for a turn's question among those that the reader may view: a result, or one
        that isn't among the results. Raises: HIVE-409."""
        turn = self.threads.turn(run_id)
        decision, index = turn.outcome.decision, self._scope()
        chunks, shown = index.chunks_of(doc_id), doc_id in turn.outcome.documents
        if not len(chunks) or doc_id not in self.gate.allowed([doc_id]):
            raise NotFound.of("HIVE-409", "that result is not found", fix="name a result of the turn", exit_code=2)
        if not shown and not matching(index, decision.filters)[chunks].any():
            return {"left out by": "the filters of the question"}
        if decision.strategy is SearchStrategy.METADATA_ONLY:
            return {"matched by": "filter, not ranked"}
        config = self.active.config
        searched = index.select(config.conditions, checked=True)
        if not shown and searched is not None and not searched[chunks].any():
            return {"left out by": "the filters of the config", "config": config.name}
        search = self.engine.retrieve(index, searched_for(index, decision.query), config)
        ranking = self.engine.present(index, search, config)
        ranked = list(dict.fromkeys(hit.doc_id for hit in ranking.hits))
        hit = next((hit for hit in ranking.hits if hit.doc_id == doc_id), None)
        if hit is None and not shown:
            return {"ranked by": "nothing: it is below the config's candidates"}
        if hit is None and "canary" in turn.trace.get("basis", {}):
            return {"ranked by": "the config that served before, in a list drafted by the canary"}
        if hit is None:
            return {"ranked by": "a deeper look than the config's candidates"}
        return ({} if shown else {"place": ranked.index(doc_id) + 1}) | {
            "section": hit.heading,
            "keyword rank": hit.bm25_rank,
            "vector rank": hit.vector_rank,
            "lanes disagree": None if hit.disagreement is None else round(hit.disagreement, 3),
            "fused score": round(hit.score, 5),
            "config": config.name,
        }

    def feedback(self) -> feedback.FeedbackQueue:
        self._recognise()
        return feedback.FeedbackQueue(self.workspace, self.reader, self.gate, engine=self.engine)

    def trace(self, run_id: str) -> dict[str, Any]:
        """Return the trace of a turn, also of another reader's, to an operator. Raises: HIVE-409, HIVE-415."""
        self._recognise()
        if self.reader.roles.isdisjoint(OPERATORS):
            message = f"{self.reader.user} may not read traces"
            raise HiveError.of("HIVE-415", message, fix="somebody with the role operator or admin may", exit_code=1)
        return trace_of(self.workspace, self.reader.tenant, run_id)

    def _certain(self) -> ScopedIndex:
        return certain_scope(self.workspace, self.engine, self.reader, self._scope())

    def _scope(self) -> ScopedIndex:
        return open_scope(self.workspace, self.engine, self.reader, self.active.config.collection)
