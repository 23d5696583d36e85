"""Ships the pages beside `docs/` for `hive help ask`: `sources` of pyproject.toml moves folders, not single files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Pages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":  # an editable install reads them where they are
            for page in Path(self.root).glob("*.md"):
                build_data["force_include"][str(page)] = f"hive_agents/_bundled/{page.name}"
