"""The labelled utterances, the vocabularies that they are read with, and how a decision is compared with a label."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from hive_agents.copilot.plan import DocumentFilter, PastTurn, Routed, RouterDecision, SearchStrategy
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents.documents import Collection

HERE = Path(__file__).parent
DOMAINS = ("other_domain", "engineering", "university")
TODAY = datetime.date(2026, 2, 2)  # a Monday

_SAMPLE_VALUES = {
    "category": "sops 26 api-docs 24 tutorials 16 faqs 14 changelogs 10",
    "status": "effective 76 retired 5 draft 1",
    "department": "product 34 documentation 18 support 14 qa 9 lab 8 metrology 5 it 2 production 1 ehs 1",
    "owner": "lucia 34 mei 18 sam 14 dana 6 alice 6 priya 5 hana 5 root 2 tomas 1 jonas 1",
    "audience": "developers 35 everyone 14 administrators 10 operators 7",
    "site": "all 10 aldersey 10 carrow 5 brennfeld 1",
}


def _values(table: dict[str, str], field: str) -> list[tuple[str, int]]:
    words = table.get(field, "").split()
    return [(value, int(count)) for value, count in zip(words[::2], words[1::2], strict=True)]


def sample_vocabulary() -> Vocabulary:
    path = HERE.parents[1] / "workspace" / "collections" / "knowledge-base.json"
    collection = Collection.model_validate_json(path.read_text(encoding="utf-8"))
    return Vocabulary.of(collection, lambda field: _values(_SAMPLE_VALUES, field))


def domain(name: str) -> tuple[Vocabulary, str]:
    """A vocabulary that is nothing like the sample's, and the reader who uses it."""
    about = json.loads((HERE / "domains.json").read_text(encoding="utf-8"))[name]
    fields = {field: {"type": kind, "filterable": True} for field, kind in about["fields"].items()}
    collection = Collection.model_validate({"name": name, "fields": fields})
    values = about["values"]
    counted = {field: [(value, 100 - n) for n, value in enumerate(listed)] for field, listed in values.items()}
    return Vocabulary.of(collection, lambda field: counted.get(field, [])), about["reader"]


def people_vocabulary() -> Vocabulary:
    return domain("other_domain")[0]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def history(name: str | None) -> list[PastTurn]:
    if name is None:
        return []
    threads = json.loads((HERE / "threads.json").read_text(encoding="utf-8"))
    return [
        PastTurn(
            turn["text"],
            RouterDecision(
                rewritten_query=turn["text"],
                strategy=SearchStrategy(turn["strategy"]),
                search_value=turn["search_value"],
                filters=[DocumentFilter(**demand) for demand in turn["filters"]],
            ),
            tuple(turn["doc_ids"]),
        )
        for turn in threads[name]
    ]


def routed(row: dict[str, Any], vocabulary: Vocabulary, reader: str) -> Routed:
    return route(row["text"], vocabulary, reader=reader, today=TODAY, history=history(row.get("history")))


def faults(row: dict[str, Any], decided: Routed) -> list[str]:
    """What of the label the decision misses; empty when strategy, filters, words and document are right."""
    decision, missed = decided.decision, []
    if decision.strategy.value != row["strategy"]:
        missed.append(f"strategy {decision.strategy.value}")
    if _comparable([demand.model_dump() for demand in decision.filters]) != _comparable(row["filters"]):
        missed.append(f"filters {[demand.model_dump() for demand in decision.filters]}")
    search = (decision.search_value or "").casefold()
    if any(word.casefold() not in search for word in row.get("search", [])):
        missed.append(f"search {decision.search_value!r}")
    tally = ["count"] if decided.tally is None else list(decided.tally.model_dump(exclude_none=True).values())
    if row.get("tally", ["count"]) != tally:
        missed.append(f"tally {decided.tally}")
    if decided.doc_id != row.get("doc_id"):
        missed.append(f"document {decided.doc_id}")
    if row.get("route", decision.route) != decision.route:
        missed.append(f"route {decision.route}")
    return missed


def _comparable(filters: list[dict[str, Any]]) -> list[tuple[str, str, list[str]]]:
    listed = [(f["field"], f["op"], f["value"] if isinstance(f["value"], list) else [f["value"]]) for f in filters]
    return sorted((field, op, sorted(map(str, values))) for field, op, values in listed)


def scores() -> dict[str, int]:
    """How many rows of each labelled set are wholly right; `scores.json` holds what each may not fall below."""
    readers = {"sample": (sample_vocabulary(), "dana")} | {name: domain(name) for name in (*DOMAINS, "archive")}
    sets = dict.fromkeys(("utterances", "paraphrases", "further", "strangers"), "sample")
    sets |= {name: name for name in DOMAINS}
    return {
        name: sum(not faults(row, routed(row, *readers[row.get("domain", default)])) for row in rows(f"{name}.jsonl"))
        for name, default in sets.items()
    }


def confusion(name: str, vocabulary: Vocabulary, reader: str) -> str:
    """A table of strategies, labelled down and decided across, with what is wholly right of each split."""
    strategies = [strategy.value for strategy in SearchStrategy]
    table = {label: dict.fromkeys(strategies, 0) for label in strategies}
    right = {"rules": [0, 0], "held_back": [0, 0]}
    for row in rows(name):
        decided = routed(row, vocabulary, reader)
        table[row["strategy"]][decided.decision.strategy.value] += 1
        right[row["split"]][0] += not faults(row, decided)
        right[row["split"]][1] += 1
    lines = [f"{name}: labelled down, decided across", " " * 20 + "".join(f"{s:>20}" for s in strategies)]
    lines += [f"{label:20}" + "".join(f"{table[label][s]:20}" for s in strategies) for label in strategies]
    lines += [f"right in strategy, filters and words, {split}: {n} of {of}" for split, (n, of) in right.items() if of]
    return "\n".join(lines) + "\n"


def confusions() -> str:
    """What `confusion.txt` holds."""
    sample = [(name, sample_vocabulary(), "dana") for name in ("utterances", "paraphrases")]
    others = [(name, *domain(name)) for name in DOMAINS]
    return "\n".join(confusion(f"{name}.jsonl", vocabulary, reader) for name, vocabulary, reader in [*sample, *others])


if __name__ == "__main__":
    print(confusions(), end="")
