import pytest
from hypothesis import given, strategies as st

from hive_agents.ranking.excerpts import excerpt, plain_text

TEXT = """## Retries

A delivery that fails is tried again five times. Each attempt waits twice as long.

- Answer with **status 200** and see [Limits](../limits.md).

```python
assert signature == expected
```
"""


def test_the_passage_with_the_querys_words_is_shown() -> None:
    assert excerpt(TEXT, "what status to answer", 60) == "Answer with status 200 and see Limits."
    assert excerpt(TEXT, "signatures expected", 40).startswith("assert signature == expected")


def test_words_are_compared_by_stem() -> None:
    assert excerpt(TEXT, "attempts waiting", 40) == "Each attempt waits twice as long."


def test_without_a_match_the_beginning_is_shown() -> None:
    assert excerpt(TEXT, "giraffe", 60) == "Retries A delivery that fails is tried again five times."


def test_marks_of_markdown_are_left_out() -> None:
    assert plain_text("### **Bold** `code` [label](target.md)") == "Bold code label"
    assert plain_text("3. third") == "third"
    assert plain_text("Package: * of **any *kind* here**") == "Package: * of any kind here"
    assert plain_text("Package: *") == "Package: *"
    assert plain_text("|---|:-:|") == ""


def test_escapes_are_for_markdown_and_never_shown() -> None:
    text = "\\# 1 numeric argument started with \\`universal-argument', it\\*ends\\\nhere.\n\n\\---"
    assert excerpt(text, "argument") == "# 1 numeric argument started with `universal-argument', it*ends here. ---"


def test_a_backslash_in_code_is_code() -> None:
    assert plain_text(r"see `\d+\.\*` for \<digits>") == r"see \d+\.\* for <digits>"
    assert excerpt("Run:\n\n```\ngrep '\\.\\*' *.md\n# a remark\n```\n", "grep") == r"grep '\.\*' *.md # a remark"


def test_a_table_is_read_by_its_cells() -> None:
    table = "| key | what it does |\n|---|---|\n| `l(ist)` | shows where \\| it stands |\n"
    assert excerpt(table, "stands") == "l(ist) · shows where | it stands"


def test_an_address_is_shown_without_its_brackets() -> None:
    assert plain_text("see <https://example.org/a_b>") == "see https://example.org/a_b"


def test_a_long_sentence_ends_with_an_ellipsis_at_a_word() -> None:
    shown = excerpt("word " * 100, "word", 32)
    assert shown == "word word word word word word…"


def test_text_without_text_has_no_excerpt() -> None:
    assert excerpt("", "x") == excerpt("\n\n---\n```\n```\n"[:2], "x") == ""


@given(st.text(max_size=400), st.text(max_size=30), st.integers(10, 200))
def test_an_excerpt_is_one_line_and_never_longer_than_asked(text: str, query: str, length: int) -> None:
    shown = excerpt(text, query, length)
    assert len(shown) <= length
    assert "\n" not in shown


def test_sentences_of_writing_without_spaces_are_sentences() -> None:
    text = "侦听器很有用。" * 30 + "数组的变化可以被侦听。" + "其他内容在这里。" * 30
    shown = excerpt(text, "数组的变化")
    assert "数组的变化可以被侦听。" in shown
    assert len(shown) <= 240


def test_an_excerpt_that_is_cut_keeps_most_of_its_length_where_there_are_no_spaces() -> None:
    assert len(excerpt("v-model " + "很长的句子没有空格" * 60, "句子")) > 200


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("![a diagram](/images/a.png) shows it", "a diagram shows it"),
        ('<div class="api">', ""),
        ("Use <br> here<!-- not yet -->", "Use here"),
        ("a `<slot>` and \\<b> stay, so does 1 < 2 > 0", "a <slot> and <b> stay, so does 1 < 2 > 0"),
        ("[Try it](https://play.example/#eNqtVE2P0zAQSujXNqgNmkPcIjaBbYCJKg4cSMcTDJNTB07KNsVfW", "Try it"),
        ("See [[Basic formatting|the basics]] and [[Links#Aliases]].", "See the basics and Links > Aliases."),
        ("![[shot.png]] Then ![[Page]]", "Then Page"),
        ("> [!tip] Faster\n", "Faster"),
    ],
)
def test_what_a_reader_does_not_see_is_no_excerpt(markdown: str, shown: str) -> None:
    assert plain_text(markdown) == shown


def test_the_name_of_a_heading_for_links_is_not_shown() -> None:
    assert excerpt("## 什么是侦听器？ {#watchers}\n\nIt {#waits}.\n", "侦听器") == "什么是侦听器？ It {#waits}."
    assert excerpt("## Watchers {#watch .wide}\n", "watch") == "Watchers"


def test_a_link_to_a_name_defined_elsewhere_is_shown_as_its_words() -> None:
    text = 'As in [Chapter 2][storing] and [the maps][], call `grid[0][1]`.\n\n[storing]: ch02.html#storing "Two"\n'
    assert excerpt(text, "maps storing") == "As in Chapter 2 and the maps, call grid[0][1]."
