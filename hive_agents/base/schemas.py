"""JSON Schemas of the files in a workspace."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hive_agents.base.errors import NotFound, did_you_mean

KINDS = {
    "config": ("hive_agents.ranking.config", "RetrievalConfig"),
    "collection": ("hive_agents.documents.documents", "Collection"),
    "golden": ("hive_agents.evaluation.golden", "GoldenFile"),
    "goal": ("hive_agents.goals.goals", "Goal"),
    "rule": ("hive_agents.judging.rules", "EvaluationRule"),
    "agent": ("hive_agents.agents.spec", "AgentSpec"),
    "trigger": ("hive_agents.triggers.spec", "TriggerFile"),
    "access": ("hive_agents.access.rules", "AccessFile"),
    "settings": ("hive_agents.workspace.settings", "Settings"),
}


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file. Raises: HIVE-409 for an unknown kind."""
    if kind not in KINDS:
        fix = did_you_mean(kind, KINDS, f"use one of: {', '.join(KINDS)}")
        raise NotFound.of("HIVE-409", f'there is no schema "{kind}"', fix=fix)
    module, name = KINDS[kind]
    schema: dict[str, Any] = getattr(import_module(module), name).model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
