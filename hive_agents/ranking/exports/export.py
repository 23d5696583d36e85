"""The export of a config and its index for another engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from hive_agents.access import Principal
from hive_agents.index import SqliteIndex
from hive_agents.models.embedding import Recent
from hive_agents.ranking.config import RetrievalConfig, canonical_hash
from hive_agents.ranking.exports import opensearch, postgres, qdrant
from hive_agents.ranking.exports.contents import Content, contents, readers_of
from hive_agents.ranking.exports.plan import Difference, ExportPlan, Parameter, Parts, common, parameters
from hive_agents.ranking.exports.template import filled
from hive_agents.workspace import Workspace

ENGINES: Mapping[str, Callable[[ExportPlan], Parts]] = {
    "opensearch": opensearch.parts,
    "postgres": postgres.parts,
    "qdrant": qdrant.parts,
}


@dataclass(frozen=True)
class Export:
    """A config for another engine.

    `texts` are the files that create and query the index, by name; `data` are the files that fill it, generated while
    they are written. `request` is the query with its parameters, as `filled` takes it.
    """

    engine: str
    config: str
    config_hash: str
    index_hash: str
    embedding_model: str | None
    texts: Mapping[str, str]
    data: Mapping[str, Callable[[], Iterator[str]]] = field(repr=False)
    request: Any
    parameters: tuple[Parameter, ...]
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "config": self.config,
            "config_hash": self.config_hash,
            "index_hash": self.index_hash,
            "embedding_model": self.embedding_model,
            "parameters": [asdict(one) for one in self.parameters],
            "differences": [asdict(one) for one in self.differences],
        }


def export(workspace: Workspace, index: SqliteIndex, config: RetrievalConfig, engine: str) -> Export:
    """Return the export for `engine`, one of `ENGINES`, to search the present `index` like `config`.

    Raises: HIVE-206 and 207 for filters and boosts that the collection can't have, HIVE-401 where the config needs
    vectors and the index has none.
    """
    plan = ExportPlan.of(index, config)
    parts = ENGINES[engine](plan)
    return Export(
        engine=engine,
        config=config.name,
        config_hash=canonical_hash(config.model_dump(mode="json")),
        index_hash=index.index_hash,
        embedding_model=index.embedding_model if plan.vector else None,
        texts=parts.texts,
        data={name: partial(_data, write, workspace, index) for name, write in parts.data.items()},
        request=parts.request,
        parameters=parameters(plan, parts.words),
        differences=(*common(workspace, plan, parts.factors), *parts.differences),
    )


def _data(
    write: Callable[[Iterator[Content]], Iterator[str]], workspace: Workspace, index: SqliteIndex
) -> Iterator[str]:
    return write(contents(workspace, index))


def values_for(export: Export, index: SqliteIndex, query: str, principal: Principal) -> dict[str, Any]:
    """Return the value of each parameter of an export for one question of a principal."""
    made: dict[str, Callable[[], Any]] = {
        "reader": lambda: readers_of(principal),
        "query": lambda: query,
        "terms": lambda: qdrant.sparse_query(query, index.language),
        "embedding": lambda: index.embed([query], Recent(1))[0].tolist(),
    }
    return {one.name: made[one.name]() for one in export.parameters}


__all__ = ["ENGINES", "Difference", "Export", "Parameter", "export", "filled", "values_for"]
