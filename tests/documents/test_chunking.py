import pytest
from hypothesis import example, given, settings, strategies as st
from markdown_it import MarkdownIt

from hive_agents.documents.blocks import section_of
from hive_agents.documents.chunking import Chunk, chunk_markdown, first_heading, head_of
from hive_agents.documents.documents import Chunking
from hive_agents.models.embedding.wordpieces import WordPieces

PIECES = WordPieces()


def cut(body: str, max_tokens: int = 512, heading_level: int = 2) -> list[Chunk]:
    return chunk_markdown(body, Chunking(max_tokens=max_tokens, heading_level=heading_level), PIECES)


def headings(body: str, **limits: int) -> list[str]:
    return [chunk.heading for chunk in cut(body, **limits)]


TEXT = st.sampled_from(
    "The rotor stops. Is it balanced? Yes! Zürich naïve 東京都 각각 \U0001f41d `code` **bold** unbelievably "
    "[link](a.md) ![x](data:image/png;base64,QUJD/+) <b>html</b> e.g. # no 1. - * | \\ & &amp; [ref]".split(" ")
)
LINE = st.lists(TEXT, min_size=1, max_size=12).map(" ".join)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=4).map("\n".join)
CODE = st.lists(st.one_of(LINE, st.just(""), st.just("# comment"), st.just("x = 1")), max_size=6)
FENCE = st.builds(lambda mark, lines: "\n".join([mark, *lines, mark]), st.sampled_from(["```", "~~~~"]), CODE)
HEADING = st.one_of(
    st.builds(lambda level, text: f"{'#' * level} {text}", st.integers(1, 6), LINE),
    st.builds(lambda text, line: f"{text}\n{line}", LINE, st.sampled_from(["===", "---"])),
)
BLOCK = st.one_of(
    HEADING,
    PARAGRAPH,
    FENCE,
    FENCE.map(lambda text: "- item\n\n" + "\n".join("  " + line for line in text.split("\n"))),
    FENCE.map(lambda text: "1. " + "\n".join("   " + line for line in text.split("\n")).lstrip() + "\n2. two"),
    FENCE.map(lambda text: "\n".join("> " + line for line in text.split("\n"))),
    st.lists(LINE, min_size=1, max_size=5).map(lambda lines: "\n".join(f"- {line}" for line in lines)),
    st.lists(LINE, min_size=1, max_size=4).map(lambda rows: "| a |\n|---|\n" + "\n".join(f"| {r} |" for r in rows)),
    PARAGRAPH.map(lambda text: f"<div>\n{text}\n</div>"),
    LINE.map(lambda text: f'[ref]: https://example.org/{len(text)} "{len(text)}"'),
    PARAGRAPH.map(lambda text: "    " + text.replace("\n", "\n    ")),
    st.sampled_from(["---", "```\nnever closed", "", "   ", "\x00", "\x0b\x0c", "\u2028", "\ufeff"]),
)
MARKDOWN = st.builds(
    lambda blocks, gap, line_end: gap.join(blocks).replace("\n", line_end),
    st.lists(BLOCK, max_size=8),
    st.sampled_from(["\n\n", "\n", "\n\n\n"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)


@given(MARKDOWN, st.integers(1, 60), st.integers(1, 6))
@settings(max_examples=120, deadline=None)
def test_chunks_put_together_are_the_text_and_none_is_over_the_limit(body: str, limit: int, level: int) -> None:
    chunks = cut(body, limit, level)
    assert "".join(chunk.text for chunk in chunks) == body
    for chunk in chunks:
        assert len(chunk.text) == 1 or PIECES.count_tokens(chunk.text) <= limit
        assert not chunk.heading_path or chunk.ancestors in (chunk.heading_path, chunk.heading_path[:-1])


@given(MARKDOWN, st.integers(5, 60))
@settings(max_examples=75, deadline=None)
def test_fences_that_fit_are_never_cut(body: str, limit: int) -> None:
    edges, position = set(), 0
    for chunk in cut(body, limit):
        edges.add(position)
        position += len(chunk.text)
    text = body.replace("\r\n", "\n").replace("\r", "\n")
    moved = {len(body[:edge].replace("\r\n", "\n")) for edge in edges}
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "fence" and token.map:
            start, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
            if PIECES.count_tokens(text[start:end]) <= limit:
                assert not [edge for edge in moved if start < edge < end]


@given(st.text(max_size=300), st.integers(1, 20))
@settings(max_examples=75, deadline=None)
def test_any_text_at_all_is_kept_whole(body: str, limit: int) -> None:
    chunks = cut(body, limit)
    assert "".join(chunk.text for chunk in chunks) == body
    assert all(len(chunk.text) == 1 or PIECES.count_tokens(chunk.text) <= limit for chunk in chunks)


def test_a_chunk_starts_at_each_heading_up_to_the_level() -> None:
    body = "intro\n\n# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n# D\n\nfour\n"
    assert headings(body) == ["", "A", "A > B", "D"]
    assert headings(body, heading_level=1) == ["", "A", "D"]
    assert headings(body, heading_level=3) == ["", "A", "A > B", "A > B > C", "D"]


def test_setext_headings_are_headings() -> None:
    assert headings("Guide\n=====\n\none\n\nStatic files\n------------\n\ntwo\n") == ["Guide", "Guide > Static files"]


@pytest.mark.parametrize(
    "code",
    ["```sh\n# no heading\n```", "~~~~\n```\n# no heading\n~~~~", "    # no heading", "- item\n\n  ```\n  # no\n  ```"],
)
def test_a_hash_in_code_is_no_heading(code: str) -> None:
    assert headings(f"# A\n\n{code}\n\n## B\n\nx\n") == ["A", "A > B"]


def test_a_heading_inside_a_list_or_quotation_starts_no_chunk() -> None:
    assert headings("# A\n\n- # in a list\n\n> # quoted\n\nx\n") == ["A"]


def test_skipped_levels_keep_the_path_in_order() -> None:
    assert headings("### C\n\nx\n\n# A\n\nx\n\n### D\n\nx\n\n## B\n\nx\n", heading_level=3) == [
        "C",
        "A",
        "A > D",
        "A > B",
    ]


def test_the_rest_of_a_long_section_has_the_sections_heading_as_ancestor() -> None:
    first, second = cut("# Deploying\n\n## Static files\n\nOne two three four.\n\nFive six seven eight.\n", 9)[-2:]
    assert (first.heading, first.ancestors) == ("Deploying > Static files", ("Deploying",))
    assert (second.text, second.heading) == ("Five six seven eight.\n", "Deploying > Static files")
    assert second.ancestors == ("Deploying", "Static files")


def test_a_subheading_inside_a_long_section_goes_with_what_follows() -> None:
    chunks = cut("# A\n\none two three four five\n\n### Sub\n\nsix seven eight\n", 9)
    assert [chunk.text for chunk in chunks] == [
        "# A\n\none two three four five\n\n",
        "### Sub\n\nsix seven eight\n",
    ]
    assert chunks[1].heading_path == ("A", "Sub")


def test_a_long_section_is_cut_at_paragraphs() -> None:
    body = "One two. Three four.\n\nFive six. Seven eight.\n\nNine ten eleven.\n"
    assert [chunk.text for chunk in cut(body, 9)] == [
        "One two. Three four.\n\n",
        "Five six. Seven eight.\n\n",
        "Nine ten eleven.\n",
    ]


def test_a_long_paragraph_is_cut_at_sentences_even_where_lines_are_wrapped() -> None:
    body = 'One two three. Four five\nsix seven. He said "eight nine." Ten\neleven twelve thirteen.\n'
    assert [chunk.text for chunk in cut(body, 10)] == [
        "One two three. Four five\nsix seven. ",
        'He said "eight nine." ',
        "Ten\neleven twelve thirteen.\n",
    ]


def test_a_long_sentence_is_cut_at_lines_and_a_long_line_at_words() -> None:
    assert [chunk.text for chunk in cut("one two three\nfour five six\n", 5)] == ["one two three\n", "four five six\n"]
    assert [chunk.text for chunk in cut("one two three four", 3)] == ["one two three ", "four"]


def test_a_long_word_is_cut_anywhere() -> None:
    assert "".join(chunk.text for chunk in cut("antidisestablishmentarianism", 2)) == "antidisestablishmentarianism"


def test_a_fence_that_alone_exceeds_the_limit_is_cut_at_lines() -> None:
    chunks = cut("```\n" + "".join(f"value {n}\n" for n in range(20)) + "```\n", 12)
    assert len(chunks) > 3
    assert all(chunk.text.endswith("\n") for chunk in chunks)


def test_a_fence_is_whole_though_reference_definitions_follow_it() -> None:
    fence = "```\none two\nthree four\n```\n"
    body = fence + "\n" + "".join(f"[r{n}]: https://example.org/{n}\n" for n in range(5))
    assert any(fence in chunk.text for chunk in cut(body, 20))


def test_the_last_line_of_a_nested_fence_without_a_line_end_belongs_to_it() -> None:
    body = "- one two three four\n\n  ```\n  a b c d\n  ```"
    assert cut(body, 12)[-1].text == "  ```\n  a b c d\n  ```"


def test_a_syllable_of_several_word_pieces_counts_as_several() -> None:
    assert PIECES.count_tokens("각") == 3
    assert [len(chunk.text) for chunk in cut("각" * 8, 8)] == [2, 2, 2, 2]


def test_no_chunk_is_the_end_of_a_fence_alone() -> None:
    for lines in range(1, 40):
        body = "```\n" + "".join(f"line {n} of code\n" for n in range(lines)) + "```\n"
        chunks = cut(body, 20)
        assert "".join(chunk.text for chunk in chunks) == body
        assert all(any(sign.isalnum() for sign in chunk.text) for chunk in chunks), lines
        assert all(PIECES.count_tokens(chunk.text) <= 20 for chunk in chunks)


def test_a_body_without_text_is_one_chunk() -> None:
    assert [chunk.text for chunk in cut("")] == [""]
    assert [chunk.text for chunk in cut(" \n\n")] == [" \n\n"]


def test_a_picture_of_a_line_costs_seconds_not_minutes() -> None:
    counted = 0

    class Counting(WordPieces):
        def token_offsets(self, text: str) -> list[tuple[int, int]]:
            nonlocal counted
            counted += len(text)
            return super().token_offsets(text)

    body = "![x](data:image/png;base64," + "aZ3+/b9Q" * 5_000 + ")\n"
    chunk_markdown(body, Chunking(), Counting())
    assert counted < 20 * len(body)


def test_the_name_of_a_heading_for_links_is_no_part_of_it() -> None:
    text = "# 侦听器 {#watchers}\n\nWords.\n\n## Deep { #deep .wide }\n\nWords of {#no} heading.\n"
    assert headings(text) == ["侦听器", "侦听器 > Deep"]
    assert "".join(chunk.text for chunk in cut(text)) == text
    assert first_heading(text) == "侦听器"


def test_the_beginning_of_a_fence_is_no_chunk_before_a_line_that_is_too_long() -> None:
    for body in ("```\n" + "x1, " * 2000 + "\n```\n", "```\n" + "x1," * 2000 + "\n```\n"):
        found = cut(body)
        assert "".join(chunk.text for chunk in found) == body
        assert all(any(map(str.isalnum, chunk.text)) for chunk in found)


LAW = """# The Cycle Act

## Book 1

### Title 1

#### § 1 Scope

It binds whoever rides on a road.

#### § 2 Repealed

### Title 2

#### § 3 Lamps

A cycle carries a white lamp in front and a red one behind.
"""


def test_a_run_of_a_long_section_ends_before_a_heading_of_a_higher_level() -> None:
    of_book_1 = [chunk.heading.removeprefix("The Cycle Act > ") for chunk in cut(LAW, 30)[1:]]
    assert of_book_1 == ["Book 1", "Book 1 > Title 1 > § 2 Repealed", "Book 1 > Title 2"]
    repealed, title_2 = cut(LAW, 36)[1:]
    assert repealed.text.endswith("#### § 2 Repealed\n\n")
    assert title_2.text.startswith("### Title 2\n\n#### § 3 Lamps\n\nA cycle")


def test_the_rest_of_a_section_ends_before_the_next_one() -> None:
    chunks = cut("# A\n\n## B\n\n### C\n\none two three four five\n\nsix seven\n\n#### D\n\nd\n\n### E\n\ne\n", 10)
    assert [(chunk.heading, chunk.text.split("\n")[0]) for chunk in chunks] == [
        ("A", "# A"),
        ("A > B", "## B"),
        ("A > B > C", "### C"),
        ("A > B > C", "six seven"),
        ("A > B > E", "### E"),
    ]


@given(
    st.lists(st.one_of(st.integers(1, 6), st.lists(st.sampled_from(["one two", "three"]), min_size=1)), max_size=12),
    st.integers(12, 40),
    st.integers(1, 6),
)
@example([3, 2, ["one two"]], 13, 1)
@settings(max_examples=75, deadline=None)
def test_the_section_of_a_paragraph_is_the_same_in_its_chunk_as_in_the_text(
    blocks: list[int | list[str]], limit: int, level: int
) -> None:
    parts, path, sections = [], dict[int, str](), []
    for number, block in enumerate(blocks):
        if isinstance(block, int):
            path = {above: name for above, name in path.items() if above < block} | {block: f"H{number}"}
            parts.append(f"{'#' * block} H{number}")
        else:
            sections += [" > ".join(path.values())] * len(block)
            parts.append("\n\n".join(f"{line} P." for line in block))
    found = [
        section_of(chunk.heading, chunk.text, line)
        for chunk in cut("\n\n".join(parts), limit, level)
        for line, text in enumerate(chunk.text.split("\n"))
        if text.endswith("P.")
    ]
    assert found == sections


TABLE = "# Pumps\n\n| Name | Pressure |\n|---|---|\n" + "".join(f"| KX{n} | {3000 + n} bar |\n" for n in range(60))


def test_a_later_piece_of_a_table_begins_with_its_head_within_the_limit() -> None:
    chunks = cut(TABLE + "\nEnd.\n", max_tokens=120)
    assert len(chunks) > 3
    assert chunks[0].head == ""
    assert {chunk.head for chunk in chunks[1:-1]} == {"| Name | Pressure |\n|---|---|\n"}
    assert all(len(PIECES.token_offsets(chunk.searched)) <= 120 for chunk in chunks)
    assert all(chunk.text.startswith("| KX") for chunk in chunks[1:])
    assert "".join(chunk.text for chunk in chunks) == TABLE + "\nEnd.\n"
    assert [head_of(chunk.stored) for chunk in chunks] == [(chunk.head, chunk.text) for chunk in chunks]


def test_a_head_that_leaves_little_room_is_not_repeated() -> None:
    wide = "| " + "long name " * 20 + "| x |\n|---|---|\n" + "".join(f"| row {n} | {n} |\n" for n in range(40))
    assert {chunk.head for chunk in cut(wide, max_tokens=60)} == {""}


def test_a_row_longer_than_the_room_beside_the_head_stands_without_it() -> None:
    rows = "| A | B |\n|---|---|\n| 1 | " + "word " * 200 + "|\n| 2 | b |\n"
    chunks = cut(rows, max_tokens=50)
    assert "".join(chunk.text for chunk in chunks) == rows
    assert all(len(PIECES.token_offsets(chunk.searched)) <= 50 for chunk in chunks)


def test_the_mark_of_a_head_in_a_document_is_text() -> None:
    (chunk,) = cut("a \ufdd0 b")
    assert head_of(chunk.stored) == ("", "a \ufdd0 b")
