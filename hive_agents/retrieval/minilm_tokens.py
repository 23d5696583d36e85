"""The word pieces of all-MiniLM-L6-v2, whose vocabulary ships with this package.

Apart from the model, because chunking counts tokens where no weights are installed, too.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hive_agents.errors import HiveError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
TOKENIZER_FILE = Path(__file__).parent / "_minilm" / "tokenizer.json"

WINDOW = 256
"""Tokens that the model reads at once, `[CLS]` and `[SEP]` included."""

_CLS, _SEP = 101, 102
_BODY = WINDOW - 2


class WordPieces:
    """Counts, offsets and model inputs of a text; a `TokenCounter`."""

    def count_tokens(self, text: str) -> int:
        """
        >>> WordPieces().count_tokens("unbelievably good")
        6
        """
        return len(_encode(text).ids)

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """
        >>> WordPieces().token_offsets("Zürich, now")
        [(0, 6), (6, 7), (8, 11)]
        """
        return list(_encode(text).offsets)

    def windows(self, text: str) -> list[list[int]]:
        """Token ids for the model, in as few windows as it can read, of nearly equal length.

        Equal, because a window that holds the last few words of a text alone says little about it.

        >>> WordPieces().windows("")
        [[101, 102]]
        >>> [len(window) for window in WordPieces().windows("bee " * 300)]
        [152, 152]
        """
        ids = _encode(text).ids
        count = max(1, -(-len(ids) // _BODY))
        edges = [len(ids) * part // count for part in range(count + 1)]
        return [[_CLS, *ids[start:end], _SEP] for start, end in pairwise(edges)]


def _encode(text: str) -> Encoding:
    # A lone surrogate can come out of a JSON escape; the tokenizer takes UTF-8 only. "?" keeps the offsets.
    return _tokenizer().encode(text.encode(errors="replace").decode(), add_special_tokens=False)


@cache
def _tokenizer() -> Tokenizer:
    try:
        from tokenizers import Tokenizer

        content = TOKENIZER_FILE.read_bytes()
    except (ImportError, OSError) as error:
        raise HiveError.of(
            "HIVE-401", f"cannot load the tokenizer: {error}", fix="reinstall hive-agents", exit_code=3
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != TOKENIZER_SHA256:
        raise HiveError.of(
            "HIVE-401",
            f"{TOKENIZER_FILE.name} has sha256 {digest}, expected {TOKENIZER_SHA256}",
            fix="reinstall hive-agents",
            exit_code=3,
        )
    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
