"""What kind of thing a question asks for, and whether a sentence tells of one: a person, a time, a number."""

from __future__ import annotations

import re
from functools import lru_cache

_COUNT = r"""(?:\d[\d.,\u00a0 ]*|\b(?:an?|half|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty
    |ein(?:e[nrm]?)?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf)[ -])"""
_UNIT = r"""(?:s|sec(?:ond)?s?|min(?:ute)?s?|h|hours?|days?|nights?|weeks?|months?|quarters?|years?
    |sekunden?|minuten?|std|stunden?|tage?n?|wochen?|monate?n?|jahre?n?)\b"""
_SPAN = rf"{_COUNT}[ -]?(?:(?:and\ a\ half|working|calendar|business|full|more)\ )?{_UNIT}"
_RHYTHM = r"""\b(?:daily|weekly|monthly|quarterly|yearly|annually|hourly|at\ once|immediately|forever|never|always
    |(?:every|each|per|once\ an?|same|next)\ (?:\w+\ )?(?:hour|day|morning|night|week|month|quarter|year|shift|use)s?
    |täglich|wöchentlich|monatlich|jährlich|sofort|nie(?:mals)?|immer)\b"""
_DATE = r"""\b(?:(?:19|20)\d\d|\d{1,2}[:.]\d\d|noon|midnight|morning|evening|today|tomorrow|mittags?|mitternacht
    |(?:jan|feb|mar|apr|jun|jul|aug|sep|oct|okt|nov|dec|dez)(?:uary|ruary|ch|il|e|y|ust|t?ember|ober|uar|ruar|i)?
    |(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?
    |before|after|until|within|as\ soon\ as|when|once|vor|nach|bis|innerhalb|sobald|wenn)\b"""
_PERSON = r"""\b(?:manager|lead(?:er)?|head\ of|owner|technician|operator|admin(?:istrator)?|reviewer|approver|author
    |keeper|officer|director|supervisor|specialist|engineer|scientist|analyst|developer|auditor|person|people|everyone
    |everybody|someone|somebody|customer|user|member|colleague|team|department|support|assurance
    |staff|leiter(?:in)?|leitung|beauftragte[rn]?|mitarbeiter(?:in|innen)?|abteilung|personen?|jeder)s?\b"""
# The digits of "F-101" are a name, and those of "step 2" a place.
_FIGURE = r"(?<!\bstep\ )(?<!\bversion\ )(?<!\bsection\ )(?<!\bschritt\ )(?<![\w-])[~≤≥<>±€$£−-]?\d"
_BOUNDLESS = r"\b(?:no\ limit|unlimited|unbegrenzt)\b"
_COUNTED = r"\b(?:none|twice|both|half|two|three|four|five|six|ten|keine|beide|zwei|drei|vier|fünf|sechs|zehn)\b"
_MEANING = r"\b(?:is|are|means?|stands\ for|ist|sind|bedeute[tn]|heißt)\b"

_ASKS_HOW_LONG = r"""\b(?:how\ (?:long|soon|fast|quickly|often|frequently|old)|lifetime|wie\ (?:lange|oft|schnell|alt)
    |how\ many\ (?:seconds|minutes|hours|days|weeks|months|years)
    |wie\ ?viele\ (?:sekunden|minuten|stunden|tage|wochen|monate|jahre))\b"""
_ASKS_WHEN = r"\b(?:(?:by|since|until)\ when|what\ (?:date|time|day)|wann)\b|(?:^\W*|[,:;]\ )when\b"
_ASKS_HOW_MANY = r"\b(?:how\ many|wie\ ?viele)\b"
_ASKS_HOW_MUCH = r"""\b(?:how\ (?:much|hot|cold|warm|big|large|small|high|low|deep|far|heavy|thick)|max|min|number\ of
    |(?:small|bigg|larg|high|low)est|(?:maxim|minim)um|wie\ ?(?:viel|hoch|warm|kalt|groß|schwer|weit))\b"""
_ASKS_WHAT = r"^\W*(?:what\ (?:is|are)|what\ does\b.*\bmean|was\ (?:ist|sind|bedeutet|heißt))\b"

# The first cue that a question has says what counts as an answer.
_KINDS = tuple(
    (re.compile(cue, re.I | re.X), re.compile("|".join(signs), re.I | re.X))
    for cue, *signs in (
        (r"\b(?:who|whom|whose|wer|wem|wen|wessen)\b", _PERSON),
        (_ASKS_HOW_LONG, _SPAN, _RHYTHM),
        (_ASKS_WHEN, _SPAN, _RHYTHM, _DATE),
        (_ASKS_HOW_MANY, _FIGURE, _BOUNDLESS, _COUNTED),
        (_ASKS_HOW_MUCH, _FIGURE, _BOUNDLESS),
        (_ASKS_WHAT, _MEANING),
    )
)


_NAME = re.compile(r"\b(?:[A-Z]+-\d+|\d+(?:\.\d+)+)(?![\w-])")
_DEFINES = (
    r"\b{0}(?:[ -]\w+)? (?:is|are|means?|stands for|ist|sind|bedeute[tn]|heißt)\b"
    r"|^(?:an? |the |eine? |der |die |das )?{0} \w"
)


def names(question: str) -> list[str]:
    """The versions and codes that a question is about: what tells of another one doesn't answer it.

    >>> names("What changed in version 4.0, and is E-507 gone after 30 days?")
    ['4.0', 'E-507']
    """
    return _NAME.findall(question)


def defines(word: str, sentence: str) -> bool:
    """Whether the sentence is about the word, and doesn't just hold it beside some other "is".

    >>> defines("hub", "A hub is a box."), defines("hub", "You lose the hub once your cable is old.")
    (True, False)
    """
    return re.search(_DEFINES.format(re.escape(word)), sentence, re.I) is not None


def asks_meaning(question: str) -> bool:
    """
    >>> asks_meaning("What is a hub?"), asks_meaning("Who is it?")
    (True, False)
    """
    return re.search(_ASKS_WHAT, question, re.I | re.X) is not None


def tells(question: str, sentence: str) -> bool | None:
    """Whether the sentence holds what a who, when, how long or how many asks for; None where it asks for no such.

    >>> tells("How long is a link valid?", "A link works for 24 hours."), tells("Who signs?", "It is signed in ink.")
    (True, False)
    """
    signs = _signs(question)
    return None if signs is None else bool(signs.search(sentence))


@lru_cache(maxsize=256)
def _signs(question: str) -> re.Pattern[str] | None:
    return next((signs for cue, signs in _KINDS if cue.search(question)), None)
