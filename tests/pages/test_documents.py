"""A document's Markdown is shown as what it means, and nothing else in it becomes an element of the page."""

from __future__ import annotations

import re
from itertools import pairwise

from hive_agents.server.pages.documents import MOST, shown_document
from tests.pages.test_scripts import PAYLOADS, RUN, Skeleton

PLAIN = {("p", ()), ("br", ()), ("em", ()), ("strong", ()), ("code", ()), ("pre", ()), ("blockquote", ()), ("li", ()),
         ("ul", ()), ("ol", ("start",)), ("ol", ()), ("table", ()), ("thead", ()), ("tbody", ()), ("tr", ()),
         ("th", ()), ("td", ()), ("hr", ()), ("h3", ()), ("h4", ()), ("h5", ()), ("h6", ()), ("mark", ()),
         ("mark", ("id",)), ("a", ("href", "rel", "target"))}  # fmt: skip
HEADS = """# Labware

## Pipette heads

| head | smallest volume | largest volume |
|---|--:|---|
| P50 | 0.5 µl | 50 µl |
| P1000 | 5 µl | 1,000 µl |

#### Read *them*

1. one
2. `two`
"""


def test_a_document_is_formatted_and_the_row_behind_a_claim_is_marked() -> None:
    shown = shown_document("labware.md", HEADS, ["P50: smallest volume 0.5 µl; largest volume 50 µl"])
    assert shown.found
    assert (
        '<tr><td><mark id="passage">P50</mark></td><td><mark>0.5 µl</mark></td><td><mark>50 µl</mark></td>'
        in shown.html
    )
    assert "<h5>Read <em>them</em></h5>" in shown.html
    assert "<code>two</code>" in shown.html
    assert "|" not in shown.html


SIZES = """# Sizes

| head | smallest | largest | colour |
|---|---|---|---|
| P5 | 1 | 50 | red |
| P50 | 1 | 50 | green |
| P50 | 2 | 50 | green |
| 2 | | 50 | *dark* green |
"""


def test_the_row_behind_a_claim_is_marked_as_a_whole_however_short_its_cells_are() -> None:
    for claim, row in {
        "P50: smallest 2; largest 50; colour green.": ["P50", "2", "50", "green"],
        "P50: smallest 1; largest 50; colour green": ["P50", "1", "50", "green"],
        "2: largest 50; colour dark green.": ["2", "50", "dark", " green"],
    }.items():
        shown = shown_document("sizes.md", SIZES, [claim])
        assert re.findall("<mark[^>]*>(.*?)</mark>", shown.html) == row, claim
        assert shown.html.count('id="passage"') == 1
    for other in ("P50: smallest 3; largest 9; colour blue.", "The P50 is green.", "colour: P50"):
        assert not shown_document("sizes.md", SIZES, [other]).found, other


def test_headings_leave_no_level_out() -> None:
    shown = shown_document("a.md", "## b\n\n##### c\n\n# a\n\n###### d\n\n### e\n\n#### f", [])
    levels = [int(level) for level in re.findall(r"<h(\d)>", shown.html)]
    assert levels[0] == 3
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_a_passage_goes_through_emphasis_and_code_and_is_named_once() -> None:
    shown = shown_document(
        "a.md", "Run `hive *serve*` **at once**, then go.\n\nAt once, then go.", ["serve at once then go"]
    )
    assert shown.html.count('id="passage"') == 1
    assert re.sub("<[^>]+>", "", "".join(re.findall("<mark.*?</mark>", shown.html))) == "serve* at once, then go"


def test_links_lead_to_the_web_alone_and_pictures_are_words() -> None:
    text = "[a](https://example.org) [b](../b.md) [c](/logout) [d](//example.org) ![e](https://example.org/e.png)"
    shown = shown_document("a.md", text, [])
    assert re.findall(' href="([^"]+)"', shown.html) == ["https://example.org"]
    assert re.sub("<[^>]+>", "", shown.html) == "a b c d e"


def test_nothing_of_a_document_becomes_another_element() -> None:
    around = ("{}", "# {}", "- {}", "> {}", "| {} | b |\n|---|---|\n| {} | c |", "`{}`", "```{}\n{}\n```", "[{}]({})",
              "![{}]({})", "<{}>", "[a]: {}\n\n[a]", "    {}", "**{}**", "\\{}", "[a](<{}> \"{}\")")  # fmt: skip
    for payload in PAYLOADS:
        for each in around:
            shown = shown_document("a.md", each.replace("{}", payload), [payload, "window ran 1"])
            assert set(Skeleton(shown.html).found) <= PLAIN, (payload, each)
            assert not re.search(r'href="(?!https?://|mailto:)', shown.html), (payload, each)


def test_what_is_no_markdown_or_too_long_stands_as_it_is_written() -> None:
    text = f"# a\n\n<b>{RUN}</b> the P50 head"
    plain = shown_document("a.txt", text, ["the P50 head"])
    assert not plain.formatted
    assert plain.html == f'# a\n\n&lt;b&gt;{RUN}&lt;/b&gt; <mark id="passage">the P50 head</mark>'
    assert not shown_document("a.md", "word " * (MOST // 4), []).formatted


def test_a_document_is_opened_at_the_passage_that_stands_first_in_the_list_wherever_it_stands_in_the_document() -> None:
    text = "# Keys\n\nKeys are kept in the safe.\n\nThe alarm rings at night.\n\nA key expires after ninety days.\n"
    for name in ("a.md", "a.txt"):
        shown = shown_document(name, text, ["A key expires after ninety days.", "Keys are kept in the safe."])
        assert '<mark id="passage">A key expires' in shown.html
        assert "<mark>Keys are kept" in shown.html
