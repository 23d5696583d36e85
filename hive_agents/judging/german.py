"""German as the check of claims reads it: the words that bind others become English, and the others their stems."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

_WORD = re.compile(r"[^\W\d_]+")
_PREFIX = "auf|ab|ein|aus|an|vor|nach|um|mit|bei|zusammen|heraus|zurück|weiter|fest"
_HAS_TO = re.compile(rf"\b(?:hat|haben|ist|sind)\b(?=[^,;.]{{0,150}}?\b(?:zu \w+e?n|(?:{_PREFIX})zu\w{{3,}}e?n)\b)")
_INFINITIVE = re.compile(
    rf"^({_PREFIX})(?:zu|ge)(?=\w{{4}})|^ge(?!währ|hör|nehmig|brauch|fähr|stalt|nüg|ring|stat)(?=\w{{4,}}t$)"
)
_DENIED = re.compile(r"\b(must|may|can) ([^,;.]{1,100}? )?(?:(not)|no)\b")
_ENDING = re.compile(r"(?<=\w{3})(?:ern|en|er|em|es|e|n|s)$")


@cache
def words() -> dict[str, Any]:
    """Return the package's table of words."""
    import tomllib

    return tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))


@cache
def _english() -> dict[str, str]:
    """Return what German words that bind, bound, count or compare are in English."""
    lines = words()["german"].split("\n")
    pairs = [line.partition(":") for line in lines if line]
    return {word.strip(): english.strip() for english, _, german in pairs for word in german.split()}


@lru_cache(maxsize=2_000)
def is_german(text: str) -> bool:
    """Return whether more words of a text are German ones that bind than English ones.

    >>> is_german("Die Pumpe darf nicht trocken laufen."), is_german("The pump must not run dry.")
    (True, False)
    """
    words = _WORD.findall(text.casefold())
    return sum(word in _english() for word in words) > sum(word in _ENGLISH for word in words)


_ENGLISH = frozenset(
    "the a an of in on at to for and or is are was be not it if this that with by as from only".split()
)


def as_english(text: str) -> str:
    """Return a German text, in lower case, with English words for those that bind, and stems for the others.

    >>> as_english("die frist darf höchstens zwei tage betragen")
    'the frist may atmost zwei tag betrag'
    """
    text = _WORD.sub(
        lambda found: _read(found[0]), _HAS_TO.sub("muss", text.replace("es sei denn, dass", "außer wenn"))
    )
    return _DENIED.sub(lambda found: f"{'need' if found[1] == 'must' else found[1]} not {found[2] or ''}", text)


def _read(word: str) -> str:
    if word in _english():
        return _english()[word]
    stem = _ENDING.sub("", _INFINITIVE.sub(lambda found: found[1] or "", word))
    return stem[:-1] if len(stem) > 5 and stem.endswith("t") else stem
