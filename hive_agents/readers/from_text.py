"""Plain text to Markdown: paragraphs, underlined or numbered headings, aligned text as code.

Sections of manual pages (`man`, `pydoc`) are headings, too. Markdown's own syntax is escaped: `# name:` is a line of a
configuration, not a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported
from hive_agents.readers.markdown import escape, fence, plain_lines

_SECTION = re.compile(r"^[A-Z][A-Z0-9 ,/&'()-]{2,58}$")
_SUBSECTION = re.compile(r"^ {3}[A-Z]\S*(?: \S+){0,9}$")
_GUTTER = re.compile(r"^ *\|(?:  (?P<words>.*)|\s*)$")
_LEAST_GUTTER, _FIRST_LINES = 3, 12
_DIVIDED = "\u2010"
_HYPHEN = re.compile(rf"(?<=\w){_DIVIDED}$")


def plainer(lines: Sequence[str]) -> list[str]:
    """Return the lines with underlined sections, without the bars beside a class's text, with divided words joined.

    Sections are recognized only in a text that begins with one called NAME, as every manual page does; elsewhere a line
    of capitals may be anything.

    >>> plainer(["LS(1)", "", "NAME", "    ls - list files", "    of a direc\u2010", "    tory"])
    ['LS(1)', '', '', 'NAME', '====', '', '    ls - list files', '    of a directory']
    """
    plain = list(lines)
    if any(line.endswith(_DIVIDED) for line in plain):
        plain = list(_joined(plain))
    if any(line.lstrip().startswith("|") for line in plain):
        plain = list(_without_gutters(plain))
    first = [number for number, line in enumerate(plain) if line.strip()][:_FIRST_LINES]
    if not any(plain[number] == "NAME" and _is_section(plain, number) for number in first):
        return plain
    return list(_underlined(plain))


def _underlined(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        section, subsection = _is_section(lines, number), _is_subsection(lines, number)
        if section or subsection:
            yield from ("", line.strip(), ("=" if section else "-") * len(line.strip()), "")
        else:
            yield line


def _is_section(lines: Sequence[str], number: int) -> bool:
    """Return whether a line of capitals begins at the margin, and the text below it is indented."""
    return _SECTION.match(lines[number]) is not None and _below(lines, number).startswith("   ")


def _is_subsection(lines: Sequence[str], number: int) -> bool:
    alone = number == 0 or not lines[number - 1].strip()
    return (
        alone
        and _SUBSECTION.match(lines[number]) is not None
        and lines[number][-1] not in ".,;:"
        and _below(lines, number).startswith(" " * 7)
    )


def _below(lines: Sequence[str], number: int) -> str:
    return next((line for line in lines[number + 1 : number + 3] if line.strip()), "")


def _without_gutters(lines: Sequence[str]) -> Iterator[str]:
    run: list[str] = []
    for line in [*lines, None]:
        if line is not None and _GUTTER.match(line):
            run.append(line)
            continue
        if len(run) >= _LEAST_GUTTER:
            yield ""
            yield from (
                "    " + match["words"] if (match := _GUTTER.match(gutter)) and match["words"] else "" for gutter in run
            )
        else:
            yield from run
        run = []
        if line is not None:
            yield line


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines; words divided by a typographic hyphen are joined on the first of their lines."""
    rest = ""
    for number, line in enumerate(lines):
        if rest:
            line, rest = line.replace(rest, "", 1), ""
            if not line.strip():
                continue
        below = lines[number + 1].split() if number + 1 < len(lines) else []
        if below and _HYPHEN.search(line):
            line, rest = line[:-1] + below[0], below[0]
        yield line


_RULE = re.compile(r"^\s*([=\-~^*_#+\"'.:])\1{2,}\s*$")
_SCISSORS = re.compile(r"^\s*-{2,} ?(?:[%8]<|>[%8]) ?-{2,}\s*$")
_UNDERLINES = "=-~^\"'*+#"
_NUMBERED = re.compile(
    r"^(?P<number>(?:\d{1,2}\.){1,4}(?:\d{1,2})?|(?:Chapter|Section|Appendix)\s+\w+[.:]?)\s+(?P<words>\S.*)$"
)
_ITEM = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+o•·]|\d{1,3}[.)]|\(?[a-z0-9]{1,2}\))\s+(?P<words>\S.*)$")
_COLUMNS = re.compile(r"\S(?:\t+| {3,})\S")
_CODE_START = re.compile(r"^\s*(?:\$\s|//|/\*|;;|<\w|[{}]|#\S)")
_CALL_START = re.compile(r"^\s*\w+\s*[=({]")
_CODE_ENDS = (";", "{", "}")
_LONG_RULE, _RUN, _WORD = 10, re.compile(r"([^\w\s])\1{3,}"), re.compile(r"\w")
_SIGN = re.compile(r"[^\w\s.,;:'\"()\-]")
_LONGEST_HEADING = 90


def from_text(data: bytes) -> Imported:
    lines = _lines(decode(data))
    shown = _shown(lines)
    return Imported(shown + "\n" if shown else "", _title(lines))


def text_as_markdown(text: str) -> str:
    """Return the text's paragraphs, lists and aligned lines as Markdown."""
    return _shown(_lines(text))


def _shown(lines: Sequence[str]) -> str:
    return "\n\n".join(_parts(lines))


def _parts(lines: Sequence[str]) -> Iterator[str]:
    """Yield the text's Markdown; what stands between two lines of scissors (`---%<---`) is to be copied: code."""
    levels: list[str] = []
    after, cuts = 0, [number for number, line in enumerate(lines) if _SCISSORS.match(line)]
    for begin, end in zip(cuts[::2], cuts[1::2], strict=False):
        yield from _markdown(list(_blocks(lines[after:begin])), levels)
        copied = dedent("\n".join(lines[begin + 1 : end]))
        if copied.strip():
            yield fence(copied)
        after = end + 1
    yield from _markdown(list(_blocks(lines[after:])), levels)


def _lines(text: str) -> list[str]:
    return plainer([line.expandtabs(8).rstrip() for line in text.split("\n")])


def _short_rule(line: str) -> str:
    """Return a long line without words with its runs of a character shortened to three."""
    return line if len(line) < _LONG_RULE or _WORD.search(line) else _RUN.sub(r"\1\1\1", line)


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the runs of lines between empty ones; a heading with its underline is a block of its own."""
    block: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if not block and _is_heading(line, below):
            yield [line, below]
            number += 2
            continue
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []
        number += 1
    if block:
        yield block


def _is_heading(line: str, below: str) -> bool:
    """Return whether a line is underlined by a rule of about its length."""
    words = line.strip()
    if not words or len(words) > _LONGEST_HEADING or _RULE.match(line) or not _RULE.match(below):
        return False
    return (
        below.strip()[0] in _UNDERLINES
        and re.search(r"\w", words) is not None
        and len(below.strip()) <= len(words) + 6
        and len(below.strip()) * 2 >= len(words)
    )


def _markdown(blocks: Sequence[list[str]], levels: list[str]) -> Iterator[str]:
    """Yield the blocks' Markdown; `levels` has the underlines of headings so far, and gets those of these."""
    code: list[str] = []
    for block in blocks:
        aligned = _is_aligned(block)
        if code and not (aligned and _indent(block) == _indent(code)):
            yield fence("\n".join(code))
            code = []
        if len(block) == 2 and _is_heading(*block):
            mark = block[1].strip()[0]
            if mark not in levels:
                levels.append(mark)
            yield f"{'#' * min(levels.index(mark) + 1, 6)} {escape(block[0].strip())}"
        elif all(_RULE.match(line) for line in block):
            continue
        elif (heading := _numbered(block)) is not None:
            yield heading
        elif aligned:
            code += ["", *map(_short_rule, block)] if code else map(_short_rule, block)
        else:
            yield _paragraph([_short_rule(line) for line in block])
    if code:
        yield fence("\n".join(code))


def _numbered(block: Sequence[str]) -> str | None:
    """Return the heading of a block that is one numbered line such as `2.1 Installing`, else None."""
    match = _NUMBERED.match(block[0]) if len(block) == 1 and len(block[0]) <= _LONGEST_HEADING else None
    if match is None or match["words"][-1] in ".,;:!?" or not match["words"][0].isupper():
        return None
    depth = len(re.findall(r"\d+", match["number"])) or 1
    return f"{'#' * min(depth, 6)} {escape(block[0].strip())}"


def _is_aligned(block: Sequence[str]) -> bool:
    """Return whether the layout of the lines matters: columns, code, drawings."""
    columns = sum("   " in line and _COLUMNS.search(line) is not None for line in block)
    if not columns and _ITEM.match(block[0]):
        return False
    if (len(block) > 1 and columns * 2 >= len(block)) or sum(map(_is_code, block)) * 2 > len(block):
        return True
    if len(block) < 2:
        return False
    text = "".join(block)
    signs = len(_SIGN.findall(text))
    return signs > 1 and 0 < sum(map(str.isalnum, text)) < signs


def _is_code(line: str) -> bool:
    return (
        line.endswith(_CODE_ENDS)
        or _CODE_START.match(line) is not None
        or (line.endswith(")") and _CALL_START.match(line) is not None)
    )


def _indent(block: Sequence[str]) -> int:
    return min(len(line) - len(line.lstrip()) for line in block if line.strip())


def _paragraph(block: Sequence[str]) -> str:
    """Return a paragraph, or a list if lines begin items; line breaks are kept."""
    if not any(map(_ITEM.match, block)):
        return plain_lines(escape("\n".join(map(str.strip, block))))
    indent = _indent(block)
    lines: list[str] = []
    depths: list[int] = []
    for line in block:
        item = _ITEM.match(line[indent:])
        if item and (lines or _ITEM.match(block[0][indent:])):
            depth = len(item["indent"])
            while depths and depths[-1] > depth:
                depths.pop()
            if not depths or depths[-1] < depth:
                depths.append(depth)
            mark = item["mark"] if re.fullmatch(r"\d{1,3}[.)]", item["mark"]) else "-"
            words = escape(item["words"])
            lettered = mark == "-" and item["mark"] not in "-*+o•·"
            prefix = f"{escape(item['mark'])} " if lettered else ""
            lines.append(f"{'  ' * (len(depths) - 1)}{mark} {prefix}{words}")
        elif depths:
            lines.append(f"{'  ' * len(depths)}{plain_lines(escape(line.strip()))}")
        else:
            lines.append(plain_lines(escape(line.strip())))
    return "\n".join(lines)


def _title(lines: Sequence[str]) -> str | None:
    """Return the first line where it is a heading, else None."""
    first = next(_blocks(lines), [])
    return first[0].strip() if len(first) == 2 and _is_heading(*first) else None
