"""Questions about documents with numbers and front matter, such as the rules of a house: `rule-12.md`, `rule: 12`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.copilot.vocabulary import Vocabulary
from hive_agents.documents import Collection
from hive_agents.ranking import SearchEngine
from tests.conftest import make_workspace
from tests.copilot.chats import PEOPLE, ask
from tests.folders import kept_folder
from tests.sample import hive

RULES = [
    "1 | Keys of the boat house | settled | Mei Lin (@mei), Sam Ode (@sam) | 2019-03-01 | |",
    "2 | Lamps | settled | Sam Ode (@sam) | 2021-05-04 | 1 |",
    "3 | Ropes | proposed | Mei Lin (@mei), Ines Roth <ines@house.example>, Sam Ode (@sam) | 2021-06-01 | 1, 2 |",
    "4 | Buckets | proposed | Mei Lin <mei@house.example> | 2023-01-09 | 1, 2, 3 | 2026-12-24",
    "5 | Oars | dropped | Ines Roth | 2024-02-02 | 3 |",
]
FIELDS = ("rule", "state", "author", "created", "needs", "deadline")


@cache
def house() -> Workspace:
    documents = {}
    for line in RULES:
        number, title, state, author, created, needs, deadline = (part.strip() for part in line.split("|"))
        fields = f'tenant: acme\nview: ["tenant"]\nrule: {number}\ntitle: {title}\nstate: {state}\n'
        fields += f"author: {author}\ncreated: {created}\n"
        fields += f"needs: {needs}\n" * bool(needs) + f"deadline: {deadline}\n" * bool(deadline)
        documents[f"rule-{number}.md"] = f"---\n{fields}---\nWhoever rows brings them back.\n"
    place = make_workspace(kept_folder("hive-rules-") / "ws", embedding=False, documents=documents)
    schema = {"name": "kb", "fields": {"title": {"type": "text"}, "content": {"type": "text"}}}
    (place.root / "collections" / "kb.json").write_text(json.dumps(schema), encoding="utf-8")
    (place.configs / "active.json").symlink_to("words.json")
    (place.root / "access").mkdir()
    (place.root / "access" / "principals.json").write_text(json.dumps(PEOPLE), encoding="utf-8")
    added = [part for name in FIELDS for part in ("--add", name)]
    assert hive("fields", *added, "-w", place.root).code == 0
    place.index()
    return place


def asked(text: str) -> dict[str, Any]:
    return ask(house(), "dana", text, engine=_engine())


@cache
def _engine() -> SearchEngine:
    return SearchEngine(house())


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("settled rules", "1 2"),
        ("how many rules are proposed", "3 4"),
        ("how many are there by Mei Lin", "1 3 4"),
        ("how many rules did Sam Ode write", "1 2 3"),
        ("by mei", "1 3 4"),
        ("rules by Roth", "3 5"),
        ("which rules need 2", "3 4"),
        ("proposed rules by ines", "3"),
        ("how many rules were created in 2021", "2 3"),
        ("rules that are not settled", "3 4 5"),
        ("how many are proposed", "3 4"),
        ("rules by Ines Roth", "3 5"),
        ("Wie viele rules hat Mei Lin geschrieben?", "1 3 4"),
        ("the last state of rule 2", "2"),
    ],
)
def test_lists_and_counts_are_over_what_front_matter_says(text: str, rules: str) -> None:
    reply = asked(text)
    assert reply["strategy"] == "MetadataOnly"
    assert {row["doc_id"] for row in reply["results"]} == {f"rule-{number}.md" for number in rules.split()}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("rules per state", "5 documents by state: proposed 2, settled 2, dropped 1."),
        ("which author has the most rules", "5 documents by author: Mei Lin 3, Sam Ode 3, Ines Roth 2."),
        (
            "which state has the most rules",
            "5 documents by state: proposed 2, settled 2, dropped 1.",
        ),
        ("rules per year", "5 documents by year: 2021 2, 2019 1, 2023 1, 2024 1."),
        ("oldest proposed", "The earliest created is 2021-06-01 (Ropes), over 2 documents."),
        ("newest settled rule", "The latest created is 2021-05-04 (Lamps), over 2 documents."),
        (
            "the two newest rules",
            "The 2 latest of created are 2024-02-02 (Oars), 2023-01-09 (Buckets), over 5 documents.",
        ),
        (
            "the latest 2 rules by mei",
            "The 2 latest of created are 2023-01-09 (Buckets), 2021-06-01 (Ropes), over 3 documents.",
        ),
        ("what is the state of rule 4", "Buckets, state: proposed."),
        ("who wrote rule-3", "Ropes, author: Mei Lin, Ines Roth, Sam Ode."),
        ("when was rule 5 created", "Oars, created: 2024-02-02."),
    ],
)
def test_figures_and_cells_are_exact(text: str, answer: str) -> None:
    assert asked(text)["answer"] == answer


def test_a_text_about_a_numbered_document_is_searched_for_in_it() -> None:
    reply = asked("who brings rule 2 back when rowing")
    assert (reply["strategy"], [row["doc_id"] for row in reply["results"]]) == ("Hybrid", ["rule-2.md"])


def test_documents_that_are_compared_by_their_numbers_are_searched_together() -> None:
    reply = asked("does rule 4 say more of rowing than rule 3")
    assert {row["doc_id"] for row in reply["results"]} == {"rule-3.md", "rule-4.md"}


def test_documents_are_called_by_the_field_that_numbers_their_files() -> None:
    fields = {name: {"type": "keyword", "filterable": True} for name in ("state", "norm")}
    collection = Collection.model_validate({"name": "kb", "fields": fields})
    values = {"norm": [("0001", 1), ("0002", 1), ("0003", 1)], "state": [("open", 3)]}
    numbered = Vocabulary.of(collection, values.__getitem__, ["0001-lamps.md", "0002-keys.md", "0003-oars.md"])
    assert numbered.noun == "norm"
    assert Vocabulary.of(collection, values.__getitem__, ["lamps.md", "keys.md", "oars.md"]).noun == ""
    assert Vocabulary.of(collection, values.__getitem__, ["7-lamps.md", "8-keys.md", "9-oars.md"]).noun == ""


def test_several_values_in_one_text_are_parted_where_the_documents_show_it() -> None:
    fields = json.loads((house().root / "collections" / "kb.json").read_text("utf-8"))["fields"]
    assert {name: field.get("separator") for name, field in fields.items() if "filterable" in field} == {
        **dict.fromkeys(FIELDS),
        "author": ",",
        "needs": ",",
    }
