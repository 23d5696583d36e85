"""Globs of doc_ids, as grants match them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

_TOKENS = re.compile(r"(?P<folders>(?:(?<=/)|\A)\*\*+/)|(?P<any>\*\*+)|(?P<star>\*)|(?P<one>\?)|(?P<text>[^*?]+)")


@lru_cache(maxsize=4096)
def translate(glob: str) -> str:
    r"""Return the regular expression of a glob, for `fullmatch`; upper and lower case differ.

    `*` is any text inside one folder, `?` one character of it, `**` any text across folders, and `**/` between folders
    or at the start also none at all. Everything else is itself, brackets too.

    >>> [bool(re.fullmatch(translate("sops/**"), doc_id)) for doc_id in ("sops/a.md", "sops/x/a.md", "sops.md")]
    [True, True, False]
    >>> [bool(re.fullmatch(translate("**/a*.md"), doc_id)) for doc_id in ("a.md", "x/y/ab.md", "a/b.md")]
    [True, True, False]
    """
    # Between two `**` the first match leaves the most room to the rest, so backtracking is never needed: every wildcard
    # except those before the end is atomic. That keeps a match at most quadratic in the doc_id.
    segments = _segments(glob)
    parts = []
    for number, (wildcard, pieces) in enumerate(segments):
        last = number == len(segments) - 1
        body = _within_folder(pieces, anchored=last)
        parts.append(f"{wildcard}{body}" if last or not wildcard else f"(?>{wildcard}{body})")
    return "(?s:" + "".join(parts) + ")"


def _segments(glob: str) -> list[tuple[str, list[str]]]:
    """Return (leading wildcard, texts between single stars) of each part between two `**`."""
    segments: list[tuple[str, list[str]]] = [("", [""])]
    for token in _TOKENS.finditer(glob):
        pieces = segments[-1][1]
        if token["folders"]:
            segments.append(("(?:.*?/)??", [""]))
        elif token["any"]:
            segments.append((".*?", [""]))
        elif token["star"]:
            pieces.append("")
        elif token["one"]:
            pieces[-1] += "[^/]"
        else:
            pieces[-1] += re.escape(token["text"])
    return segments


def _within_folder(pieces: list[str], *, anchored: bool) -> str:
    first, *rest = pieces
    expressions = [first]
    for number, piece in enumerate(rest):
        last = number == len(rest) - 1
        expressions.append(f"[^/]*?{piece}" if anchored and last else f"(?>[^/]*?{piece})")
    return "".join(expressions)


class Globs:
    """Several globs, indexed by their first folder, so that a doc_id is matched against few.

    >>> globs = Globs(["sops/*.md", "**/draft.md"])
    >>> [globs.match(doc_id) for doc_id in ("sops/a.md", "faqs/draft.md", "faqs/a.md")]
    [True, True, False]
    """

    def __init__(self, globs: Iterable[str]) -> None:
        by_folder: dict[str, list[str]] = defaultdict(list)
        for glob in sorted(set(globs)):
            folder, slash, _ = glob.partition("/")
            by_folder[folder if slash and not {"*", "?"} & set(folder) else ""].append(translate(glob))
        anywhere = by_folder.pop("", [])
        self._anywhere = re.compile("|".join(anywhere)) if anywhere else None
        self._within = {folder: re.compile("|".join(parts + anywhere)) for folder, parts in by_folder.items()}

    def match(self, doc_id: str) -> bool:
        pattern = self._within.get(doc_id.partition("/")[0], self._anywhere)
        return pattern is not None and pattern.fullmatch(doc_id) is not None
