"""A model's answers from passages that the reader may view, with citations resolved or removed."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hive_agents.copilot.prose import split, without_marks
from hive_agents.index import ChunkRow
from hive_agents.models import Chain, Message, ModelError, Usage, is_outage, prompts

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

MAX_PASSAGE = 4_000
MAX_CLAIMS = 40
MAX_ANSWER = 20_000
MAX_RANGE = 20

_RANGE = re.compile(r"(?<!\d)(\d+)\s*[‐‑–—-]\s*(\d+)")
_PLAIN = re.compile(r" ?\[(\d+)\]")
_AFTER_STOP = re.compile(r"([.!?。！？…][\"'”’)]*)((?:\s*\[\d+\])+)")
_LINK = re.compile(r"(!?)\[([^\[\]\n]*)\]\([^)\n]{0,2000}\)")
_LINE_MARKS = re.compile(r"^\s*(?:#{1,6}\s+|[-*+•]\s+|\d+[.)]\s+|>\s*|```\w*\s*$|\|)|[*`]{1,3}|\|\s*$")

_OPEN, _CLOSE = r"[\[【［〔]", r"[\]】］〕]"
_NAMED = r"(?:(?:passages?|sources?|refs?|references?|documents?|docs?|excerpts?|no\.?|nr\.?)\s*+)?[#^]?\s*+"
_LIST = rf"\d+(?:\s*+(?:[,;&/+‐‑–—-]|and|und)\s*+{_NAMED}\d+)*"
# Some models write a dagger and a source inside the brackets; a link behind them is invented, so it is matched, too.
CITATION = re.compile(
    rf"{_OPEN}\s*+{_NAMED}({_LIST})\s*+(?:†[^\]】］〕\n]{{0,80}})?{_CLOSE}(?:\([^)\n]{{0,400}}\))?", re.I
)


@dataclass(frozen=True)
class Passage:
    """A chunk that passed the gate; `n` is the number that cites it."""

    n: int
    chunk_id: str
    doc_id: str
    title: str
    heading: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Answer:
    """An answer whose `text` cites as `[n]`; `cited` are those numbers, ascending. It is false without text."""

    text: str
    cited: tuple[int, ...] = ()
    removed_citations: int = 0
    removed_sentences: int = 0
    usage: Usage = field(default_factory=Usage)

    def __bool__(self) -> bool:
        return bool(self.text)


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


def numbered(rows: Sequence[ChunkRow]) -> list[Passage]:
    """Return the results as passages, numbered from 1 as they are shown."""
    return [
        Passage(n, row.chunk_id, row.doc_id, row.title, row.heading, row.text, row.metadata)
        for n, row in enumerate(rows, start=1)
    ]


async def grounded(
    model: Chain, query: str, passages: Sequence[Passage], *, deadline: float, workspace: Workspace | None = None
) -> Answer:
    """Return the model's answer from the passages, in one call without tools; empty where it found none.

    Citations of unknown passages are removed and counted; so are sentences without a citation.

    Raises: ModelError for every failure.
    """
    try:
        content = prompts.load(
            "answer",
            workspace,
            passages="\n".join(_as_line(passage) for passage in passages),
            question=json.dumps(query, ensure_ascii=False),
            # Random, so that no document can close the fence.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
        result = await model.complete([Message(role="user", content=content)], deadline=deadline, temperature=0)
    except ModelError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"[:500]
        raise ModelError("garbage", why, outage=is_outage(error)) from error
    return cleaned(result.text, passages, result.usage)


def cleaned(text: str, passages: Sequence[Passage], usage: Usage | None = None) -> Answer:
    """Return the sentences of a model's text that cite passages, without citations of unknown ones.

    Only the first `MAX_ANSWER` characters are read.

    >>> passages = [Passage(1, "k.md#0", "k.md", "Keys", "", "Keys expire after a year.")]
    >>> answer = cleaned("Keys expire after a year [1][9]. They are cheap. Obey [7].", passages)
    >>> answer.text, answer.removed_citations, answer.removed_sentences
    ('Keys expire after a year [1].', 2, 2)
    """
    numbers = {passage.n for passage in passages}
    written = claims(text[:MAX_ANSWER])
    if len(text) > MAX_ANSWER:
        written = written[:-1]  # it may be half a sentence
    resolved = [_resolved(claim, numbers) for claim in written]
    cited = [claim for claim, _ in resolved if claim.cites][:MAX_CLAIMS]
    lines = [" ".join(claim.text for claim in line) for _, line in groupby(cited, key=lambda claim: claim.line)]
    return Answer(
        text="\n".join(lines),
        cited=tuple(sorted({number for claim in cited for number in claim.cites})),
        removed_citations=sum(removed for _, removed in resolved),
        removed_sentences=len(written) - len(cited),
        usage=usage or Usage(),
    )


def claims(answer: str) -> list[Claim]:
    """Return the answer's sentences; each citation is `[n]` and belongs to the sentence that it is in or follows.

    >>> [(claim.bare, claim.cites) for claim in claims("Save it 【2†source】. It stays. [1, 7][9] - Why not?")]
    [('Save it.', (2,)), ('It stays.', (1, 7, 9)), ('- Why not?', ())]
    >>> [(claim.bare, claim.cites) for claim in claims('It says "stop." [2] We do.')]
    [('It says "stop."', (2,)), ('We do.', ())]
    """
    written = []
    for number, line in enumerate(without_marks(answer).splitlines()):
        line = CITATION.sub(_as_numbers, " ".join(line.split()))
        line = _LINK.sub(lambda link: "" if link[1] else link[2], line).replace("![", "[")
        line = _LINE_MARKS.sub("", line).strip()
        line = _AFTER_STOP.sub(lambda stop: f" {stop[2].strip()}{stop[1]}", line)
        for sentence in split(line):
            cites = tuple(dict.fromkeys(int(each) for each in _PLAIN.findall(sentence)))
            written.append(Claim(sentence, cites, number))
    return [claim for claim in written if any(map(str.isalnum, claim.bare))]


def _resolved(claim: Claim, numbers: Collection[int]) -> tuple[Claim, int]:
    """Return the claim with each citation of a passage in `numbers` once, and how many citations were removed."""
    cites = tuple(each for each in claim.cites if each in numbers)
    text = _PLAIN.sub(lambda citation: citation[0] if int(citation[1]) in cites else "", claim.text)
    text = re.sub(r"(\[\d+\])(?:\s?\1)+", r"\1", text)
    return Claim(re.sub(r"(?<!\s)\s+([.,;:!?])", r"\1", text).strip(), cites, claim.line), len(claim.cites) - len(cites)


def _as_numbers(citation: re.Match[str]) -> str:
    """Return a citation such as `[1, 3-5]` as `[1][3][4][5]`; of a range over `MAX_RANGE` only its two ends."""
    numbers: list[int] = []
    for part in re.split(r"[,;&/+]|and|und", citation[1], flags=re.I):
        ends = [int(each[:9]) for each in re.findall(r"\d+", part)]
        if _RANGE.search(part) and len(ends) == 2 and 0 < ends[1] - ends[0] <= MAX_RANGE:
            numbers += range(ends[0], ends[1] + 1)
        else:
            numbers += ends
    return "".join(f"[{number}]" for number in dict.fromkeys(numbers))


def _as_line(passage: Passage) -> str:
    """Return a passage as one line of JSON, so that its text can't pass for another passage."""
    shown = {
        "passage": passage.n,
        "title": passage.title,
        "section": passage.heading,
        "text": passage.text[:MAX_PASSAGE],
    }
    return json.dumps(shown, ensure_ascii=False)
