"""Roles: their text is kept, their target isn't."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes, utils

STANDARD = frozenset(
    ["", *"emphasis strong literal code math subscript sub superscript sup title-reference title t".split()]
)
_WORDS = frozenset("ref doc term numref any abbr guilabel menuselection dfn pypi index commit".split())
_NUMBERED = {
    "ticket": "#",
    "issue": "#",
    "bpo": "bpo-",
    "gh": "gh-",
    "cve": "CVE-",
    "cwe": "CWE-",
    "rfc": "RFC ",
    "pep": "PEP ",
}
_CODE_MARKS = frozenset("{}%=_")
_TITLED = re.compile(r"(?P<title>.+?)\s*(?<!\\)<(?P<target>[^<>]*)>", re.S)


class pending_reference(nodes.Inline, nodes.TextElement):
    """A reference by label; the writer replaces it by the section's title if the document has that label."""


def generic_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Any = None,
    content: Any = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Return the text of any role, as code if the role refers to code."""
    role = name.lower().rpartition(":")[2]
    plain = " ".join(utils.unescape(text).split())
    titled = _TITLED.fullmatch(plain)
    if titled and role not in ("abbr", "samp", "file", "command", "kbd"):
        title = titled["title"]
        is_code = role not in (*_WORDS, *_NUMBERED) and (" " not in title or bool(_CODE_MARKS & set(title)))
        return [nodes.literal(rawtext, title) if is_code else nodes.Text(title)], []
    if role in ("ref", "numref"):
        return [pending_reference(rawtext, plain, label=plain)], []
    if role in _NUMBERED:
        return [nodes.Text(_NUMBERED[role] + plain.replace("#section-", " section ").replace("#", " "))], []
    if role == "commit":
        return [nodes.Text(plain[:12])], []
    if role == "menuselection":
        return [nodes.Text(plain.replace("-->", "→"))], []
    if role in _WORDS:
        return [nodes.Text(plain.lstrip("!"))], []
    return [nodes.literal(rawtext, _target_text(role, plain))], []


def _target_text(role: str, target: str) -> str:
    """Return what Sphinx shows for a target: `~a.b.c` is `c`, a function has its parentheses."""
    target = target.removeprefix("!")
    if target.startswith("~"):
        target = target[1:].rpartition(".")[2]
    if role in ("func", "meth") and not target.endswith(")"):
        target += "()"
    return target.removeprefix(".")
