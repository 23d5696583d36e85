"""A body of texts that nobody here wrote: the descriptions of the packages that are installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distributions

from hive_agents import Workspace
from tests.folders import kept_folder
from tests.sample import hive


@cache
def readmes() -> Workspace:
    """The descriptions of all packages that are installed here, in open mode, for words alone."""
    folder = kept_folder("hive-readmes-") / "w"
    assert hive("init", folder, "--empty").code == 0
    place = Workspace(folder)
    (folder / "hive.toml").write_text('[models]\nembedding = "none"\n[access]\nmode = "open"\n')
    for one in distributions():
        text = one.metadata.get_payload() or one.metadata["Description"] or ""
        if len(str(text)) > 500:
            (place.documents / f"{one.metadata['Name'].lower()}.md").write_text(f"# {one.metadata['Name']}\n\n{text}\n")
    place.index()
    return place


def summaries(place: Workspace) -> list[str]:
    """One line that says what each package is, as questions."""
    known = {path.stem for path in place.documents.glob("*.md")}
    found = {one.metadata["Name"].lower(): one.metadata["Summary"] or "" for one in distributions()}
    return [text for name, text in sorted(found.items()) if name in known and len(text.split()) > 3]
