from __future__ import annotations

import os

import typer

from hive_agents.cli.surface import JsonOption, QuietOption, Surface, WorkspaceOption, open_workspace

_MARKS = {"ok": "[green]ok  [/green]", "warn": "[yellow]warn[/yellow]", "fail": "[red]fail[/red]"}


def command(workspace: WorkspaceOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check everything: settings with their sources, model, index, active config, permissions, audit log, disk."""
    from rich.markup import escape

    from hive_agents.doctor import examine
    from hive_agents.errors import HiveError
    from hive_agents.settings import describe_settings

    place = open_workspace(workspace)
    checks = examine(place)
    try:
        settings = describe_settings(place.root, os.environ)
    except HiveError:
        settings = []  # the check of the settings says why
    ok = all(check.status != "fail" for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_MARKS[check.status]} {check.name}: {escape(check.message)}")
        if check.fix and check.status != "ok":
            lines.append(f"     fix: {escape(check.fix)}")
    lines += [
        f"     {one.key} = {escape(str(one.value))} ({one.source})" for one in settings if one.source != "default"
    ]
    value = {"ok": ok, "checks": [vars(check) for check in checks], "settings": [vars(one) for one in settings]}
    Surface(json, quiet).show(value, *lines)
    raise typer.Exit(0 if ok else 1)
