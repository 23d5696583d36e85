"""How long a question, a name, a text and a list may be, at every door: HTTP, MCP, command line and library."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from hive_agents.base.errors import HiveError

LONGEST_QUESTION = 8_000
"""Characters of a question: about three pages, so that what somebody pastes for context fits, and a second of work."""
LONGEST_NAME = 1_000
LONGEST_REFERENCE = 4_000
"""Characters of a doc_id, which may be a path, or of a cursor."""
LONGEST_TEXT = 20_000
"""Characters of a reason, a message or a comment."""
MOST_ENTRIES = 500
"""Entries of a list, such as filters or labels."""



def _characters(question: str) -> int:
    """Return the length of a question where its words are read: one character may stand for eighteen there."""
    return max(len(question), len(unicodedata.normalize("NFKC", question[:LONGEST_QUESTION])))


def _spelled_out(question: str) -> str:
    if (characters := _characters(question)) > LONGEST_QUESTION:
        raise ValueError(f"spelled out it has {characters} characters, and {LONGEST_QUESTION} are the most")
    return question


QuestionText = Annotated[str, Field(max_length=LONGEST_QUESTION), AfterValidator(_spelled_out)]
ShortName = Annotated[str, Field(max_length=LONGEST_NAME)]
Reference = Annotated[str, Field(max_length=LONGEST_REFERENCE)]
LongText = Annotated[str, Field(max_length=LONGEST_TEXT)]
FewEntries = Field(max_length=MOST_ENTRIES)


def require_short(question: str) -> None:
    """Raise HIVE-105 for a question of more than `LONGEST_QUESTION` characters."""
    if (characters := _characters(question)) > LONGEST_QUESTION:
        why = f"the question has {characters:,} characters, and {LONGEST_QUESTION:,} are the most"
        raise HiveError.of("HIVE-105", why, fix="ask in fewer words: a text of its own is a document", exit_code=2)
