"""What one turn works with: the reader, their scope, the models, and what the nodes hand on in memory."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from hive_agents.access import AccessLabels, Documents, Gate, Principal, TurnGate, permissions_of
from hive_agents.access.local_key import local_key
from hive_agents.copilot.documents import Cursors, Row
from hive_agents.copilot.filters import declared
from hive_agents.copilot.outcome import Trace
from hive_agents.copilot.plan import DocumentFilter
from hive_agents.copilot.router import PastTurn
from hive_agents.copilot.threads import ModelAnswer
from hive_agents.copilot.verdicts import JudgeBuilder, Judged
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.formats import Format
from hive_agents.llm import Chain, Meter, Role, Script, model_names, open_chain
from hive_agents.retrieval import RetrievalConfig, SearchEngine
from hive_agents.retrieval.deployed import active_config
from hive_agents.retrieval.engine import Search
from hive_agents.retrieval.index import SqliteIndex
from hive_agents.retrieval.lanes import ChunkRow, Mask
from hive_agents.retrieval.scoped import ScopedIndex
from hive_agents.workspace import Workspace


class Request(Format):
    """What a reader asks. `pinned` are filters that the reader chose; `cursor` goes on where a page ended."""

    text: str
    doc_id: str | None = None
    pinned: list[DocumentFilter] = []
    cursor: str | None = None


MOST_ASKED = 2000

# Kept as long as what they were read from is open; who may see what is decided afresh each time.
_labels: WeakKeyDictionary[SqliteIndex, Documents] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[ScopedIndex, Vocabulary] = WeakKeyDictionary()


def open_scope(workspace: Workspace, engine: SearchEngine, reader: Principal, collection: str) -> ScopedIndex:
    """The index as if it held only what the reader may view, as the permission service says it now."""
    index = engine.index(collection)
    documents = _labels.get(index)
    if documents is None:
        documents = [(doc_id, AccessLabels.of(front_matter)) for doc_id, front_matter in index.front_matter()]
        _labels[index] = documents
    visible = permissions_of(workspace).scope(reader, documents)
    return index.within(visible, owner=(reader.tenant, reader.user))


def certain(
    workspace: Workspace, engine: SearchEngine, reader: Principal, scope: ScopedIndex, gate: Gate | None = None
) -> ScopedIndex:
    """What of a scope the reader may view for certain: fields, values and the text of errors come from it alone.

    That is the scope, unless its service can't list: then those of its first `MOST_ASKED` documents that the service
    allows when it is asked for each, through `gate` where one is given.
    """
    permissions = permissions_of(workspace)
    if permissions.lists:
        return scope
    may = (gate or Gate(permissions, reader)).allowed(scope.doc_ids()[:MOST_ASKED])
    index = engine.index(scope.collection.name)
    visible = np.array([doc_id in may for doc_id in index.doc_ids()], np.bool_)
    return index.within(visible, owner=(reader.tenant, reader.user))


def vocabulary_of(known: ScopedIndex) -> Vocabulary:
    """The fields and values of `certain` documents; the same for the same documents."""
    found = _vocabularies.get(known)
    if found is None:
        found = _vocabularies[known] = Vocabulary.of(declared(known.collection), known.values)
    return found


class TurnSession:
    """One turn of one reader.

    `search`, `universe`, `opening` and `rows` are what retrieve found, for the nodes after it.
    """

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
        self.search: Search | None = None
        self.universe: Mask | None = None
        self.count: int | None = None
        self.opening: list[ChunkRow] = []
        self.rows: list[Row] = []
        self.shown: list[ChunkRow] = []
        self.answer: ModelAnswer | None = None
        self.judged: Judged | None = None
        self.build_judge = build_judge
        self._scripts = scripts if scripts is not None else {}

    @cached_property
    def config(self) -> RetrievalConfig:
        return active_config(self.workspace).stored.config

    @cached_property
    def index(self) -> ScopedIndex:
        return open_scope(self.workspace, self.engine, self.reader, self.config.collection)

    @cached_property
    def known(self) -> ScopedIndex:
        return certain(self.workspace, self.engine, self.reader, self.index, self.gate)

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.known)

    def model(self, role: Role) -> Chain | None:
        """The models of a role as one; None where none is configured. Raises: HIVE-401 for one that can't be had."""
        names = model_names(self.workspace.settings, role)
        if not names:
            return None
        settings = self.workspace.settings
        return open_chain(names, settings, meter=self.meter, root=self.workspace.root, scripts=self._scripts)

    def cursors(self, filters: Sequence[DocumentFilter]) -> Cursors:
        demands = [demand.model_dump_json() for demand in filters]
        return Cursors(local_key(self.workspace), self.reader.tenant, self.reader.user, *demands)

    @contextmanager
    def timed(self, node: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.trace.nodes.append({"node": node, "ms": round((time.perf_counter() - started) * 1000, 3)})
