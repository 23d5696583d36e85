from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import ConfigArgument, GoldenOption, Surface, with_surface

if TYPE_CHECKING:
    from hive_agents.base import Diagnostic


@with_surface()
def command(
    surface: Surface,
    config: ConfigArgument,
    behavioral: Annotated[bool, typer.Option("--behavioral", help="Also run the deploy gate (level 3).")] = False,
    golden: GoldenOption = None,
) -> None:
    """Check a config, and the judge's rules: syntax, semantics, and with --behavioral whether it is better."""
    from hive_agents.base import has_errors
    from hive_agents.cli.configs import tell_cost_of_look
    from hive_agents.cli.deploy import gate_parts
    from hive_agents.evaluation import load_golden
    from hive_agents.gate import check_beside_faults, gate
    from hive_agents.judging import load_rules
    from hive_agents.ranking import check_config, find_active, named_config

    place = surface.workspace
    viewer = surface.asker.operating_viewer("check configs")
    value: dict[str, Any] = {"ok": True}
    parts: list[Any] = []
    findings: list[Diagnostic] = []
    stored = queries = None
    with _collecting(findings):
        stored = named_config(place, config)
    with _collecting(findings):
        load_rules(place)
    with _collecting(findings):
        queries = load_golden(place, golden) if golden is not None or behavioral else None
    with _collecting(findings):
        if stored is None:
            findings += check_beside_faults(place, config, golden=queries)
        else:
            judged = queries.collection if queries else None
            findings += check_config(place, stored, judged=judged, viewer=viewer)
        if behavioral and stored is not None and queries is not None and not has_errors(findings):
            surface.refresh_index()
            tell_cost_of_look(surface, queries, stored)
            active = find_active(place)
            engine, old = place.engine(), active.stored if active else None
            result = gate.run_gate(place, engine, stored, old, queries)
            if viewer is not None:
                result = gate.as_seen(place, engine, result, stored, old, viewer)
            value["gate"] = {"decision": result.decision, **result.to_json()}
            findings += [*(active.warnings if active else ()), *result.warnings, *result.diagnostics(stored.file)]
            parts = gate_parts(result)
    value["ok"] = not has_errors(findings)
    value["diagnostics"] = [finding.to_json() for finding in findings]
    if not surface.as_json:
        surface.warn(findings)
    surface.show(value, *parts, f"{config}: {'no errors' if value['ok'] else 'not valid'}")
    raise typer.Exit(0 if value["ok"] else 1)


@contextmanager
def _collecting(findings: list[Diagnostic]) -> Iterator[None]:
    """Add the diagnostics of a failed check to `findings`; wrong usage and system errors are raised."""
    from hive_agents.base import HiveError

    try:
        yield
    except HiveError as error:
        if error.exit_code != 1:
            raise
        findings += error.diagnostics
