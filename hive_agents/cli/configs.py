"""How a command line names a config, and what is checked before it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hive_agents.text import count

INTERRUPTED = "what is embedded is kept, and searches use the index as it was; run `hive index` to go on"
WORTH_TELLING = 3.0
WAITED = 1.0
"""Seconds that a search waits for another process that writes: it can use the index as it is."""
PATIENT = 30.0
"""Seconds that is waited where there is no index to use."""

if TYPE_CHECKING:
    from hive_agents.cli.surface import Surface
    from hive_agents.evaluation import GoldenSet
    from hive_agents.retrieval import Collection, PendingWork, RetrievalConfig
    from hive_agents.workspace import Workspace


def chosen_config(
    workspace: Workspace,
    reference: str | None,
    surface: Surface,
    golden: GoldenSet | None = None,
    *,
    refresh: bool = True,
) -> RetrievalConfig:
    """The config that `reference` names, else the active one; sound, or every diagnostic is raised.

    Filters are checked against an index that is brought up to date before, unless the caller did that.
    """
    from hive_agents.retrieval import active_config
    from hive_agents.verification import named_config, require_sound

    if reference is None:
        active = active_config(workspace)
        surface.warn(active.warnings)
        stored = active.stored
    else:
        stored = named_config(workspace, reference)
    require_sound(workspace, stored, golden=golden, refresh=refresh)
    return stored.config


def named_collection(workspace: Workspace, name: str | None) -> Collection:
    """Return the collection that a command line names, else the only one. Raises: HIVE-211 (exit code 2)."""
    from hive_agents.errors import HiveError, NotFound
    from hive_agents.retrieval import load_collection

    try:
        return load_collection(workspace, name)
    except NotFound as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def keep_fresh(workspace: Workspace, surface: Surface, *, told: bool = True) -> None:
    """Before a search: look for changed documents, or with `index.auto_refresh` off say that there are some.

    What is wrong with documents is `told` to the workspace's owner only: a reader may not know that they exist. That
    a damaged database was set aside, and conversations with it, everybody is told. Where an engine is away that would
    have to get the changes, or another process writes, the search is over the documents as they were.
    """
    from hive_agents.errors import Busy, Diagnostic, EngineFault, HiveError
    from hive_agents.retrieval import index_is_stale, is_indexed

    if workspace.settings.index.auto_refresh:
        try:
            searchable = is_indexed(workspace)
        except HiveError:  # a damaged database: the refresh sets it aside
            searchable = False
        try:
            refresh_index(workspace, surface, told=told, wait=WAITED if searchable else PATIENT)
        except Busy as error:
            if not searchable:
                raise
            if told:
                message = f"{error.diagnostics[0].message}: this is the index as it was before"
                fix = "search again when that is done"
                surface.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix=fix, severity="warning")])
        except EngineFault as error:
            if told:
                surface.warn([replace(found, severity="warning") for found in error.diagnostics])
    elif told and workspace.database.exists() and index_is_stale(workspace):
        message = "documents changed since they were indexed"
        surface.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix="run `hive index`", severity="warning")])


def refresh_index(workspace: Workspace, surface: Surface, *, told: bool = True, wait: float = PATIENT) -> None:
    """What is measured is measured on the documents as they are now. Raises: HIVE-402 after `wait` seconds."""
    from hive_agents.cli.progress import duration, told_now_and_then
    from hive_agents.errors import Diagnostic
    from hive_agents.retrieval import build_index

    if not told:
        with told_now_and_then(lambda line: surface.say("the index is brought up to date …")) as progress:
            report = build_index(workspace, progress, quick=True, wait=wait)
        surface.warn(warning for warning in report.warnings if warning.code == "HIVE-407")
        return

    def plan(work: PendingWork) -> None:
        if work.seconds > WORTH_TELLING:
            which = "isn't built yet" if work.first else "isn't up to date"
            spent = f"about {duration(work.seconds)} on one core, less where embeddings are kept"
            surface.say(f"the index {which}: {count(work.documents, 'document')} to read, {spent}")

    with surface.progress(INTERRUPTED) as progress:
        report = build_index(workspace, progress, quick=True, plan=plan, wait=wait)
    changed = report.added or report.updated or report.deleted
    # That there is no embedding model is told when an index is built, and not at each question to it.
    surface.warn(warning for warning in report.warnings if changed or warning.code != "HIVE-401")
    for name in report.waiting:
        message = f'collection "{name}" changed; searches use the index as it was until the new one is proved'
        fix = 'run `hive index` to prove it, or `hive index --accept --reason "…"` to switch now'
        surface.warn([Diagnostic("HIVE-406", message, f"collections/{name}.json", fix=fix, severity="warning")])
    for skipped in report.skipped:
        surface.warn(
            [Diagnostic("HIVE-108", skipped["message"], skipped["file"], line=skipped["line"], severity="warning")]
        )
