"""Tables whose rows are texts, such as questions with answers: each row becomes a document."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from hive_agents.readers.from_text import text_as_markdown
from hive_agents.readers.html_in_markdown import without_tags
from hive_agents.readers.imported import ImportFailure, TableRow
from hive_agents.readers.markdown import escape, plain_lines, table

MAX_CELLS = 500_000
_MOST_SIGNS = 50_000_000
MOST_ROWS = 20_000
_WORDS, _NAMED_WORDS = 8, 3
"""Minimal median of words in a column of texts; in one with a name from _TEXTS."""
_TITLES = """question title subject headline heading summary topic term name product frage titel betreff thema begriff
bezeichnung titre sujet nom produit pregunta asunto título nombre producto nome prodotto""".split()
_TEXTS = """answer reply response body content text description details message comment antwort inhalt beschreibung
nachricht kommentar réponse contenu respuesta contenido descripción risposta""".split()
_IDS = frozenset(
    """id key uid uuid guid slug sku code number nr no issue_key issue_id ticket_id article_id product_id item_id
    case_id order_id incident_id request_id task_id ticket case order invoice incident issue request task reference ref
    ticket_no ticket_number case_number order_no order_number invoice_no invoice_number""".split()
)
_IDS_END = re.compile(r"(?:[a-z](?=[A-Z])|[\W_])(?:id|ID|Id|uuid|UUID)$")
"""The end of the name of a column of ids: `productID`, `customer_id`, `Order ID`."""
_NUMBERS_END = re.compile(r"[\W_](?:num|nr|no|number)\W*$", re.I)
"""The same of a first column: `BKG_NUM`, `File No.`."""
_LAST_WORD = re.compile(r"^.*(?:[\W_]|(?<=[a-z])(?=[A-Z]))")
"""All but the last word of a column's name: `Place Name`, `productName`."""
_NOT_FROM_TABLES = frozenset({"title", "content", "tenant", "view", "source_file"})
_VERSIONS = re.compile(r"version|release|edition|section|chapter|clause|python|firmware", re.I)
_MANY_WHOLE = 4
"""Whole parts that amounts with unlike many decimals have at least; versions have few."""
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,17})?(?:[eE][-+]?\d{1,2})?")
_MEASURE = re.compile(r"-|\d[eE]|\.0\d|\.\d{4}")
"""What stands in no version: a sign, an exponent, 0.05, 1.7843."""
_CODE = re.compile(r"(?=\S*[^\W\d_])(?=\S*\d)(?!\S+://|\S+@)\S{2,40}")
_DAY = re.compile(
    r"(?P<y1>\d{4})[-/](?P<m1>\d\d?)[-/](?P<d1>\d\d?)(?:[ T]\d\d?:\d\d\S*)?"
    r"|(?P<d2>\d\d?)\.(?P<m2>\d\d?)\.(?P<y2>\d{4})(?: \d\d?:\d\d\S*)?"
)
_LONGEST_NAME, _LONGEST_TITLE, _LONGEST_HEAD = 80, 200, 60
_FILLED, _DIFFERENT, _APART = 0.9, 0.5, 0.95
_LEAST_NAMED, _LEAST_COLUMNS = 8, 3
"""Rows and columns of a table whose rows are known by their names alone; a smaller one is read as a whole."""
_RUN = 1000
_AROUND, _DEEPEST_HEAD = "lines around a table", 12
"""Lines of a title and notes above a table."""
_WIDE = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SENTENCE = re.compile(r"[!?:;]$|\S\s+\S+\s+\S.*\.$|<|://")  # "File No." is a name


def rows_of_texts(rows: Sequence[Sequence[str]]) -> list[TableRow] | None:
    """Return each row as a document; None for a table without a head, without texts, or with over `MOST_ROWS` rows.

    A row's title is its value in a column named like a title, else in the first with different values, else the
    beginning of its text. Its key is its id if the table has such a column, else its title, so that keys stay the same
    when other rows are added or removed.

    Raises: ImportFailure for a data set.
    """
    above, rows, below = table_between(rows)
    if not 3 <= len(rows) <= MOST_ROWS + 1:
        return None
    width = max(map(len, rows))
    require_document(width * len(rows))
    rows = [[*map(_sound, row), *[""] * (width - len(row))] for row in rows]
    used = [at for at in range(width) if any(row[at].strip() for row in rows[1:])]
    if not is_head([name for at, name in enumerate(rows[0]) if name.strip() or at in used]):
        return None
    head = [" ".join(rows[0][at].split()) for at in used]
    body = [[row[at] for at in used] for row in rows[1:]]
    columns = [[without_tags(cell) for cell in column] for column in zip(*body, strict=True)]
    texts = [at for at, column in enumerate(columns) if _has_texts(head[at], column)]
    title_at = _title_column(head, columns, texts)
    texts = [at for at in texts if at != title_at]
    unique = [at for at, column in enumerate(columns) if _is_unique(column)]
    named = [at for at in unique if head[at].lower().replace(" ", "_") in _IDS]
    # Rows with texts keep the keys that they had: their titles.
    coded = [at for at in unique if not texts and (_is_named_id(at, head[at]) or _are_codes(columns[at]))]
    id_at = next(iter([*named, *coded]), None)
    skipped = {*texts, title_at}
    short = {at: column for at, column in enumerate(columns) if at not in skipped and _is_short(column)}
    fields = {at: _typed(column, head[at]) for at, column in short.items()}
    if not texts:
        known_at = id_at if id_at is not None else _names_column(head, columns)
        if known_at is None or not any(at != known_at and _is_shared(columns[at]) for at in short):
            return None
        title_at = known_at if id_at is None else title_at
    title_at = id_at if title_at is None and not texts else title_at
    documents: list[TableRow] = []
    names, keys = _Taken(), _Taken()
    for number, row in enumerate(body):
        plain = [" ".join(column[number].split()) for column in columns]
        text = next((plain[at] for at in texts if plain[at]), "") or " ".join(plain).strip()
        title = plain[title_at] if title_at is not None and plain[title_at] else _short(text, _LONGEST_NAME)
        name = names.free(path_part(title))
        key = name if id_at is None else keys.free(path_part(plain[id_at]))
        documents.append(
            TableRow(
                *(key, name, _short(title, _LONGEST_TITLE), _markdown(head, row, plain, title_at, texts)),
                _fields(head, {at: values[number] for at, values in fields.items()}),
            )
        )
    around = {_AROUND: len(above) + len(below)} if above or below else {}
    return [documents[0]._replace(left_out=around), *documents[1:]]


def table_between(rows: Sequence[Sequence[str]]) -> tuple[list[str], Sequence[Sequence[str]], list[str]]:
    """Return the lines above a table, the table from its head on, and the lines below; of a table below a title alone.

    >>> table_between([["Stock", ""], *[["Part", "Bin", "Left"], ["Nut", "A1", "4"], ["Bolt", "B2", "7"]], ["End", ""]])
    (['Stock'], [['Part', 'Bin', 'Left'], ['Nut', 'A1', '4'], ['Bolt', 'B2', '7']], ['End'])
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    heads = [at for at in range(1, min(len(rows) - 1, _DEEPEST_HEAD)) if is_head(rows[at])]
    if not heads or filled[0] != 1:
        return [], rows, []
    first = max(heads, key=filled.__getitem__)  # the first of those
    last = len(rows)
    while last > first + 2 and filled[last - 1] * 2 < filled[first]:
        last -= 1
    if filled[first] < _LEAST_COLUMNS or max(filled[:first]) >= filled[first]:
        return [], rows, []
    lines = [" ".join(" ".join(row).split()) for row in rows]
    return lines[:first], rows[first:last], lines[last:]


def _is_named_id(at: int, name: str) -> bool:
    return bool(_IDS_END.search(name) or (at == 0 and _NUMBERS_END.search(name)))


def _fields(head: Sequence[str], values: Mapping[int, Any]) -> dict[str, Any]:
    """Return the values by names of fields; columns of one name give a list. No column says who may view a row."""
    fields: dict[str, Any] = {}
    for at, value in values.items():
        name = re.sub(r"\W+", "_", head[at].lower()).strip("_")
        name = f"column_{name}" if name in _NOT_FROM_TABLES or name[:1].isdigit() else name
        if name and value != "":
            fields[name] = value if name not in fields else [*_listed(fields[name]), value]
    return fields


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_short(column: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in column if cell.strip()]
    if not filled or median(map(len, filled)) > _LONGEST_NAME or max(map(len, filled)) > _LONGEST_TITLE:
        return False
    return len(set(filled)) < len(filled) or median(map(_length, filled)) < _NAMED_WORDS


def _is_shared(column: Sequence[str]) -> bool:
    """Return whether rows share values: a status, not a price."""
    filled = [cell.strip() for cell in column if cell.strip()]
    return 1 < len(set(filled)) <= len(filled) / 2


def _typed(column: Sequence[str], name: str = "") -> list[Any]:
    """Return the values of a column as numbers, truth values, ISO dates, or as they stand.

    Numbers with unlike many decimals are versions, unless a program wrote them so, and their whole parts differ much.

    >>> _typed(["2", "30"]), _typed(["3.9", "3.10"]), _typed(["007"]), _typed(["05.01.2024", ""]), _typed(["true"])
    ([2, 30], ['3.9', '3.10'], ['007'], ['2024-01-05', ''], [True])
    >>> _typed(["45.02", "2.1", "9", "18.0", "21.35"]), _typed(["45.02", "2.1", "9", "18.0", "21.35"], "Version")
    ([45.02, 2.1, 9, 18.0, 21.35], ['45.02', '2.1', '9', '18.0', '21.35'])
    >>> _typed(["0.05", "0.10", "2"]), _typed(["0.5", "0.65"]), _typed(["1.25", "-1"]), _typed(["0.1", "7.2e-4"])
    ([0.05, 0.1, 2], ['0.5', '0.65'], [1.25, -1], [0.1, 0.00072])
    """
    cells = [" ".join(cell.split()) for cell in column]
    filled = [cell for cell in cells if cell]
    if all(cell.lower() in ("true", "false") for cell in filled):
        return [cell and cell.lower() == "true" for cell in cells]
    if all(map(_NUMBER.fullmatch, filled)) and (_are_even(filled) or _are_measures(filled, name)):
        return [cell and (int(cell) if cell.lstrip("-").isdecimal() else float(cell)) for cell in cells]
    dates = [_iso(cell) for cell in cells]
    return dates if None not in dates else cells


def _are_even(numbers: Sequence[str]) -> bool:
    return len({len(number.partition(".")[2]) for number in numbers}) == 1


def _are_measures(numbers: Sequence[str], name: str) -> bool:
    """Return whether numbers with and without decimals are amounts and not versions, in which 3.10 follows 3.9."""
    whole = {number.partition(".")[0] for number in numbers}
    padded = any(re.search(r"\.\d+0$", number) for number in numbers)
    measured = any(map(_MEASURE.search, numbers))
    return (measured or (len(whole) >= _MANY_WHOLE and not padded)) and not _VERSIONS.search(name)


def _iso(cell: str) -> str | None:
    """Return a date in ISO form, "" for an empty cell, None for what is no date."""
    found = _DAY.fullmatch(cell)
    if not found:
        return None if cell else ""
    year, month, day = (int(found[f"{part}1"] or found[f"{part}2"]) for part in "ymd")
    try:
        return dt.date(year, month, day).isoformat()
    except ValueError:
        return None


def rows_as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a pipe table, or several, each with the head. Raises: ImportFailure for a data set."""
    require_document(sum(map(len, rows)), sum(len(cell) for row in rows for cell in row))
    above, rows, below = table_between(rows)
    shown = [[escape(without_tags(cell)) for cell in row] for row in rows]
    runs = _runs(shown[1:]) if rows and is_head(rows[0]) else [shown[1:]]
    tables = [table([*shown[:1], *run]) for run in runs] if len(shown) > 1 else [table(shown)]
    return "\n\n".join([*map(plain_lines, map(escape, above)), *tables, *map(plain_lines, map(escape, below))])


def book_as_markdown(sheets: Iterable[tuple[str, list[list[str]]]]) -> str:
    """Return the sheets of a workbook, each as a table below its name. Raises: ImportFailure for a data set."""
    return "\n\n".join(f"## {escape(name)}\n\n{rows_as_markdown(rows)}" for name, rows in sheets)


def rows_of_book(sheets: Sequence[tuple[str, list[list[str]]]], left_out: Mapping[str, int]) -> list[TableRow] | None:
    """Return the rows of a workbook whose sheets all have texts, None for any other."""
    documents: list[TableRow] = []
    around = 0
    for name, everything in sheets:
        above, (head, *rows), below = table_between(everything)
        table = [head, *rows] if len(sheets) == 1 else [[*head, "sheet"], *([*row, name] for row in rows)]
        sheet_rows = rows_of_texts(table)
        if sheet_rows is None:
            return None
        documents += [row._replace(key=f"{path_part(name)} {row.key}") for row in sheet_rows]
        around += len(above) + len(below)
    counted = {kind: number for kind, number in {**left_out, _AROUND: around}.items() if number}
    return [documents[0]._replace(left_out=counted), *documents[1:]] if documents else None


def require_document(cells: int, signs: int = 0) -> None:
    """Raise ImportFailure for a table of over MAX_CELLS cells, or whose cells have as many signs: a data set."""
    if signs > _MOST_SIGNS:
        raise ImportFailure(f"over {_MOST_SIGNS:,} signs in its cells; split it")
    if cells > MAX_CELLS:
        raise ImportFailure(
            f"over {MAX_CELLS:,} cells: a data set rather than a document; export the part that is read"
        )


def is_head(row: Sequence[str]) -> bool:
    """Return whether a row names its columns.

    >>> is_head(["Name", "Price"]), is_head(["Bolt", "0.20"]), is_head(["May I?", "No."])
    (True, False, False)
    """
    names = [name.strip().lower() for name in row]
    filled = [name for name in names if name]
    return (
        len(filled) > 1
        and len(filled) >= len(names) - 1
        and len(set(filled)) * 2 > len(filled)  # a tracker has several columns of labels, or comments
        and all(len(name) <= _LONGEST_HEAD and re.search(r"[^\W\d_]", name) for name in filled)
        and not any(_SENTENCE.search(name) for name in filled)
    )


def _title_column(head: Sequence[str], columns: Sequence[Sequence[str]], texts: Sequence[int]) -> int | None:
    """Return the column of titles: by its name, else the first suitable one, preferably not one of texts."""
    candidates = [at for at, column in enumerate(columns) if _is_titles(column)]
    named = {head[at].lower(): at for at in reversed(candidates)}
    if not texts:  # those with texts keep the titles that they had
        apart = [at for at in candidates if _is_unique([cell for cell in columns[at] if cell.strip()], _APART)]
        named = {_LAST_WORD.sub("", head[at]).lower(): at for at in reversed(apart)} | named
    short = [at for at in candidates if at not in texts] or (candidates if len(texts) > 1 else [])
    return next((named[name] for name in _TITLES if name in named), short[0] if short else None)


def _names_column(head: Sequence[str], columns: Sequence[Sequence[str]]) -> int | None:
    """Return the column of the names of things, such as countries: the first, or one called a name; nearly all differ,
    as those of flights do, of which some have the name of one before them."""
    if len(columns) < _LEAST_COLUMNS or len(columns[0]) < _LEAST_NAMED:
        return None
    short = (
        at for at, column in enumerate(columns) if _is_titles(column) and median(map(len, column)) <= _LONGEST_NAME
    )
    named = (at for at in short if at == 0 or head[at].lower() in _TITLES)
    return next((at for at in named if _is_unique(columns[at], _APART)), None)


def _is_titles(column: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in column if cell.strip()]
    return (
        len(filled) >= len(column) * _FILLED
        and len(set(filled)) >= len(filled) * _DIFFERENT
        and median(map(len, filled)) <= _LONGEST_TITLE
        and sum(re.search(r"[^\W\d_]{2}", cell) is not None for cell in filled) >= len(filled) * _FILLED
        and not any(re.match(r"\S+://\S+$|\S+@\S+$", cell) for cell in filled[:_LONGEST_HEAD])
    )


def _has_texts(name: str, column: Sequence[str]) -> bool:
    filled = [cell for cell in column if cell.strip()]
    return (
        len(filled) * 2 >= len(column)
        and bool(filled)
        and median(map(_length, filled)) >= (_NAMED_WORDS if name.lower() in _TEXTS else _WORDS)
    )


def _length(text: str) -> float:
    """Return the approximate number of words, also in scripts without spaces between words."""
    return len(text.split()) + len(_WIDE.findall(text)) / 2


def _is_unique(column: Sequence[str], share: float = 1) -> bool:
    return all(cell.strip() for cell in column) and len(set(column)) >= share * len(column)


def _are_codes(column: Sequence[str]) -> bool:
    """Return whether each cell is one word of letters and digits, and no time: the number of an article, say.

    >>> _are_codes(["BK-204", "M3x10"]), _are_codes(["2024-01-05T10:00"]), _are_codes(["007", "008"])
    (True, False, False)
    """
    cells = [cell.strip() for cell in column]
    return all(map(_CODE.fullmatch, cells)) and not any(map(_iso, cells))


def _markdown(
    head: Sequence[str], row: Sequence[str], plain: Sequence[str], title_at: int | None, texts: list[int]
) -> str:
    """Return a row below its title: its first text, its values in one paragraph, then its other texts.

    As a list, with a line each, the values would outweigh the text in a search.
    """
    has_heading = title_at is not None and 0 < len(plain[title_at]) <= _LONGEST_TITLE
    written = {_words(plain[title_at])} if title_at is not None and has_heading else set()
    paragraphs: list[tuple[str, str]] = []
    values: list[str] = []
    for at, cell in enumerate(row):
        name = head[at] or f"column {at + 1}"
        if at == title_at and not texts and head[at] and head[at].lower() not in _TITLES:
            values.append(f"{name}: {plain[at]}")  # whoever asks says what it is: "station Mole Hill"
        if not plain[at] or _words(plain[at]) in written:
            continue  # texts are often repeated as HTML
        if at in texts or at == title_at:
            paragraphs.append((name, _cell(cell)))
            written.add(_words(plain[at]))
        elif head[at] or at:  # a first column without a name has row numbers
            values.append(f"{name}: {plain[at]}")
    parts = [f"# {escape(plain[title_at])}"] if title_at is not None and has_heading else []
    parts += [text for _, text in paragraphs[:1]]
    parts += [plain_lines(escape("; ".join(values)))] if values else []
    parts += [f"## {escape(name)}\n\n{text}" for name, text in paragraphs[1:]]
    return "\n\n".join(parts) + "\n"


def _cell(cell: str) -> str:
    if without_tags(cell) == cell:
        return text_as_markdown(cell.strip())
    from hive_agents.readers.from_html import from_markup

    return from_markup(f"<body>{cell}</body>").markdown.strip()


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest].rpartition(" ")[0] or text[:longest]


def _sound(cell: str) -> str:
    """Return a cell with lone surrogates (of a cut emoji) and NUL replaced.

    >>> _sound("cut \\ud83d, \\x00")
    'cut \ufffd, \ufffd'
    """
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", cell)


def path_part(text: str) -> str:
    """Return a text as a part of a path, without dots, which would begin a suffix.

    >>> path_part("Is v1.2 and/or v1.3 read?")
    'is-v1-2-and-or-v1-3-read?'
    """
    return re.sub(r"[\s./\\]+", "-", _short(text, _LONGEST_NAME).lower()).strip("-") or "row"


class _Taken:
    """Unique names: a repeated name gets a number, in constant time."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def free(self, name: str) -> str:
        free, number = name, self._next.get(name, 1)
        while free in self._next:
            number += 1
            free = f"{name}-{number}"
        self._next[name] = number
        self._next[free] = 1 if free != name else number
        return free


def _runs(rows: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """Yield runs of rows, each at most _RUN characters or a single row."""
    run: list[list[str]] = []
    size = 0
    for row in rows:
        length = sum(len(cell) + 3 for cell in row)
        if run and size + length > _RUN:
            yield run
            run, size = [], 0
        run.append(row)
        size += length
    if run:
        yield run
