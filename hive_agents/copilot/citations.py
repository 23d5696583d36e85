"""Citations in an answer, `[n]`: found in whatever form they are written, resolved or removed."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from hive_agents.copilot.sentences import split, without_marks

MAX_RANGE = 20
_OPEN, _CLOSE = r"[\[【［〔]", r"[\]】］〕]"
_NAMED = r"(?:(?:passages?|sources?|refs?|references?|documents?|docs?|excerpts?|no\.?|nr\.?)\s*)?[#^]?\s*"
_LIST = rf"\d+(?:\s*(?:[,;&/+‐‑–—-]|and|und)\s*{_NAMED}\d+)*"
# What stands in brackets after a dagger is the habit of some models; a link behind the brackets leads nowhere good.
_CITATION = re.compile(
    rf"{_OPEN}\s*{_NAMED}({_LIST})\s*(?:†[^\]】］〕\n]{{0,80}})?{_CLOSE}(?:\([^)\n]{{0,400}}\))?", re.I
)
_RANGE = re.compile(r"(\d+)\s*[‐‑–—-]\s*(\d+)")
_PLAIN = re.compile(r" ?\[(\d+)\]")
_AFTER_STOP = re.compile(r"([.!?。！？…])((?:\s*\[\d+\])+)")
_LINK = re.compile(r"(!?)\[([^\[\]\n]*)\]\([^)\n]{0,2000}\)")
_LINE_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|[-*+•]\s+|\d+[.)]\s+|>\s*|```\w*\s*$|\|)|[*`]{1,3}|\|\s*$")


@dataclass(frozen=True)
class Claim:
    """One sentence of an answer, on line `line`, with the passages it cites."""

    text: str
    cites: tuple[int, ...]
    line: int

    @property
    def bare(self) -> str:
        """The sentence without its citations."""
        return " ".join(_PLAIN.sub("", self.text).split())


def claims(answer: str) -> list[Claim]:
    """The answer's sentences; each citation is `[n]` and belongs to the sentence it stands in or behind.

    >>> [(claim.bare, claim.cites) for claim in claims("Save it 【2†source】. It stays. [1, 7][9] - Why not?")]
    [('Save it.', (2,)), ('It stays.', (1, 7, 9)), ('- Why not?', ())]
    """
    found = []
    for number, line in enumerate(without_marks(answer).splitlines()):
        line = _CITATION.sub(_plain, " ".join(line.split()))
        line = _LINK.sub(lambda link: "" if link[1] else link[2], line)
        line = _LINE_MARKS.sub("", line).strip()
        line = _AFTER_STOP.sub(lambda stop: f" {stop[2].strip()}{stop[1]}", line)
        for sentence in split(line):
            cites = tuple(dict.fromkeys(int(each) for each in _PLAIN.findall(sentence)))
            found.append(Claim(sentence, cites, number))
    return [claim for claim in found if any(map(str.isalnum, claim.bare))]


def resolved(claim: Claim, known: Collection[int]) -> tuple[Claim, int]:
    """The claim with the citations that lead to a passage, each once, and how many were removed."""
    kept = tuple(each for each in claim.cites if each in known)
    text = _PLAIN.sub(lambda found: found[0] if int(found[1]) in kept else "", claim.text)
    text = re.sub(r"(\[\d+\])(?:\s?\1)+", r"\1", text)
    return Claim(re.sub(r"\s+([.,;:!?])", r"\1", text).strip(), kept, claim.line), len(claim.cites) - len(kept)


def inert(text: str) -> str:
    """A document's text with its own bracketed numbers in parentheses: they cite nothing here.

    >>> inert("as shown [3] and 【4, 5】")
    'as shown (3) and (4, 5)'
    """
    return _CITATION.sub(lambda found: f"({found[1]})", text)


def _plain(found: re.Match[str]) -> str:
    return "".join(f"[{number}]" for number in _numbers(found[1]))


def _numbers(listed: str) -> list[int]:
    """Every number of a list such as `1, 3-5`; a range longer than anyone means is its two ends."""
    numbers: list[int] = []
    for part in re.split(r"[,;&/+]|and|und", listed, flags=re.I):
        between = _RANGE.search(part)
        ends = [int(each[:9]) for each in re.findall(r"\d+", part)]
        if between and len(ends) == 2 and 0 < ends[1] - ends[0] <= MAX_RANGE:
            numbers += range(ends[0], ends[1] + 1)
        else:
            numbers += ends
    return list(dict.fromkeys(numbers))
