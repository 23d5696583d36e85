"""What may still be told of a conversation: turns whose documents and values can all still be seen."""

from __future__ import annotations

from hive_agents.access import Gate
from hive_agents.copilot.outcome import Outcome
from hive_agents.copilot.plan import RouterDecision
from hive_agents.copilot.router import PastTurn
from hive_agents.copilot.threads import ThreadStore
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.retrieval.analysis import words

TURNS = 6


def past_turns(store: ThreadStore, gate: Gate, thread_id: str, vocabulary: Vocabulary) -> list[PastTurn]:
    """The last turns, oldest first, with every document asked about afresh; one denied document takes its turn out.

    Raises: HIVE-409 for a thread that isn't this reader's.
    """
    turns = store.turns(thread_id, last=TURNS)
    may = gate.allowed([doc_id for turn in turns for doc_id in turn.outcome.documents])
    return [
        PastTurn(turn.text, turn.outcome.decision, tuple(found.doc_id for found in turn.outcome.results))
        for turn in turns
        if all(doc_id in may for doc_id in turn.outcome.documents) and still_known(turn.outcome, vocabulary)
    ]


def named_values(decision: RouterDecision, text: str, vocabulary: Vocabulary) -> dict[str, list[str]]:
    """The values, by field, that a decision filters by or writes down where the reader's `text` doesn't."""
    filtered = {(demand.field, str(value)) for demand in decision.filters for value in demand.values}
    said = _spaced(text)
    written = [decision.rewritten_query, decision.search_value or "", decision.question or "", *decision.options]
    told = _spaced(" ".join(written))
    found = {
        name: [
            value
            for value in field.values
            if (name, value) in filtered or ((plain := _spaced(value)) in told and plain not in said)
        ]
        for name, field in vocabulary.fields.items()
    }
    return {name: values for name, values in found.items() if values}


def still_known(outcome: Outcome, vocabulary: Vocabulary) -> bool:
    """Whether every value that a turn tells of is one of a document that the reader may view now."""
    fields = vocabulary.fields
    return all(name in fields and set(values) <= set(fields[name].values) for name, values in outcome.named.items())


def _spaced(text: str) -> str:
    return f" {' '.join(words(text))} "
