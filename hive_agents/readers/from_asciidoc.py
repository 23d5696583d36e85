"""AsciiDoc to Markdown: headings, lists, blocks, tables and inline markup; included files aren't read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported, ImportFailure, Repetition
from hive_agents.readers.markdown import code_span, fence, table

_HEADING = re.compile(r"^(={1,6}|#{1,6})\s+(\S.*?)(?:\s+\1)?$")
_ATTRIBUTE = re.compile(r"^:(!?[\w-]+!?):(?:\s+(.*))?$")
_BLOCK_LINE = re.compile(r"^\[(?P<about>[^\]]*)\]$")
_UNSEEN = re.compile(r"^(?:\[\[[^\]]*\]\]|\(\(\(.*\)\)\)|<<<|'{3,})$")
_AUTHORS = re.compile(r"^(?:[^\W\d_][\w.'’-]*(?: [\w.'’-]+){0,3}(?: <[^<>]+>)?(?:; |$))+$")
_REVISION = re.compile(r"^(?:v(?P<v>[\w.-]+)|(?P<number>[\w.-]*\d[\w.-]*)(?=,))(?:,\s*(?P<date>[^:]+))?(?::\s.*)?$")
_TITLE = re.compile(r"^\.(?=[^\s.])(.+)$")
_DELIMITER = re.compile(r"^(-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|--|```.*|/{4,}|[|,:!]={3,})$")
_ITEM = re.compile(r"^\s*(?P<mark>\*{1,5}|-|\.{1,5}|\d+\.)\s+(?P<words>\S.*)$")
_TERM = re.compile(r"^\s*(?P<term>\S.*?)(?:::+|;;)(?:\s+(?P<words>\S.*))?$")
_ADMONITION = re.compile(r"^(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+(.*)$")
_MACRO_LINE = re.compile(
    r"^(?:include|toc|ifdef|ifndef|ifeval|endif|image|video|audio|comment)::[^\[]*\[(?P<words>[^\]]*)\]$"
)
_CODE = {"source", "listing", "literal"}
_ADMONITIONS = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")


def from_asciidoc(data: bytes) -> Imported:
    """Return the document; in a part of a book, the level of its first heading becomes the first level.

    Raises: ImportFailure for a signature or key, whose files share the suffix `.asc`.
    """
    if data.lstrip().startswith(b"-----BEGIN PGP"):
        raise ImportFailure("a signature or a key, no text")
    reader = _Reader(decode(data).split("\n"))
    blocks = [block for block in reader.blocks(0) if block.strip()]
    top = min(reader.levels, default=1)
    if top > 1 and reader.levels[0] == top and blocks[0].startswith("#"):
        reader = _Reader(reader.lines, above=top - 1)
        blocks = [block for block in reader.blocks(0) if block.strip()]
    metadata = {
        key: value for key, value in reader.attributes.items() if key in ("author", "revdate", "revnumber", "keywords")
    }
    return Imported("\n\n".join(blocks) + "\n" if blocks else "", reader.title, metadata)


class _Reader:
    """A parser of lines; `above` is subtracted from the levels of headings, `levels` are those so far."""

    def __init__(self, lines: list[str], above: int = 0) -> None:
        self.lines = lines
        self.above = above
        self.levels: list[int] = []
        self.title: str | None = None
        self.attributes: dict[str, str] = {}
        self._repetition = Repetition()

    def blocks(self, number: int, end: str | None = None) -> Iterator[str]:
        """Yield the Markdown of each block from line `number` to the delimiter `end`; set `next` to the line after."""
        about = ""
        paragraph: list[str] = []
        while number < len(self.lines):
            line = self.lines[number].rstrip()
            number += 1
            if end is not None and line == end:
                break
            begins = self._begins(line, bool(paragraph))
            if paragraph and (not line or line == "+" or begins):
                yield self._paragraph(paragraph, about)
                paragraph, about = [], ""
            if not begins:
                if line and line != "+":
                    paragraph.append(line)
                continue
            if match := _DELIMITER.match(line):
                self.next = number
                yield self._delimited(match[1], about)
                number, about = self.next, ""
            elif match := _BLOCK_LINE.match(line):
                about = match["about"] or about
            elif match := _HEADING.match(line):
                is_first = not self.levels
                yield self._heading(len(match[1]), match[2])
                about = ""
                if is_first and len(match[1]) == 1:
                    number = self._after_byline(number)
            elif match := _TITLE.match(line):
                yield f"**{self._inline(match[1])}**"
            elif match := _ATTRIBUTE.match(line):
                self.attributes[match[1]] = match[2] or ""
            elif (match := _MACRO_LINE.match(line)) and line.startswith("image") and match["words"]:
                yield f"(Image: {self._inline(match['words'].split(',')[0].strip(chr(34)))})"
        if paragraph:
            yield self._paragraph(paragraph, about)
        self.next = number

    def _begins(self, line: str, inside: bool) -> bool:
        """Return whether a line isn't text of a paragraph; `inside` says whether one is open."""
        if line.startswith("//") or any(kind.match(line) for kind in (_DELIMITER, _BLOCK_LINE, _UNSEEN, _MACRO_LINE)):
            return True
        return bool(_ATTRIBUTE.match(line)) or (not inside and bool(_HEADING.match(line) or _TITLE.match(line)))

    def _after_byline(self, number: int) -> int:
        """Return the number of the line after the authors and the revision below a document's title."""
        lines = [line.strip() for line in self.lines[number : number + 2]]
        if not lines or not _AUTHORS.match(lines[0]):
            return number
        names = [re.sub(r"\s*<.*?>", "", name) for name in lines[0].split("; ")]
        self.attributes.setdefault("author", ", ".join(names))
        revision = _REVISION.match(lines[-1]) if len(lines) == 2 else None
        if revision is None:
            return number + 1
        self.attributes.setdefault("revnumber", revision["v"] or revision["number"])
        if revision["date"]:
            self.attributes.setdefault("revdate", revision["date"].strip())
        return number + 2

    def _heading(self, level: int, words: str) -> str:
        text = self._inline(words)
        level -= self.above
        self.levels.append(level)
        if self.title is None and level == 1:
            self.title = re.sub(r"[*`\\]", "", text)
        return f"{'#' * level} {text}"

    def _delimited(self, mark: str, about: str) -> str:
        kind, _, rest = about.partition(",")
        if mark.startswith("```"):
            return fence("\n".join(self._until("```")), mark[3:].strip())
        if mark[0] in "|,:!":
            return self._table(self._until(mark), mark[0])
        if mark[0] == "/" or kind == "comment":
            self._until(mark)
            return ""
        if (mark[0] in "-." and mark != "--") or kind in _CODE:
            body = re.sub(r"[ \t]*<[\d.]+>[ \t]*$", "", "\n".join(self._until(mark)), flags=re.M)
            return fence(body, rest.split(",")[0].strip() if kind == "source" else "")
        inner = "\n\n".join(block for block in self.blocks(self.next, mark) if block.strip())
        is_admonition = kind.upper() in _ADMONITIONS
        if is_admonition or mark[0] == "_" or kind.upper() == "QUOTE":
            label = f"**{kind.capitalize()}**\n\n" if is_admonition else ""
            return "\n".join(f"> {line}".rstrip() for line in (label + inner).split("\n"))
        return inner

    def _until(self, mark: str) -> list[str]:
        start = self.next
        end = next((n for n in range(start, len(self.lines)) if self.lines[n].rstrip() == mark), len(self.lines))
        self.next = end + 1
        return self.lines[start:end]

    def _table(self, lines: list[str], separator: str) -> str:
        sign = re.escape(separator)
        if separator not in "|!":
            rows = [[self._inline(cell.strip()) for cell in re.split(sign, line)] for line in lines if line.strip()]
            return table(rows)
        cell = re.compile(rf"(?:(?P<span>\d*(?:\.\d+)?)\+)?[<^>.]*[aehlmsd]?{sign}")
        width = 0
        cells: list[str] = []
        for line in lines:
            starts = list(cell.finditer(line))
            if not line.strip():
                width = width or len(cells)  # an empty line after the first row: it is the head
                continue
            if not starts or starts[0].start() != 0:
                if cells:
                    cells[-1] += " " + line[: starts[0].start() if starts else len(line)].strip()
                if not starts:
                    continue
            for start, following in zip(starts, [*starts[1:], None], strict=True):
                across = (start["span"] or "1").split(".")[0] or "1"
                cells.append(line[start.end() : following.start() if following else len(line)].strip())
                cells += [""] * (self._repetition.times(min(int(across[-9:]), 50), 0) - 1)
            width = width or (len(cells) if len(starts) > 1 else 0)
        width = width or max(len(cells), 1)
        texts = [self._inline(text) for text in cells]
        return table([texts[at : at + width] for at in range(0, len(texts), width)])

    def _paragraph(self, lines: list[str], about: str) -> str:
        kind = about.split(",")[0]
        if kind in _CODE or (lines[0].startswith(" ") and not _ITEM.match(lines[0])):
            return fence("\n".join(lines), about.split(",")[1].strip() if kind == "source" and "," in about else "")
        if admonition := _ADMONITION.match(lines[0]):
            return f"> **{admonition[1].capitalize()}**: " + self._inline(" ".join([admonition[2], *lines[1:]]))
        if _ITEM.match(lines[0]) or _TERM.match(lines[0]):
            return "\n".join(self._items(lines))
        return "\n".join(self._inline(line.removesuffix(" +")) for line in lines)

    def _items(self, lines: list[str]) -> Iterator[str]:
        depth = 0
        for line in lines:
            item, term = _ITEM.match(line), _TERM.match(line)
            if item:
                mark = item["mark"]
                depth = len(mark) - 1 if mark[0] in "*." else 0
                words = re.sub(r"^\[[ x*]\]\s+", "", item["words"])
                yield f"{'  ' * depth}{'1.' if mark[0] == '.' or mark[0].isdigit() else '-'} {self._inline(words)}"
            elif term and not line.startswith(" "):
                depth = 0
                yield f"- **{self._inline(term['term'])}**" + (
                    f": {self._inline(term['words'])}" if term["words"] else ""
                )
            else:
                yield f"{'  ' * (depth + 1)}{self._inline(line.strip())}"

    def _attribute(self, found: re.Match[str]) -> str:
        value = self.attributes.get(found[1])
        return value if value and self._repetition.times(2, len(value)) == 2 else found[0]

    def _inline(self, text: str) -> str:
        text = re.sub(r"\{([\w-]+)\}", self._attribute, text)
        text = re.sub(r"\[\[[^\]]*\]\]|\(\(\(.*?\)\)\)|indexterm:\[[^\]]*\]", "", text)
        text = re.sub(r"<<[^,>]*?,\s*([^>]*)>>", r"\1", text)
        text = re.sub(r"<<([^>]*)>>", lambda match: re.sub("[_-]+", " ", match[1].rpartition("#")[2]).strip(), text)
        text = re.sub(r"(?:link|xref):([^\[\s]*)\[([^\]]*?)(?:,[^\]]*)?\]", lambda match: match[2] or match[1], text)
        text = re.sub(r"\b((?:https?|mailto):[^\s\[\]]+)\[\]", r"<\1>", text)
        text = re.sub(r"\b((?:https?|mailto):[^\s\[\]]+)\[([^\],]+)[^\]]*\]", r"[\2](\1)", text)
        text = re.sub(r"image:[^\[\s]+\[([^\],]*)[^\]]*\]", r"(Image: \1)", text)
        text = re.sub(r"(?:kbd|btn|menu|footnote|pass|term):[^\[\s]*\[([^\]]*)\]", r"\1", text)
        text = re.sub(
            r"`\+([^`]+)\+`|(?<!\w)\+([^+\s][^+]*)\+(?!\w)", lambda match: code_span(match[1] or match[2]), text
        )
        # AsciiDoc's code isn't literal: character references in it are resolved.
        text = re.sub(r"`[^`]+`", lambda match: html.unescape(match[0]), text)
        return re.sub(r"(?<![\w*])\*(\S(?:[^*]*\S)?)\*(?![\w*])", r"**\1**", text)
