"""The first of groups, pairs of fields, medians, and fields or values that are written in several ways."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from hive_agents import Workspace
from hive_agents.copilot.figures import TitledRow, cell_in, tallied
from hive_agents.copilot.language import in_english
from hive_agents.copilot.plan import FieldTally, SearchStrategy, described
from hive_agents.copilot.router import reread, route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents import Collection
from tests.copilot.chats import ask, place_with

TODAY = datetime.date(2026, 12, 1)
PACKAGES = Vocabulary(
    {
        "section": FieldWords("keyword", ("games", "web")),
        "priority": FieldWords("keyword", ("required", "optional")),
        "maintainer": FieldWords("keyword", ("Ada Berg", "Mei Lin")),
        "license": FieldWords("keyword", ("MIT", "The MIT License (MIT)", "BSD", "BSD license (see license.txt)")),
        "installed_size": FieldWords("number"),
        "weight_in_lbs": FieldWords("number"),
        "dependencies": FieldWords("number"),
        "typed": FieldWords("boolean"),
        "released": FieldWords("date"),
        "topics": FieldWords("keyword", ("Dependencies", "Art")),
        "neighbours": FieldWords("keyword", ("DE", "NO", "FR", "BY")),
    },
    noun="packag",
    folders=frozenset({"packag", "librari"}),
    flags={"typed": (True, False)},
)


@pytest.mark.parametrize(
    ("text", "tally", "filters"),
    [
        ("top 5 maintainers", {"by": "maintainer", "most": 5, "first": "most"}, ""),
        ("top 5 maintainers by number of packages", {"by": "maintainer", "most": 5, "first": "most"}, ""),
        ("top 3 maintainers in section games", {"by": "maintainer", "most": 3, "first": "most"}, "section games"),
        ("the 2 most common licenses", {"by": "license", "most": 2, "first": "most"}, ""),
        ("which 3 sections have the fewest packages", {"by": "section", "most": 3, "first": "fewest"}, ""),
        (
            "top 2 sections by installed size",
            {"of": "sum", "field": "installed_size", "by": "section", "most": 2, "first": "most"},
            "",
        ),
        ("die 5 häufigsten Lizenzen", {"by": "license", "most": 5, "first": "most"}, ""),
        ("packages by section and typed", {"by": "section", "beside": "typed"}, ""),
        ("packages by section and priority", {"by": "section", "beside": "priority"}, ""),
        ("number of packages per section and per priority", {"by": "section", "beside": "priority"}, ""),
        (
            "average installed size by section and priority",
            {"of": "average", "field": "installed_size", "by": "section", "beside": "priority"},
            "",
        ),
        ("median installed size of games", {"of": "median", "field": "installed_size"}, "section games"),
        (
            "which section has the highest median installed size",
            {"of": "median", "field": "installed_size", "by": "section", "first": "most"},
            "",
        ),
        ("largest package by dependencies", {"of": "max", "field": "dependencies"}, ""),
        ("largest package by installed size in section web", {"of": "max", "field": "installed_size"}, "section web"),
        ("best package by dependencies", {"of": "max", "field": "dependencies"}, ""),
        ("who maintains the most packages", {"by": "maintainer"}, ""),
        ("which package has the most dependencies", {"of": "max", "field": "dependencies"}, ""),
        ("average number of dependencies of games", {"of": "average", "field": "dependencies"}, "section games"),
        ("packages released per year", {"by": "released", "span": "year"}, ""),
        ("number of distinct licenses", {"of": "values", "field": "license"}, ""),
        ("¿cuál es la installed size media de los packages?", {"of": "average", "field": "installed_size"}, ""),
        ("quel est le plus petit package ?", {"of": "min", "field": "installed_size"}, ""),
        ("¿cuál es el package más pesado?", {"of": "max", "field": "weight_in_lbs"}, ""),
        ("welches Package ist das leichteste?", {"of": "min", "field": "weight_in_lbs"}, ""),
        ("mediana de installed size", {"of": "median", "field": "installed_size"}, ""),
        ("how many packages have four dependencies", None, "dependencies 4"),
        ("¿qué packages escribió Mei Lin?", None, "maintainer Mei Lin"),
        ("how many packages are under the MIT license", None, "license The MIT License (MIT) or MIT"),
        ("packages under the BSD license", None, "license BSD license (see license.txt) or BSD"),
    ],
)
def test_figures_of_groups_are_over_the_rows_that_the_message_names(
    text: str, tally: dict[str, object] | None, filters: str
) -> None:
    routed = route(text, PACKAGES, reader="mei", today=TODAY)
    found = None if routed.tally is None else routed.tally.model_dump(exclude_none=True)
    assert found == (None if tally is None else {"of": "count", **tally})
    assert described(routed.decision.filters) == filters
    assert routed.decision.strategy is SearchStrategy.METADATA_ONLY


@pytest.mark.parametrize(
    "text",
    [
        "how many maintainers have more than one package",
        "how many packages conflict with games",
        "packages that compete with Mei Lin",
        "top 5 maintainers by mood",
        "top 5 tips for maintainers",
        "packages by mood and section",
        "the most recently released package",
    ],
)
def test_groups_that_no_field_explains_have_no_figure(text: str) -> None:
    routed = route(text, PACKAGES, reader="mei", today=TODAY)
    assert routed.tally is None
    assert routed.decision.strategy is not SearchStrategy.METADATA_ONLY


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("which packages neighbour DE", "neighbours DE"),
        ("which packages neighbour no other package", ""),
        ("which package has the code NO", ""),
    ],
)
def test_a_code_in_capitals_is_no_word_of_a_language_and_a_small_word_no_code(text: str, filters: str) -> None:
    assert in_english(text) == text
    decision = route(text, PACKAGES, reader="mei", today=TODAY).decision
    assert described(decision.filters) == filters
    assert decision.strategy is (SearchStrategy.METADATA_ONLY if filters else SearchStrategy.CONTENT_ONLY)


def test_how_many_may_be_asked_at_the_end(tmp_path: Path) -> None:
    assert ask(library(tmp_path), "guest", "books by Ada Berg, how many?")["answer"] == (
        "There are 3 such documents that you can open."
    )


def test_pairs_medians_and_first_groups_are_told_in_words() -> None:
    rows: list[TitledRow] = [
        ("a.md", "A", {"n": 1, "who": "mei", "kind": "memo"}),
        ("b.md", "B", {"n": 2, "who": ["mei", "sam"], "kind": "memo"}),
        ("c.md", "C", {"n": 8, "who": "sam"}),
        ("d.md", "D", {"who": "ada", "kind": "note"}),
    ]
    assert tallied(FieldTally(by="who", beside="kind"), rows) == (
        "4 documents by who and kind: mei / memo 2, ada / note 1, sam / memo 1; 1 without who or kind."
    )
    assert (
        tallied(FieldTally(of="median", field="n"), rows) == "The median of n is 2, over 3 of 4 documents; 1 has none."
    )
    assert tallied(FieldTally(by="who", most=1, first="most"), rows) == (
        "4 documents by who: mei 2, sam 2, and 1 more value."
    )
    by_sum = FieldTally(of="sum", field="n", by="who", most=1, first="most")
    assert tallied(by_sum, rows).splitlines()[1:] == ["sam: The sum of n is 10, over 2 documents.", "and 2 more values"]


def test_a_cell_is_told_by_what_is_measured() -> None:
    rows: list[TitledRow] = [("a.md", "Torino", {"weight_in_lbs": 3449})]
    assert cell_in("how much does the Torino weigh?", PACKAGES, rows) == "Torino, weight in lbs: 3449."
    assert cell_in("how much does the Torino weigh in summer?", PACKAGES, rows) is None


def library(root: Path) -> Workspace:
    """Books whose authors stand in `author`, in `authors`, or in both."""
    people = [
        ("Ada Berg", []),
        ("", ["Ada Berg", "Mei Lin"]),
        ("Mei Lin", ["Mei Lin", "Ada Berg"]),
        ("Sam Oh", []),
        ("", []),
    ]
    documents = {
        f"books/{n}.md": f"---\ntitle: Book {n}\ntenant: acme\nview: [tenant]\n"
        + (f"author: {one}\n" if one else "")
        + (f"authors: {json.dumps(several)}\n" if several else "")
        + "---\nOn lamps.\n"
        for n, (one, several) in enumerate(people, start=1)
    }
    return place_with(root, documents, "author", "authors")


def test_fields_called_alike_are_one_to_a_reader(tmp_path: Path) -> None:
    place = library(tmp_path)

    def told(text: str) -> tuple[str | None, list[str]]:
        reply = ask(place, "guest", text)
        return reply["answer"], sorted(result["doc_id"] for result in reply["results"])

    assert told("how many books are by Ada Berg")[0] == "There are 3 such documents that you can open."
    assert told("books by author")[0] == "5 documents by author: Ada Berg 3, Mei Lin 2, Sam Oh 1; 1 without author."
    assert told("which books did Mei Lin write")[1] == ["books/2.md", "books/3.md"]
    assert told("books without an author")[1] == ["books/5.md"]
    assert told("how many books are by both Ada Berg and Mei Lin")[0] == "There are 2 such documents that you can open."
    assert told("books not by Ada Berg")[1] == ["books/4.md", "books/5.md"]


def test_a_folder_is_not_joined_with_a_field_called_alike() -> None:
    fields = {name: {"type": "keyword", "filterable": True} for name in ("category", "categories")}
    values = {"category": [("posts", 3)], "categories": [("Food", 2), ("Art", 1)]}
    kb = Vocabulary.of(Collection.model_validate({"name": "kb", "fields": fields}), lambda name: values[name])
    assert (list(kb.fields), kb.joined) == (["category", "categories"], {})


def test_a_follow_up_keeps_what_is_excluded_of_all_fields_called_alike() -> None:
    fields = {
        "author": FieldWords("keyword", ("Ada Berg", "Mei Lin")),
        "state": FieldWords("keyword", ("draft", "final")),
    }
    joined = {"author": ["author", "authors"]}
    kb = Vocabulary(fields, noun="book", folders=frozenset({"book"}), joined=joined, several=frozenset({"author"}))
    history = reread(["books not by Ada Berg"], kb, reader="mei", today=TODAY)
    found = route("only drafts", kb, reader="mei", today=TODAY, history=history).decision.filters
    assert described(found) == "author not Ada Berg, authors not Ada Berg, state draft"
