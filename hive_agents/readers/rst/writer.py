"""Writer of the parsed tree as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from docutils import nodes
from docutils.utils import Reporter

from hive_agents.readers.markdown import code_span, escape, fence, indent, plain_lines, table
from hive_agents.readers.rst.inline import children, inline


def rows_of(node: nodes.table, text: Callable[[nodes.Element], str]) -> list[list[str]]:
    """Return the cells' text, the head's rows first, or an empty row; spanning cells are followed by empty ones."""
    rows: list[list[str]] = []
    below: dict[int, int] = {}  # column -> rows that a cell above still covers
    for row in node.findall(nodes.row):
        cells: list[str] = []
        for entry in row.findall(nodes.entry):
            _skip_covered(cells, below)
            start = len(cells)
            cells += [text(entry), *[""] * int(entry.get("morecols", 0))]
            if entry.get("morerows"):
                below.update(dict.fromkeys(range(start, len(cells)), int(entry["morerows"])))
        _skip_covered(cells, below)
        rows.append(cells)
    if not any(True for _ in node.findall(nodes.thead)):
        rows.insert(0, [""] * len(rows[0]) if rows else [])
    return rows


def _skip_covered(cells: list[str], below: dict[int, int]) -> None:
    while below.get(len(cells), 0):
        below[len(cells)] -= 1
        cells.append("")


_META_FIELDS = {"orphan", "tocdepth", "nocomments", "nosearch", "no-search"}
_SILENT = (nodes.comment, nodes.substitution_definition, nodes.target, nodes.pending, nodes.decoration, nodes.meta)
_NAMED: dict[type, str] = {
    nodes.attention: "Attention",
    nodes.caution: "Caution",
    nodes.danger: "Danger",
    nodes.error: "Error",
    nodes.hint: "Hint",
    nodes.important: "Important",
    nodes.note: "Note",
    nodes.tip: "Tip",
    nodes.warning: "Warning",
}


class MarkdownWriter:
    """Markdown of a document; nodes without a form in Markdown are written as their text."""

    def __init__(self, document: nodes.document) -> None:
        self.document = document
        self.titles = {
            label.lower(): section[0].astext()
            for section in document.findall(nodes.section)
            for label in section["names"]
        }
        self.level = 0
        self.forms: list[tuple[type, Callable[..., str]]] = [
            (nodes.section, self._section),
            (nodes.literal_block, self._literal_block),
            (nodes.doctest_block, lambda node: fence(node.astext(), "pycon")),
            (nodes.math_block, lambda node: fence(node.astext(), "math")),
            (nodes.bullet_list, self._bullets),
            (nodes.enumerated_list, self._numbers),
            (nodes.definition_list, self._definitions),
            (nodes.option_list, self._options),
            (nodes.field_list, self._fields),
            (nodes.table, self._table),
            (nodes.line_block, self._lines),
            (nodes.block_quote, self._quote),
            (nodes.admonition, self._titled_box),
            (nodes.topic, self._titled_box),
            (nodes.sidebar, self._titled_box),
            (nodes.Admonition, self._box),
            (nodes.rubric, lambda node: f"**{children(node, self.titles)}**"),
            (nodes.footnote, self._note),
            (nodes.citation, self._note),
            (nodes.transition, lambda node: "---"),
            (nodes.system_message, self._refused),
            (nodes.image, lambda node: inline(node, self.titles)),
            (nodes.TextElement, self._paragraph),
        ]

    def markdown(self) -> str:
        return self.blocks(self.document.children).strip() + "\n"

    def blocks(self, elements: Iterable[nodes.Node]) -> str:
        return "\n\n".join(text for text in map(self.block, elements) if text.strip())

    def block(self, node: nodes.Node) -> str:
        if not isinstance(node, nodes.Element):
            return self._plain(escape(node.astext()))
        if isinstance(node, _SILENT):
            return ""
        for kind, write in self.forms:
            if isinstance(node, kind):
                return write(node)
        return self.blocks(node.children)

    def _section(self, node: nodes.section) -> str:
        self.level += 1
        title, rest = node[0], node.children[1:]
        assert isinstance(title, nodes.Element)
        text = f"{'#' * min(self.level, 6)} {self._heading(title)}\n\n{self.blocks(rest)}".strip()
        self.level -= 1
        return text

    def _heading(self, title: nodes.Element) -> str:
        """Return a heading's text; code is plain text where that needs no escape: headings are shown in paths."""
        parts: list[str] = []
        for child in title.children:
            plain = child.astext()
            same = isinstance(child, nodes.literal) and escape(plain) == plain
            parts.append(plain if same else inline(child, self.titles))
        return " ".join("".join(parts).split())

    def _paragraph(self, node: nodes.TextElement) -> str:
        return self._plain(children(node, self.titles))

    def _plain(self, text: str) -> str:
        return plain_lines(text.strip()) if not text.startswith("**") else text.strip()

    def _literal_block(self, node: nodes.literal_block) -> str:
        return fence(node.astext(), str(node.get("language") or ""))

    def _items(self, node: nodes.Element, marks: Iterable[str]) -> str:
        items = [item for item in node.children if isinstance(item, nodes.Element)]
        tight = all(len(item.children) <= 1 for item in items)
        texts = [
            indent(self.blocks(item.children), mark, " " * len(mark)) for item, mark in zip(items, marks, strict=False)
        ]
        return ("\n" if tight else "\n\n").join(texts)

    def _bullets(self, node: nodes.bullet_list) -> str:
        return self._items(node, ["- "] * len(node))

    def _numbers(self, node: nodes.enumerated_list) -> str:
        start = int(node.get("start", 1))
        return self._items(node, [f"{number}. " for number in range(start, start + len(node))])

    def _definitions(self, node: nodes.definition_list) -> str:
        return self._pairs(
            self._definition(item) for item in node.children if isinstance(item, nodes.definition_list_item)
        )

    def _definition(self, item: nodes.definition_list_item) -> tuple[str, list[nodes.Node]]:
        terms = [children(part, self.titles) for part in item.children if isinstance(part, nodes.term)]
        classifiers = [children(part, self.titles) for part in item.children if isinstance(part, nodes.classifier)]
        name = ", ".join(terms) + (f" ({', '.join(classifiers)})" if classifiers else "")
        body = [child for part in item.children if isinstance(part, nodes.definition) for child in part.children]
        return name, body

    def _pairs(self, pairs: Iterable[tuple[str, list[nodes.Node]]]) -> str:
        """Return a list of bold names, each with its description."""
        texts = []
        for name, body in pairs:
            bold = name if name.startswith("**") else f"**{name}**"
            glued = bool(body) and isinstance(body[0], nodes.paragraph)
            text = f"{bold}: {self.block(body[0])}" if glued else bold
            rest = self.blocks(body[1:] if glued else body)
            texts.append(indent(f"{text}\n\n{rest}".strip(), "- ", "  "))
        return "\n\n".join(texts)

    def _options(self, node: nodes.option_list) -> str:
        return self._pairs(
            (", ".join(code_span(option.astext()) for option in item.findall(nodes.option)), list(item[1].children))
            for item in node.children
            if isinstance(item, nodes.option_list_item)
        )

    def _fields(self, node: nodes.field_list) -> str:
        pairs = []
        for field in node.children:
            if isinstance(field, nodes.field) and field[0].astext().split(" ")[0] not in _META_FIELDS:
                name, body = field[0], field[1]
                assert isinstance(name, nodes.Element)
                assert isinstance(body, nodes.Element)
                pairs.append((children(name, self.titles), list(body.children)))
        return self._pairs(pairs)

    def _table(self, node: nodes.table) -> str:
        caption = "\n\n".join(f"**{children(title, self.titles)}**" for title in node.findall(nodes.title))
        return f"{caption}\n\n{table(rows_of(node, self._cell))}".strip()

    def _cell(self, entry: nodes.Element) -> str:
        if any(isinstance(child, nodes.literal_block) for child in entry.children):
            return " ".join(code_span(child.astext()) for child in entry.children)
        items = [item for child in entry.children if isinstance(child, nodes.bullet_list) for item in child.children]
        if items:
            return "; ".join(self.blocks(item.children) for item in items if isinstance(item, nodes.Element))
        texts = [isinstance(child, nodes.paragraph) and children(child, self.titles) for child in entry.children]
        return " ".join(text or self.block(child) for text, child in zip(texts, entry.children, strict=True))

    def _lines(self, node: nodes.line_block) -> str:
        lines = [children(line, self.titles) for line in node.findall(nodes.line)]
        return "\\\n".join(plain_lines(line) for line in lines if line.strip())

    def _quote(self, node: nodes.block_quote) -> str:
        # Indented lists and tables are no quotation.
        lists = (nodes.bullet_list, nodes.enumerated_list, nodes.definition_list, nodes.table)
        text = self.blocks(node.children)
        return text if all(isinstance(child, lists) for child in node.children) else indent(text, "> ", "> ")

    def _box(self, node: nodes.Element) -> str:
        return self._boxed(_NAMED[type(node)], node.children)

    def _titled_box(self, node: nodes.Element) -> str:
        first = node.children[0] if node.children else None
        if not isinstance(first, nodes.title):
            return self._boxed("Note", node.children)
        return self._boxed(children(first, self.titles), node.children[1:])

    def _boxed(self, name: str, body: list[nodes.Node]) -> str:
        return indent(f"**{name}**\n\n{self.blocks(body)}".strip(), "> ", "> ")

    def _note(self, node: nodes.Element) -> str:
        label = next((part.astext() for part in node.children if isinstance(part, nodes.label)), "")
        body = [part for part in node.children if not isinstance(part, nodes.label)]
        return f"[{label}] {self.blocks(body)}"

    def _refused(self, node: nodes.system_message) -> str:
        """Return the source that an error quotes, which would be lost otherwise; the message itself is dropped."""
        if int(node["level"]) < Reporter.ERROR_LEVEL:
            return ""
        return "\n\n".join(fence(part.astext()) for part in node.children if isinstance(part, nodes.literal_block))
