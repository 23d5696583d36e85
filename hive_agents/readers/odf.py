"""Files of OpenDocument: a checked archive, or one XML file, with short names for tags and attributes."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hive_agents.base.files import Exceeded, guarded
from hive_agents.readers.imported import ImportFailure

_SPACE = re.compile(
    r"\{(?:urn:oasis:names:tc:opendocument:xmlns:(?:xsl-)?([a-z]+)(?:-compatible)?:[\d.]+|http://openoffice\.org/2000/([a-z]+)"
    r"|http://www\.w3\.org/(?:1998/([A-Z][a-z]+)/MathML|1999/(xlink))|http://purl\.org/([a-z]+)/elements/1\.1/)\}"
)
"""A namespace, with a group for the part that is its usual prefix."""
_BODIES = {"odt": "text", "ods": "spreadsheet", "odp": "presentation"}
_LONGEST_CHAIN = 20
_MOST_SPACES = 100


class OdfFile:
    """An OpenDocument file of a kind: its content, its styles by family and name, and the objects within it."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._kind = kind
        self._parts = _parts(data, kind)
        self.content = self._tree("content.xml")
        if self.content is None:
            raise ImportFailure(f"a zip archive, but no .{kind} file")
        self.styles = self._tree("styles.xml", optional=True)
        bodies = {str(part.tag): part for holder in children(self.content, "office:body") for part in holder}
        body = bodies.get(f"office:{_BODIES[kind]}")
        if body is None:
            other = next((name for name, of in _BODIES.items() if f"office:{of}" in bodies), None)
            raise ImportFailure(f"no .{kind} file, whatever its name says" + (f": it is an .{other}" if other else ""))
        self.body = body
        self._named = {
            (style.get("style:family", ""), style.get("style:name", "")): style
            for tree in (self.styles, self.content)
            for style in (tree.iter("style:style") if tree is not None else ())
        }
        meta = self._tree("meta.xml", optional=True)
        titles = (meta if meta is not None else self.content).iter("dc:title")
        self.title = " ".join(next((each.text or "" for each in titles), "").split()) or None

    def object(self, path: str) -> Element | None:
        """Return the content of an object within the file, None for one in another format."""
        name = posixpath.normpath(path)
        return self._tree(f"{name}/content.xml") if not name.startswith(("/", "..")) else None

    def styled(self, family: str, name: str | None) -> Iterator[Element]:
        """Yield a style and those that it is based on."""
        for _ in range(_LONGEST_CHAIN):  # a broken file may have a style based on itself
            style = self._named.get((family, name or ""))
            if style is None:
                return
            yield style
            name = style.get("style:parent-style-name")

    def property(self, family: str, name: str | None, key: str) -> str:
        """Return a property of a style, by inheritance; "" for none."""
        for style in self.styled(family, name):
            for properties in style:
                if key in properties.attrib:
                    return properties.attrib[key]
        return ""

    def _tree(self, name: str, *, optional: bool = False) -> Element | None:
        part = self._parts.get(name)
        if part is None:
            return None
        if b"<!ENTITY" in part.replace(b"\0", b""):
            raise ImportFailure(f"not a readable .{self._kind} file: {name} declares entities")
        try:
            return _with_short_names(ElementTree.fromstring(part))
        except ElementTree.ParseError as error:
            if optional:
                return None
            raise ImportFailure(f"a broken .{self._kind} file ({name}: {error}): save it anew") from None


def _parts(data: bytes, kind: str) -> dict[str, bytes]:
    """Return the parts in XML by their names."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        if b"office:document" in data[:4000]:
            return {"content.xml": data}
        raise ImportFailure(f"no .{kind} file, whatever its name says: neither a zip archive nor flat XML")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            guarded.require_archive(archive)
            names = archive.namelist()
            if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
                raise ImportFailure("protected by a password: save a copy without one, then import that")
            return {name: archive.read(name) for name in names if name.endswith(".xml")}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
        raise ImportFailure(f"a broken .{kind} file: save it anew from the program that wrote it") from None
    except Exceeded as exceeded:
        raise ImportFailure(f"{exceeded}; split it, or take out its media") from None


def _with_short_names(tree: Element) -> Element:
    known: dict[str, str] = {}

    def short(name: str) -> str:
        if name not in known:
            known[name] = _SPACE.sub(_prefix, name)
        return known[name]

    for element in tree.iter():
        if isinstance(element.tag, str):
            element.tag = short(element.tag)
            element.attrib = {short(name): value for name, value in element.attrib.items()}
    return tree


def children(element: Element, name: str) -> list[Element]:
    """Return the children of a name, which ElementTree's `findall` would take for a prefix and a name."""
    return [child for child in element if child.tag == name]


def _prefix(found: re.Match[str]) -> str:
    prefix = found[found.lastindex or 0].lower()
    return {"drawing": "draw", "datastyle": "number"}.get(prefix, prefix) + ":"


def number_of(element: Element, name: str, default: int = 1) -> int:
    value = element.get(name, "")
    return int(value) if value.isdecimal() and len(value) < 10 else default


def plain(element: Element) -> str:
    """Return the text of an element, without what is drawn, noted or commented in it."""
    return "".join(_pieces(element))


def _pieces(element: Element) -> Iterable[str]:
    yield element.text or ""
    for child in element:
        name = child.tag
        if name == "text:s":
            yield " " * min(number_of(child, "text:c"), _MOST_SPACES)
        elif name in ("text:tab", "text:line-break"):
            yield " " if name == "text:tab" else "\n"
        elif not str(name).startswith(("draw:", "office:annotation", "text:note")):
            yield from _pieces(child)
        yield child.tail or ""
