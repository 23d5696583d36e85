"""Marks that Markdown itself doesn't know and sites and note-takers write: names for links, wiki links, containers."""

from __future__ import annotations

import re

_LINK_NAME = re.compile(r"\s*\{\s*#[\w-][^{}]*\}\s*$")
_WIKI_LINK = re.compile(r"!?\[\[(?P<page>[^\[\]|]+)(?:\|(?P<alias>[^\[\]]+))?\]\]")
_CONTAINER = re.compile(r"^:{3,}[ \t]*[\w-]*[ \t]*")
_CALLOUT = re.compile(r"^(?P<quote>>\s?)?\[!\w+\][-+]?[ \t]*")
_ATTACHED = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|pdf|mp[34]|webm|ogg|canvas)$", re.I)


def heading_text(content: str) -> str:
    """Return a heading on one line, without the name that links give it.

    >>> heading_text("API keys {#keys}")
    'API keys'
    """
    return " ".join(_LINK_NAME.sub("", content).split())


def unmarked(line: str) -> str:
    """Return a line as readers of its site or notes see it; links to files that are shown in place are no words.

    >>> unmarked("> [!tip] See [[Basic formatting|the basics]] and [[Links#Aliases]]![[a.png]]")
    '> See the basics and Links > Aliases'
    >>> unmarked("::: warning Take care")
    'Take care'
    """
    line = _CALLOUT.sub(lambda found: found["quote"] or "", _CONTAINER.sub("", line))
    return _WIKI_LINK.sub(_linked, line) if "[[" in line else line


def _linked(link: re.Match[str]) -> str:
    page = link["page"]
    return link["alias"] or ("" if _ATTACHED.search(page) else page.strip("#").replace("#", " > "))
