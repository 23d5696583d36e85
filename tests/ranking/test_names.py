"""Names of a query: the lift, tables by their rows, silence, and indexes of an older analyzer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.access import owner
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import search
from hive_agents.index import indexing
from hive_agents.ranking import build_index
from hive_agents.ranking.config import parse_config
from hive_agents.ranking.lift import lift_weight, name_shares
from hive_agents.ranking.silence import floor_of, has_half, is_foreign
from tests.conftest import config_json, make_workspace, write_document

Known = tuple[Workspace, dict[str, str]]

PRODUCTS = ("mail gateway", "web proxy", "print server", "file share", "login portal", "backup agent")
WORDINGS = ("{}", "what is {}", "tell me about {} please")
HYBRID = config_json("a", "hybrid")
TABLE = "| Name | Pressure | Site |\n|---|---|---|\n"


def advisories(folder: Path, count: int = 18) -> Known:
    """Return an indexed workspace of look-alikes, and the document of each identifier."""
    workspace = make_workspace(folder, documents={})
    identifiers = {f"CVE-2024-{1000 + 7 * n}": f"cve{n}.md" for n in range(count)}
    for n, (identifier, doc_id) in enumerate(identifiers.items()):
        product = PRODUCTS[n % len(PRODUCTS)]
        text = f"{identifier} lets attackers stop the {product}. Install the update, then restart and read the logs."
        write_document(workspace, doc_id, f"# Security advisory for the {product}\n\n{text}\n")
    workspace.index()
    return workspace, identifiers


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return advisories(tmp_path_factory.mktemp("known") / "kb")


def first(workspace: Workspace, query: str, config: Any = HYBRID) -> str | None:
    hits = workspace.engine().search(query, config).hits
    return hits[0].doc_id if hits else None


def test_the_document_with_the_identifier_is_first_in_any_wording(known: Known) -> None:
    workspace, identifiers = known
    for identifier, doc_id in identifiers.items():
        assert {first(workspace, wording.format(identifier)) for wording in WORDINGS} == {doc_id}


def test_it_is_first_among_thousands_of_passages_that_are_nearer_by_meaning(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(60):
        text = f"Please tell your operators about CVE-{2010 + n % 12}-{1000 + 7 * n}, which stops the gateway."
        write_document(workspace, f"cve{n}.md", f"# Advisory on CVE-{2010 + n % 12}\n\n{text}\n")
    recipe = "Peel the potatoes, cut them into slices and fry them slowly in oil. " * 12
    write_document(workspace, "recipe.md", f"# Potatoes\n\n{recipe}\n\naliases: CVE-2013-9999\n")
    workspace.index()
    few = HYBRID | {"retrieval": {"method": "hybrid", "top_k": 5, "candidates": 20}}
    assert {first(workspace, wording.format("CVE-2013-9999"), few) for wording in WORDINGS} == {"recipe.md"}


def test_the_only_word_of_content_is_a_name_whatever_is_said_around_it(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(40):
        write_document(workspace, f"page{n}.md", f"# Page {n}\n\nIt returns a code, which the caller may ignore.\n")
    options = "| option | what it does |\n|---|---|\n| stopwhenempty | ends early |\n| ignorereturncode | goes on |\n"
    write_document(workspace, "options.md", f"# Colours\n\n{options}")
    write_document(workspace, "please.md", "# Letters\n\nPlease tell me about it.\n")
    workspace.index()
    few = HYBRID | {"retrieval": {"method": "hybrid", "top_k": 5, "candidates": 5}}
    assert {first(workspace, wording.format("ignorereturncode"), few) for wording in WORDINGS} == {"options.md"}


def test_the_factor_grows_with_the_names_share_of_the_content(known: Known) -> None:
    workspace, _ = known
    engine = workspace.engine()
    query = "restart the zzyzx after CVE-2024-1007"
    lifted, plain = (
        {hit.doc_id: hit.score for hit in engine.search(query, HYBRID | {"lift": {"weight": weight}}).hits}
        for weight in (1.0, 0.0)
    )
    index = engine.index("kb")
    shares = name_shares(index, query, index.chunks_of("cve1.md"))
    assert lifted["cve1.md"] == pytest.approx(plain["cve1.md"] * (1 + shares[0]))
    assert 0 < shares[0] < 2 * (1 + 2)  # at most each of its terms twice


def test_lanes_by_themselves_are_not_lifted(known: Known) -> None:
    workspace, _ = known
    for method in ("keyword", "vector"):
        lists = [
            workspace.engine().search("CVE-2024-1007", config_json("a", method, lift={"weight": weight})).to_json()
            for weight in (0.0, 5.0)
        ]
        assert lists[0] == lists[1]


def test_a_row_far_down_a_table_is_found_with_its_head(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    rows = "".join(f"| KX{n} | {3000 + 7 * n} bar | Plant {n % 7} |\n" for n in range(120))
    write_document(workspace, "t.md", f"# List of codes\n\n{TABLE}{rows}")
    write_document(workspace, "other.md", "# Pressure\n\nThe pressure of a tyre is told by its maker.\n")
    workspace.index()
    hit = workspace.engine().search("what is the pressure of KX97", HYBRID).hits[0]
    assert TABLE in hit.text
    assert "| KX97 | 3679 bar |" in hit.text
    assert "KX97" in hit.excerpt


def test_the_rows_put_together_are_the_document(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    body = f"# List\n\n{TABLE}" + "".join(f"| KX{n} | {n} bar | Plant |\n" for n in range(120))
    write_document(workspace, "t.md", body)
    workspace.index()
    index = workspace.engine().index("kb")
    rows = index.rows(index.chunks_of("t.md").tolist())
    assert len(rows) > 1
    assert "".join(row.in_document for row in rows) == body
    assert all(row.text.startswith(TABLE) for row in rows[1:])


def test_a_word_in_camel_case_is_a_name_whatever_its_parts_are(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(12):
        text = "The status code tells why a request was rejected. Reject it with a code, and log the status."
        write_document(workspace, f"status{n}.md", f"# Status code {n}\n\n{text}\n")
    for n in range(40):
        write_document(workspace, f"other{n}.md", f"# Page {n}\n\nThis page tells something else.\n")
    options = "An option of the list.\n" * 30
    write_document(workspace, "options.md", f"# Options\n\n{options}`rejectStatusCode`: 403\n")
    workspace.index()
    assert {first(workspace, wording.format("rejectStatusCode")) for wording in WORDINGS} == {"options.md"}


def test_an_option_is_a_name_whatever_its_word_is(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(20):
        write_document(workspace, f"code{n}.md", f"# Code {n}\n\nThe code of a page, and what this code returns.\n")
    write_document(workspace, "runner.md", f"# Runner\n\n{'It runs a state test. ' * 30}\n\n| `--code` | hex |\n")
    workspace.index()
    assert {first(workspace, wording.format("--code")) for wording in WORDINGS} == {"runner.md"}


def test_a_row_or_an_entry_about_a_name_is_before_those_that_mention_it(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(8):
        text = "A client that sends commands without end is stopped by the count limit, see post_count_limit."
        write_document(workspace, f"guide{n}.md", f"# Count limit of commands {n}\n\n{text} The keyno is then told.\n")
    other = "".join(f"**other_setting_{n} (default: {n})**\n\nWhat the server does with mails.\n\n" for n in range(9))
    write_document(
        workspace, "manual.md", f"# All settings\n\n{other}**post_count_limit (default: 20)**\n\nA number.\n"
    )
    rows = "".join(f"| field{n} | text |\n" for n in range(9))
    write_document(workspace, "fields.md", f"# Formats\n\n| Field | Kind |\n|---|---|\n{rows}| keyno | number |\n")
    workspace.index()
    assert {first(workspace, wording.format("post_count_limit")) for wording in WORDINGS} == {"manual.md"}
    assert {first(workspace, asked) for asked in ("keyno", "keyno kind", "what is the kind of keyno")} == {"fields.md"}


SILENT = HYBRID | {"abstain": {"enabled": True}}


def test_nothing_is_said_only_where_nothing_is_near(known: Known) -> None:
    workspace, _ = known
    ask = workspace.engine().search
    nonsense = ask("lyrics yesterday beatles", SILENT)
    assert (nonsense.hits, nonsense.cut.reason) == ([], "abstain")
    assert ask("CVE-2024-1007 lyrics", SILENT).hits
    assert ask("Wie kann man den Dienst wieder starten?", SILENT).hits


def test_an_option_that_stands_in_a_document_is_never_not_found(tmp_path: Path) -> None:
    place = Workspace(init_workspace(tmp_path / "kb", empty=True))
    with (place.root / "hive.toml").open("a") as settings:
        settings.write("\n[copilot]\nrelevance_floor.cosine = 0.6\n")
    recipe = "Peel the potatoes, cut them into slices and fry them slowly in oil. " * 12
    write_document(place, "recipe.md", f"# Potatoes\n\n{recipe}\n\n`printSummaryOfAll`: off\n")
    for n in range(30):
        write_document(place, f"print{n}.md", f"# Printer {n}\n\nPrint the summary of page {n}.\n")
    place.index()
    for wording in ("{}", "what is {}", "lyrics yesterday beatles qwerty {}"):
        asked = wording.format("printSummaryOfAll")
        results = asyncio.run(search(place, owner(), asked)).results
        assert [result["doc_id"] for result in results[:1]] == ["recipe.md"], asked


def test_a_query_in_another_language_is_known_by_its_words(known: Known) -> None:
    index = known[0].engine().index("kb")
    assert is_foreign(index, "Comment redémarrer le service de messagerie ?")
    assert is_foreign(index, "¿Puedo abrir el mail gateway server?")
    assert not is_foreign(index, "restart the mail gateway")
    assert is_foreign(index, "Was passiert, wenn das Limit überschritten wird?")
    assert is_foreign(index, "¿Qué temperatura necesita el tampón?")
    assert not is_foreign(index, "xylophone quartz")
    assert not is_foreign(index, "kubernetes ingress controller certificates")
    assert not is_foreign(index, "who won the world cup in 1998")


def test_a_text_without_title_and_heading_is_found_by_the_name_of_its_file(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for name in ("sunion", "sdiff", "sinter"):
        text = f"Stores what {name} finds. A key that is no set is refused.\n"
        write_document(workspace, f"commands/{name}.md", text)
    write_document(workspace, "commands/sadd.md", "Add the members to the set that is stored at the key.\n")
    write_document(workspace, "commands/README.md", "What is said of all of them.\n")
    workspace.index()
    assert {first(workspace, wording.format("sadd")) for wording in WORDINGS} == {"commands/sadd.md"}
    assert first(workspace, "commands") == "commands/README.md"


def test_the_floor_is_that_of_what_the_reader_may_view(known: Known, tmp_path: Path) -> None:
    workspace, _ = known
    index = workspace.engine().index("kb")
    visible = np.array([doc_id.startswith("cve1") for doc_id in index.doc_ids()])
    alone = make_workspace(tmp_path / "alone", documents={})
    for doc_id in np.array(index.doc_ids())[visible].tolist():
        write_document(alone, doc_id, (workspace.documents / doc_id).read_text())
    alone.index()
    assert floor_of(index.within(visible)) == floor_of(alone.engine().index("kb"))
    assert floor_of(index.within(visible)) != floor_of(index)
    assert floor_of(index.within(visible & (np.cumsum(visible) == 1))) == 0.3


def test_an_index_of_the_older_analyzer_serves_as_it_did_until_the_new_one_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(indexing.analysis, "exact", lambda language: language)
        older.setattr(indexing, "_has_deployed", lambda workspace: True)
        workspace, _ = advisories(tmp_path)
    monkeypatch.setattr(indexing, "_has_deployed", lambda workspace: True)
    before = workspace.engine().search("CVE-2024-1007", HYBRID).to_json()
    assert before == workspace.engine().search("CVE-2024-1007", HYBRID | {"lift": {"weight": 0.0}}).to_json()
    write_document(workspace, "new.md", "# New\n\nA page about the café.\n")
    report = build_index(workspace)
    assert (report.waiting, report.added) == (["kb"], 1)
    index = workspace.engine().index("kb")
    assert index.language == "english"
    assert index.frequencies(["café", "cafe"]) == [1, 0]
    build_index(workspace, accept=True)
    assert workspace.engine().index("kb").language == "english+"
    assert first(workspace, "cafe") == "new.md"


@pytest.mark.parametrize(
    ("lift", "weight"),
    [
        ({}, (0.0, 1.0)),
        ({"enabled": True}, (1.0, 1.0)),
        ({"enabled": True, "weight": 0.5}, (0.5, 0.5)),
        ({"enabled": False}, (0.0, 0.0)),
        ({"enabled": False, "weight": 2.0}, (0.0, 0.0)),
        ({"weight": 2.0}, (2.0, 2.0)),
    ],
)
def test_a_lift_is_switched_by_name_and_by_weight(lift: dict[str, Any], weight: tuple[float, float]) -> None:
    config = parse_config(json.dumps(HYBRID | {"lift": lift}), "a.json").config
    assert (lift_weight(config, "english"), lift_weight(config, "english+")) == weight


def test_a_weight_is_a_number_from_0_to_10() -> None:
    assert parse_config(json.dumps(HYBRID | {"lift": {"weight": 3}}), "a.json").config.lift.weight == 3


def test_a_name_far_down_the_keyword_lane_is_not_nothing(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, documents={})
    for n in range(30):
        write_document(workspace, f"tell{n}.md", f"# Tell me please {n}\n\nTell me about it, please tell me.\n")
    write_document(workspace, "colours.md", "# Colours\n\nThe colour of the page is F5F7FB.\n")
    workspace.index()
    index = workspace.engine().index("kb")
    assert has_half(index, "tell me about F5F7FB please", index.chunks_of("tell1.md"))
    assert not has_half(index, "tell me about F5F7FC please", index.chunks_of("tell1.md"))
