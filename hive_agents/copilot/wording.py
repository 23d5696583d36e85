"""A sentence as the router sees it: words with their places, and the words that carry no content."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MOST_CHARACTERS = 4_000
MOST_WORDS = 120
"""A text that is longer is a pasted page: content, whatever words it has."""

_WORD = re.compile(r"[^\W_]+(?=['’]s\b)|['’]s\b|\d+(?:\.\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_WITHOUT = re.compile(r"\bw/o\b", re.I)
_QUOTED = re.compile(r"(?<!\w)(['\"“‘«])([^'\"“”‘’«»]{1,80})(['\"”’»])(?!\w)")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


QUESTION = _set(
    "how why when where who whom whose can may must should shall do does did is are was were am will would has "
    "have could"
)
CONNECTIVES = _set("and or nor")
NEGATIONS = _set("not no non never isn't aren't wasn't weren't don't doesn't")
ADVERBS = _set("still currently now already yet all just only presently actually really also even the in as be been")
BE = _set("is are was were be been 's")
PREPOSITIONS = _set("of in on at by for from to with about within under into among across through inside during")
ARTICLES = _set("the a an all any some our my your these those this that each every both")
DOC_NOUNS = _set(
    "document documents documentation docs doc file files page pages article articles record records item items entry "
    "entries paper papers text texts material materials publication publications result results hit hits"
)
VAGUE = _set(
    "stuff thing things something anything everything information info question questions problem problems issue "
    "details nothing somebody someone topic topics knowledge database kb"
)
LISTING = _set(
    "list lists listing show display give gimme lemme get find fetch see view browse enumerate search look looking "
    "need want bring pull return retrieve provide filter send print overview tell open read lookup searching finding "
    "like know got exist exists summarise summarize summary count number many available hand"
)
ORDER = _set("newest latest recent recently newer new oldest most lately")
ABOUT = _set(
    "about mention mentions mentioning mentioned cover covers covering describe describes describing explain "
    "explains explaining discuss discusses discussing deal deals dealing concerning regarding contain contains "
    "containing say says talk talks talking on re related relating meant according state states"
)
POLITE = _set(
    "please pls plz kindly thanks thank thx hi hello hey dear sorry ok okay so well kind would could wondering "
    "whether hope"
)
_GRAMMAR = _set(
    "a an the this that these those it its they them their there here we us our ours you your yours i me my mine "
    "he she his her him of in at by for from to with into over under as and or but if then than such not no nor "
    "only just also too very still yet already currently now again ever any some all each every both either "
    "neither more much many few other another own same one ones out up down off per via which what be been being "
    "am having had done doing i'm i'd i've we've you've it's that's let me's 's m ve re d ll don't doesn't didn't "
    "isn't aren't wasn't can't won't cannot except excluding exclude without besides within inside among until "
    "since before after between while because though through please work works working make use go goes going "
    "come lot bit way possible always actually really rather quite today instead think i'll whats regards regard "
    "sure idk hm hmm became become becomes last"
)
_VERBS = _set("work works working make use go goes going come let open read print send filter search")
FUNCTION = _GRAMMAR | QUESTION | POLITE | PREPOSITIONS
EMPTY = FUNCTION | DOC_NOUNS | VAGUE | LISTING | ORDER | ABOUT | NEGATIONS | CONNECTIVES | _set("help")
"""Words that say nothing about what a text is about."""
EDGES = EMPTY - _VERBS
"""Those of them that a search doesn't begin or end with, once the filters are cut out."""


@dataclass(frozen=True)
class Word:
    """One word: as typed, lower-cased, its place in the text, what stood before it, whether inside quotes."""

    text: str
    lower: str
    start: int
    end: int
    gap: str
    quoted: bool

    @property
    def opens_clause(self) -> bool:
        return any(sign in self.gap for sign in ",;:.!?()–—\n") or self.gap.strip() == "-"


def clean(text: str) -> str:
    """The text without control characters and with single spaces, at most `MOST_CHARACTERS` long.

    >>> clean("  how\\x00 do I\\n rotate ")
    'how do I rotate'
    """
    shown = (
        " " if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text[: 4 * MOST_CHARACTERS]
    )
    plain = " ".join(unicodedata.normalize("NFKC", "".join(shown)).split())
    return _WITHOUT.sub("without", plain)[:MOST_CHARACTERS].rstrip()


def words(text: str) -> list[Word]:
    """The first `MOST_WORDS` words, in order; a possessive `'s` is a word of its own.

    >>> [word.lower for word in words("What's in Mei's API-docs?")]
    ['what', "'s", 'in', 'mei', "'s", 'api', 'docs']
    """
    quoted = [match.span(2) for match in _QUOTED.finditer(text)]
    found: list[Word] = []
    last = 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        inside = any(left <= start and end <= right for left, right in quoted)
        lower = match.group().lower().replace("’", "'")
        found.append(Word(match.group(), lower, start, end, text[last:start], inside))
        last = end
        if len(found) == MOST_WORDS:
            break
    return found


def at(sentence: list[Word], place: int) -> str:
    """The word at a place, empty outside the sentence."""
    return sentence[place].lower if 0 <= place < len(sentence) else ""
