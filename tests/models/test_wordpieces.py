"""Our word pieces are those of the package tokenizers, which the base does without."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer

from hive_agents.models.embedding import WordPieces
from hive_agents.models.embedding.wordpieces import TOKENIZER_FILE

ROOT = Path(__file__).parents[2]
PIECES = WordPieces()
SIGNS = (
    "aeioußıİΣσςñçøÅéü\u0301\u0308\u0345\u200d\u00ad\u00a0\u3000\u1fef\u037e\ufffd\x00\x0b\x1c\x85 \t\n.,;-_'’“…·[]#½²"
    "漢字かなカ한국नमस्तेไทยعربيעבר😀🏽ﬁ"
)
"""Of each kind that is read otherwise: decomposed, removed, apart, in scripts without spaces."""


@cache
def theirs() -> Tokenizer:
    made = Tokenizer.from_file(str(TOKENIZER_FILE))
    made.no_truncation()
    made.no_padding()
    return made


def expect_theirs(text: str) -> None:
    expected = theirs().encode(text, add_special_tokens=False)
    windows = PIECES.windows(text)
    assert [id for window in windows for id in window[1:-1]] == expected.ids
    assert PIECES.token_offsets(text) == expected.offsets


@pytest.mark.parametrize("folder", ["docs", "hive_agents/copilot/languages", "workspace/documents/faqs"])
def test_files_in_several_languages_have_their_pieces(folder: str) -> None:
    files = [path for path in sorted((ROOT / folder).iterdir()) if path.suffix in (".md", ".toml")]
    assert len(files) >= 4
    for file in files:
        expect_theirs(file.read_text(encoding="utf-8"))


def test_texts_that_nobody_here_wrote_have_their_pieces() -> None:
    for package in distributions():
        expect_theirs(str(package.metadata["Summary"]).encode(errors="replace").decode())


@given(
    st.lists(st.one_of(st.text(SIGNS, max_size=12), st.sampled_from(["[SEP]", "[UNK]", "x" * 99, "x" * 101, " un"])))
)
def test_any_signs_have_their_pieces(parts: list[str]) -> None:
    expect_theirs("".join(parts))


TOGETHER = 50
"""Signs in one text, which has fewer pieces than a window."""


def is_theirs(text: str) -> bool:
    expected = theirs().encode(text, add_special_tokens=False)
    return (PIECES.windows(text), PIECES.token_offsets(text)) == ([[101, *expected.ids, 102]], expected.offsets)


@pytest.mark.slow
def test_each_sign_has_their_pieces_but_what_is_younger_than_their_tables() -> None:
    """Of 1,112,064 signs all but about 500, in scripts whose words the vocabulary doesn't have."""
    codes, others = [*range(0xD800), *range(0xE000, 0x110000)], []
    for first in range(0, len(codes), TOGETHER):
        part = codes[first : first + TOGETHER]
        if not is_theirs(" ".join(f"a{chr(code)}b" for code in part)):
            others += [code for code in part if not is_theirs(f"a{chr(code)}b")]
    assert len(others) < 600
    assert min(others) == 0x61D  # a mark of 2021


def test_lone_surrogates_and_long_runs_are_read() -> None:
    assert PIECES.token_offsets("\ud800 a") == [(0, 1), (2, 3)]
    assert PIECES.windows("x" * 1_000_000) == [[101, 100, 102]]
