"""Every configured model of a workspace, asked what it can do: for `hive doctor` and `hive models`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import get_args

from hive_agents.errors import HiveError
from hive_agents.llm import Probe, open_chain, open_endpoint, probe, waited
from hive_agents.retrieval import open_embedder, open_reranker
from hive_agents.settings import Role
from hive_agents.workspace import Workspace

TAKE_A_LARGER = "agents need tools, planner and judge structured answers: take a larger model for them"


@dataclass(frozen=True)
class Tried:
    """What an embedding model or a reranker gave; `error` says why it gave nothing."""

    name: str
    kind: str
    ok: bool
    seconds: float = 0.0
    dimensions: int = 0
    error: str = ""
    fix: str = ""


def configured_chat(workspace: Workspace) -> dict[str, list[str]]:
    """Return the chat models of the settings by name, each with its roles, in the order of the roles."""
    found: dict[str, list[str]] = {}
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        for name in workspace.settings.models.of(role):
            found.setdefault(name, []).append(role)
    return found


def served(workspace: Workspace) -> dict[str, list[str] | str]:
    """Return what the endpoints say they serve, or why one doesn't say, by name."""

    async def asked(name: str) -> list[str] | str:
        try:
            return await open_endpoint(workspace, name).models(workspace.settings.models.deadline_seconds)
        except Exception as error:
            return error.diagnostics[0].message if isinstance(error, HiveError) else str(error)

    async def all_of_them() -> list[list[str] | str]:
        return await asyncio.gather(*map(asked, names))

    names = list(workspace.settings.models.endpoints)
    return dict(zip(names, waited(all_of_them()), strict=True))


def probed(workspace: Workspace, names: Collection[str]) -> list[Probe]:
    """Return what the chat models `names` can do, all asked at the same time."""

    async def asked(name: str) -> Probe:
        try:
            return await probe(open_chain([name], workspace.settings, workspace=workspace))
        except HiveError as error:
            found = error.diagnostics[0]
            return Probe(name=name, ok=False, error=f"{found.code}: {found.message}", fix=found.fix or "")

    async def all_of_them() -> list[Probe]:
        return await asyncio.gather(*map(asked, names))

    return waited(all_of_them())


def is_fit(found: Probe) -> bool:
    """Return whether a chat model that answers can do all that is asked of one."""
    return bool(found.structured and found.tools)


def told_of(found: Probe) -> str:
    """Return what a chat model can do, in words."""
    parts = [
        f"answers in {found.seconds:.2f} s",
        f"structured output by {found.structured}" if found.structured else "no structured output",
        "calls tools" if found.tools else "called no tool",
        "streams" if found.streams else "doesn't stream",
        "price known" if found.priced else "price not known",
    ]
    return ", ".join(parts)


def tried_embedding(workspace: Workspace) -> Tried:
    """Embed one sentence."""
    name = workspace.settings.models.embedding
    started = time.perf_counter()
    try:
        embedder, why_not = open_embedder(workspace)
        if embedder is None:
            told = why_not.message if why_not else "none"
            return Tried(name, "embedding", False, error=told, fix=(why_not.fix or "") if why_not else "")
        embedder.embed(["a sentence"])
    except HiveError as error:
        return _failed(name, "embedding", error)
    return Tried(name, "embedding", True, round(time.perf_counter() - started, 3), embedder.dimensions)


def tried_reranker(workspace: Workspace) -> Tried | None:
    """Score two texts; None where no reranker is configured."""
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
        told = f"it scored a text that answers {good:g} and one that doesn't {bad:g}"
        return Tried(name, "reranker", False, error=told, fix="use another model: this one is no reranker")
    return Tried(name, "reranker", True, round(time.perf_counter() - started, 3))


def _failed(name: str, kind: str, error: HiveError) -> Tried:
    found = error.diagnostics[0]
    return Tried(name, kind, False, error=f"{found.code}: {found.message}", fix=found.fix or "")
