"""Lookup of directives and roles: docutils' own, ours, or the generic ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives as docutils_directives, roles as docutils_roles

from hive_agents.readers.rst.directives import OURS, Anything
from hive_agents.readers.rst.roles import STANDARD, generic_role

_LOCK = threading.Lock()
_BUILT_IN = frozenset(
    "attention caution danger error hint important note tip warning admonition topic sidebar line-block "
    "parsed-literal math rubric epigraph highlights pull-quote compound container table csv-table list-table "
    "image figure replace unicode date".split()
)


@contextmanager
def sphinx_dialect() -> Iterator[None]:
    """Define every directive and role in this context.

    docutils has no hook for unknown names, so its two lookup functions are replaced, and restored afterwards for Sphinx
    in the same process.
    """
    with _LOCK:
        directive, role = docutils_directives.directive, docutils_roles.role

        def find_directive(name: str, language: Any, document: Any) -> tuple[type[Directive] | None, list[Any]]:
            plain = name.lower().rpartition(":")[2]
            if plain in OURS:
                return OURS[plain], []
            if plain in _BUILT_IN:
                found, messages = directive(plain, language, document)
                return found, messages
            return Anything, []

        def find_role(name: str, language: Any, line: int, reporter: Any) -> tuple[Any, list[Any]]:
            return role(name, language, line, reporter) if name.lower() in STANDARD else (generic_role, [])

        _install(find_directive, find_role)
        try:
            yield
        finally:
            _install(directive, role)


def _install(find_directive: Any, find_role: Any) -> None:
    vars(docutils_directives)["directive"] = find_directive
    vars(docutils_roles)["role"] = find_role


# As in mail: a name, a value, and indented lines that continue it. PEPs and the like begin so; their title tells them
# from a first paragraph such as "Note: …".
_HEADER = re.compile(r"(?:[A-Za-z][\w-]*:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*)+(?=\s*\n|\Z)")
_TITLE = re.compile(r"^title:[ \t]*\S", re.I | re.M)
_NOT_READ = (nodes.comment, nodes.target, nodes.substitution_definition, nodes.system_message)


def begins_with_header(text: str) -> bool:
    """Return whether a text begins with header fields as in mail, including a title.

    >>> [begins_with_header(text) for text in ("PEP: 8\\nTitle: Style\\n  Guide\\n\\nText", "Note: mind it.\\n")]
    [True, False]
    """
    fields = _HEADER.match(text.replace("\r\n", "\n") + "\n")
    return fields is not None and _TITLE.search(fields[0]) is not None


def header(document: nodes.document) -> dict[str, str]:
    """Return the fields before the text, or just below its title; names are lower case with `_` between words.

    Only fields of one paragraph without substitutions are returned.

    >>> from docutils.core import publish_doctree
    >>> header(publish_doctree(":Superseded-By: 566\\n\\nText", settings_overrides={"docinfo_xform": False}))
    {'superseded_by': '566'}
    """
    fields = _first(document)
    if isinstance(fields, nodes.section):
        fields = _first(fields)
    if not isinstance(fields, nodes.field_list):
        return {}
    values = {}
    for name, body in (field.children for field in fields.children if isinstance(field, nodes.field)):
        assert isinstance(body, nodes.Element)
        value = " ".join(body.astext().split())
        substitution = next(
            body.findall(lambda node: isinstance(node, nodes.problematic | nodes.substitution_reference)), None
        )
        if value and len(body) == 1 and isinstance(body[0], nodes.paragraph) and substitution is None:
            values[re.sub(r"\W+", "_", name.astext().strip().lower())] = value
    return values


def _first(holder: nodes.Element) -> nodes.Node | None:
    """Return the first block below the title."""
    blocks = (node for node in holder.children if not isinstance(node, (*_NOT_READ, nodes.title)))
    return next(blocks, None)
