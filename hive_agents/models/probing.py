"""Probes of the models that a workspace configures, for `hive doctor` and `hive models`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from hive_agents.base import HiveError
from hive_agents.models.chain import open_chain
from hive_agents.models.embedding import open_embedder
from hive_agents.models.embedding.providers import open_reranker
from hive_agents.models.endpoint import open_endpoint
from hive_agents.models.probe import Probe, probe
from hive_agents.models.threads import waited
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Role

TAKE_A_LARGER = "agents need tools, planner and judge structured answers: take a larger model for them"


@dataclass(frozen=True)
class Tried:
    """The result of trying an embedding model or a reranker; `error` says why it failed."""

    name: str
    kind: str
    ok: bool
    seconds: float = 0.0
    dimensions: int = 0
    error: str = ""
    fix: str = ""


def configured_chat(workspace: Workspace) -> dict[str, list[str]]:
    """Return the chat models of the settings by name, each with its roles, in the order of the roles."""
    roles_by_name: dict[str, list[str]] = {}
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        for name in workspace.settings.models.of(role):
            roles_by_name.setdefault(name, []).append(role)
    return roles_by_name


def served(workspace: Workspace) -> dict[str, list[str] | str]:
    """Return, by name of endpoint, the models that it lists, or why it can't."""

    async def listed(name: str) -> list[str] | str:
        try:
            return await open_endpoint(workspace, name).models(workspace.settings.models.deadline_seconds)
        except Exception as error:
            return error.diagnostics[0].message if isinstance(error, HiveError) else str(error)

    async def all_listed() -> list[list[str] | str]:
        return await asyncio.gather(*map(listed, names))

    names = list(workspace.settings.models.endpoints)
    return dict(zip(names, waited(all_listed()), strict=True))


def probed(workspace: Workspace, names: Collection[str]) -> list[Probe]:
    """Return the probes of the chat models `names`, run concurrently."""

    async def probed_one(name: str) -> Probe:
        try:
            by_user = name not in configured
            return await probe(open_chain([name], workspace.settings, workspace=workspace, by_user=by_user))
        except HiveError as error:
            first = error.diagnostics[0]
            return Probe(name=name, ok=False, error=f"{first.code}: {first.message}", fix=first.fix or "")

    configured = configured_chat(workspace)

    async def all_probed() -> list[Probe]:
        return await asyncio.gather(*map(probed_one, names))

    return waited(all_probed())


def is_fit(result: Probe) -> bool:
    """Return whether a chat model has structured output and tool calls, which agents and judges need."""
    return bool(result.structured and result.tools)


def told_of(result: Probe) -> str:
    """Return a chat model's abilities in words."""
    parts = [
        f"answers in {result.seconds:.2f} s",
        f"structured output by {result.structured}" if result.structured else "no structured output",
        "calls tools" if result.tools else "called no tool",
        "streams" if result.streams else "doesn't stream",
        "price known" if result.priced else "price not known",
    ]
    return ", ".join(parts)


def tried_embedding(workspace: Workspace) -> Tried:
    """Return the result of embedding one sentence."""
    name = workspace.settings.models.embedding
    started = time.perf_counter()
    try:
        embedder, why_not = open_embedder(workspace)
        if embedder is None:
            why = why_not.message if why_not else "none"
            return Tried(name, "embedding", False, error=why, fix=(why_not.fix or "") if why_not else "")
        embedder.embed(["a sentence"])
    except HiveError as error:
        return _failed(name, "embedding", error)
    return Tried(name, "embedding", True, round(time.perf_counter() - started, 3), embedder.dimensions)


def tried_reranker(workspace: Workspace) -> Tried | None:
    """Return the result of scoring two texts; None where no reranker is configured."""
    name = workspace.settings.models.reranker
    started = time.perf_counter()
    try:
        reranker = open_reranker(workspace)
        if reranker is None:
            return None
        good, bad = reranker.relevance("how to water a cactus", ["Water a cactus once a month.", "A train is late."])
    except HiveError as error:
        return _failed(name, "reranker", error)
    if not good > bad:
        why = f"it scored a text that answers {good:g} and one that doesn't {bad:g}"
        return Tried(name, "reranker", False, error=why, fix="use another model: this one is no reranker")
    return Tried(name, "reranker", True, round(time.perf_counter() - started, 3))


def _failed(name: str, kind: str, error: HiveError) -> Tried:
    first = error.diagnostics[0]
    return Tried(name, kind, False, error=f"{first.code}: {first.message}", fix=first.fix or "")
