"""The languages of documents and questions, and the settings by which they would be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from hive_agents.base import HiveError
from hive_agents.documents import LANGUAGES, content, spoken_language
from hive_agents.evaluation import load_golden
from hive_agents.models.embedding import providers
from hive_agents.ranking import SearchEngine

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

SAMPLE = 100
"""Documents of a collection whose language is detected, at most."""
_SOME = 10
"""One question in so many, in another language, is worth a model that reads it."""
_INSTALL = (
    f'pip install "hive-agents[multilingual]", set [models] embedding = "{providers.MULTILINGUAL}", and index once more'
)


def language_advice(place: Workspace, collections: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what is searched as another language than it is in, and the fix.

    It is told by the function words of the languages that the copilot reads.
    """
    stemmed, foreign = place.settings.index.language, set[str]()
    for name in collections:
        texts = _texts(place, name)
        if (spoken := content.language_of_most(texts, stemmed)) != stemmed:
            told = f"most documents of {name} are in {spoken.title()}, and are searched as {stemmed.title()}"
            yield told, f'set [index] language = "{spoken}" in hive.toml, and index once more'
        foreign.add(content.language_of_most(texts, "english"))
    models = place.settings.models
    if models.embedding != providers.LOCAL or models.embedding_path:
        return
    if named := sorted(foreign - {"english"}):
        yield f"documents are in {_listed(named)}, and the embedding model reads English", _INSTALL
    elif asked := _asked(place):
        yield f"questions are in {_listed(asked)}, and the embedding model reads English", _INSTALL


def _texts(place: Workspace, name: str) -> list[str]:
    index = SearchEngine(place).index(name)
    documents = index.doc_ids()
    sample = documents[:: len(documents) // SAMPLE + 1]
    return [index.rows(index.chunks_of(doc_id)[:2].tolist())[-1].text for doc_id in sample]


def _asked(place: Workspace) -> list[str]:
    """Return the languages other than English of the golden set's questions, if they are more than a few."""
    questions: list[str] = []
    with suppress(HiveError, OSError):  # its faults are for `hive validate` to tell
        questions = [query.query for query in load_golden(place).queries]
    spoken = [spoken_language(question, "english") for question in questions]
    if _SOME * sum(code != "en" for code in spoken) <= len(questions):
        return []
    return sorted(name for name, code in LANGUAGES.items() if code != "en" and _SOME * spoken.count(code) > len(spoken))


def _listed(names: list[str]) -> str:
    return " and ".join(name.title() for name in names)
