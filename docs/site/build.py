"""Build the documentation as a site of static files: pages, pictures, and a search that needs no server.

    python -m docs.site.build FOLDER

The navigation is the table at the end of README.md. Links to what isn't a page, such as a folder of examples, become
its path in the repository. The files can be read from a disk, and load nothing from anywhere else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from hive_agents.cli.help import documentation_workspace
from hive_agents.documents import terms, words
from hive_agents.documents.analysis import found_words
from hive_agents.index import BM25Params
from hive_agents.ranking import SearchEngine

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FIRST = HERE / "index.md"
_ROW = re.compile(r"^\| (\w+) \| (.*) \|$", re.M)
_PAGE = re.compile(r"\[([^\]]+)\]\(([\w/-]+\.md)\)")
_MARKS = re.compile(r"^#+ .*$|^```.*$|[`|*]|-{3,}", re.M)
_SHOWN = 160
"""Characters of a passage that are shown below its heading."""


def build(folder: Path) -> None:
    """Write the site to `folder`, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_pages(folder)
    index = json.dumps(search_index(), ensure_ascii=False, separators=(",", ":"))
    (folder / "search-index.js").write_text(f"const hiveIndex = {index};\n", encoding="utf-8")


def write_pages(folder: Path) -> None:
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")
    for name in ("site.css", "search.js"):
        shutil.copyfile(HERE / name, folder / name)
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("page.html")
    for source in sources():
        tokens = _parsed(source)
        page = template.render(
            here=address(source),
            title=_title(tokens),
            text=Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})),
            version=version("hive-agents"),
            groups=groups(),
        )
        (folder / address(source)).write_text(page + "\n", encoding="utf-8")


def sources() -> list[Path]:
    return [FIRST, *sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]


def address(source: Path) -> str:
    """Return the file name of a page in the site."""
    return f"{source.stem.lower()}.html"


def groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the navigation: for each use its pages, as addresses with names."""
    readme = ROOT / "README.md"
    rows = [("", [(address(FIRST), "what it is for"), (address(readme), "readme")])]
    for group, row in _ROW.findall(readme.read_text(encoding="utf-8")):
        rows.append((group, [(address(Path(page)), name) for name, page in _PAGE.findall(row)]))
    rows[-1][1].append(("changelog.html", "changelog"))
    return rows


def anchor(heading: str) -> str:
    """Return the name by which links of pages call a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def search_index() -> dict[str, Any]:
    """Return what search.js ranks by: passages, words, and for each word its passages with their scores.

    BM25 is a sum over words, so that the scores of single words are all there is to know of it.
    """
    with TemporaryDirectory() as folder:
        os.environ["HIVE_HOME"] = folder
        place = documentation_workspace(Path(folder) / "workspace")
        engine = SearchEngine(place)
        config = engine.resolve(None)
        index = engine.index(config.collection)
        rows = index.rows(range(index.n_chunks))
        postings: list[list[float]] = []
        lists: dict[tuple[float, ...], int] = {}
        known: dict[str, int] = {}
        texts = "\n".join(f"{row.title} {row.heading} {row.text}" for row in rows)
        # What is written in camelCase has terms of its parts, too.
        written = {word[0] for word in found_words(texts)}
        for word in sorted(written.union(words(texts))):
            if word not in written or word == word.lower() or terms(word, index.language)[1:]:
                lane = index.keyword(word, index.n_chunks, BM25Params(**config.bm25.model_dump()), None)
                pairs = zip(lane.chunks.tolist(), lane.scores.tolist(), strict=True)
                flat = tuple(value for chunk, score in sorted(pairs) for value in (chunk, round(score, 3)))
                if flat not in lists:
                    lists[flat] = len(postings)
                    postings.append(list(flat))
                known[word] = lists[flat]
    passages = []
    for row in rows:
        heading = row.heading.split(" > ")[-1]
        text = " ".join(_MARKS.sub(" ", row.text).split())
        name = "" if heading in ("", row.title) else heading
        passages.append([address(Path(row.doc_id)), anchor(name), row.title, name, text[:_SHOWN]])
    return {"passages": passages, "words": known, "postings": postings}


def _parsed(source: Path) -> list[Token]:
    """Return the tokens of a page, with names at its headings and links to where the site has what they mean."""
    tokens = _MARKDOWN.parse(source.read_text(encoding="utf-8"))
    taken: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            name = anchor(_plain(inline))
            count = taken[name] = taken.get(name, -1) + 1
            opening.attrSet("id", f"{name}-{count}" if count else name)
    for token in tokens:
        token.children = list(_linked(token.children or [], source)) if token.type == "inline" else token.children
    return tokens


def _linked(tokens: list[Token], source: Path) -> Iterator[Token]:
    outside: list[str] = []
    for token in tokens:
        if token.type == "image":
            token.attrSet("src", f"pictures/{Path(str(token.attrGet('src'))).name}")
        elif token.type == "link_open":
            target = str(token.attrGet("href"))
            path, _, name = target.partition("#")
            file = (source.parent / path).resolve() if path else source
            if "://" in target:
                outside.append("")
            elif file in sources():
                outside.append("")
                token.attrSet("href", address(file) + (f"#{name}" if name else ""))
            else:
                outside.append(str(file.relative_to(ROOT)))
                continue
        elif token.type == "link_close" and (path := outside.pop()):
            yield Token("text", "", 0, content=" (")
            yield Token("code_inline", "code", 0, content=path)
            yield Token("text", "", 0, content=")")
            continue
        yield token


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


def _title(tokens: list[Token]) -> str:
    return next(_plain(inline) for opening, inline in pairwise(tokens) if opening.tag == "h1")


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_MARKDOWN.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
_MARKDOWN.add_render_rule("table_close", lambda *_: "</table></div>")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
