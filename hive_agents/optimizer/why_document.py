"""Edits of the document that put it first: its metadata, as far as filters or boosts use it, and its words.

Each is made in a copy of the workspace, indexed there and searched, so that statistics and embeddings change as well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from hive_agents.base.files import atomic_write, atomic_write_text, frontmatter, guarded, read_bytes
from hive_agents.documents import words
from hive_agents.index import BM25Params
from hive_agents.optimizer.space import filterable_values
from hive_agents.optimizer.why import Costs, DocumentQuestion, Way, cheapest
from hive_agents.ranking import SearchEngine, build_index
from hive_agents.workspace import Workspace

WordPlace = Literal["title", "text"]
MOST_WORDS = 8


def document_ways(question: DocumentQuestion, costs: Costs | None) -> list[Way]:
    """Return the edits of the document that put it first: of its metadata, or the fewest words in its title or text."""
    with _copied(question.engine.workspace) as copy:
        desk = _Desk(copy, question)
        ways = [*_metadata_ways(desk, costs), *_word_ways(desk, costs)]
    return cheapest(ways)


class _Desk:
    """A copy of the workspace in which the document is rewritten."""

    def __init__(self, copy: Workspace, question: DocumentQuestion) -> None:
        self._copy, self.question = copy, question
        self._path = copy.documents / question.doc_id
        self.text = read_bytes(self._path).decode("utf-8")

    def first_with(self, text: str) -> SearchEngine | None:
        """Return an engine over the documents with this text; None where the document isn't first with it."""
        atomic_write_text(self._path, text)
        build_index(self._copy)
        engine = SearchEngine(self._copy)
        question = self.question
        if question.doc_id not in engine.index(question.config.collection).doc_ids():
            return None
        edited = DocumentQuestion(engine, question.query, question.doc_id, question.config, question.reader)
        return engine if edited.is_first(question.config) else None


def _metadata_ways(desk: _Desk, costs: Costs | None) -> Iterator[Way]:
    """Yield changes of a field that the config filters by or boosts to another value that documents have."""
    config = desk.question.config
    values = filterable_values(desk.question.index)
    for field in sorted({*config.filters, *config.boosts} & {*values}):
        was = _front_matter(desk.text, desk.question.doc_id).get(field)
        for value in values[field]:
            if value == was:
                continue
            text = with_field(desk.text, field, value)
            engine = desk.first_with(text)
            if engine is not None:
                change = {"path": field, "a": was, "b": value}
                cost = costs.of(engine, config) if costs else None
                yield Way("metadata", [change], f"{field} {was or '–'} → {value}", cost)


def _word_ways(desk: _Desk, costs: Costs | None) -> Iterator[Way]:
    """Yield the fewest words of the query to add: any single one, else the rarest ones, up to `MOST_WORDS`."""
    question = desk.question
    index = question.index
    frequencies = {
        word: len(index.keyword(word, index.n_chunks, BM25Params(), None).chunks) for word in words(question.query)
    }
    rarest = sorted(frequencies, key=lambda word: frequencies[word])[:MOST_WORDS]
    trials = [[word] for word in rarest] + [rarest[:count] for count in range(2, len(rarest) + 1)]
    for place in ("title", "text"):
        for added in trials:
            text = with_words(desk.text, place, added)
            engine = desk.first_with(text) if text is not None else None
            if engine is not None:
                change = {"path": place, "words": added}
                summary = f'add "{" ".join(added)}" to the {place}'
                yield Way("words", [change], summary, costs.of(engine, question.config) if costs else None)
                break


def with_field(text: str, field: str, value: str) -> str:
    r"""Return the document with a field of its front matter set.

    >>> with_field("---\nstatus: draft\n---\nBody", "status", "effective")
    '---\nstatus: "effective"\n---\nBody'
    >>> with_field("Body", "status", "effective")
    '---\nstatus: "effective"\n---\nBody'
    """
    line = f"{field}: {json.dumps(value, ensure_ascii=False)}"
    head = re.match(r"---[ \t]*\r?\n(.*?\r?\n)??---[ \t]*(\r?\n|\Z)", text, re.S)
    if head is None:
        return f"---\n{line}\n---\n{text}"
    inner = head[1] or ""
    # A field spans its line and the following ones that are indented or list items.
    old = re.search(rf"^{re.escape(field)}[ \t]*:.*\n(?:[ \t-].*\n)*", inner, re.M)
    inner = inner[: old.start()] + line + "\n" + inner[old.end() :] if old else inner + line + "\n"
    return f"---\n{inner}---\n{text[head.end() :]}"


def with_words(text: str, place: WordPlace | str, added: list[str]) -> str | None:
    r"""Return the document with words added to its title, or as the first paragraph of its text.

    None where it has no title.

    >>> with_words("---\ntitle: Keys\n---\n# Top\nBody", "title", ["lost"])
    '---\ntitle: "Keys lost"\n---\n# Top\nBody'
    >>> with_words("# Top\nBody", "title", ["lost"]), with_words("# Top\nBody", "text", ["lost"])
    ('# Top lost\nBody', '# Top\n\nlost\n\nBody')
    """
    _, body = frontmatter.split(text, "document")
    start = len(text) - len(body) if text.endswith(body) else 0
    heading = re.match(r"\s*#{1,6}[ \t].*", text[start:])
    if place == "title":
        title = _front_matter(text, "document").get("title")
        if isinstance(title, str):
            return with_field(text, "title", " ".join([title, *added]))
        if heading is None:
            return None
        return text[: start + heading.end()] + " " + " ".join(added) + text[start + heading.end() :]
    at = start + heading.end() if heading else start
    return text[:at] + ("\n\n" if heading else "") + " ".join(added) + ("\n" if heading else "\n\n") + text[at:]


def _front_matter(text: str, file: str) -> dict[str, Any]:
    head, _ = frontmatter.split(text, file)
    return frontmatter.parse(head, file) if head else {}


@contextmanager
def _copied(workspace: Workspace) -> Iterator[Workspace]:
    """Yield a writable copy of a workspace: documents are links until they are rewritten, the index is a copy."""
    with TemporaryDirectory(prefix="hive-why-") as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        for name in ("collections", "access", "embeddings"):
            if (workspace.root / name).is_dir():
                guarded.copy_folder(workspace.root / name, root / name)
        if (workspace.root / "hive.toml").is_file():
            atomic_write(root / "hive.toml", read_bytes(workspace.root / "hive.toml"))
        documents = root / "documents"
        shutil.copytree(workspace.documents, documents, copy_function=_linked, symlinks=True, ignore=_special)
        copy = Workspace(root)
        try:
            for name in ("vectors", "embeddings"):
                if (workspace.state / name).is_dir():
                    guarded.copy_folder(workspace.state / name, copy.state / name)
            with (
                closing(sqlite3.connect(workspace.database)) as source,
                closing(sqlite3.connect(copy.database)) as target,
            ):
                source.backup(target)
            yield copy
        finally:
            guarded.release(root)


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes, sockets and devices, which could be linked, but not copied to another disk."""
    paths = [Path(folder, name) for name in names]
    return [path.name for path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())]


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another disk, or a file system without links
        shutil.copy2(source, target, follow_symlinks=False)
    return target
