"""The documentation as a workspace with its golden set.

    python -m tests.help.pages FOLDER    # makes one there, for `hive evaluate`, `hive label` and `hive optimize`
    python -m tests.help.pages --seed    # renews docs/embeddings/, so that `hive help ask` embeds nothing
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hive_agents import Workspace
from hive_agents.cli.help import documentation_workspace
from hive_agents.ranking import build_index

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden.json")


def with_golden(folder: Path) -> Workspace:
    place = documentation_workspace(folder)
    (place.root / "evals").mkdir()
    shutil.copyfile(GOLDEN, place.root / "evals" / "golden.json")
    return place


def renew_seed() -> None:
    with TemporaryDirectory() as folder:
        place = documentation_workspace(Path(folder) / "workspace")
        build_index(place, write_seed=True)
        shutil.copytree(place.root / "embeddings", ROOT / "docs" / "embeddings", dirs_exist_ok=True)


if __name__ == "__main__":
    (argument,) = sys.argv[1:]
    if argument == "--seed":
        renew_seed()
    else:
        with_golden(Path(argument))
