"""`hive help ask`: a question about Hive itself, answered from its own documentation by its own search."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, with_surface

if TYPE_CHECKING:
    from hive_agents import Workspace

PAGES = 3
"""Pages of an answer at most: it is read in a terminal."""

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Show the help of a command (`hive help query`), or answer a question from the documentation."""


@app.command()
@with_surface(workspace=False)
def ask(
    surface: Surface, words: Annotated[list[str], typer.Argument(metavar="QUESTION", help="In your own words.")]
) -> None:
    """Answer a question about Hive from its documentation: no model, no network, no workspace."""
    import asyncio
    from tempfile import TemporaryDirectory

    from hive_agents.access import owner
    from hive_agents.cli.replies import results_table
    from hive_agents.copilot import Chat, search

    text = " ".join(words)
    text.encode()  # HIVE-112: a shell passes on any bytes
    with TemporaryDirectory(prefix="hive-help-") as folder, _apart(Path(folder) / "home"):
        chat = Chat(documentation_workspace(Path(folder) / "workspace"), owner())
        found = asyncio.run(search(chat.workspace, chat.reader, text, engine=chat.engine))
        value: dict[str, Any] = {"query": text, "config": chat.active.name, **found._asdict()}
        if not value["results"]:
            loose = chat.active.config.model_dump() | {"abstain": {}}
            hits = chat.engine.search(text, loose).hits[:PAGES]
            value["nearest"] = [{"doc_id": hit.doc_id, "heading": hit.heading or hit.title} for hit in hits]
    nothing = "the documentation has nothing near this; nearest are"
    nearest = [f"  {one['doc_id']}: {one['heading']}" for one in value.get("nearest", [])]
    surface.show(value, *(results_table(value["results"]) if value["results"] else [nothing, *nearest]))


def documentation_workspace(folder: Path) -> Workspace:
    """Make an indexed workspace of the documentation that ships with the package, and return it.

    A page's doc_id is its path in the repository, such as `docs/gate.md`. It is made anew for each question: with the
    vectors that ship, too, that takes a second, and nothing is left to grow old.
    """
    from hive_agents import Workspace
    from hive_agents.base import bundled
    from hive_agents.base.files import atomic_write_text
    from hive_agents.cli.sample import init_workspace

    docs = bundled("docs")
    place = Workspace(init_workspace(folder, empty=True))
    (place.documents / "docs").mkdir()
    for page in (*docs.glob("*.md"), *docs.parent.glob("*.md")):
        shutil.copyfile(page, place.documents / page.relative_to(docs.parent))
    shutil.copytree(docs / "embeddings", place.root / "embeddings", copy_function=shutil.copyfile)
    atomic_write_text(place.root / "hive.toml", f'[access]\nmode = "open"\n\n[copilot]\ntop_k = {PAGES}\n')
    place.index()
    return place


@contextmanager
def _apart(home: Path) -> Iterator[None]:
    """Leave out the settings of the environment, which are for the user's workspaces, and their home: it may not be
    writable, and keeps what is trusted."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("HIVE_")}
    os.environ["HIVE_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["HIVE_HOME"]
        os.environ.update(kept)
