"""Inline nodes as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from docutils import nodes

from hive_agents.readers.markdown import code_span, escape
from hive_agents.readers.rst.roles import pending_reference

_CODE = (nodes.literal, nodes.math)
_SILENT = (nodes.system_message, nodes.comment, nodes.substitution_definition, nodes.target)


def inline(node: nodes.Node, titles: Mapping[str, str]) -> str:
    """Return the Markdown of a node and its children, on one line; `titles` are the document's sections by label."""
    if isinstance(node, nodes.Text):
        return escape(re.sub(r"[ \t]{2,}", " ", node.astext()))
    if isinstance(node, _CODE):
        return code_span(node.astext())
    if isinstance(node, pending_reference):
        label = str(node["label"])
        return escape(titles.get(label.lower()) or label.replace("-", " "))
    if isinstance(node, nodes.image):
        return f"(Image: {escape(node['alt'])})" if node.get("alt") and node["alt"] != node.get("uri") else ""
    if isinstance(node, (nodes.footnote_reference, nodes.citation_reference)):
        return f"[{node.astext()}]"
    if isinstance(node, nodes.target) and node.children:
        return children(node, titles)
    if isinstance(node, _SILENT):
        return ""
    if not isinstance(node, nodes.Element):
        return escape(node.astext())
    text = children(node, titles)
    if isinstance(node, nodes.strong):
        return _wrapped(text, "**")
    if isinstance(node, (nodes.emphasis, nodes.title_reference)):
        return _wrapped(text, "*")
    if isinstance(node, nodes.superscript):
        return f"^{text}"
    if isinstance(node, nodes.reference) and node.get("refuri"):
        return _link(text, node.astext(), str(node["refuri"]))
    return text


def children(node: nodes.Element, titles: Mapping[str, str]) -> str:
    # Hard-wrapped source lines are joined.
    return re.sub(r"\s*\n\s*", " ", "".join(inline(child, titles) for child in node.children))


def _wrapped(text: str, mark: str) -> str:
    return f"{mark}{text.strip()}{mark}" if text.strip() else ""


def _link(text: str, plain: str, uri: str) -> str:
    if not re.match(r"https?://|mailto:", uri):
        return text  # a relative link, which leads nowhere here
    if plain in (uri, uri.removeprefix("mailto:")):
        return f"<{plain}>"
    return f"[{text}]({uri.replace(' ', '%20').replace(')', '%29').replace('(', '%28')})"
