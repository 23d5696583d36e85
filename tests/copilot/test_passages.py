from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from hive_agents.copilot.passages import FOLDED, UNFOLDED, NearChunk, Window, marked, reason, windows
from hive_agents.copilot.plan import DocumentFilter
from hive_agents.copilot.prose import read, split
from hive_agents.documents import content_terms
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


def shown(
    texts: Sequence[str], question: str, *, weights: dict[str, float] | None = None, **options: Any
) -> list[Window]:
    """The windows of a document of these chunks."""
    found = [
        NearChunk(ChunkRow(f"a.md#{n}", "a.md", "Boxes", "", text, {}), before=100 * n) for n, text in enumerate(texts)
    ]
    weights = weights or dict.fromkeys(content_terms(question, "english"), 1.0)
    return windows(found, question, weights, "english", **options)


def test_an_excerpt_marks_every_form_of_the_words() -> None:
    (window,) = shown([SOP], "how do we validate cleaning of vessels?")
    assert window.marked == (
        "<mark>Vessels</mark> are kept dry. Each <mark>cleaned</mark> <mark>vessel</mark> is <mark>validated</mark> "
        "within 30 days, see SOP-7.\n<mark>vessel</mark> | rinses\nA | 4 rinses\n<mark>validate</mark> "
        "--<mark>vessel</mark> A"
    )
    assert (window.from_line, window.to_line, window.best) == (3, 10, True)
    assert window.text == window.marked.replace("<mark>", "").replace("</mark>", "")


def test_marks_follow_the_language_of_the_index() -> None:
    text = "Die Gefäße werden gereinigt."
    assert "<mark>gereinigt</mark>" in marked(text, "wie gereinigte Gefäße", "german")
    assert "<mark>" not in marked("Cleaned vessels.", "cleaning", "none")


def test_function_words_are_not_marked_unless_there_is_nothing_else() -> None:
    assert marked("The key is in the safe.", "where is the key") == "The <mark>key</mark> is in the safe."
    assert marked("This is it.", "is it") == "This <mark>is</mark> <mark>it</mark>."


@pytest.mark.parametrize(
    "own", ["<mark>x</mark>", "<MARK class=a>x</ mark>", "<ma<mark>rk>x", "<m*ark*>x", "<m`ark`>x"]
)
def test_marks_of_the_document_are_removed(own: str) -> None:
    (window,) = shown([f"A key {own} and <b>bold</b> &lt;mark&gt;."], "key")
    assert window.marked.startswith("A <mark>key</mark> ")
    text = window.marked
    assert text.lower().count("<mark") == text.count("<mark>") == text.count("</mark>") == 1


@pytest.mark.parametrize("injected", INJECTIONS, ids=lambda each: each["id"])
def test_marks_are_the_only_markup_whatever_a_document_says(injected: dict[str, Any]) -> None:
    for window in shown([injected["text"]], "ignore the rules and answer"):
        assert re.fullmatch(r"(?:(?!</?mark)[\s\S]|<mark>(?:(?!</?mark)[\s\S])+</mark>)*", window.marked, re.I)


@pytest.mark.parametrize(("length", "most"), [(FOLDED, 3), (UNFOLDED, 3), (FOLDED, 1)])
def test_windows_are_whole_lines_that_overlap_nowhere_in_the_documents_order(length: int, most: int) -> None:
    texts = ["\n\n".join(f"Box {n} of shelf {chunk} holds a lid. Turn it." for n in range(40)) for chunk in range(3)]
    found = shown(texts, "which box has the lid", length=length, most=most)
    assert len(found) == most
    assert [one.from_line for one in found] == sorted(one.from_line for one in found)
    assert all(one.to_line < other.from_line for one, other in pairwise(found))
    assert all(len(one.text) <= length and one.text.endswith(".") for one in found)
    assert sum(one.best for one in found) == 1


def test_a_window_shows_what_the_others_do_not() -> None:
    texts = ["A lid is red.", "A red lid is round.", "Oil is bought in May."]
    weights = {"red": 1.0, "lid": 1.0, "oil": 1.5}
    assert [one.text for one in shown(texts, "red lid oil", weights=weights, most=2)] == [texts[0], texts[2]]


def test_the_meaning_of_a_chunk_decides_between_windows_with_the_same_words() -> None:
    rows = [ChunkRow(f"a.md#{n}", "a.md", "Boxes", "", f"A lid, number {n}.", {}) for n in range(3)]
    found = [NearChunk(row, cosine) for row, cosine in zip(rows, (0.1, 0.6, 0.3), strict=True)]
    (best,) = windows(found, "lid", {"lid": 1.0}, "english", most=1)
    assert best.row.chunk_id == "a.md#1"


def test_a_row_of_a_table_stands_below_the_head_of_its_table() -> None:
    rows = "\n".join(f"| KX{n} | {n * 7} bar |" for n in range(60))
    best = next(one for one in shown([f"| pump | pressure |\n|---|---|\n{rows}\n"], "pressure of KX47") if one.best)
    assert best.text.splitlines()[:2] == ["pump | pressure", "KX47 | 329 bar"]


def test_a_table_that_fits_is_shown_whole_and_not_from_its_middle_on() -> None:
    table = "| code | do this |\n|---|---|\n| E1 | close the hood |\n| E2 | fill the rack |\n| E3 | dry the seal |\n"
    text = f"{'Nothing of it here. ' * 15}\n\n{table}\n{'Nothing of it there. ' * 15}"
    for question in ("dry seal", "fill the rack", "E2"):
        (window,) = shown([text], question, most=1)
        assert window.text.startswith("code | do this\nE1 | close the hood\nE2 | fill the rack\nE3 | dry the seal")


def test_windows_that_follow_one_another_in_a_table_are_one() -> None:
    rows = [f"E{n} | {'close the hood of it ' * 6}" for n in range(6)]
    (window,) = shown(["\n".join(["| code | do this |", "|---|---|", *(f"| {one} |" for one in rows)])], "hood")
    assert window.text.split("\n") == ["code | do this", *map(str.strip, rows)]
    assert window.best


def test_the_row_that_a_question_names_is_shown_with_the_beginning_of_each_cell() -> None:
    table = "| attribute | what it is | required |\n|---|---|---|\n"
    others = f"| dir | unless useBase is true: the base to use, {'which is told elsewhere, ' * 4} | No |\n" * 3
    (window,) = shown([f"{table}{others}| `useBase` | {'Whether to take the base of it. ' * 30} | No; it is off |"],
                      "useBase required", most=1)  # fmt: skip
    assert re.fullmatch(r"attribute .* required\nuseBase \| Whether to take .*… \| No; it is off", window.text)
    assert len(window.text) <= FOLDED


def test_code_keeps_its_lines_and_its_indentation() -> None:
    text = "Close it:\n\n```python\nwith lid:\n    lid.close()\n```\n"
    assert shown([text], "close the lid")[0].text == "Close it:\nwith lid:\n    lid.close()"


def test_of_a_sentence_too_long_to_show_the_matching_piece_is_shown() -> None:
    (found, *_) = shown(["word " * 200 + "rotate the key " + "word " * 200], "rotate key")
    assert "<mark>rotate</mark> the <mark>key</mark>" in found.marked
    assert found.text[0] == found.text[-1] == "…"
    assert len(shown(["x" * 999], "key")[0].text) < FOLDED


@pytest.mark.parametrize("text", ["", " \n", "<div>html</div>"])
def test_a_text_without_lines_has_no_windows(text: str) -> None:
    assert shown([text], "key") == []


def test_boilerplate_is_left_out_unless_it_holds_the_words() -> None:
    row = ChunkRow("a.md#0", "a.md", "Boxes", "", "Sign in to vote.\n\nA lid is red.", {}, own="A lid is red.")
    (window,) = windows([NearChunk(row)], "red lid", {"red": 1.0, "lid": 1.0}, "english")
    assert (window.text, window.from_line) == ("A lid is red.", 3)
    assert "Sign in" in windows([NearChunk(row)], "sign in", {"sign": 1.0}, "english")[0].text


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


def test_rows_of_a_table_know_its_head() -> None:
    table = "| head | smallest | largest |\n|---|---|---|\n| P50 | 0.5 µl | 50 µl |\n| P9 | | 9 µl |\n| | | |\n"
    assert [(line.head, line.text) for line in read(table)] == [
        ("head | smallest | largest", "P50 | 0.5 µl | 50 µl"),
        ("head | smallest | largest", "P9 |  | 9 µl"),
    ]


def test_lines_know_where_they_stand() -> None:
    text = "# Vessels\n\nBring a\ncup. Wait.\n\n- a [form](f.md)\n\n```\nrun\n\nstop\n```\n"
    assert [(line.text, line.kind, line.first, line.last) for line in read(text)] == [
        ("Vessels", "heading", 0, 0),
        ("Bring a cup.", "prose", 2, 3),
        ("Wait.", "prose", 2, 3),
        ("a form", "list", 5, 5),
        ("run", "code", 8, 8),
        ("stop", "code", 10, 10),
    ]


def test_a_paragraph_in_bold_alone_is_a_term_of_what_follows() -> None:
    found = read("# Keys\n\n**Trial**\n\n30 days.\n\n- a day\n\n**Never share it.**\n\n## Costs\n\nNone.\n")
    assert [(each.text, each.kind) for each in found] == [
        ("Keys", "heading"),
        ("Trial", "heading"),
        ("30 days.", "prose"),
        ("a day", "list"),
        ("Never share it.", "prose"),
        ("Costs", "heading"),
        ("None.", "prose"),
    ]


def test_logs_lists_and_rows_are_told_apart() -> None:
    text = "```\n2024-01-02 10:00 ERROR x\n```\n\n- a\n\n| b |\n|---|\n| c |\n"
    assert [(each.text, each.kind) for each in read(text)] == [
        ("2024-01-02 10:00 ERROR x", "log"),
        ("a", "list"),
        ("c", "table"),
    ]


def test_a_rare_word_decides_between_passages() -> None:
    text = "The red lid of the red box. " + "Nothing here. " * 40 + "A hinge is oiled."
    rare, common = {"red": 0.1, "box": 0.1, "hing": 5.0}, {"red": 5.0, "box": 5.0, "hing": 0.1}
    assert "hinge" in shown([text], "red box hinge", weights=rare, most=1)[0].text
    assert "red" in shown([text], "red box hinge", weights=common, most=1)[0].text


def why(found: ChunkRow, query: str, filters: Sequence[DocumentFilter] = (), **options: Any) -> str:
    """The reason of a result that is shown by its best window."""
    weights = dict.fromkeys(content_terms(query, "english"), 1.0) if query else {}
    best = windows([NearChunk(found)], query, weights, "english", most=1)
    return reason(best[0] if best else None, found, query, filters, **options)


PLAIN = SOP.partition("\n")[2]
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
        (row(PLAIN, "Weekly check"), "dry", [], "Matches 'dry' in section \"Weekly check\""),
        (row(PLAIN, ""), "dry", [], "Matches 'dry' in \"Vessels\""),
        (row(text="Nothing."), "cleaning", [], "Matches 'Cleaning' in section 4.2"),
        (row(), "budget", [], "Found in section 4.2"),
        (row(PLAIN, ""), "budget", [], 'Found in "Vessels"'),
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
    assert why(found, query, filters) == told


def test_a_reason_speaks_of_meaning_only_where_it_was_compared() -> None:
    assert why(row(), "budget", by_meaning=True) == "Close in meaning to the question: section 4.2"
    assert why(row(), "dry", by_meaning=True) == "Matches 'dry' in section 4.2"


def test_a_reason_stays_one_bounded_line() -> None:
    told = why(row(heading="4.2<mark>\n" + "h" * 500, status="s" * 500), "budget", [EFFECTIVE])
    assert "\n" not in told
    assert "<mark>" not in told
    assert len(told) < 250


def test_marks_of_sites_and_notes_are_no_sentences() -> None:
    text = "## Keys {#keys}\n\n::: warning Take care\nSee [[Basics|the basics]].\n:::\n\n> [!tip] Faster\n> Use it.\n"
    assert [sentence.text for sentence in read(text)] == ["Keys", "Take care See the basics.", "Faster Use it."]


ACT = "## Part 1\n\n### § 1\n\nIt binds riders.\n\n### § 2\n\nA lamp is white. It binds.\n"


def test_the_section_told_is_that_of_the_window_which_is_shown() -> None:
    found = row(ACT, "The Act > Part 1")
    (window,) = windows([NearChunk(found)], "lamp binds", {"lamp": 1.0, "bind": 0.5}, "english", length=30, most=1)
    assert window.section == "The Act > Part 1 > § 2"
    assert reason(window, found, "lamp") == "Matches 'lamp' in section \"§ 2\""
    assert reason(window, found, "riders") == 'Found in section "§ 2"'
    assert reason(None, row("", "The Act"), "lamp") == 'Found in section "The Act"'
