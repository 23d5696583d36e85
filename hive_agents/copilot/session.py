"""The session of a turn: its reader and their scope, the models, and what nodes pass on in memory."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np

from hive_agents.access import AccessLabels, Principal, ViewGate, local_key, permissions_of, service
from hive_agents.base import EngineFault, NoModel
from hive_agents.base.files import Format
from hive_agents.copilot.answer import Answer
from hive_agents.copilot.documents import Cursors, DatedRow, declared
from hive_agents.copilot.foreign import searched_for
from hive_agents.copilot.outcome import Trace
from hive_agents.copilot.plan import DocumentFilter, PastTurn
from hive_agents.copilot.threads import ModelAnswer
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.index import ChunkRow, Mask, ScopedIndex, SqliteIndex, StaleIndex
from hive_agents.models import Chain, Meter, is_outage, open_chain, span
from hive_agents.ranking import RetrievalConfig, Search, SearchEngine, StoredConfig, active_config
from hive_agents.store import audit
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Role

if TYPE_CHECKING:
    from hive_agents.copilot.dropped import DroppedFiles
    from hive_agents.copilot.evidence import JudgeBuilder, Judged
    from hive_agents.gate import canary
    from hive_agents.models import Script

T = TypeVar("T")

MOST_ASKED = 2000
"""The most documents that a permission service which can't list them is asked about."""

# Cached for each open index; permissions are checked again every time.
_labels: WeakKeyDictionary[SqliteIndex, service.CurrentLabels] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[ScopedIndex, Vocabulary] = WeakKeyDictionary()


def open_scope(workspace: Workspace, engine: SearchEngine, reader: Principal, collection: str) -> ScopedIndex:
    """Return the index restricted to what the reader may view now."""
    index = engine.index(collection)
    labels = _labels.get(index)
    if labels is None:
        indexed = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
        labels = _labels[index] = service.CurrentLabels(workspace, indexed, index.is_as_indexed)
    visible = permissions_of(workspace).scope(reader, labels.now())
    return index.within(visible, owner=(reader.tenant, reader.user))


def certain_scope(
    workspace: Workspace, engine: SearchEngine, reader: Principal, scope: ScopedIndex, gate: ViewGate | None = None
) -> ScopedIndex:
    """Return the part of a scope that the reader may certainly view; only it supplies fields, values and error texts.

    That is the scope, unless the permission service can't list documents: then those of its first `MOST_ASKED` that
    the service allows when it is asked about them, through `gate` where one is given.
    """
    permissions = permissions_of(workspace)
    if permissions.lists:
        return scope
    may = (gate or ViewGate(permissions, reader)).allowed(scope.doc_ids()[:MOST_ASKED])
    index = engine.index(scope.collection.name)
    visible = np.array([doc_id in may for doc_id in index.doc_ids()], np.bool_)
    return index.within(visible, owner=(reader.tenant, reader.user))


def may_open(workspace: Workspace, scope: ScopedIndex, gate: ViewGate, doc_id: str) -> bool:
    """Return whether the reader may view a document that is given by its id.

    Where the service lists what they may view, it isn't asked about a document outside of the scope: hidden and
    missing documents take the same path and the same time.
    """
    if permissions_of(workspace).lists and not scope.holds(doc_id):
        return False
    return doc_id in gate.allowed([doc_id])


def vocabulary_of(known: ScopedIndex) -> Vocabulary:
    """Return the fields and values of a scope from `certain_scope`, cached for each scope."""
    vocabulary = _vocabularies.get(known)
    if vocabulary is None:
        cells = (cell for _, _, metadata in known.documents() for cell in metadata.items())
        several = frozenset(name for name, value in cells if isinstance(value, list))
        vocabulary = _vocabularies[known] = Vocabulary.of(
            declared(known.collection), known.values, known.doc_ids(), partial(_held, ref(known)), several
        )
    return vocabulary


def _held(known: ref[ScopedIndex], field: str, value: str) -> frozenset[str]:
    """Return the fields that documents with a value of a field have."""
    index = known()
    rows = index.documents() if index is not None else []
    return frozenset().union(*(metadata.keys() for _, _, metadata in rows if metadata.get(field) == value))


class Request(Format):
    """A reader's request. `pinned` are filters that the reader chose, `dropped` fields on which the question sets none;
    `cursor` continues a list; `unfold` shows more of each passage. `before` are earlier questions, oldest first, where
    the client keeps the conversation; a thread with turns of its own ignores them."""

    text: str
    before: list[str] = []
    doc_id: str | None = None
    pinned: list[DocumentFilter] = []
    dropped: list[str] = []
    cursor: str | None = None
    unfold: bool = False


@dataclass
class Candidates:
    """The candidates of `retrieve` for the next nodes: a search, rows by filter, or the beginning of a document.

    Not JSON, and so not in the graph's state: an interrupted turn is repeated.
    """

    search: Search | None = None
    rows: list[DatedRow] = field(default_factory=list)
    opening: list[ChunkRow] = field(default_factory=list)


@dataclass(frozen=True)
class Conclusion:
    """The output of a turn: the rows of its results, which have passed the gate, and the judged answer.

    With `outage` there is no answer because a model that should have written or judged it was unavailable; one that the
    judge sent back is withheld: `judged` without an `answer`.
    """

    rows: list[ChunkRow]
    answer: Answer | None = None
    judged: Judged | None = None
    outage: bool = False

    @property
    def model_answer(self) -> ModelAnswer | None:
        """The model's answer with the documents that it was made from; None where no model wrote the answer."""
        if self.answer is None:
            return None
        return ModelAnswer(self.answer.text, tuple(dict.fromkeys(row.doc_id for row in self.rows)))


class TurnSession:
    """One turn of one reader."""

    def __init__(
        self,
        workspace: Workspace,
        reader: Principal,
        run_id: str,
        request: Request,
        *,
        engine: SearchEngine,
        past: Sequence[PastTurn] = (),
        files: DroppedFiles | None = None,
        build_judge: JudgeBuilder | None = None,
        scripts: dict[Path, Script] | None = None,
        today: dt.date | None = None,
    ) -> None:
        self.workspace, self.reader, self.run_id, self.request = workspace, reader, run_id, request
        self.engine, self.past, self.files = engine, past, files
        self.settings = workspace.settings.copilot
        self.today = today or dt.datetime.now(dt.UTC).date()
        self.meter = Meter()
        self.trace = Trace()
        self.gate = service.TurnGate.of(workspace, reader)
        self.universe: Mask | None = None
        self.count: int | None = None
        self.corrected: dict[str, str] = {}
        self.found = Candidates()
        self.in_files: list[str] = []  # passages of the conversation's files
        self.conclusion = Conclusion([])
        self.outage = False  # of the embedding model, the reranker or an engine of vectors
        self.by_words = False  # because nothing could be searched by meaning
        self.by_own_index = False  # because the engine of words could not be asked
        self.away_since: str | None = None
        self.impression: canary.Impression | None = None  # where the turn takes part in a canary
        self.drafted_with: dict[str, Any] = {}
        self.build_judge = build_judge
        self._scripts = scripts if scripts is not None else {}

    @cached_property
    def active(self) -> StoredConfig:
        return active_config(self.workspace).stored

    @cached_property
    def config(self) -> RetrievalConfig:
        return self.active.config

    @cached_property
    def index(self) -> ScopedIndex:
        return open_scope(self.workspace, self.engine, self.reader, self.config.collection)

    @cached_property
    def known(self) -> ScopedIndex:
        return certain_scope(self.workspace, self.engine, self.reader, self.index, self.gate)

    @property
    def knows_all(self) -> bool:
        """Whether `known` is all that the reader may view, and isn't empty."""
        listed = permissions_of(self.workspace).lists or len(self.index.doc_ids()) <= MOST_ASKED
        return listed and self.known.n_chunks > 0

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.known)

    @property
    def basis(self) -> dict[str, Any]:
        """The basis of the results: config, documents in scope, models, and a mark of the audit log's last line.

        Documents that the reader may not view change nothing in it. The log's length would reveal others' activity;
        `log_mark` doesn't.
        """
        settings = self.workspace.settings
        roles: tuple[Role, ...] = ("planner", "answer", "judge")
        drafted = {"canary": self.drafted_with} if self.drafted_with else {}
        return drafted | {
            "config": self.active.hash,
            "scope": self.index.index_hash,
            "embedding": self.index.embedding_model,
            "models": {role: list(settings.models.of(role)) for role in roles},
            "log": log_mark(self.run_id, audit.verify(self.workspace).head),
        }

    def model(self, role: Role) -> Chain | None:
        """Return the chain of a role's models; None where none is configured.

        Raises: HIVE-401 for a model that can't be used.
        """
        settings = self.workspace.settings
        names = settings.models.of(role)
        if not names:
            return None
        return open_chain(names, settings, meter=self.meter, workspace=self.workspace, scripts=self._scripts)

    def despite_outage(self, work: Callable[[], T]) -> T:
        """Return `work()`, in this host's own index where the engine of words is away, and by words alone where vectors
        are. Raises: StaleIndex where the own index is of another state by now."""
        while True:
            try:
                return work()
            except (NoModel, EngineFault) as error:
                of_words = error.diagnostics[0].path == "search.url"
                if isinstance(error, EngineFault) and of_words and not self.by_own_index:
                    self._search_here(error)
                elif self.by_words:
                    raise
                else:
                    self.without_vectors(error)

    def _search_here(self, error: EngineFault) -> None:
        """Search this host's own index for the rest of the turn."""
        own = open_scope(self.workspace, self.engine.here, self.reader, self.config.collection)
        if own.index_hash != self.index.index_hash:
            raise StaleIndex from error
        self.away_since = self._away_since("opensearch")
        self.engine, self.by_own_index = self.engine.here, True
        self.__dict__["index"] = own
        self.__dict__.pop("known", None)
        self.trace.notes.append("search: an engine could not be asked, and this host's own index was")

    def without_vectors(self, error: NoModel | EngineFault) -> None:
        """Search by words alone for the rest of the turn.

        Raises: `error`, unless it is an outage of the model or engine.
        """
        words = self.config.retrieval.model_copy(update={"method": "keyword"})
        never = self.config.abstain.model_copy(update={"min_cosine": None, "enabled": False})
        self._after_outage(error, {"retrieval": words, "abstain": never})
        self.by_words = True

    def without_reranker(self, error: NoModel) -> None:
        """Leave the ranking as it is for the rest of the turn. Raises: as `without_vectors`."""
        self._after_outage(error, {"rerank": self.config.rerank.model_copy(update={"enabled": False})})

    def _after_outage(self, error: NoModel | EngineFault, update: dict[str, Any]) -> None:
        of_engine = isinstance(error, EngineFault)
        if not (of_engine or is_outage(error.__cause__)):
            raise error
        self.outage = True
        self.away_since = self._away_since("pgvector") if of_engine else self.away_since
        self.trace.notes.append(f"search: {'an engine' if of_engine else 'a model'} could not be asked")
        self.config = self.config.model_copy(update=update)

    def _away_since(self, kind: str) -> str | None:
        since = self.engine.breakers[kind].since
        return None if since is None else f"{since:%Y-%m-%d %H:%M} UTC"

    def searched(self, question: str) -> tuple[str, RetrievalConfig]:
        """Return what is searched for and the config for it: one in another language than the documents' is never
        answered by nothing."""
        text = searched_for(self.index, question)
        never = self.config.abstain.model_copy(update={"min_cosine": None, "enabled": False})
        return text, self.config if text == question else self.config.model_copy(update={"abstain": never})

    def cursors(self, filters: Sequence[DocumentFilter]) -> Cursors:
        """Return the cursors of this reader's list by these filters."""
        demands = [demand.model_dump_json() for demand in filters]
        return Cursors(local_key(self.workspace), self.reader.tenant, self.reader.user, *demands)

    @contextmanager
    def timed(self, node: str) -> Iterator[None]:
        """Add a node's time to the trace."""
        started = time.perf_counter()
        try:
            with span(f"node {node}"):
                yield
        finally:
            self.trace.nodes.append({"node": node, "ms": round((time.perf_counter() - started) * 1000, 3)})


def log_mark(run_id: str, head: str) -> str:
    """Return a hash that binds a turn to a line of the audit log, given by its digest, and reveals nothing of the log.

    >>> log_mark("r1", "")[:8]
    'feb74c12'
    """
    return hashlib.sha256(f"{run_id}\0{head}".encode()).hexdigest()
