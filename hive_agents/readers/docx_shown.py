"""What Word prints of a document, in parts that its converter knows: fields, formulas, text boxes, check boxes."""

from __future__ import annotations

import io
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from types import MappingProxyType
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hive_agents.readers.docx_bound import bound_text, stores
from hive_agents.readers.docx_numbers import Numbers, W, value
from hive_agents.readers.imported import ImportFailure, Repetition
from hive_agents.readers.linear_math import linear

_TEXTS = re.compile(r"word/(?:document|footnotes|endnotes)\.xml")
_MARGINS = re.compile(r"word/(?:header|footer)\d*\.xml")
_PAGE_NUMBERS = re.compile(r"(?i)\b(?:page|seite|pagina|página|of|von|de|di|sur)\b|[\d\W_]")
_CHECKED, _OPEN = "[x]", "[ ]"
_MARKS = str.maketrans({"☒": _CHECKED, "☑": _CHECKED, "🗹": _CHECKED, "🗷": _CHECKED, "☐": _OPEN})
_SYMBOLS = {
    "Wingdings": {"FE": _CHECKED, "FD": _CHECKED, "78": _CHECKED, "A8": _OPEN, "6F": _OPEN},
    "Wingdings 2": {"52": _CHECKED, "53": _CHECKED, "54": _CHECKED, "A3": _OPEN, "2A": _OPEN},
}
_TRANSPARENT = frozenset("fldSimple smartTag customXml bdo dir moveTo oMathPara".split())
_HANDLED = frozenset(
    "t txbxContent r cr ptab sym ruby sdt fldChar instrText drawing pict object altChunk commentReference"
    " footnoteReference endnoteReference del moveFrom".split()
)
_PICTURE = "pictures without text"
_DRAWN = {"chart": "charts", "relIds": "diagrams", "blip": _PICTURE, "imagedata": _PICTURE}
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CELLS = 10_000  # of a chart that is drawn as a table; a larger one is counted as left out
_RELATED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_FORMS = {
    "f": ("fraction", "num den"),
    "sSup": ("above", "e sup"),
    "sSub": ("below", "e sub"),
    "sSubSup": ("both", "e sub sup"),
    "limLow": ("below", "e lim"),
    "limUpp": ("above", "e lim"),
}


def as_shown(package: io.BytesIO, headings: Set[str], settings: Set[str]) -> tuple[io.BytesIO, Counter[str]]:
    """Return the package with its texts rewritten, and the number of parts left out, by kind.

    `headings` are the ids of the styles of headings. Raises: ImportFailure for broken XML, and without a body.
    """
    with zipfile.ZipFile(package) as archive:
        files = {member: archive.read(member) for member in archive.namelist() if not member.endswith("/")}
    trees = {name: _parsed(name, files) for name in files if name.startswith("word/") and name.endswith(".xml")}
    shown = _Shown(trees, headings, settings, stores(files))
    for name in filter(_TEXTS.fullmatch, trees):
        shown.rewrite(trees[name], dict(_related(name, files, trees)))
    body = next((tree.find(W + "body") for name, tree in trees.items() if name == "word/document.xml"), None)
    if body is None and "word/document.xml" in trees:
        raise ImportFailure("holds no text: word/document.xml has no body")
    if body is not None:
        _with_margins(body, [shown.rewrite(trees[name]) for name in sorted(filter(_MARGINS.fullmatch, trees))])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            is_text = name in trees and _TEXTS.fullmatch(name)
            archive.writestr(name, ElementTree.tostring(trees[name], "UTF-8") if is_text else content)
    out.seek(0)
    return out, shown.left_out


def _related(name: str, files: dict[str, bytes], trees: dict[str, Element]) -> Iterator[tuple[str, Element]]:
    """Yield (id, tree) of the parts that a part of `word/` refers to."""
    relations = f"word/_rels/{name.removeprefix('word/')}.rels"
    for relation in _parsed(relations, files) if relations in files else ():
        target = relation.get("Target", "")
        tree = trees.get(target.removeprefix("/") if target.startswith("/") else f"word/{target}")
        if tree is not None:
            yield relation.get("Id", ""), tree


def _parsed(name: str, files: dict[str, bytes]) -> Element:
    try:
        return ElementTree.fromstring(files[name])
    except ElementTree.ParseError as error:
        raise ImportFailure(f"a broken .docx file ({name}: {error}): save it anew in Word") from None


def _with_margins(body: Element, margins: Iterable[Element]) -> None:
    """Append what headers and footers say beyond page numbers, once, to the body."""
    said = _text(body)
    for paragraph in [part for margin in margins for part in margin.iter(W + "p")]:
        text = " ".join(_text(paragraph).split())
        if not says_more(text) or text in said:
            continue
        said += f"\n{text}"
        body.insert(len(body) - (len(body) > 0 and body[-1].tag == W + "sectPr"), _paragraph_of(text))


def says_more(text: str) -> bool:
    """Return whether a header or footer says more than the number of its page."""
    return len(_PAGE_NUMBERS.sub("", text)) >= 3


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _text(element: Element) -> str:
    return "".join((part.text or "") if part.tag == W + "t" else " " for part in element.iter())


def _t(text: str) -> Element:
    part = Element(W + "t")
    part.text = text
    part.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    return part


def _run(text: str) -> Element:
    run = Element(W + "r")
    run.append(_t(text))
    return run


def _paragraph_of(text: str) -> Element:
    paragraph = Element(W + "p")
    paragraph.append(_run(text))
    return paragraph


def _drawn(element: Element) -> Iterator[Element]:
    """Yield the paragraphs in a drawing, or in the data of a diagram."""
    for paragraph in element.iter(_DRAWING + "p"):
        text = " ".join("".join(part.text or "" for part in paragraph.iter(_DRAWING + "t")).split())
        if text:
            yield _paragraph_of(text)


def _charted(chart: Element) -> Iterator[Element]:
    """Yield the title of a chart, and its numbers as a table: a row for each category, a column for each series.

    One of very many numbers has no table.
    """
    title = chart.find(f".//{_CHART}chart/{_CHART}title")
    yield from _drawn(title) if title is not None else ()
    columns: list[dict[int, str]] = []
    for series in chart.iter(_CHART + "ser"):
        for name in ("cat", "xVal") if not columns else ():
            columns += [_points(part) for part in series.findall(_CHART + name)]
        named = series.find(_CHART + "tx")
        heading = "" if named is None else " ".join(part.text or "" for part in named.iter(_CHART + "v"))
        columns += [{-1: heading} | _points(part) for name in ("val", "yVal") for part in series.findall(_CHART + name)]
    places = sorted({at for column in columns for at in column})
    if any(columns) and len(places) * len(columns) <= _CELLS:
        table = Element(W + "tbl")
        for at in places:
            row = ElementTree.SubElement(table, W + "tr")
            for column in columns:
                ElementTree.SubElement(row, W + "tc").append(_paragraph_of(column.get(at, "")))
        yield table


def _points(data: Element) -> dict[int, str]:
    """Return the values that a chart has cached, by their places."""
    points = [(point.get("idx", ""), point.findtext(_CHART + "v", "")) for point in data.iter(_CHART + "pt")]
    return {int(at): _number(text) for at, text in points if at.isdecimal() and len(at) < 10}


def _number(text: str) -> str:
    """Return a number without the digits that only its binary form has, and other text as it is."""
    return f"{float(text):.15g}" if re.fullmatch(r"-?\d+\.\d{15,20}(?:E-?\d{1,3})?", text) else text


class _Shown:
    def __init__(
        self, trees: dict[str, Element], headings: Set[str], settings: Set[str], bound: Mapping[str, Element]
    ) -> None:
        self.left_out: Counter[str] = Counter()
        self._headings, self._settings, self._bound = headings, settings, bound
        self._numbers = Numbers(trees.get("word/numbering.xml"), trees.get("word/styles.xml"))
        self._contents = set(_of_contents(trees.get("word/styles.xml")))
        self._comments = dict(_comments(trees.get("word/comments.xml")))
        self._boxes: list[list[tuple[bool, list[Element]]]] = [[]]
        self._has_text: list[bool] = [False]
        self._repetition = Repetition()
        self._referred: set[tuple[str, str]] = set()

    def rewrite(self, element: Element, related: Mapping[str, Element] = MappingProxyType({})) -> Element:
        """Return the element, rewritten. `related` are the parts that it refers to, by id."""
        self._related = related
        self._inside(element)
        return element

    def _inside(self, element: Element) -> None:
        element[:] = [part for child in element for part in self._shown(child)]

    def _shown(self, element: Element) -> list[Element]:
        """Return what stands in place of an element."""
        name = _local(element)
        if name == "oMath":
            self._has_text[-1] = True
            return [_run(_formula(element))]
        if name == "AlternateContent":
            choices = [child for child in element if len(child)]
            return [part for child in choices[:1] for each in child for part in self._shown(each)]
        if name == "p" and element.tag == W + "p":
            return self._paragraph(element)
        self._inside(element)
        if name in _TRANSPARENT:
            return list(element)
        handler = getattr(self, f"_{name}") if name in _HANDLED and element.tag == W + name else None
        return [element] if handler is None else handler(element)

    def _paragraph(self, element: Element) -> list[Element]:
        self._boxes.append([])
        self._has_text.append(False)
        self._inside(element)
        boxes = self._boxes.pop()
        self._has_text.pop()
        properties = element.find(W + "pPr")
        style = value(properties, "pStyle")
        label = self._numbers.label(element, heading=style in self._headings)
        if label and properties is not None:
            for numbered in properties.findall(W + "numPr"):
                properties.remove(numbered)
            if style not in self._headings:  # its list may be the style's
                for named in properties.findall(W + "pStyle"):
                    properties.remove(named)
            element.insert(1, _run(f"{label} "))
        self.left_out["lines of contents"] += style in self._contents and bool(_text(element).strip())
        readings = [reading.get("reading", "") for reading in element.iter() if reading.get("reading")]
        if readings:
            element.append(_run(f" ({' '.join(readings)})"))
        before = [block for late, blocks in boxes if not late for block in blocks]
        return [*before, element, *(block for late, blocks in boxes if late for block in blocks)]

    def _t(self, element: Element) -> list[Element]:
        element.text = (element.text or "").translate(_MARKS)
        self._has_text[-1] = True
        return [element]

    def _txbxContent(self, element: Element) -> list[Element]:
        self._boxes[-1].append((self._has_text[-1], list(element)))
        return []

    def _r(self, element: Element) -> list[Element]:
        hidden = element.find(f"{W}rPr/{W}vanish")
        if hidden is not None and hidden.get(W + "val", "1") not in ("0", "false") and _text(element).strip():
            self.left_out["hidden passages"] += 1
            return []
        return [element]

    def _cr(self, element: Element) -> list[Element]:
        element.tag = W + "br"
        return [element]

    def _ptab(self, element: Element) -> list[Element]:
        return [Element(W + "tab")]

    def _sym(self, element: Element) -> list[Element]:
        marks = _SYMBOLS.get(element.get(W + "font", ""), {})
        mark = marks.get(element.get(W + "char", "").upper()[-2:])
        return [element] if mark is None else [_t(mark)]

    def _ruby(self, element: Element) -> list[Element]:
        """Return the base; its reading is added to the end of the paragraph, so that it parts no words."""
        base, reading = element.find(W + "rubyBase"), element.find(W + "rt")
        parts = [part.iter(W + "t") if part is not None else () for part in (base, reading)]
        shown, read = ("".join(text.text or "" for text in texts) for texts in parts)
        word = _t(shown)
        word.set("reading", read)
        return [word]

    def _sdt(self, element: Element) -> list[Element]:
        content = element.find(W + "sdtContent")
        inner = list(content) if content is not None else []
        box = next((part for part in element.iter() if _local(part) == "checkbox"), None)
        if box is not None:
            state = next((part for part in box if _local(part) == "checked"), None)
            ticked = state is not None and next(iter(state.attrib.values()), "1") not in ("0", "false")
            texts = [text for part in inner for text in part.iter(W + "t")]
            for text, mark in zip(texts, [_CHECKED if ticked else _OPEN, *[""] * len(texts)], strict=False):
                text.text = mark
        elif (bound := bound_text(element, self._bound)) and self._repetition.times(2, len(bound)) == 2:
            texts = [text for part in inner for text in part.iter(W + "t")]
            for text, said in zip(texts, [bound, *[""] * len(texts)], strict=False):
                text.text = said
        return inner

    def _fldChar(self, element: Element) -> list[Element]:
        box, choices = (element.find(f"{W}ffData/{W}{name}") for name in ("checkBox", "ddList"))
        if box is not None:
            checked = value(box, "checked", "1" if box.find(W + "checked") is not None else value(box, "default", "0"))
            element.clear()
            element.set(W + "fldCharType", "begin")
            return [_t(_OPEN if checked in ("0", "false") else _CHECKED), element]
        if choices is None:
            return [element]
        entries = [entry.get(W + "val", "") for entry in choices.findall(W + "listEntry")]
        chosen = value(choices, "result", value(choices, "default", "0"))
        entry = entries[int(chosen)] if chosen.isdecimal() and int(chosen) < len(entries) else ""
        element.clear()
        element.set(W + "fldCharType", "begin")
        return [_t(entry), element]

    def _instrText(self, element: Element) -> list[Element]:
        return [] if "FORMCHECKBOX" in (element.text or "") else [element]  # its mark stands there already

    def _drawing(self, element: Element) -> list[Element]:
        return self._picture(element)

    def _pict(self, element: Element) -> list[Element]:
        return self._picture(element)

    def _object(self, element: Element) -> list[Element]:
        self.left_out["embedded objects"] += 1
        return []

    def _altChunk(self, element: Element) -> list[Element]:
        self.left_out["embedded documents"] += 1
        return []

    def _picture(self, element: Element) -> list[Element]:
        """Return the words of a picture; its text boxes have been taken out."""
        drawn, unread = [*_drawn(element)], Counter[str]()
        for part in element.iter():
            if (name := _local(part)) not in ("chart", "relIds"):
                continue
            id = part.get(_RELATED + ("id" if name == "chart" else "dm"), "")
            tree = self._related.get(id) if self._is_first(name, id) else None
            told = [] if tree is None else [*(_charted(tree) if name == "chart" else _drawn(tree))]
            unread[_DRAWN[name]] += not any(name != "chart" or each.tag == W + "tbl" for each in told)
            drawn += told
        if drawn:
            self.left_out += unread
            self._boxes[-1].append((self._has_text[-1], drawn))
            return []
        names = {_local(part) for part in element.iter()}
        keys = ("descr", "alt") if "imagedata" in names else ("descr",)
        words = next((text for part in element.iter() for key in keys if (text := part.get(key))), "")
        if words:
            return [_t(f" (Image: {words}) ")]
        kind = next((kind for name, kind in _DRAWN.items() if name in names), None)
        if kind is not None and "decorative" not in names:
            self.left_out[kind] += 1
        return []

    def _is_first(self, kind: str, id: str) -> bool:
        """Return whether a part is referred to for the first time: a file may refer to a large one without end."""
        known = (kind, id) in self._referred
        self._referred.add((kind, id))
        return not known

    def _footnoteReference(self, element: Element) -> list[Element]:
        return [element] if self._is_first("footnote", element.get(W + "id", "")) else []

    def _endnoteReference(self, element: Element) -> list[Element]:
        return [element] if self._is_first("endnote", element.get(W + "id", "")) else []

    def _commentReference(self, element: Element) -> list[Element]:
        id = element.get(W + "id", "")
        comment = self._comments.get(id) if self._is_first("comment", id) else ""
        if "comments" in self._settings and comment:
            return [_t(f" [{comment}] ")]
        self.left_out["comments"] += 1
        return []

    def _del(self, element: Element) -> list[Element]:
        texts = [text for text in element.iter(W + "delText") if text.text]
        if not texts:
            return []
        if "deleted" not in self._settings:
            self.left_out["deleted passages"] += 1
            return []
        return [_run(f"[deleted: {''.join(text.text or '' for text in texts)}]")]

    def _moveFrom(self, element: Element) -> list[Element]:
        return []


def _of_contents(styles: Element | None) -> Iterator[str]:
    """Yield the ids of the styles of lists of contents and figures, whose names are English in all languages."""
    for style in styles.iter(W + "style") if styles is not None else ():
        name = value(style, "name").lower()
        if name.startswith("toc") or name == "table of figures":
            yield style.get(W + "styleId", "")


def _comments(tree: Element | None) -> Iterator[tuple[str, str]]:
    for comment in tree.iter(W + "comment") if tree is not None else ():
        text = " ".join(_text(comment).split())
        yield comment.get(W + "id", ""), f"Comment by {comment.get(W + 'author', '') or 'somebody'}: {text}"


def _formula(element: Element) -> str:
    """Return a formula of Office on one line."""
    name = _local(element)
    if name == "t":
        return "".join(
            unicodedata.normalize("NFKC", sign) if 0x1D400 <= ord(sign) < 0x1D800 else sign
            for sign in element.text or ""
        )
    parts: dict[str, list[str]] = {}
    for child in element:
        parts.setdefault(_local(child), []).append("" if _local(child).endswith("Pr") else _formula(child))

    def part(of: str) -> str:
        return "".join(parts.get(of, []))

    def sign(of: str, default: str) -> str:
        found = next((each for each in element.iter() if _local(each) == of), None)
        return default if found is None else next(iter(found.attrib.values()), default)

    if name in _FORMS:
        form, of = _FORMS[name]
        return linear(form, [part(each) for each in of.split()])
    if name == "rad":
        return linear("nth root" if part("deg") else "root", [part("e"), part("deg")])
    if name == "nary":
        limits = linear("both", [sign("chr", "∫"), part("sub"), part("sup")])
        return re.sub(r"[_^](?![^\s^_])", "", limits) + f" {part('e')}"
    if name == "d":
        inner = sign("sepChr", "|").join(parts.get("e", []))
        return f"{sign('begChr', '(')}{inner}{sign('endChr', ')')}"
    if name == "func":
        return f"{part('fName')} {part('e')}"
    if name in ("m", "eqArr"):
        return "; ".join(parts.get("mr" if name == "m" else "e", []))
    if name == "mr":
        return ", ".join(parts.get("e", []))
    return "".join(_formula(child) for child in element if not _local(child).endswith("Pr"))
