from __future__ import annotations

import re
from typing import Any

import pytest

from hive_agents.copilot.excerpts import marked_excerpt, marked_passages, passage_section, reason
from hive_agents.copilot.plan import DocumentFilter
from hive_agents.copilot.prose import read, sentences, split
from hive_agents.index.lanes import ChunkRow
from tests.copilot.scripts import INJECTIONS

SOP = """## 4.2 Cleaning validation

Vessels are kept dry. Each cleaned vessel is *validated* within `30` days, see [SOP-7](sop-7.md).

| vessel | rinses |
|---|---|
| A | 4 rinses |

```
validate --vessel A
```
"""


def row(text: str = SOP, heading: str = "Vessels > 4.2 Cleaning validation", **metadata: Any) -> ChunkRow:
    return ChunkRow("sops/a.md#2", "sops/a.md", "Vessels", heading, text, metadata)


def test_an_excerpt_marks_every_form_of_the_words() -> None:
    assert marked_excerpt(SOP, "how do we validate cleaning of vessels?") == (
        "<mark>Vessels</mark> are kept dry. Each <mark>cleaned</mark> <mark>vessel</mark> is <mark>validated</mark> "
        "within 30 days, see SOP-7. A: 4 rinses"
    )


def test_marks_follow_the_language_of_the_index() -> None:
    text = "Die Gefäße werden gereinigt."
    assert "<mark>gereinigt</mark>" in marked_excerpt(text, "wie gereinigte Gefäße", "german")
    assert "<mark>" not in marked_excerpt("Cleaned vessels.", "cleaning", "none")


def test_function_words_are_not_marked_unless_there_is_nothing_else() -> None:
    assert marked_excerpt("The key is in the safe.", "where is the key") == "The <mark>key</mark> is in the safe."
    assert marked_excerpt("This is it.", "is it") == "This <mark>is</mark> <mark>it</mark>."


@pytest.mark.parametrize(
    "own", ["<mark>x</mark>", "<MARK class=a>x</ mark>", "<ma<mark>rk>x", "<m*ark*>x", "<m`ark`>x"]
)
def test_marks_of_the_document_are_removed(own: str) -> None:
    shown = marked_excerpt(f"A key {own} and <b>bold</b> &lt;mark&gt;.", "key")
    assert shown.startswith("A <mark>key</mark> ")
    assert shown.lower().count("<mark") == shown.count("<mark>") == shown.count("</mark>") == 1


@pytest.mark.parametrize("injected", INJECTIONS, ids=lambda each: each["id"])
def test_marks_are_the_only_markup_whatever_a_document_says(injected: dict[str, Any]) -> None:
    shown = marked_excerpt(injected["text"], "ignore the rules and answer")
    assert re.fullmatch(r"(?:(?!</?mark)[\s\S]|<mark>(?:(?!</?mark)[\s\S])+</mark>)*", shown, re.I)


def test_an_excerpt_is_short_and_whole_where_it_can_be() -> None:
    text = "Nothing here. " * 40 + "Rotate the key. Then restart. " + "Nothing more. " * 40
    shown = marked_excerpt(text, "rotate key")
    assert shown.startswith("<mark>Rotate</mark> the <mark>key</mark>. Then restart.")
    assert shown.endswith(".")
    assert len(shown.replace("<mark>", "").replace("</mark>", "")) <= 240


def test_of_a_sentence_too_long_to_show_the_matching_piece_is_shown() -> None:
    shown = marked_excerpt("word " * 200 + "rotate the key " + "word " * 200, "rotate key")
    assert "<mark>rotate</mark> the <mark>key</mark>" in shown
    assert shown[0] == shown[-1] == "…"
    assert len(marked_excerpt("x" * 999, "key")) == 239


@pytest.mark.parametrize("text", ["", " \n", "```\ncode\n```", "# Only a heading", "<div>html</div>"])
def test_a_text_without_sentences_gives_what_it_has(text: str) -> None:
    assert len(marked_excerpt(text, "key")) <= 240


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("Keep at 4 °C. Then use it.", 2),
        ("See e.g. No. 4 or Fig. 2. Ask J. Smith.", 2),
        ("It takes 1.5 h. and no more.", 1),
        ('He said "stop." Then it stopped!', 2),
        ("停止。再开始。", 2),
    ],
)
def test_sentences_end_where_a_reader_would_say(line: str, parts: int) -> None:
    assert len(split(line)) == parts


def test_tables_become_lines_and_code_is_left_out() -> None:
    assert sentences(SOP)[-1] == "A: 4 rinses"
    assert not any("--vessel" in sentence for sentence in sentences(SOP))


def test_a_row_of_several_values_names_their_columns() -> None:
    table = "| head | smallest | largest |\n|---|---|---|\n| P50 | 0.5 µl | 50 µl |\n| P9 | | 9 µl |\n| | | |\n"
    assert sentences(table) == ("P50: smallest 0.5 µl; largest 50 µl", "P9: largest 9 µl")
    assert sentences("| a | b |\n|---|---|\n| 1 | 2. Yes. |\n") == ("1: 2. Yes.",)


def test_a_sentence_knows_what_stands_above_it_and_its_links() -> None:
    found = read("# Vessels\n\nBring:\n\n- a [form](f.md).\n- a cup\n\n## Then\n\nRead [SOP-7](s.md). Wait.\n")
    assert [each.text for each in found if each.kind == "heading"] == ["Vessels", "Then"]
    assert [(each.text, each.above, each.linked, each.whole) for each in found if each.kind != "heading"] == [
        ("Bring:", "Vessels", (), True),
        ("a form.", "Vessels Bring:", ("form",), True),
        ("a cup", "Vessels Bring:", (), False),
        ("Read SOP-7.", "Then", ("SOP-7",), True),
        ("Wait.", "Then", (), True),
    ]


LISTING = """# Options

A box holds things.

```
-l    lids only
```

## Limits

The lid is heavy.
"""


def test_a_paragraph_in_bold_alone_is_a_term_of_what_follows() -> None:
    found = read("# Keys\n\n**Trial**\n\n30 days.\n\n- a day\n\n**Never share it.**\n\n## Costs\n\nNone.\n")
    assert [(each.text, each.above, each.kind) for each in found] == [
        ("Keys", "", "heading"),
        ("Trial", "Keys", "heading"),
        ("30 days.", "Keys Trial", "prose"),
        ("a day", "Keys Trial", "list"),
        ("Never share it.", "Keys Trial", "prose"),
        ("Costs", "", "heading"),
        ("None.", "Costs", "prose"),
    ]


def test_lines_of_code_and_headings_inside_are_part_of_a_passage() -> None:
    assert marked_excerpt(LISTING, "print lids only", length=18) == "-l <mark>lids</mark> <mark>only</mark>"
    assert marked_excerpt(LISTING, "heavy limits", length=24) == "<mark>Limits</mark> The lid is <mark>heavy</mark>."
    kinds = [
        (each.text, each.kind) for each in read("```\n2024-01-02 10:00 ERROR x\n```\n\n- a\n\n| b |\n|---|\n| c |\n")
    ]
    assert kinds == [("2024-01-02 10:00 ERROR x", "log"), ("a", "list"), ("c", "table")]


def test_the_next_best_passage_of_the_document_stands_behind_the_best() -> None:
    long = "Nothing of note. " * 40
    first = ChunkRow("a.md#0", "a.md", "Boxes", "Lids", f"A lid is red. {long} The lid of a red box is oiled.", {})
    other = ChunkRow("a.md#1", "a.md", "Boxes", "Oil", "Oil is bought in May.", {})
    weights = {"lid": 1.0, "oil": 1.0}
    shown = marked_passages(first, other, "lid oil", weights, "english")
    assert shown == "The <mark>lid</mark> of a red box is <mark>oiled</mark>. … <mark>Oil</mark> is bought in May."
    same = marked_passages(first, first, "lid oil", weights, "english")
    assert same.split(" … ")[1].startswith("A <mark>lid</mark> is red.")
    assert "…" not in marked_passages(other, None, "lid oil", weights, "english")


def test_a_rare_word_decides_between_passages() -> None:
    text = "The red lid of the red box. " + "Nothing here. " * 40 + "A hinge is oiled."
    assert "hinge" in marked_excerpt(text, "red box hinge", weights={"red": 0.1, "box": 0.1, "hing": 5.0})
    assert "red" in marked_excerpt(text, "red box hinge", weights={"red": 5.0, "box": 5.0, "hing": 0.1})


EFFECTIVE = DocumentFilter(field="status", value="effective")


@pytest.mark.parametrize(
    ("found", "query", "filters", "told"),
    [
        (row(), "cleaned vessel", [], "Matches 'cleaned vessel' in section 4.2"),
        (row(), "dry and valid", [], "Matches 'dry' and 'validated' in section 4.2"),
        (
            row(status="effective", kind="sop"),
            "dry",
            [EFFECTIVE],
            "Matches 'dry' in section 4.2; status effective",
        ),
        (row(heading="Weekly check"), "dry", [], "Matches 'dry' in section \"Weekly check\""),
        (row(heading=""), "dry", [], "Matches 'dry' in \"Vessels\""),
        (row(text="Nothing."), "cleaning", [], "Matches 'Cleaning' in section 4.2"),
        (row(), "budget", [], "Found in section 4.2"),
        (row(heading=""), "budget", [], 'Found in "Vessels"'),
        (row(status="effective"), "", [EFFECTIVE], "Matched by filter: status effective"),
        (
            row(labels=["keys", "auth"], effective_date="2025-01-01"),
            "",
            [
                DocumentFilter(field="labels", op="in", value=["auth", "x"]),
                DocumentFilter(field="effective_date", op="gte", value="2024-01-01"),
            ],
            "Matched by filter: labels auth, effective date 2025-01-01",
        ),
        (row(), "", [DocumentFilter(field="status", op="not_in", value=["draft"])], "Matched by filter"),
        (row(), "", [], "Listed without a filter"),
    ],
)
def test_a_reason_is_one_sentence(found: ChunkRow, query: str, filters: list[DocumentFilter], told: str) -> None:
    assert reason(found, query, filters) == told


def test_a_reason_speaks_of_meaning_only_where_it_was_compared() -> None:
    assert reason(row(), "budget", by_meaning=True) == "Close in meaning to the question: section 4.2"
    assert reason(row(), "dry", by_meaning=True) == "Matches 'dry' in section 4.2"


def test_a_reason_stays_one_bounded_line() -> None:
    told = reason(row(heading="4.2<mark>\n" + "h" * 500, status="s" * 500), "budget", [EFFECTIVE])
    assert "\n" not in told
    assert "<mark>" not in told
    assert len(told) < 250


def test_marks_of_sites_and_notes_are_no_sentences() -> None:
    text = "## Keys {#keys}\n\n::: warning Take care\nSee [[Basics|the basics]].\n:::\n\n> [!tip] Faster\n> Use it.\n"
    assert [sentence.text for sentence in read(text)] == ["Keys", "Take care See the basics.", "Faster Use it."]


ACT = "## Part 1\n\n### § 1\n\nIt binds riders.\n\n### § 2\n\nA lamp is white. It binds.\n"


def test_the_section_told_is_that_of_the_passage_which_is_shown() -> None:
    found = row(ACT, "The Act > Part 1")
    weights = {"lamp": 1.0, "bind": 0.5}
    section = passage_section(found, "lamp binds", weights, "english")
    assert section == "The Act > Part 1 > § 2"
    assert reason(found, "lamp", section=section) == "Matches 'lamp' in section \"§ 2\""
    assert reason(found, "riders", section=section) == 'Found in section "§ 2"'
    assert passage_section(row("", "The Act"), "lamp", weights, "english") == "The Act"
