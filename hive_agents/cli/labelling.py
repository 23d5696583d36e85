"""Labelling of the documents that a question finds, by single keys, a page at a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from hive_agents.cli.surface import console, count, styled, write

if TYPE_CHECKING:
    from hive_agents.ranking import Hit

PAGE = 10
OPENED_LINES = 60
KEYS = {"r": "relevant", "d": "distractors", "i": "irrelevant", "s": "skipped"}
HELP = (
    "r relevant: answers it \u00b7 d distractor: looks right, misleads \u00b7 i irrelevant \u00b7 s skip \u00b7 o open"
    " \u00b7 u undo \u00b7 n next question \u00b7 q stop here\n"
    "each applies to the current document, or to those named: `r 2 5-7`, `i faqs/*`, `i all`, `o 3`"
)


@dataclass
class LabelledQuestion:
    """A question's labels; `complete` if every document has one, `stop` if the person wants no more questions."""

    relevant: list[str] = field(default_factory=list)
    distractors: list[str] = field(default_factory=list)
    irrelevant: list[str] = field(default_factory=list)
    complete: bool = False
    stop: bool = False


class LabelPages:
    """Asks for the labels of one question's documents. `text_of` returns the whole text of a document."""

    def __init__(self, query: str, hits: Sequence[Hit], text_of: Callable[[str], str]) -> None:
        self._query = query
        self._hits = list(hits)
        self._text_of = text_of
        self._labels: dict[str, str] = {}
        self._history: list[list[str]] = []
        self._err = console(stderr=True)

    def ask(self) -> LabelledQuestion:
        """Ask until every document has a label or the answer is n or q; the end of input counts as q."""
        self._err.print(styled(f"\n{self._query}", "bold") + f"   {count(len(self._hits), 'document')}")
        self._err.print(HELP)
        shown = -1
        while (current := self._current()) is not None:
            if current // PAGE != shown:
                shown = current // PAGE
                self._show_page(shown)
            ending = self._act(current, self._answer(current))
            if ending:
                return self._result(stop=ending == "stop")
        return self._result(stop=False)

    def _act(self, current: int, answer: str) -> Literal["next", "stop", ""]:
        """Apply an answer; return "next" or "stop" when it ends the question."""
        key, _, rest = answer.partition(" ")
        if key == "q":
            return "stop"
        if key == "n":
            return "next"
        if key == "u":
            for doc_id in self._history.pop() if self._history else []:
                self._labels.pop(doc_id, None)
            return ""
        chosen = list(self._chosen(rest)) if rest.strip() else [current]
        if not chosen or key not in (*KEYS, "o"):
            self._err.print(HELP)
        elif key == "o":
            self._open(chosen[0])
        else:
            doc_ids = [self._hits[index].doc_id for index in chosen]
            self._labels |= dict.fromkeys(doc_ids, KEYS[key])
            self._history.append(doc_ids)
        return ""

    def _chosen(self, text: str) -> Iterator[int]:
        """Yield the indexes, from 0, of the documents that numbers, ranges, a folder or a pattern choose."""
        for word in text.split():
            span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
            if span:
                first, last = int(span[1]), int(span[2] or span[1])
                yield from (number - 1 for number in range(first, last + 1) if 1 <= number <= len(self._hits))
                continue
            pattern = "*" if word == "all" else f"{word}*" if word.endswith("/") else word
            for index, hit in enumerate(self._hits):
                # Labelled documents keep their labels: `i all` is for the rest.
                if fnmatchcase(hit.doc_id, pattern) and hit.doc_id not in self._labels:
                    yield index

    def _current(self) -> int | None:
        """Return the index of the first document without a label; None if all have one."""
        return next((index for index, hit in enumerate(self._hits) if hit.doc_id not in self._labels), None)

    def _show_page(self, page: int) -> None:
        for number, hit in list(enumerate(self._hits, start=1))[page * PAGE : (page + 1) * PAGE]:
            self._err.print(styled(f"\n{number}. {hit.doc_id}", "bold") + f"  {hit.heading}")
            self._err.print(f"   {hit.excerpt}", style="dim")

    def _open(self, index: int) -> None:
        doc_id = self._hits[index].doc_id
        lines = self._text_of(doc_id).splitlines()
        self._err.print("\n".join(lines[:OPENED_LINES]))
        if len(lines) > OPENED_LINES:
            self._err.print(f"\u2026 {len(lines) - OPENED_LINES} more lines: documents/{doc_id}")

    def _answer(self, current: int) -> str:
        while True:
            write(f"   {current + 1}. r/d/i/s/o/u/n/q: ", err=True, end="")  # stdout is for the result alone
            try:
                line = sys.stdin.readline()
            except KeyboardInterrupt:
                line = ""
            if not line:
                self._err.print("")
                return "q"
            if line.strip():
                return line.strip().lower()

    def _result(self, *, stop: bool) -> LabelledQuestion:
        by_label: dict[str, list[str]] = {name: [] for name in KEYS.values()}
        for doc_id, name in self._labels.items():
            by_label[name].append(doc_id)
        skipped = by_label.pop("skipped")
        complete = bool(self._hits) and not skipped and len(self._labels) == len(self._hits)
        return LabelledQuestion(**by_label, complete=complete, stop=stop)
