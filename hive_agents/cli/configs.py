"""Configs and collections as command lines name them, checked before use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.cli.surface import Surface
    from hive_agents.documents import Collection
    from hive_agents.evaluation import GoldenSet
    from hive_agents.ranking import RetrievalConfig, StoredConfig
    from hive_agents.workspace import Workspace


def chosen_config(
    workspace: Workspace,
    reference: str | None,
    surface: Surface,
    golden: GoldenSet | None = None,
    viewer: Principal | None = None,
    *,
    refresh: bool = True,
) -> RetrievalConfig:
    """Return the config that `reference` names, else the active one. Raises: every diagnostic of a config with errors.

    Filters are checked against the index, for a `viewer` against what they may view; `refresh` updates it first.
    """
    from hive_agents.ranking import active_config, named_config, require_sound

    if reference is None:
        active = active_config(workspace)
        surface.warn(active.warnings)
        stored = active.stored
    else:
        stored = named_config(workspace, reference)
    require_sound(workspace, stored, judged=golden.collection if golden else None, refresh=refresh, viewer=viewer)
    return stored.config


def tell_cost_of_look(surface: Surface, golden: GoldenSet, candidate: StoredConfig | None = None) -> None:
    """Say what a look at the holdout costs before it is spent.

    Nothing is said when `candidate` serves already, for labels of another collection, which are refused, or where so
    few questions are held out that they prove nothing, as the result says.
    """
    from hive_agents.evaluation import PROVING, held_out
    from hive_agents.gate import holdout
    from hive_agents.ranking import find_active

    active = find_active(surface.workspace)
    measured = candidate or (active.stored if active is not None else None)
    compared = candidate is None or (active is not None and active.stored.hash != candidate.hash)
    if measured is None or measured.config.collection != golden.collection:
        return
    left = holdout.proof_left(surface.workspace, golden) if compared else None
    if left is not None and left.alpha and len(held_out(golden) or ()) >= PROVING:
        surface.say(str(left))


def named_collection(workspace: Workspace, name: str | None) -> Collection:
    """Return the named collection, else the only one. Raises: HIVE-211 (exit code 2)."""
    from hive_agents.base import HiveError, NotFound
    from hive_agents.documents import load_collection

    try:
        return load_collection(workspace, name)
    except NotFound as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
