"""The passage of a chunk that answers, with the words it was found by marked."""

from __future__ import annotations

from hive_agents.copilot.query_words import content_terms, spans
from hive_agents.copilot.sentences import sentences, without_marks
from hive_agents.retrieval.analysis import DEFAULT_LANGUAGE
from hive_agents.retrieval.excerpts import LENGTH, excerpt

OPEN, CLOSE = "<mark>", "</mark>"
_CONSIDERED = 200


def marked_excerpt(text: str, query: str, language: str = DEFAULT_LANGUAGE, length: int = LENGTH) -> str:
    """At most `length` characters of `text` without the marks, whole sentences where they fit; "" for no text.

    `<mark>` and `</mark>` are the only markup, in pairs, around words of the query in any of their forms; a text's
    own are gone. All else is text that a page has to escape.

    >>> marked_excerpt("Keys expire. **Rotating** a key takes a minute.", "rotate keys")
    '<mark>Keys</mark> expire. <mark>Rotating</mark> a <mark>key</mark> takes a minute.'
    """
    wanted = frozenset(content_terms(query, language))
    lines = [_window(line, wanted, language, length) for line in sentences(text)]
    shown = _run(lines, wanted, language, length) if lines else excerpt(text, query, length, language=language)
    return _marked(without_marks(shown), wanted, language)


def _marked(text: str, wanted: frozenset[str], language: str) -> str:
    shown, done = "", 0
    for start, end, _ in spans(text, wanted, language):
        shown += f"{text[done:start]}{OPEN}{text[start:end]}{CLOSE}"
        done = end
    return shown + text[done:]


def _run(lines: list[str], wanted: frozenset[str], language: str, length: int) -> str:
    """The sentences in a row, `length` characters at most, that hold most of the wanted words; the first of equals."""
    found = [{term for _, _, term in spans(line, wanted, language)} for line in lines]
    best, most = "", (-1, False)
    for first in range(len(lines)):
        shown, words = lines[first], set(found[first])
        for line, more in zip(lines[first + 1 :], found[first + 1 :], strict=True):
            if len(shown) + 1 + len(line) > length:
                break
            shown, words = f"{shown} {line}", words | more
        # A run that begins with a match shows at once why it was found.
        if (len(words), bool(found[first])) > most:
            best, most = shown, (len(words), bool(found[first]))
    return best


def _window(line: str, wanted: frozenset[str], language: str, length: int) -> str:
    """The piece of a sentence too long to show that holds most of the wanted words, cut between words."""
    if len(line) <= length:
        return line
    found, room = spans(line, wanted, language)[:_CONSIDERED], length - 2

    def words(begin: int) -> int:
        return len({term for start, end, term in found if begin <= start and end <= begin + room})

    begin = max((0, *(start for start, _, _ in found)), key=words)
    piece = line[begin : begin + room]
    if begin + room < len(line):
        piece = piece.rsplit(" ", 1)[0] + "…"
    return ("…" if begin else "") + piece
