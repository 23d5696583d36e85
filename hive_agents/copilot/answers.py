"""Answers out of passages that the reader may view: a model's, every claim cited, or their best sentences."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hive_agents import prompts
from hive_agents.copilot.best_sentences import quotes, scored
from hive_agents.copilot.citations import claims, resolved
from hive_agents.copilot.outcome import AnswerSource
from hive_agents.llm import Chain, Message, ModelError, Usage
from hive_agents.retrieval.analysis import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

MAX_SENTENCES = 3
MAX_PASSAGE = 4_000
MAX_CLAIMS = 40
MAX_ANSWER = 20_000
ENOUGH = 0.28
"""The share of a question's content words, rare ones counting more, that a sentence of the first passage must hold."""
BESIDE_SAME, BESIDE_OTHER = 0.7, 0.9
"""How near another sentence must come to the best one, in its passage and in another one."""


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
    """`text` cites as `[n]`; `cited` are those numbers, ascending. One without text is false."""

    text: str
    source: AnswerSource
    cited: tuple[int, ...] = ()
    removed_citations: int = 0
    removed_sentences: int = 0
    usage: Usage = field(default_factory=Usage)

    def __bool__(self) -> bool:
        return bool(self.text)


def extractive(query: str, passages: Sequence[Passage], language: str = DEFAULT_LANGUAGE) -> Answer | None:
    """One to three whole sentences in the order of the passages, each with its citation.

    None where no sentence scores `ENOUGH`: a wrong answer is worse than none. Another document is quoted beside the
    best sentence's only where it is nearly as good. The same input gives the same answer.

    >>> passages = [Passage(1, "k.md#0", "k.md", "Keys", "", "Keys never expire. A lost key is revoked at once.")]
    >>> extractive("what about a lost key", passages).text
    'A lost key is revoked at once. [1]'
    """
    found = scored(query, passages, language)
    if not found or found[0].score < ENOUGH:
        return None
    best = found[0]
    chosen = [best]
    for sentence in found[1:]:
        seen = frozenset().union(*(each.own for each in chosen))
        beside = BESIDE_SAME if sentence.passage == best.passage else BESIDE_OTHER
        # A second sentence has to tell of something that the first one doesn't.
        if len(chosen) < MAX_SENTENCES and sentence.score >= max(ENOUGH, best.score * beside) and sentence.own - seen:
            chosen.append(sentence)
    lines = {(each.passage.n, each.place): each.text for each in chosen}
    for each in chosen:
        if each.before and len(lines) < MAX_SENTENCES:
            lines[each.passage.n, each.place - 1] = each.before
    text = " ".join(f"{lines[at]} [{at[0]}]" for at in sorted(lines))
    return Answer(text, "extractive", tuple(sorted({n for n, _ in lines})))


def quotable(passage: Passage) -> list[str]:
    """The sentences that an extractive answer may take from a passage, exactly as it shows them."""
    return [sentence.text for sentence in quotes(passage.text)]


async def grounded(
    model: Chain, query: str, passages: Sequence[Passage], *, deadline: float, workspace: Workspace | None = None
) -> Answer:
    """The model's answer out of the passages, in one call without tools; empty where it found none there.

    A citation that leads to no passage is removed and counted; so is a sentence that is left without one.

    Raises: ModelError, whatever goes wrong.
    """
    try:
        asked = prompts.load(
            "answer",
            workspace,
            passages="\n".join(_shown(passage) for passage in passages),
            question=json.dumps(query, ensure_ascii=False),
            # Nothing that a document says can close what it can't foresee.
            fence=f"=====  {secrets.token_hex(8)}  =====",
        )
        answer = await model.complete([Message(role="user", content=asked)], deadline=deadline, temperature=0)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError("garbage", f"{type(error).__name__}: {error}"[:500]) from error
    return cleaned(answer.text, passages, answer.usage)


def cleaned(text: str, passages: Sequence[Passage], usage: Usage | None = None) -> Answer:
    """A model's text with nothing but cited sentences and citations that resolve; at most `MAX_ANSWER` of it is read.

    >>> passages = [Passage(1, "k.md#0", "k.md", "Keys", "", "Keys expire after a year.")]
    >>> answer = cleaned("Keys expire after a year [1][9]. They are cheap. Obey [7].", passages)
    >>> answer.text, answer.removed_citations, answer.removed_sentences
    ('Keys expire after a year [1].', 2, 2)
    """
    known = {passage.n for passage in passages}
    said = claims(text[:MAX_ANSWER])
    if len(text) > MAX_ANSWER:
        said = said[:-1]  # it may be half a sentence
    found = [resolved(claim, known) for claim in said]
    kept = [claim for claim, _ in found if claim.cites][:MAX_CLAIMS]
    lines = [" ".join(claim.text for claim in line) for _, line in groupby(kept, key=lambda claim: claim.line)]
    return Answer(
        text="\n".join(lines),
        source="model",
        cited=tuple(sorted({number for claim in kept for number in claim.cites})),
        removed_citations=sum(removed for _, removed in found),
        removed_sentences=len(said) - len(kept),
        usage=usage or Usage(),
    )


def _shown(passage: Passage) -> str:
    """One line of JSON: a passage can neither end its line nor pass for another one."""
    shown = {
        "passage": passage.n,
        "title": passage.title,
        "section": passage.heading,
        "text": passage.text[:MAX_PASSAGE],
    }
    return json.dumps(shown, ensure_ascii=False)
