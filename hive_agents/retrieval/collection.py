"""A collection: the schema of a set of documents."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field

from hive_agents.errors import HiveError, NotFound, closest
from hive_agents.files import AnyCase, FileFormat, Format, Name, formats, read_bytes
from hive_agents.workspace import Workspace

FieldType = Literal["text", "keyword", "date", "number", "boolean"]


class FieldSchema(Format):
    """One field of the documents.

    `synonyms`: value → what readers call it ({"effective": ["released"]}). The copilot's router reads them; a search
    and an index don't, so that a new synonym needs no new index.
    """

    type: Annotated[FieldType, AnyCase]
    filterable: bool = False
    synonyms: dict[str, list[str]] = {}


class Chunking(Format):
    """How a document is cut: at headings up to `heading_level`, never over `max_tokens` word pieces."""

    strategy: Annotated[Literal["by_heading"], AnyCase] = "by_heading"
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512
    heading_level: Annotated[int, Field(ge=1, le=6)] = 2


class Collection(FileFormat):
    name: Name
    description: str = ""
    fields: dict[str, FieldSchema]
    chunking: Chunking = Chunking()

    @property
    def filterable(self) -> list[str]:
        return [name for name, field in self.fields.items() if field.filterable]

    def digest(self) -> str:
        """Hash of all that decides what is in the index."""
        kept = self.model_dump_json(exclude={"description": True, "fields": {"__all__": {"synonyms"}}})
        return hashlib.sha256(kept.encode()).hexdigest()


def collection_names(workspace: Workspace) -> list[str]:
    # Not glob: it finds nothing in a folder that can't be read, and says nothing.
    return sorted(path.stem for path in (workspace.root / "collections").iterdir() if path.suffix == ".json")


def load_collection(workspace: Workspace, name: str | None = None) -> Collection:
    """The collection `name`; without a name the only one there is.

    Raises: HIVE-211 when there is none of that name; level 1 for a broken file.
    """
    names = collection_names(workspace)
    if name is None and len(names) == 1:
        name = names[0]
    if name is None:
        raise HiveError.of(
            "HIVE-409",
            "the workspace has no collection" if not names else "the workspace has several collections",
            fix="name one of: " + ", ".join(names) if names else "add collections/<name>.json",
        )
    for file in sorted(names, key=lambda file: file != name):  # another file's fault is nobody else's
        path = workspace.root / "collections" / f"{file}.json"
        if file != name and f'"{name}"' not in read_bytes(path).decode("utf-8", errors="replace"):
            continue
        collection = formats.load(Collection, read_bytes(path), workspace.relative(path))
        if collection.name == name or file == name:
            return collection
    raise no_such_collection(name, names)


def no_such_collection(name: str, names: list[str], file: str | None = None, line: int | None = None) -> HiveError:
    guess = closest(name, names)
    fix = f'did you mean "{guess}"?' if guess else f"use one of: {', '.join(names) or 'none yet; add collections/'}"
    return NotFound.of("HIVE-211", f'no collection is named "{name}"', file=file, path="collection", line=line, fix=fix)
