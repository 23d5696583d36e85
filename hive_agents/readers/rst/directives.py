"""Directives that docutils lacks, or that mean something else in Sphinx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive


class _AnyOption(dict[str, Callable[[str], Any]]):
    """An option spec with every option: an unknown one must not lose the directive's content."""

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return lambda value: value

    def __bool__(self) -> bool:
        return True


class _Generic(Directive):
    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = _AnyOption()

    @property
    def argument(self) -> str:
        return self.arguments[0] if self.arguments else ""

    def body(self) -> list[nodes.Node]:
        holder = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, holder, match_titles=True)
        return list(holder.children)

    def paragraph(self, text: str) -> nodes.paragraph:
        inline, _ = self.state.inline_text(text, self.lineno)
        return nodes.paragraph(text, "", *inline)


class Anything(_Generic):
    """An unknown directive: its argument and its content as text."""

    def run(self) -> list[nodes.Node]:
        return [*([self.paragraph(self.argument)] if self.argument else []), *self.body()]


class Dropped(_Generic):
    """A directive for the build only, or one that would read a file: nothing."""

    def run(self) -> list[nodes.Node]:
        return []


class ContentOnly(_Generic):
    """A directive whose argument is a name for cross-references or a condition: its content."""

    def run(self) -> list[nodes.Node]:
        return self.body()


class Module(_Generic):
    def run(self) -> list[nodes.Node]:
        synopsis = self.options.get("synopsis", "")
        if not synopsis:
            return self.body()
        return [nodes.paragraph("", "", nodes.literal("", self.argument), nodes.Text(f": {synopsis}")), *self.body()]


class Described(_Generic):
    """A described object: its signature as code, then its description.

    Members have the class's name as a prefix: in a search result, `name` alone says nothing.
    """

    def run(self) -> list[nodes.Node]:
        kind = self.name.lower().rpartition(":")[2]
        if kind == "class" and not any(mark in self.argument for mark in "(.") and self.argument.islower():
            return self.body()  # docutils' own `class`, which sets a style
        document = self.state.document
        owner = document.get("described_class", "")
        prefix = f"{owner}." if owner and kind in _MEMBERS else _PREFIXES.get(kind, "")
        line = nodes.paragraph()
        for signature in self.argument.replace("\\\n", " ").splitlines():
            text = signature.strip().replace("\\", "")
            named = "." in text.partition("(")[0]
            line += [nodes.Text(", ")] if len(line) else []
            line += nodes.literal("", text if named and kind in _MEMBERS else prefix + text)
        if kind in ("class", "exception"):
            document["described_class"] = self.argument.partition("(")[0].strip().rpartition(".")[2]
        try:
            return [line, *self.body()]
        finally:
            document["described_class"] = owner


class Code(_Generic):
    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        language = self.argument.split()[0] if self.argument else _CODE[self.name.lower().rpartition(":")[2]]
        caption = self.options.get("caption")
        block = nodes.literal_block(text, text, language="" if language in ("text", "none", "default") else language)
        return [*([self.paragraph(caption)] if caption else []), block]


class VersionChange(_Generic):
    """`versionadded:: 5.2` and the like as a sentence."""

    def run(self) -> list[nodes.Node]:
        version, _, rest = self.argument.partition(" ")
        label = f"{_VERSIONS[self.name.lower()]} {version}"
        body = [*([self.paragraph(rest.strip())] if rest.strip() else []), *self.body()]
        line = nodes.paragraph("", "", nodes.emphasis("", label + (":" if body else ".")))
        if body and isinstance(body[0], nodes.paragraph):
            line += [nodes.Text(" "), *body.pop(0).children]
        return [line, *body]


class SeeAlso(_Generic):
    optional_arguments = 0

    def run(self) -> list[nodes.Node]:
        return [nodes.admonition("", nodes.title("", "See also"), *self.body())]


class TocTree(_Generic):
    def run(self) -> list[nodes.Node]:
        entries = [line.strip() for line in self.content if line.strip()]
        if "hidden" in self.options or "glob" in self.options or not entries:
            return []
        shown = [entry.rpartition(" <")[0] or entry for entry in entries]
        return [nodes.bullet_list("", *(nodes.list_item("", nodes.paragraph("", name)) for name in shown))]


_PREFIXES = {"class": "class ", "exception": "exception ", "decorator": "@", "django-admin": "django-admin "}
_MEMBERS = frozenset("method classmethod staticmethod attribute property".split())
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_CODE = dict.fromkeys(
    "code code-block sourcecode doctest testcode testoutput productionlist graphviz digraph uml prompt".split(), ""
) | {"console": "console", "mermaid": "mermaid"}
_GROUPS: dict[type[_Generic], str] = {
    Described: "class function method classmethod staticmethod attribute property data exception object describe "
    "option cmdoption envvar confval decorator decoratormethod type member macro struct enum var "
    "django-admin django-admin-option",
    ContentOnly: "setting templatetag templatefilter fieldlookup only glossary",
    Module: "module",
    Dropped: "index highlight currentmodule default-domain program contents sectnum raw include literalinclude meta "
    "role default-role title tabularcolumns target-notes header footer sectionauthor codeauthor testsetup testcleanup",
    SeeAlso: "seealso",
    TocTree: "toctree",
    VersionChange: " ".join(_VERSIONS),
    Code: " ".join(_CODE),
}
OURS: dict[str, type[Directive]] = {name: kind for kind, names in _GROUPS.items() for name in names.split()}
