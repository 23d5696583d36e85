from __future__ import annotations

import os
from typing import Annotated, Any, NoReturn

import typer

from hive_agents.cli.surface import Surface, styled, with_surface

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@with_surface()
def command(
    surface: Surface,
    documents: Annotated[
        bool,
        typer.Option(
            "--documents", help="Check only documents: duplicates, versions, boilerplate, empty, huge, stale ones."
        ),
    ] = False,
) -> None:
    """Check the workspace: settings and their sources, models, index, active config, permissions, audit log, disk."""
    from hive_agents.base import HiveError
    from hive_agents.host import examine
    from hive_agents.workspace.settings import describe_settings

    surface.asker.operator("examine the workspace")
    if documents:
        _check_documents(surface)
    place = surface.workspace
    checks = examine(place)
    try:
        settings = describe_settings(place.root, os.environ)
    except HiveError:
        settings = []  # one of the checks reports the error
    ok = all(check.status != "fail" for check in checks)
    lines: list[Any] = []
    for check in checks:
        lines.append(styled(f"{check.status:4} ", _STYLES[check.status]) + f"{check.name}: {check.message}")
        if check.fix and check.status != "ok":
            lines.append(f"     fix: {check.fix}")
    lines += [f"     {entry.key} = {entry.value} ({entry.source})" for entry in settings if entry.source != "default"]
    value = {"ok": ok, "checks": list(map(vars, checks)), "settings": list(map(vars, settings))}
    surface.show(value, *lines)
    raise typer.Exit(0 if ok else 1)


def _check_documents(surface: Surface) -> NoReturn:
    from hive_agents.sync import examine_documents

    with surface.progress() as progress:
        findings = examine_documents(surface.workspace, progress)
    ok = all(finding.status != "fail" for finding in findings)
    lines: list[Any] = []
    for finding in findings:
        lines.append(styled(f"{finding.status:4} ", _STYLES[finding.status]) + f"{finding.name}: {finding.message}")
        lines += [f"     {', '.join(group[:4])}{' …' if len(group) > 4 else ''}" for group in finding.documents[:5]]
        if len(finding.documents) > 5:
            lines.append(f"     … and {len(finding.documents) - 5} more groups")
        if finding.fix:
            lines.append(f"     fix: {finding.fix}")
    surface.show({"ok": ok, "findings": [vars(finding) for finding in findings]}, *lines)
    raise typer.Exit(0 if ok else 1)
