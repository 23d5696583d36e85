"""Levels 1 and 2 of a config: the compiler and the linter."""

from __future__ import annotations

from pathlib import Path

from hive_agents.access import Principal
from hive_agents.base import Diagnostic, HiveError, has_errors
from hive_agents.index import AnyIndex
from hive_agents.ranking.config import LINK, RetrievalConfig, StoredConfig, find_config_file, parse_config, read_config
from hive_agents.ranking.deployed import active_config, versions
from hive_agents.ranking.indexed import build_index
from hive_agents.ranking.semantics import check_semantics, reads_index
from hive_agents.workspace import Workspace


def named_config(workspace: Workspace, reference: str) -> StoredConfig:
    """Return the config that `reference` names, `active` included; level 1 is checked."""
    if reference in ("active", LINK):
        return active_config(workspace).stored
    path = find_config_file(workspace, reference)
    if workspace.relative(path) == f"configs/{LINK}":
        return active_config(workspace).stored
    return read_config(workspace, path)


def check_config(
    workspace: Workspace,
    stored: StoredConfig,
    *,
    judged: str | None = None,
    reranker: bool = False,
    refresh: bool = True,
    index: AnyIndex | None = None,
    viewer: Principal | None = None,
) -> list[Diagnostic]:
    """Return the findings of levels 1 and 2 on a config that parses.

    `judged` is the collection of the golden set that the config is measured by. Filters and boosts are checked against
    an open `index`, or against the workspace's, refreshed before; for a `viewer` against what they may view of it.
    """
    findings = []
    parent = stored.config.parent
    if parent is not None and not _exists(workspace, parent):
        message = f'parent "{parent}" is neither a config nor a deployed version'
        line = stored.line_of(["parent"])
        findings.append(
            Diagnostic("HIVE-107", message, stored.file, "parent", "name an existing config, or use null", line)
        )
    if refresh and index is None and reads_index(stored.config):
        build_index(workspace)
    configured = workspace.settings.models.reranker not in ("", "none")
    reranks = reranker or configured
    return findings + check_semantics(workspace, stored, judged=judged, reranker=reranks, index=index, viewer=viewer)


def require_sound(
    workspace: Workspace,
    stored: StoredConfig,
    *,
    judged: str | None = None,
    reranker: bool = False,
    refresh: bool = True,
    viewer: Principal | None = None,
) -> None:
    """Raise every diagnostic of levels 1 and 2, if one of them is an error."""
    findings = check_config(workspace, stored, judged=judged, reranker=reranker, refresh=refresh, viewer=viewer)
    if has_errors(findings):
        raise HiveError(findings, exit_code=1)


def stored_from(config: RetrievalConfig, file: str) -> StoredConfig:
    """Return a config made in memory, with its text as in a file."""
    return parse_config(config_text(config), file)


def config_text(config: RetrievalConfig) -> str:
    import json

    return json.dumps(config.model_dump(exclude_unset=True), indent=2, ensure_ascii=False) + "\n"


def _exists(workspace: Workspace, name: str) -> bool:
    try:
        find_config_file(workspace, name)
    except HiveError:
        return any(version.name == name or Path(version.file).stem == name for version in versions(workspace))
    return True
