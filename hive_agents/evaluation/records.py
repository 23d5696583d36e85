"""A record of measurements for people; no decision reads it."""

from __future__ import annotations

import json

from hive_agents.evaluation.results import Evaluation
from hive_agents.ranking import RetrievalConfig
from hive_agents.store import audit, connected
from hive_agents.workspace import Workspace


def record(workspace: Workspace, config: RetrievalConfig, evaluation: Evaluation) -> None:
    from hive_agents.ranking import canonical_hash

    digest = canonical_hash(config.model_dump(mode="json", exclude_unset=True))
    row = (digest, evaluation.golden_hash, evaluation.index_hash, audit.now(), json.dumps(evaluation.metrics))
    with connected(workspace.records) as connection:
        connection.execute(
            "INSERT INTO eval_results (config_hash, golden_hash, index_hash, at, metrics) VALUES (?, ?, ?, ?, ?)", row
        )
