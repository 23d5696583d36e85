"""What LibreOffice shows of an OpenDocument text or slide, as HTML for our converter, and what is left out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from html import escape
from xml.etree.ElementTree import Element

from hive_agents.readers.imported import Repetition
from hive_agents.readers.odf import OdfFile, children, number_of, plain
from hive_agents.readers.odf_numbers import ListNumbers

_LISTINGS = frozenset({"text:table-of-content", "text:illustration-index", "text:table-index", "text:object-index"})
_UNSEEN = frozenset(
    """office:forms text:sequence-decls text:user-field-decls text:variable-decls text:dde-connection-decls
    text:index-title-template text:alphabetical-index-source text:bibliography-source text:user-index-source
    text:number text:script text:soft-page-break text:alphabetical-index-auto-mark-file office:annotation-end
    office:event-listeners svg:title svg:desc draw:enhanced-geometry draw:page-thumbnail draw:image-map
    presentation:event-listener anim:par table:table-source table:scenario table:desc table:title""".split()
)
_ROWS = frozenset({"table:table-header-rows", "table:table-rows", "table:table-row-group"})
_MOST_REPEATED = 64
_PLACED = frozenset({"draw:frame", "draw:g", "draw:a", "draw:control"})
_PICTURE = "pictures without text"
_PARAGRAPHS = {"Title": "h1", "Preformatted_20_Text": "pre", "Quotations": "blockquote"}


class Shown:
    """The HTML of an OpenDocument file's parts; `left_out` counts what isn't in it."""

    def __init__(self, file: OdfFile, settings: Set[str]) -> None:
        self.left_out: Counter[str] = Counter()
        self._file, self._settings = file, settings
        self._numbers = ListNumbers(file)
        self._after: list[list[str]] = [[]]
        self._notes: list[str] = []
        self._objects: set[str] = set()
        self._repetition = Repetition()
        self._deleted = dict(_deletions(file.body))
        self._controls = {
            name: control for control in file.content.iter() for name in _ids(control)
            if str(control.tag).startswith("form:")
        } if file.content is not None else {}  # fmt: skip
        if "deleted" not in settings:
            self.left_out["deleted passages"] += len(self._deleted)

    def blocks(self, elements: Iterable[Element]) -> str:
        return "".join(map(self._block, elements)).replace("</li></ul><ul><li>", "</li><li>")

    def notes(self) -> str:
        """Return the notes that the blocks so far refer to."""
        notes, self._notes = self._notes, []
        return "".join(notes)

    def _block(self, element: Element) -> str:
        name = str(element.tag)
        if name in _UNSEEN or name == "text:tracked-changes":
            return ""
        if name in _LISTINGS:
            self.left_out["lines of contents"] += sum(bool(plain(each).strip()) for each in element.iter("text:p"))
            return ""
        if name in ("text:p", "text:h"):
            return self._paragraph(element)
        if name == "text:list":
            return self._list(element)
        if name == "table:table":
            return self._table(element)
        if name == "text:section" and element.get("text:display") == "none":
            self.left_out["hidden passages"] += 1
            return ""
        if name == "office:annotation":
            return _p(self._comment(element))
        if name.startswith(("draw:", "dr3d:")):
            inner, after = self._apart(lambda: self._drawing(element))
            return _p(inner) + after
        return self.blocks(element)

    def _apart(self, shown: Callable[[], str]) -> tuple[str, str]:
        """Return what is shown in a line, and the blocks that were drawn in it."""
        self._after.append([])
        inner = shown()
        return inner, "".join(self._after.pop())

    def _paragraph(self, element: Element, label: str = "") -> str:
        style = element.get("text:style-name")
        if self._file.property("paragraph", style, "text:display") == "none":
            self.left_out["hidden passages"] += bool(plain(element).strip())
            return ""
        inner, after = self._apart(lambda: self._inline(element))
        if element.tag == "text:h":
            level = min(max(number_of(element, "text:outline-level"), 1), 6)
            number = label or self._numbers.of_heading(element)
            return (f"<h{level}>{escape(number)} {inner}</h{level}>" if inner.strip() else "") + after
        inner = f"{escape(label)} {inner}" if label else inner
        names = {each.get("style:name", "") for each in self._file.styled("paragraph", style)}
        tag = next((tag for name, tag in _PARAGRAPHS.items() if name in names), "p")
        if tag == "blockquote":
            inner = _p(inner)
        return (f"<{tag}>{inner}</{tag}>" if inner.strip() else "") + after

    def _list(self, element: Element) -> str:
        parts = []
        with self._numbers.of_list(element) as numbered:
            for item in element:
                label = numbered(item)
                first = next((each for each in item if each.tag in ("text:p", "text:h", "text:list")), None)
                own = None if first is None or first.tag == "text:list" else first
                is_number = label.endswith(".") and label[:-1].isdecimal() and (own is None or own.tag == "text:p")
                shown = "" if own is None else self._paragraph(own, "" if is_number else label)
                shown += self.blocks(each for each in item if each is not own)
                if own is not None and own.tag == "text:h":  # a clause
                    parts.append(shown)
                elif shown and is_number:
                    parts.append(f'<ol start="{label[:-1]}"><li>{shown}</li></ol>')
                elif shown:
                    parts.append(f"<ul><li>{shown}</li></ul>")
        return "".join(parts)

    def _table(self, table: Element) -> str:
        rows = []
        for row in rows_of(table):
            cells = []
            for cell in row:
                if cell.tag not in ("table:table-cell", "office:table-cell"):
                    continue
                spans = "".join(
                    f' {name}="{min(number_of(cell, f"table:number-{key}-spanned"), 1000)}"'
                    for name, key in (("colspan", "columns"), ("rowspan", "rows"))
                )
                shown = self.blocks(cell)
                cells += [f"<td{spans}>{shown}</td>"] * self._times(cell, "columns", len(shown))
            whole = "".join(cells)
            rows += [f"<tr>{whole}</tr>"] * (self._times(row, "rows", len(whole)) if plain(row).strip() else 1)
        return f"<table>{''.join(rows)}</table>" if rows else ""

    def _times(self, element: Element, of: str, size: int) -> int:
        """Return how often a cell or a row stands side by side."""
        return self._repetition.times(min(number_of(element, f"table:number-{of}-repeated"), _MOST_REPEATED), size)

    def _inline(self, element: Element) -> str:
        parts = [escape(element.text or "")]
        for child in element:
            parts += [self._part(child), escape(child.tail or "")]
        return "".join(parts)

    def _part(self, element: Element) -> str:
        name = str(element.tag)
        if name in _UNSEEN:
            return ""
        if name == "text:s":
            return " "
        if name in ("text:tab", "text:line-break"):
            return " " if name == "text:tab" else "<br>"
        if name == "text:span":
            return self._span(element)
        if name == "text:a":
            return f'<a href="{escape(element.get("xlink:href", ""))}">{self._inline(element)}</a>'
        if name == "text:note":
            return self._note(element)
        if name == "text:ruby":
            shown, read = (
                "".join(map(self._inline, children(element, f"text:ruby-{part}"))) for part in ("base", "text")
            )
            return f"<ruby>{shown}<rt>{read}</rt></ruby>"
        if name == "office:annotation":
            return self._comment(element)
        if name == "text:change":
            deleted = self._deleted.get(element.get("text:change-id", ""), "")
            return escape(f"[deleted: {deleted}]") if deleted and "deleted" in self._settings else ""
        if name.startswith(("draw:", "dr3d:")):
            return self._drawing(element)
        if name in ("text:p", "text:h", "text:list", "table:table"):  # within a drawing, or where it shouldn't be
            self._after[-1].append(self._block(element))
            return ""
        if element.get("text:is-hidden") == "true" or element.get("text:display") == "none":
            self.left_out["hidden passages"] += bool(plain(element).strip())
            return ""
        return self._inline(element)

    def _span(self, element: Element) -> str:
        style = element.get("text:style-name")
        if self._file.property("text", style, "text:display") == "none":
            self.left_out["hidden passages"] += bool(plain(element).strip())
            return ""
        inner = self._inline(element)
        position = self._file.property("text", style, "style:text-position").split(" ")[0]
        if position and position not in ("0%", "baseline"):
            tag = "sub" if position.startswith(("sub", "-")) else "sup"
            return f"<{tag}>{inner}</{tag}>"
        for tag, key, value in (("strong", "fo:font-weight", "bold"), ("em", "fo:font-style", "italic")):
            if inner.strip() and self._file.property("text", style, key) == value:
                inner = f"<{tag}>{inner}</{tag}>"
        return inner

    def _note(self, note: Element) -> str:
        mark = f"[{escape(''.join(map(plain, children(note, 'text:note-citation'))).strip())}]"
        for body in children(note, "text:note-body"):
            shown = self.blocks(body)
            marked = f"<p>{mark} {shown[3:]}" if shown.startswith("<p>") else f"<p>{mark}</p>{shown}"
            self._notes.append(marked)
        return mark

    def _comment(self, comment: Element) -> str:
        if "comments" not in self._settings:
            self.left_out["comments"] += 1
            return ""
        author = next((plain(each) for each in comment.iter("dc:creator")), "") or "somebody"
        text = " ".join(" ".join(plain(each) for each in comment.iter("text:p")).split())
        return escape(f" [Comment by {author}: {text}] ")

    def _drawing(self, element: Element) -> str:
        """Return what a drawing says within its line; its paragraphs follow below."""
        name = str(element.tag)
        if name == "draw:control":
            return self._control(element)
        if name == "draw:frame":
            return self._frame(element)
        if name in ("draw:a", "draw:g"):
            return " ".join(self._part(child) for child in element)
        described = "" if any(plain(each).strip() for each in element.iter("text:p")) else _described(element)
        self._after[-1].append(self.blocks(child for child in element if child.tag != "office:annotation"))
        return f" (Image: {described}) " if described else ""

    def _frame(self, frame: Element) -> str:
        if frame.get("presentation:placeholder") == "true":
            return ""
        for part in frame:
            if part.tag in ("draw:text-box", "table:table"):
                self._after[-1].append(self._block(part) if part.tag == "table:table" else self.blocks(part))
                return ""
            if part.tag == "draw:object":
                shown = self._object(part)
                if shown is not None:
                    return shown
        described = _described(frame)
        if described:
            return f" (Image: {described}) "
        names = {part.tag for part in frame}
        is_object = names & {"draw:object", "draw:object-ole", "draw:plugin"}
        self.left_out["embedded objects" if is_object else _PICTURE] += bool(names - _UNSEEN)
        return ""

    def _object(self, part: Element) -> str | None:
        """Return the formula of an object, or put its chart or text below; None for one that can't be read."""
        path = part.get("xlink:href", "")
        inner = next((each for each in part if each.tag in ("math:math", "office:document")), None)
        tree = inner if inner is not None else self._file.object(path) if path and path not in self._objects else None
        if tree is None:
            return None
        self._objects.add(path)  # once: it may be within itself, and two within two others are many
        if tree.tag == "math:math":
            return _formula(tree)
        body = next((each for each in tree.iter("office:body")), None)
        if body is None:
            return None
        charts = list(body.iter("chart:chart"))
        titles = [each for chart in charts for each in chart if each.tag in ("chart:title", "chart:subtitle")]
        shown = self.blocks(titles) + self.blocks(body.iter("table:table") if charts else body)
        self._after[-1].append(shown)
        return "" if shown else None

    def _control(self, element: Element) -> str:
        control = self._controls.get(element.get("draw:control", ""))
        if control is None:
            return ""
        label, kind = control.get("form:label", ""), str(control.tag)
        if kind in ("form:checkbox", "form:radio"):
            state = control.get("form:current-state", control.get("form:state", ""))
            ticked = state == "checked" or control.get("form:current-selected") == "true"
            return escape(f" {'[x]' if ticked else '[ ]'} {label} ")
        if kind in ("form:listbox", "form:combobox"):
            chosen = [
                each.get("form:label", "") for each in control.iter("form:option")
                if each.get("form:current-selected") == "true"
            ]  # fmt: skip
            return escape(f" {', '.join(chosen) or control.get('form:current-value', '')} ")
        value = control.get("form:current-value") or control.get("form:value") or ""
        if kind in ("form:button", "form:password", "form:hidden", "form:image"):
            self.left_out["buttons"] += kind == "form:button" and bool(label)
            return ""
        return escape(f" {label} {value or ' '.join(map(plain, control.iter('text:p')))} ")


def _p(inner: str) -> str:
    return f"<p>{inner}</p>" if inner.strip() else ""


def _ids(element: Element) -> Iterator[str]:
    for name, value in element.attrib.items():
        if name == "form:id" or name.endswith("}id"):
            yield value


def _described(element: Element) -> str:
    parts = [next((each.text for each in element.iter(name)), "") for name in ("svg:title", "svg:desc")]
    return escape(" ".join(" ".join(dict.fromkeys(filter(None, parts))).split()))


def _deletions(body: Element) -> Iterator[tuple[str, str]]:
    for region in body.iter("text:changed-region"):
        for deletion in region.iter("text:deletion"):
            text = " ".join(plain(each) for each in deletion if each.tag in ("text:p", "text:h", "text:list"))
            names = [value for name, value in region.attrib.items() if name == "text:id" or name.endswith("}id")]
            if text.strip():
                yield names[0] if names else "", " ".join(text.split())


def rows_of(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, those of its groups among them."""
    for part in table:
        if part.tag == "table:table-row":
            yield part
        elif part.tag in _ROWS:
            yield from rows_of(part)


def _formula(element: Element) -> str:
    """Return a formula as MathML of web pages, which have no prefixes."""
    name = str(element.tag).partition(":")[2]
    if name == "annotation" and "tex" not in element.get("encoding", "").lower():
        return ""
    inner = "".join(_formula(child) + escape(child.tail or "") for child in element)
    encoding = f' encoding="{escape(element.get("encoding", ""))}"' if name == "annotation" else ""
    return f"<{name}{encoding}>{escape(element.text or '')}{inner}</{name}>"
