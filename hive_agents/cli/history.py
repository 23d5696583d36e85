from __future__ import annotations

from hive_agents.base import safe_line
from hive_agents.cli.surface import Surface, figure, with_surface


@with_surface()
def command(surface: Surface) -> None:
    """List the deployments, newest first, with what was measured."""
    from rich.table import Table

    from hive_agents.gate import TagChange
    from hive_agents.ranking import versions

    surface.asker.operator("see the history", "approver")
    viewer = surface.asker.viewer()
    rows = [
        {
            "id": version.id,
            "config": version.name,
            "config_hash": version.config_hash,
            "at": version.at,
            "by": version.by,
            "authn": version.authn,
            "decision": version.decision,
            "via": version.via,
            "reason": version.reason,
            "evaluation": version.evaluation if viewer is None else None,  # it measured everything
            "active": number == 0,
        }
        for number, version in enumerate(versions(surface.workspace))
    ]
    table, notes = Table(), []
    for name in ("", "id", "config", "at", "by", "via", "decision", "nUDCG"):
        table.add_column(name, no_wrap=name != "by", overflow="fold")
    for row in rows:
        evaluation = row["evaluation"] if isinstance(row["evaluation"], dict) else {}
        nudcg = (evaluation.get("candidate") or {}).get("nudcg")
        table.add_row(
            "●" if row["active"] else "",
            str(row["id"]),
            str(row["config"]),
            str(row["at"])[:16].replace("T", " "),
            *(str(row[name]) for name in ("by", "via", "decision")),
            figure(nudcg),
        )
        for change in evaluation.get("accepted_tags", ()):
            loss = f"{change['tag']} falls {TagChange(**change, blocks=True).figures}"
            notes.append(safe_line(f"{row['id']} {row['config']}: {row['by']} accepted that {loss}: {row['reason']}"))
    surface.show({"versions": rows}, table if rows else "nothing was deployed yet", *notes)
