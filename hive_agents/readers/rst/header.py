"""Header fields of a document, such as status, authors and what it replaces."""

from __future__ import annotations

import re

from docutils import nodes

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
