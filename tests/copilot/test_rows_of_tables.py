"""Tables whose rows are documents are asked about by the names of their columns and of the table."""

from __future__ import annotations

import datetime

import pytest

from hive_agents.copilot.plan import SearchStrategy, described
from hive_agents.copilot.router import route
from hive_agents.copilot.vocabulary import FieldWords, Vocabulary
from hive_agents.documents.documents import Collection

TODAY = datetime.date(2026, 2, 2)
GOODS = Vocabulary(
    {
        "category": FieldWords("keyword", ("goods",)),
        "categoryid": FieldWords("number"),
        "supplierid": FieldWords("number"),
        "unitprice": FieldWords("number"),
        "unitsinstock": FieldWords("number"),
        "packed": FieldWords("keyword", ("tin", "glass")),
    },
    noun="good",
)
HOSTS = Vocabulary(
    {
        "os": FieldWords("keyword", ("RHEL 9", "Ubuntu 22.04 LTS")),
        "platform": FieldWords("keyword", ("VMware", "Azure")),
        "issuer": FieldWords("keyword", ("DigiCert", "Amazon")),
        "owner_team": FieldWords("keyword", ("Cloud Operations", "Network")),
        "criticality": FieldWords("keyword", ("Tier 1", "Tier 2")),
        "backup_policy": FieldWords("keyword", ("Gold-4hr", "Bronze-Weekly")),
        "cpu_cores": FieldWords("number"),
        "memory_gb": FieldWords("number"),
        "storage_gb": FieldWords("number"),
        "resolution_minutes": FieldWords("number"),
        "days_remaining": FieldWords("number"),
        "expires_on": FieldWords("date"),
    },
    noun="host",
)

CAVES = Vocabulary(
    {
        "region": FieldWords("keyword", ("Karst", "Tarn")),
        "depth_m": FieldWords("number"),
        "length_km": FieldWords("number"),
        "rise_m": FieldWords("number"),
        "fall_m": FieldWords("number"),
        "winter_temperature": FieldWords("number"),
        "summer_temperature": FieldWords("number"),
    },
    noun="cave",
)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("how many hosts are there", ""),
        ("how many hosts run RHEL 9", "os RHEL 9"),
        ("how many hosts are on VMware", "platform VMware"),
        ("how many hosts are issued by DigiCert", "issuer DigiCert"),
        ("how many hosts does Cloud Operations operate", "owner_team Cloud Operations"),
        ("how many hosts are for the network", "owner_team Network"),
        ("list Tier 1 hosts of Azure", "platform Azure, criticality Tier 1"),
        ("how many hosts have 16 cpu cores", "cpu_cores 16"),
        ("how many hosts have more than 32 GB of memory", "memory_gb after 32"),
        ("which hosts have fewer than 10 days remaining", "days_remaining before 10"),
        ("list hosts with resolution minutes over 400", "resolution_minutes after 400"),
    ],
)
def test_every_word_is_a_column_a_value_or_a_link(text: str, filters: str) -> None:
    decision = route(text, HOSTS, reader="mei", today=TODAY).decision
    assert (decision.strategy, described(decision.filters)) == (SearchStrategy.METADATA_ONLY, filters)


@pytest.mark.parametrize(
    "text",
    [
        "how many hosts are about ransomware",
        "how many ransomware hosts run RHEL 9",
        "hosts on VMware that fail to boot",
        "how do I rename a host",
    ],
)
def test_what_no_column_explains_is_searched_for(text: str) -> None:
    assert route(text, HOSTS, reader="mei", today=TODAY).decision.search_value


@pytest.mark.parametrize(
    ("text", "tally"),
    [
        ("average unit price", "average unitprice"),
        ("total units in stock", "sum unitsinstock"),
        ("goods by category", "count by categoryid"),
        ("how many goods per supplier", "count by supplierid"),
        ("what is the most expensive good", "max unitprice"),
        ("which good is the cheapest", "min unitprice"),
    ],
)
def test_columns_are_known_however_their_words_are_joined(text: str, tally: str) -> None:
    routed = route(text, GOODS, reader="mei", today=TODAY)
    assert routed.tally is not None
    by = f" by {routed.tally.by}" if routed.tally.by else ""
    assert f"{routed.tally.of} {routed.tally.field or ''}".strip() + by == tally
    assert routed.decision.filters == []


@pytest.mark.parametrize(
    ("text", "tally"),
    [
        ("hosts by backup policy", ("count", None, "backup_policy")),
        ("lowest days remaining", ("min", "days_remaining", None)),
        ("which host expires first", ("min", "expires_on", None)),
        ("which host has the most storage", ("max", "storage_gb", None)),
        ("longest resolution time", ("max", "resolution_minutes", None)),
    ],
)
def test_figures_over_columns_of_several_words(text: str, tally: tuple[str, str | None, str | None]) -> None:
    found = route(text, HOSTS, reader="mei", today=TODAY).tally
    assert found is not None
    assert (found.of, found.field, found.by) == tally


def test_a_number_of_a_supplier_filters_what_is_counted() -> None:
    decision = route("how many goods does supplier 7 deliver", GOODS, reader="mei", today=TODAY).decision
    assert (decision.strategy, described(decision.filters)) == (SearchStrategy.METADATA_ONLY, "supplierid 7")


@pytest.mark.parametrize(
    ("doc_ids", "noun"),
    [
        (("tickets/a.md", "tickets/b.md"), "ticket"),
        (("desk/tickets/a.md",), "ticket"),
        (("tickets/a.md", "faqs/b.md"), ""),
        (("security/a.md",), ""),
        (("a.md",), ""),
        ((), ""),
    ],
)
def test_documents_are_called_like_the_one_folder_that_holds_them(doc_ids: tuple[str, ...], noun: str) -> None:
    collection = Collection.model_validate({"name": "kb", "fields": {}})
    assert Vocabulary.of(collection, lambda field: [], doc_ids).noun == noun


def test_an_identifier_is_not_cut_at_a_word_of_grammar() -> None:
    decision = route("list documents about is_file.open_db", Vocabulary({}), reader="mei", today=TODAY).decision
    assert decision.search_value == "is_file.open_db"


@pytest.mark.parametrize(
    "text", ["goods", "list goods", "which goods are there", "only goods", "what goods do we have", "latest goods"]
)
def test_what_the_folder_calls_them_alone_lists_them(text: str) -> None:
    decision = route(text, GOODS, reader="mei", today=TODAY).decision
    assert (decision.strategy, decision.filters) == (SearchStrategy.METADATA_ONLY, [])


@pytest.mark.parametrize(
    ("text", "tally"),
    [
        ("which cave is the deepest", ("max", "depth_m")),
        ("the shallowest cave in Tarn", ("min", "depth_m")),
        ("what are the longest caves?", ("max", "length_km")),
        ("the warmest cave", None),
        ("which cave is the highest", None),
        ("what is the deepest way to understand caves", None),
    ],
    ids=["deepest", "shallowest", "longest", "of two columns", "of no column", "of a word that no column explains"],
)
def test_an_adjective_asks_for_the_extreme_of_the_one_column_that_holds_it(
    text: str, tally: tuple[str, str] | None
) -> None:
    found = route(text, CAVES, reader="mei", today=TODAY)
    measured = (found.tally.of, found.tally.field) if found.tally is not None else None
    assert measured == tally
