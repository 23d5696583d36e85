"""The texts of pages by language: `texts/en.json`, and one file for each other language."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

ENGLISH = "en"
TEXTS = files(__package__).joinpath("texts")


@cache
def languages() -> frozenset[str]:
    """Return the languages with texts."""
    return frozenset(file.name.removesuffix(".json") for file in TEXTS.iterdir() if file.name.endswith(".json"))


@cache
def texts(language: str = ENGLISH) -> Mapping[str, str]:
    """Return a language's texts by key, in English where a translation is missing."""
    own_texts: dict[str, str] = json.loads(TEXTS.joinpath(f"{language}.json").read_text(encoding="utf-8"))
    return own_texts if language == ENGLISH else {**texts(), **own_texts}


def told(language: str, key: str, **values: object) -> str:
    """Return a text with its values. Raises: KeyError for a key without a text.

    >>> told("en", "nav.chat")
    'Chat'
    """
    return texts(language)[key].format(**values)


def worded(language: str, name: str | None) -> str:
    """Return the word for the name of a state, a verdict or a stop; without one, the name itself.

    >>> worded("en", "no_deploy"), worded("en", "user:dana"), worded("en", None)
    ('as asked, before anything was put to use', 'dana', '–')
    """
    if not name:
        return "–"
    return texts(language).get(f"word.{name}") or name.removeprefix("user:").replace("_", " ")


def decimal(language: str, value: float, digits: int = 3, *, signed: bool = False) -> str:
    """Return a number with the decimal separator of the language.

    >>> decimal("de", 0.5), decimal("en", 0.0213, 2, signed=True)
    ('0,500', '+0.02')
    """
    return f"{value:{'+' if signed else ''}.{digits}f}".replace(".", texts(language)["app.decimal"])


def fact(language: str, name: str) -> str:
    """Return the words for the name of a fact about a result or a turn; without any, the name itself.

    >>> fact("de", "keyword rank"), fact("de", "something new")
    ('Rang nach Wörtern', 'something new')
    """
    return texts(language).get(f"fact.{name}", name)


def coded(language: str, code: str | None) -> str | None:
    """Return the title of a diagnostic's code; None in English, the language of diagnostics, and for an unknown code.

    >>> coded("de", "HIVE-414"), coded("en", "HIVE-414"), coded("de", None)
    ('Schon entschieden', None, None)
    """
    return None if language == ENGLISH else texts(language).get(f"code.{code}")


def happened(language: str, event: str) -> str:
    """Return the words for a type of event; without any, its name.

    >>> happened("en", "approval.requested"), happened("de", "run.done.twice")
    ('a person was asked', 'run.done.twice')
    """
    return texts(language).get(f"event.{event}", event)


def codes(language: str) -> Mapping[str, str]:
    """Return the title of each diagnostic's code; empty in English."""
    own_texts = {} if language == ENGLISH else texts(language)
    return {name.removeprefix("code."): text for name, text in own_texts.items() if name.startswith("code.")}


def preferred(accepted: str, known: Collection[str]) -> str:
    """Return the known language that an Accept-Language header prefers, else English.

    >>> preferred("fr;q=0.4, de-CH;q=0.9, en;q=0.5", {"en", "fr", "de"})
    'de'
    >>> [preferred(one, {"en", "de"}) for one in ("pt-BR, pt", "*", "de;q=0", "de;q=high", "")]
    ['en', 'en', 'en', 'en', 'en']
    """
    wanted = []
    for part in accepted.lower().split(","):
        name, _, weight = part.replace(" ", "").partition(";q=")
        if name.partition("-")[0] in known:
            wanted.append((_weight(weight), name.partition("-")[0]))
    best = max(wanted, key=lambda one: one[0], default=(0.0, ENGLISH))
    return best[1] if best[0] > 0 else ENGLISH


def _weight(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 0.0
