"""What wording gives away, in English and German: sentences that point elsewhere or lean on others, dead documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_POINTS = re.compile(
    r"""[?:？：]$
    |^(?:yes|no|ja|nein)\b
    |^follow\b
    |\b(?:see(?:\ also)?|refer\ to|siehe(?:\ auch)?|vgl\.)\s
    |\b(?:is|are)\ (?:\w+\ )?(?:described|listed|shown|explained|built|covered|told|found)\ (?:in|on|under)\b
    |\b(?:ist|sind|wird|werden)\ (?:in|unter|auf)\b.*\b(?:beschrieben|aufgeführt|erklärt|gezeigt)\b
    |\bthis\ (?:page|document|section|tutorial|article|guide)\b
    |\bdiese[rmns]?\ (?:seite|dokument|abschnitt|artikel|anleitung)\b""",
    re.I | re.X,
)
_LEANS = re.compile(
    r"""^(?:it|its|they|their|this|that|these|those|he|she|his|her|so|then|otherwise|therefore|there(?:after)?|both|such
    |after\ (?:that|this|which)|in\ (?:that|this|which)\ case|until\ then
    |er|sie|es|dies(?:e[rsmn]?)?|das|dann|danach|sonst|daher|deshalb|dort|beide|in\ diesem\ fall)\b""",
    re.I | re.X,
)
_ASIDE = re.compile(
    r"""^[\W\d]*(?:(?:purpose|aims?|objectives?|scope|contents|references|links|further\ reading|definitions|see\ also
    |open\ questions|related|revisions|forms|records|materials?|equipment
    |zweck|ziel|geltungsbereich|siehe\ auch|verweise|inhalt|begriffe|formulare|material(?:ien)?)
    (?:\ (?:and|und|&)\ \w+|\ (?:documents?|pages|topics|dokumente))?
    |(?:revision|change|version|document)\ history|änderungs(?:verlauf|historie))\W*$""",
    re.I | re.X,
)
_NOT_CURRENT = frozenset(
    """archived deprecated draft expired inactive obsolete outdated rejected replaced retired superseded withdrawn
    abgelaufen abgelöst archiviert entwurf ersetzt ungültig veraltet zurückgezogen""".split()
)


def points(sentence: str) -> bool:
    """Whether it sends the reader elsewhere, announces what follows, asks, or says yes or no to another question.

    >>> points("The limits are listed in Plans."), points("The limit is 20.")
    (True, False)
    """
    return bool(_POINTS.search(sentence))


def leans(sentence: str) -> bool:
    """Whether a reader needs the sentence before it.

    >>> leans("It works for a day."), leans("A link works for a day.")
    (True, False)
    """
    return bool(_LEANS.match(sentence))


def aside(heading: str) -> bool:
    """Whether a section is about its document and not about its subject.

    >>> aside("7. Related documents"), aside("Revision history"), aside("Scope of a token")
    (True, True, False)
    """
    return bool(_ASIDE.match(heading))


def not_current(metadata: Mapping[str, Any]) -> list[str]:
    """The values that say that a document is not, or not yet, in force, whatever their field is called.

    >>> not_current({"status": "Retired", "owner": "dana"})
    ['retired']
    """
    return [value.lower() for value in metadata.values() if isinstance(value, str) and value.lower() in _NOT_CURRENT]
