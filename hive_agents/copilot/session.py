"""What one turn works with: the reader, their scope, the models, and what the nodes hand on in memory."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.access import AccessLabels, CurrentLabels, Principal, TurnGate, ViewGate, local_key, permissions_of
from hive_agents.copilot.documents import Cursors, DatedRow
from hive_agents.copilot.extract import Answer
from hive_agents.copilot.outcome import Trace
from hive_agents.copilot.plan import DocumentFilter, PastTurn
from hive_agents.copilot.threads import ModelAnswer
from hive_agents.copilot.vocabulary import Vocabulary, declared
from hive_agents.errors import EngineFault, NoModel
from hive_agents.files import Format
from hive_agents.llm import Chain, Meter, is_outage, open_chain
from hive_agents.retrieval import (
    ChunkRow,
    Mask,
    RetrievalConfig,
    ScopedIndex,
    Search,
    SearchEngine,
    SqliteIndex,
    StoredConfig,
    active_config,
)
from hive_agents.settings import Role
from hive_agents.store import audit
from hive_agents.telemetry import span
from hive_agents.workspace import Workspace

if TYPE_CHECKING:
    from hive_agents.copilot.evidence import JudgeBuilder, Judged
    from hive_agents.llm import Script
    from hive_agents.verification import Impression

MOST_ASKED = 2000
"""Documents that a service which can't list is asked about one by one."""

# Kept as long as what they were read from is open; who may see what is decided afresh each time.
_labels: WeakKeyDictionary[SqliteIndex, CurrentLabels] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[ScopedIndex, Vocabulary] = WeakKeyDictionary()


def open_scope(workspace: Workspace, engine: SearchEngine, reader: Principal, collection: str) -> ScopedIndex:
    """Return the index as if it held only what the reader may view, as the permission service says it now."""
    index = engine.index(collection)
    labels = _labels.get(index)
    if labels is None:
        indexed = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
        labels = _labels[index] = CurrentLabels(workspace, indexed, index.created_at)
    visible = permissions_of(workspace).scope(reader, labels.now())
    return index.within(visible, owner=(reader.tenant, reader.user))


def certain_scope(
    workspace: Workspace, engine: SearchEngine, reader: Principal, scope: ScopedIndex, gate: ViewGate | None = None
) -> ScopedIndex:
    """Return what of a scope the reader may view for certain: fields, values and texts of errors come from it alone.

    That is the scope, unless its service can't list: then those of its first `MOST_ASKED` documents that the service
    allows when it is asked for each, through `gate` where one is given.
    """
    permissions = permissions_of(workspace)
    if permissions.lists:
        return scope
    may = (gate or ViewGate(permissions, reader)).allowed(scope.doc_ids()[:MOST_ASKED])
    index = engine.index(scope.collection.name)
    visible = np.array([doc_id in may for doc_id in index.doc_ids()], np.bool_)
    return index.within(visible, owner=(reader.tenant, reader.user))


def may_open(workspace: Workspace, scope: ScopedIndex, gate: ViewGate, doc_id: str) -> bool:
    """Return whether the reader may view a document that somebody names.

    Where the service lists what they may view, a document outside of the scope is asked about no further: a hidden one
    and one that doesn't exist take the same path and the same time.
    """
    if permissions_of(workspace).lists and not scope.holds(doc_id):
        return False
    return doc_id in gate.allowed([doc_id])


def vocabulary_of(known: ScopedIndex) -> Vocabulary:
    """Return the fields and values of a certain scope; the same for the same documents."""
    found = _vocabularies.get(known)
    if found is None:
        found = _vocabularies[known] = Vocabulary.of(declared(known.collection), known.values)
    return found


class Request(Format):
    """What a reader asks. `pinned` are filters that the reader chose, `dropped` the fields of which no filter is to be
    read out of the question; `cursor` goes on where a page ended. `before` are their earlier questions, oldest first,
    where the conversation stands with the client; a thread that remembers turns of its own knows better."""

    text: str
    before: list[str] = []
    doc_id: str | None = None
    pinned: list[DocumentFilter] = []
    dropped: list[str] = []
    cursor: str | None = None


@dataclass
class Candidates:
    """What retrieve found, for the nodes behind it: a search, or rows by filter, or the beginning of a document.

    No JSON, and so no part of the graph's state: a turn that died is asked again.
    """

    search: Search | None = None
    rows: list[DatedRow] = field(default_factory=list)
    opening: list[ChunkRow] = field(default_factory=list)


@dataclass(frozen=True)
class Conclusion:
    """What the turn shows: the rows behind its results, which have passed the gate, and the answer that was judged.

    With `outage` there is none because a model that should have written or judged it couldn't be asked.
    """

    rows: list[ChunkRow]
    answer: Answer | None = None
    judged: Judged | None = None
    outage: bool = False

    @property
    def model_answer(self) -> ModelAnswer | None:
        """The model's words, and the documents that they were made from; None where a model wrote nothing."""
        if self.answer is None or self.answer.source != "model":
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
        build_judge: JudgeBuilder | None = None,
        scripts: dict[Path, Script] | None = None,
        today: dt.date | None = None,
    ) -> None:
        self.workspace, self.reader, self.run_id, self.request = workspace, reader, run_id, request
        self.engine, self.past = engine, past
        self.settings = workspace.settings.copilot
        self.today = today or dt.datetime.now(dt.UTC).date()
        self.meter = Meter()
        self.trace = Trace()
        self.gate = TurnGate(permissions_of(workspace), reader)
        self.universe: Mask | None = None
        self.count: int | None = None
        self.corrected: dict[str, str] = {}
        self.found = Candidates()
        self.conclusion = Conclusion([])
        self.outage = False  # of the embedding model, the reranker or an engine of vectors
        self.by_words = False  # because nothing could be searched by meaning
        self.impression: Impression | None = None  # where the turn takes part in a canary
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
        """Whether `known` is all that the reader may view, and there is any."""
        listed = permissions_of(self.workspace).lists or len(self.index.doc_ids()) <= MOST_ASKED
        return listed and self.known.n_chunks > 0

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.known)

    @property
    def basis(self) -> dict[str, Any]:
        """What the turn's results rest on: the config, the documents in scope, the models, the end of the audit log.

        Nothing of it changes with a document that the reader may not view. The log's end is told as `log_mark`, since
        its length would say how much others do.
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
        """Return the models of a role as one; None where none is configured.

        Raises: HIVE-401 for one that can't be had.
        """
        settings = self.workspace.settings
        names = settings.models.of(role)
        if not names:
            return None
        return open_chain(names, settings, meter=self.meter, workspace=self.workspace, scripts=self._scripts)

    def without_vectors(self, error: NoModel | EngineFault) -> None:
        """Search by words alone for the rest of the turn.

        Raises: `error`, unless the model or the engine just couldn't be asked.
        """
        words = self.config.retrieval.model_copy(update={"method": "keyword"})
        never = self.config.abstain.model_copy(update={"min_cosine": None})
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
        self.trace.notes.append(f"search: {'an engine' if of_engine else 'a model'} could not be asked")
        self.config = self.config.model_copy(update=update)

    def cursors(self, filters: Sequence[DocumentFilter]) -> Cursors:
        """Return the cursors of this reader's list by these filters."""
        demands = [demand.model_dump_json() for demand in filters]
        return Cursors(local_key(self.workspace), self.reader.tenant, self.reader.user, *demands)

    @contextmanager
    def timed(self, node: str) -> Iterator[None]:
        """Write down how long a node takes."""
        started = time.perf_counter()
        try:
            with span(f"node {node}"):
                yield
        finally:
            self.trace.nodes.append({"node": node, "ms": round((time.perf_counter() - started) * 1000, 3)})


def log_mark(run_id: str, head: str) -> str:
    """Return what binds a turn to a line of the audit log, by its digest, and tells nothing of the log by itself.

    >>> log_mark("r1", "")[:8]
    'feb74c12'
    """
    return hashlib.sha256(f"{run_id}\0{head}".encode()).hexdigest()
