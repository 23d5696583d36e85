"""Tables whose rows are texts: a document of each row, in step with its table."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import openpyxl
import pytest

from hive_agents.readers import ImportFailure
from hive_agents.readers.conversion import convert_bytes, rows_in
from hive_agents.readers.rows import rows_as_markdown, rows_of_texts
from hive_agents.sync import ImportReport, examine_documents
from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace

HEAD = ["question", "answer", "answer_html", "country"]
LEAVE = ["How long is leave?", "Thirty days in each year.", "<p>Thirty days in <b>each</b> year.</p>", "NO"]
LAMP = ["Who mends a lamp?", "<p>The caretaker:</p><ul><li>call them</li><li>or write &amp; wait</li></ul>", "", ""]
KEYS = ["Where are the keys?", "In the box beside the door.", "", "DE"]


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "collections").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


def table(*rows: list[str], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue().encode()


def sync(place: Workspace, source: Path, data: bytes | None = None, *, delete: bool = False) -> ImportReport:
    if data is not None:
        source.write_bytes(data)
    return import_documents(place, source, may_delete=lambda gone, everything: delete)


def documents(place: Workspace) -> dict[str, str]:
    found = sorted(place.documents.rglob("*.md"))
    return {path.relative_to(place.documents).as_posix(): path.read_text(encoding="utf-8") for path in found}


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "xlsx"])
def test_each_row_of_a_table_of_texts_is_a_document(place: Workspace, tmp_path: Path, kind: str) -> None:
    records = [dict(zip(HEAD, row, strict=True)) for row in (LEAVE, LAMP, KEYS)]
    book = openpyxl.Workbook()
    for row in (HEAD, LEAVE, LAMP, KEYS):
        book.active.append(row)
    packed = io.BytesIO()
    book.save(packed)
    content = {
        "csv": table(HEAD, LEAVE, LAMP, KEYS),
        "tsv": table(HEAD, LEAVE, LAMP, KEYS, delimiter="\t"),
        "jsonl": "\n".join(json.dumps(record) for record in records).encode(),
        "json": json.dumps(records).encode(),
        "xlsx": packed.getvalue(),
    }
    sync(place, tmp_path / f"FAQ.{kind}", content[kind])
    front = "---\ntitle: {}\n{}source_file: FAQ." + kind + "\n---\n\n"
    assert documents(place) == {
        "faq/how-long-is-leave.md": front.format("How long is leave?", "country: 'NO'\n")
        + "# How long is leave?\n\nThirty days in each year.\n\ncountry: NO\n",
        "faq/where-are-the-keys.md": front.format("Where are the keys?", "country: DE\n")
        + "# Where are the keys?\n\nIn the box beside the door.\n\ncountry: DE\n",
        "faq/who-mends-a-lamp.md": front.format("Who mends a lamp?", "")
        + "# Who mends a lamp?\n\nThe caretaker:\n\n- call them\n- or write & wait\n",
    }


def test_the_sheets_of_a_workbook_are_read_so_where_all_hold_texts(place: Workspace, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for name, rows in {"House": (HEAD, LEAVE, KEYS), "Work": (HEAD, LEAVE, LAMP)}.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(tmp_path / "faq.xlsx")
    sync(place, tmp_path / "faq.xlsx")
    shown = documents(place)
    assert len(shown) == 4
    assert "\ncountry: NO; sheet: House\n" in shown["faq/how-long-is-leave.md"]
    assert "\ncountry: NO; sheet: Work\n" in shown["faq/how-long-is-leave-2.md"]
    book["Work"].delete_cols(2, 2)
    book.save(tmp_path / "faq.xlsx")
    assert convert_bytes("faq.xlsx", (tmp_path / "faq.xlsx").read_bytes()).markdown.count("## ") == 2
    assert sync(place, tmp_path / "faq.xlsx").added == ["faq.md"]


def test_documents_of_rows_follow_their_table(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "faq.csv"
    assert len(sync(place, source, table(HEAD, LEAVE, KEYS)).added) == 2
    assert sync(place, source).unchanged == 2
    more = sync(place, source, table(HEAD, LAMP, [*LEAVE[:1], "Forty days in each year.", "", "NO"], KEYS))
    assert (more.added, more.changed, more.unchanged) == (["faq/who-mends-a-lamp.md"], ["faq/how-long-is-leave.md"], 1)
    assert "Forty" in documents(place)["faq/how-long-is-leave.md"]
    fewer = sync(place, source, table(HEAD, LAMP, LEAVE))
    assert fewer.gone == ["faq/where-are-the-keys.md"]
    assert sync(place, source, delete=True).deleted == ["faq/where-are-the-keys.md"]


def test_a_row_edited_by_hand_stays_as_it_was_left(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "faq.csv"
    sync(place, source, table(HEAD, LEAVE, KEYS))
    edited = place.documents / "faq" / "where-are-the-keys.md"
    edited.write_text("In my pocket.\n")
    assert sync(place, source).kept == ["faq/where-are-the-keys.md"]
    assert edited.read_text() == "In my pocket.\n"


def test_a_row_with_an_id_keeps_its_document_when_its_title_changes(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "tickets.jsonl"
    rows = [{"id": number, "title": f"Lamp {number}", "body": "It is out since Monday."} for number in (7, 8)]
    sync(place, source, "\n".join(map(json.dumps, rows)).encode())
    rows[0]["title"] = "Lamp of the stairs"
    report = sync(place, source, "\n".join(map(json.dumps, rows)).encode())
    assert (report.changed, report.added, report.gone) == (["tickets/lamp-7.md"], [], [])
    assert "title: Lamp of the stairs\n" in documents(place)["tickets/lamp-7.md"]


def test_a_table_that_cannot_be_read_deletes_nothing(place: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "faq.jsonl"
    rows = [dict(zip(HEAD, row, strict=True)) for row in (LEAVE, KEYS)]
    sync(place, source, "\n".join(map(json.dumps, rows)).encode())
    report = sync(place, source, b"{broken", delete=True)
    assert report.skipped == [{"file": str(source), "message": "line 1 is no JSON object"}]
    assert (report.deleted, report.gone, len(documents(place))) == ([], [], 2)


def test_rows_of_one_title_are_documents_of_their_own(place: Workspace, tmp_path: Path) -> None:
    other = [LEAVE[0], "Ask the office about it.", "", "SE"]
    sync(place, tmp_path / "faq.csv", table(HEAD, LEAVE, KEYS, other))
    assert "Ask the office" in documents(place)["faq/how-long-is-leave-2.md"]


def test_a_title_with_dots_and_slashes_is_one_name(place: Workspace, tmp_path: Path) -> None:
    row = ["Is v1.2 and/or ../v1.3.md read?", "Both of them are read.", "", ""]
    sync(place, tmp_path / "faq.csv", table(HEAD, row, KEYS))
    assert "faq/is-v1-2-and-or-v1-3-md-read.md" in documents(place)


def test_several_texts_of_a_row_stand_below_the_names_of_their_columns(place: Workspace, tmp_path: Path) -> None:
    head = ["sku", "name", "description", "care", "price"]
    rows = [
        ["007", "Kettle", "It boils a litre of water.", "Rinse it with vinegar once a month, and dry it well.", "3.10"],
        ["008", "Pan", "It fries two eggs at a time.", "Never put it into a machine, and oil it before use.", "12.00"],
    ]
    sync(place, tmp_path / "goods.csv", table(head, *rows))
    assert documents(place)["goods/kettle.md"].endswith(
        "\n# Kettle\n\nIt boils a litre of water.\n\nsku: 007; price: 3.10\n\n"
        "## care\n\nRinse it with vinegar once a month, and dry it well.\n"
    )


def test_a_row_without_a_title_is_called_by_its_text(place: Workspace, tmp_path: Path) -> None:
    quotes = [
        {"quote": f"The {what} of this house has never been out of order.", "by": ""} for what in ("lift", "lamp")
    ]
    sync(place, tmp_path / "said.json", json.dumps(quotes).encode())
    said = "The lift of this house has never been out of order."
    assert documents(place)["said/the-lift-of-this-house-has-never-been-out-of-order.md"].endswith(f"\n{said}\n")


def test_an_export_with_empty_columns_and_several_of_one_name_has_rows_of_texts(
    place: Workspace, tmp_path: Path
) -> None:
    head = ["Summary", "Issue key", "", "Labels", "Labels", "Description", "Parent"]
    rows = [
        ["The lift is stuck", "HOUSE-7", "", "lift", "urgent", "It stands between two floors since Monday.", ""],
        ["A lamp is out", "HOUSE-8", "", "lamp", "", "It is the one above the stairs of the cellar.", ""],
    ]
    sync(place, tmp_path / "issues.csv", table(head, *rows))
    assert documents(place)["issues/the-lift-is-stuck.md"].endswith(
        "\nIt stands between two floors since Monday.\n\nIssue key: HOUSE-7; Labels: lift; Labels: urgent\n"
    )
    rows[0][0] = "The lift is stuck again"
    assert sync(place, tmp_path / "issues.csv", table(head, *rows)).changed == ["issues/the-lift-is-stuck.md"]


def test_text_of_a_cell_is_no_markdown(place: Workspace, tmp_path: Path) -> None:
    row = ["What is this?", "# of lamps: *two* {{< x >}} and __three__ keys", "", ""]
    sync(place, tmp_path / "faq.csv", table(HEAD, row, KEYS))
    body = documents(place)["faq/what-is-this.md"]
    assert "\n\\# of lamps: \\*two\\* {{< x >}} and \\_\\_three\\_\\_ keys\n" in body


@pytest.mark.parametrize(
    "rows",
    [
        [["Name", "Price"], ["Bolt", "0.20"], ["Nut", "0.10"]],
        [["2024", "May I have a key to the cellar of the house?"], ["2025", "Not before the lamp there is mended."]],
        [HEAD, LEAVE],
    ],
)
def test_a_table_of_values_stays_one_document(place: Workspace, tmp_path: Path, rows: list[list[str]]) -> None:
    sync(place, tmp_path / "list.csv", table(*rows))
    assert list(documents(place)) == ["list.md"]


def test_each_part_of_a_long_table_has_its_head() -> None:
    rows = [[f"Bolt {number}", f"{number}.50"] for number in range(200)]
    parts = convert_bytes("list.csv", table(["Name", "Price"], *rows)).markdown.strip().split("\n\n")
    assert len(parts) > 2
    assert all(part.startswith("| Name | Price |\n| --- | --- |\n| Bolt ") for part in parts)
    assert sum(part.count("| Bolt ") for part in parts) == 200


def test_a_list_of_records_may_stand_in_an_object() -> None:
    rows = [
        {"id": f"B-{n}", "kind": "boat" if n % 2 else "oar", "used_by": ["Mei", "Sam"][: 1 + n % 2]} for n in range(9)
    ]
    found = rows_in("fleet.json", json.dumps({"count": 9, "fleet": rows}).encode())
    assert found is not None
    assert (found[1].key, found[1].fields) == ("b-1", {"id": "B-1", "kind": "boat", "used_by": "Mei, Sam"})
    with pytest.raises(ImportFailure):
        convert_bytes("two.json", json.dumps({"fleet": rows, "crews": rows}).encode())


@pytest.mark.parametrize(
    "content", ['{"a": "some words of a text"}', '[{"a": 1, "b": 2}, {"a": 3, "b": 4}]', "[1", "[]"]
)
def test_json_that_is_no_list_of_texts_is_no_document(content: str) -> None:
    with pytest.raises(ImportFailure, match=r"^\.json without a list of texts: not a supported kind of file$"):
        convert_bytes("package.json", content.encode())


def test_values_inside_a_record_keep_their_names() -> None:
    lines = [{"a": {"b": 3.10, "c": None}, "d": ["x", "y"], "e": [1, True]}, {"f": False}]
    shown = convert_bytes("a.jsonl", "\n".join(map(json.dumps, lines)).replace("3.1", "3.10").encode()).markdown
    assert (
        shown
        == '| a.b | d | e | f |\n| --- | --- | --- | --- |\n| 3.10 | x, y | ["1", true] |  |\n|  |  |  | false |\n'
    )


def test_rows_are_not_behind_the_table_that_they_came_from(place: Workspace, tmp_path: Path) -> None:
    sync(place, tmp_path / "faq.csv", table(HEAD, LEAVE, KEYS))
    assert [finding.name for finding in examine_documents(place)] == ["documents"]
    (tmp_path / "faq.csv").unlink()
    assert [finding.name for finding in examine_documents(place)] == ["stale"]


def test_many_rows_of_one_title_have_names_of_their_own() -> None:
    same = [["May I?", f"Ask person {number} first.", "", ""] for number in range(100)]
    others = [[f"May I do {number}?", "Ask somebody first.", "", ""] for number in range(150)]
    rows = rows_in("faq.csv", table(HEAD, *same, ["May I?-7", "No, never.", "", ""], *others))
    assert rows is not None
    assert len({row.key for row in rows}) == len({row.name for row in rows}) == 251
    assert [row.name for row in rows[:2]] == ["may-i?", "may-i?-2"]


def test_a_cell_may_hold_an_article(place: Workspace, tmp_path: Path) -> None:
    article = "The lamp is mended by the caretaker. " * 5000
    sync(place, tmp_path / "faq.csv", table(HEAD, ["Who mends a lamp?", article, "", ""], KEYS))
    assert article.strip() in documents(place)["faq/who-mends-a-lamp.md"]


def test_records_that_have_no_names_in_common_are_a_data_set() -> None:
    lines = "\n".join(json.dumps({f"name {number}": "some words"}) for number in range(1000))
    with pytest.raises(ImportFailure, match="over 500,000 cells"):
        rows_in("a.jsonl", lines.encode())


@pytest.mark.parametrize("sign", ["\\u0000", "\\ud83d"], ids=["NUL", "half of an emoji"])
def test_a_sign_that_no_text_may_hold_costs_no_row(place: Workspace, tmp_path: Path, sign: str) -> None:
    rows = [f'{{"question": "How about {n}{sign}?", "answer": "Say {n}, then {sign} stop."}}' for n in range(3)]
    report = sync(place, tmp_path / "faq.jsonl", "\n".join(rows).encode())
    assert (len(report.imported), report.skipped) == (3, [])
    assert "\ufffd" in (place.documents / report.imported[0]).read_text(encoding="utf-8")


TICKETS = [
    ["id", "title", "status", "customer", "opened", "hours", "view"],
    ["T-1", "Printer jams", "open", "Mole Ltd", "2024-05-01", "2", "group:qa"],
    ["T-2", "Door stuck", "closed", "Fox AG", "2024-05-02", "11", "tenant"],
    ["T-3", "Lamp is out", "open", "Mole Ltd", "2024-06-01", "3", "tenant"],
    ["T-4", "No heating", "open", "Fox AG", "2024-06-03", "1", "tenant"],
]


def test_tickets_without_a_text_are_documents_with_typed_fields(place: Workspace, tmp_path: Path) -> None:
    report = sync(place, tmp_path / "tickets.csv", table(*TICKETS))
    assert len(report.imported) == 4
    assert documents(place)["tickets/printer-jams.md"] == (
        "---\ntitle: Printer jams\nid: T-1\nstatus: open\ncustomer: Mole Ltd\nopened: '2024-05-01'\nhours: 2\n"
        "column_view: group:qa\nsource_file: tickets.csv\n---\n\n# Printer jams\n\n"
        "id: T-1; status: open; customer: Mole Ltd; opened: 2024-05-01; hours: 2; view: group:qa\n"
    )
    assert report.front_matter[1]["hours"] == 11


def test_what_a_workbook_of_rows_hides_is_counted(place: Workspace, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in [*TICKETS, ["T-5", "Roof leaks", "closed", "Fox AG", "2024-06-04", "4", ""]]:
        book.active.append(row)
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "tickets.xlsx")
    report = sync(place, tmp_path / "tickets.xlsx")
    assert len(report.imported) == 4
    assert [(entry["kind"], entry["count"]) for entry in report.left_out] == [("hidden rows", 1)]
    [found] = examine_documents(place)
    assert (found.name, found.status, found.message) == ("left-out", "ok", "readers left out 1 hidden rows")


def test_a_column_never_says_who_may_view_a_row(place: Workspace, tmp_path: Path) -> None:
    import_documents(place, write(tmp_path / "tickets.csv", table(*TICKETS)), metadata={"view": ["group:hr"]})
    for text in documents(place).values():
        assert "\nview:\n- group:hr\n" in text


def test_the_columns_of_a_table_are_offered_and_declared(place: Workspace, tmp_path: Path) -> None:
    from tests.sample import hive

    (place.root / "collections" / "kb.json").write_text('{"name": "kb", "fields": {"title": {"type": "text"}}}')
    write(tmp_path / "tickets.csv", table(*TICKETS))
    ran = hive("import", str(tmp_path / "tickets.csv"), "-w", str(place.root), "--json")
    offered = json.loads(ran.out)["fields"]
    types = {field["name"]: field["type"] for field in offered}
    assert (types["status"], types["opened"], types["hours"]) == ("keyword", "date", "number")
    assert {"name": "status", "type": "keyword", "values": ["open", "closed"]} in offered
    hive("import", "-w", str(place.root), "--json", "--declare")
    fields = json.loads((place.root / "collections" / "kb.json").read_text())["fields"]
    assert fields["status"] == {"type": "keyword", "filterable": True}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_tickets_that_say_little_are_a_document_each() -> None:
    rows = [["Ticket", "Customer", "Status", "Summary"]]
    rows += [
        [f"BK-{n}", ("Pine", "Orchard")[n % 2], ("open", "closed")[n % 3 == 0], f"Cold on floor {n}"] for n in range(9)
    ]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert [row.key for row in documents[:2]] == ["bk-0", "bk-1"]
    assert documents[1].fields["status"] == "open"
    assert documents[1].fields["customer"] == "Orchard"


def test_a_code_in_each_row_is_an_id_whatever_its_column_is_called() -> None:
    rows = [["Part", "Kind", "City", "Stock"]]
    rows += [
        [f"Aldra-{100 + n}", ("pump", "valve")[n % 2], ("Oslo", "Graz", "Lyon")[n % 3], str(n * 7)] for n in range(9)
    ]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert (documents[4].key, documents[4].title) == ("aldra-104", "Aldra-104")
    assert documents[4].fields["city"] == "Graz"


def test_rows_of_texts_are_known_by_their_titles_beside_a_code_of_any_name() -> None:
    rows = [["Question", "Answer", "Source"]]
    rows += [[f"How do I do thing {n}?", "Open the panel and turn the screw all the way.", f"D-{n}"] for n in range(5)]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert documents[0].key == "how-do-i-do-thing-0?"


def test_days_and_measurements_stay_a_table() -> None:
    times = [["Time", "Level"], *([f"2025-03-{n:02}T10:00", ("low", "high")[n % 2]] for n in range(1, 12))]
    assert rows_of_texts(times) is None
    rows = [["Day", "Rain", "Wind"], *([f"2025-03-{n:02}", f"{n}.5", ("low", "high")[n % 2]] for n in range(1, 12))]
    assert rows_of_texts(rows) is None


def test_a_column_named_as_an_id_makes_rows_of_numbers_and_names_documents() -> None:
    rows = [["productID", "productName", "categoryID", "unitPrice"]]
    rows += [[str(n), f"Thing {'abcdefghi'[n]}", str(n % 3), f"{n}.50"] for n in range(9)]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert (documents[4].key, documents[4].title) == ("4", "Thing e")
    assert documents[4].fields["unitprice"] == 4.5
    unnamed = [["place", "productName", "shelf", "unitPrice"], *rows[1:]]
    assert rows_of_texts(unnamed) is None


RIVERS = [
    ("Aar", "Emmland", "west", 288), ("Bolm", "Emmland", "west", 40), ("Cray", "Sund", "east", 912),
    ("Dunn", "Sund", "east", 77), ("Elde", "Sund", "west", 208), ("Fenn", "Toll", "east", 51),
    ("Gisp", "Toll", "east", 13), ("Holm", "Toll", "west", 640), ("Isk", "Emmland", "east", 368),
]  # fmt: skip


@pytest.mark.parametrize("named", ["BKG_NUM", "File No.", "Vessel number"])
def test_a_first_column_of_numbers_that_are_called_so_is_an_id(named: str) -> None:
    rows = [[str(4000 + n), ("bond", "bail")[n % 2], str(n / 2)] for n in range(8)]
    found = rows_of_texts([[named, "Reason", "Sum"], *rows])
    assert found is not None
    assert [row.fields["reason"] for row in found] == [row[1] for row in rows]
    assert rows_of_texts([["Reason", "Sum", named], *([*row[1:], row[0]] for row in rows)]) is None


@pytest.mark.parametrize("named", ["River", "Name"])
def test_things_that_are_known_by_their_names_are_a_document_each(named: str) -> None:
    columns = [named, "Country", "Side", "Length km"]
    order = [0, 1, 2, 3] if named == "River" else [1, 0, 2, 3]
    rows = [[columns[at] for at in order], *([str(river[at]) for at in order] for river in RIVERS)]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert (documents[2].key, documents[2].title) == ("cray", "Cray")
    assert documents[2].fields == {"country": "Sund", "side": "east", "length_km": 912}
    assert rows_of_texts(rows[:7]) is None, "a few rows are read as a whole"
    assert rows_of_texts([row[:2] for row in rows]) is None, "so are pairs"
    twice = [*rows, rows[1]]
    assert rows_of_texts(twice) is None, "a name that comes twice names nothing"
    at = order.index(0)
    more = [[*row[:at], f"{row[at]}{n // 9}", *row[at + 1 :]] for n, row in enumerate(rows[1:] * 3)]
    again = rows_of_texts([rows[0], *more, more[0]])
    assert again is not None, "one of many may come again"
    assert (again[0].key, again[-1].key) == ("aar0", "aar0-2")


def test_a_row_with_an_id_is_titled_by_a_column_whose_name_ends_like_a_title() -> None:
    rows = [["Code", "Town", "Place Name", "Fee"]]
    rows += [[f"MUS{n}", f"Town {'ab'[n % 2]}", f"House of {'abcdefghi'[n]}.", ("yes", "no")[n % 2]] for n in range(9)]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert (documents[3].key, documents[3].title) == ("mus3", "House of d.")


def test_rows_are_titled_by_what_tells_them_apart_and_keep_the_name_of_its_column() -> None:
    rows = [["Code", "Currency Name", "Station Name", "Town", "Fee"]]
    rows += [[f"ST{n}", ("Krone", "Euro")[n // 6], f"Halt {'abcdefghi'[n]}", f"T{n % 2}", "2"] for n in range(9)]
    documents = rows_of_texts(rows)
    assert documents is not None
    assert documents[3].title == "Halt d"
    assert "Station Name: Halt d" in documents[3].markdown
    head = ["River", "Country", "Side", "Length km"]
    rivers = rows_of_texts([head, *([str(cell) for cell in row] for row in RIVERS)])
    assert rivers is not None
    assert rivers[2].markdown == "# Cray\n\nRiver: Cray; Country: Sund; Side: east; Length km: 912\n"


def test_a_table_below_a_title_and_notes_has_its_own_head() -> None:
    """As reports and exports have it: what they are called, then the table, then what was left to say."""
    above = [["Parcels of May", "", "", ""], ["as of", "2024-06-01", "", ""]]
    head = ["Parcel", "Carrier", "Weight", "State"]
    rows = [[f"PX{n}", ("Post", "Ship")[n % 2], str(n), ("lost", "there")[n % 3 == 0]] for n in range(10)]
    below = [["Checked by Ines", "", "", ""]]
    table = [*above, head, *rows, *below]
    found = rows_of_texts(table)
    assert found is not None
    assert [row.fields["state"] for row in found] == [row[3] for row in rows]
    assert found[0].fields == {"carrier": "Post", "weight": 0, "state": "there"}
    assert found[0].left_out == {"lines around a table": 3}
    small = rows_as_markdown([*above, head, *rows[:2], *below])
    assert "| Parcel | Carrier | Weight | State |\n| --- |" in small
    assert small.startswith("Parcels of May\n\nas of 2024-06-01\n\n")
    assert small.endswith("\n\nChecked by Ines")


@pytest.mark.parametrize(
    "rows",
    [
        [["Name", "", "Price"], ["Bolt", "steel", "short"], ["Nut", "tin", "long"]],
        [["", "2022", "2023"], ["Sales", "1", "2"], ["Costs", "3", "4"]],
        [["Bolt", "0.20"], ["Nut", "0.10"]],
    ],
    ids=["an unnamed column", "years", "no head"],
)
def test_a_table_without_a_title_above_it_stays_as_it_is(rows: list[list[str]]) -> None:
    assert rows_as_markdown(rows).startswith(f"| {' | '.join(rows[0])} |\n| --- |")
