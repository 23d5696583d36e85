"""The kinds of files that can be read: one entry for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from hive_agents.readers.imported import UNSUPPORTED, ImportFailure

MAX_BYTES = 50_000_000
SETTINGS = frozenset({"comments", "deleted", "hidden"})
"""What a file's program doesn't print, and an import brings over where the settings say so."""


@dataclass(frozen=True)
class Reader:
    """A kind of file. `read` and `rows` are `module:function` in this package, loaded when first needed.

    `rows` gives the rows of a table as documents. `settings` are those of SETTINGS that the reader obeys, and for mails
    "unquoted": without the quote at the end, which is a document already. `small` is
    the size in bytes up to which a file is read in this process: time may grow faster than size. The work of a `flat`
    one is bounded by its size: nothing is unpacked. `version` is raised where the reader gives other documents for the
    same files.
    """

    kind: str
    suffixes: str
    type: str
    read: str
    rows: str | None = None
    extra: str | None = "import"
    settings: frozenset[str] = frozenset()
    flat: bool = True
    small: int = 0
    max_bytes: int = MAX_BYTES
    version: int = 18


_OFFICE = "application/vnd.openxmlformats-officedocument."
READERS = {
    reader.kind: reader
    for reader in (
        Reader(
            "markdown",
            ".md .markdown",
            "text/markdown",
            "from_markdown:from_markdown",
            extra=None,
            small=200_000,
            version=21,
        ),
        Reader("mdx", ".mdx", "text/mdx", "from_markdown:from_mdx", extra=None, version=21),
        Reader("text", ".txt .text .log", "text/plain", "from_text:from_text", extra=None, small=200_000),
        Reader("rst", ".rst", "text/x-rst", "rst:from_rst_bytes"),
        Reader("asciidoc", ".adoc .asc .asciidoc", "text/asciidoc", "from_asciidoc:from_asciidoc", extra=None),
        Reader("html", ".html .htm .xhtml", "text/html", "from_html:from_html", version=22),
        Reader("notebook", ".ipynb", "application/x-ipynb+json", "from_notebook:from_notebook", extra=None),
        Reader("csv", ".csv .tsv", "text/csv", "from_csv:from_csv", "from_csv:csv_rows", version=20),
        Reader("json", ".json", "application/json", "from_json:from_json", "from_json:json_rows", version=20),
        Reader(
            "jsonl", ".jsonl .ndjson", "application/jsonl", "from_json:from_jsonl", "from_json:jsonl_rows", version=19
        ),
        Reader("mail", ".eml", "message/rfc822", "from_mail:from_mail", settings=frozenset({"unquoted"}), version=20),
        Reader("mailbox", ".mbox", "application/mbox", "from_mail:from_mailbox", flat=False, version=20),
        Reader("epub", ".epub", "application/epub+zip", "from_epub:from_epub", flat=False),
        Reader("pdf", ".pdf", "application/pdf", "from_pdf:from_pdf", flat=False, version=21),
        Reader(
            "docx",
            ".docx .docm .dotx .dotm",
            f"{_OFFICE}wordprocessingml.document",
            "from_docx:from_docx",
            settings=frozenset({"comments", "deleted"}),
            flat=False,
            version=21,
        ),
        Reader(
            "pptx",
            ".pptx .pptm .ppsx .ppsm .potx .potm",
            f"{_OFFICE}presentationml.presentation",
            "from_pptx:from_pptx",
            settings=frozenset({"hidden"}),
            flat=False,
            version=21,
        ),
        Reader(
            "xlsx",
            ".xlsx .xlsm .xltx .xltm",
            f"{_OFFICE}spreadsheetml.sheet",
            "from_xlsx:from_xlsx",
            "from_xlsx:xlsx_rows",
            settings=frozenset({"hidden"}),
            flat=False,
            version=22,
        ),
        *(
            Reader(
                kind,
                suffixes,
                f"application/vnd.oasis.opendocument.{of}",
                f"from_odf:from_{kind}",
                "from_odf:ods_rows" if kind == "ods" else None,
                settings=frozenset({"comments", "deleted"} if kind == "odt" else {"hidden"}),
                flat=False,
            )
            for kind, suffixes, of in (
                ("odt", ".odt .ott .fodt", "text"),
                ("ods", ".ods .ots .fods", "spreadsheet"),
                ("odp", ".odp .otp .fodp", "presentation"),
            )
        ),
    )
}
KINDS = {suffix: reader.kind for reader in READERS.values() for suffix in reader.suffixes.split()}
# Names of plain texts without a suffix that tells their kind; behind another name (`lib.NEWS`) in capitals alone, since
# what ends in .install or .todo is written for programs.
_NAMES = (
    "readme|news|changes|changelog|history|copyright|copying|licen[cs]e|authors|contributors|contributing|"
    "credits|thanks|notice|todo|faq|hacking|install|maintainers|security|bugs|porting|upgrading|announce"
)
_PLAIN = re.compile(rf"(?i:{_NAMES})\b|.*[._-](?:{_NAMES.upper()})$")
_SAVED_AS = {
    old: new
    for new, olds in {
        ".docx": ".doc .dot .rtf .wpd .wps .pages",
        ".xlsx": ".xls .xlt .xlsb .numbers",
        ".pptx": ".ppt .pps .pot .key",
        ".odt": ".sxw",
        ".ods": ".sxc",
        ".odp": ".sxi",
        ".eml": ".msg",
    }.items()
    for old in olds.split()
}
"""Kinds that aren't read, with the one as which their programs can save them."""
_MANUAL = re.compile(r"(?!.*\.so\.)[^/]+\.[1-8][a-z]{0,3}(?:\.gz)?")


def kind_of(name: str) -> str | None:
    """Return the kind of a file by its name, None for kinds that can't be read.

    >>> kind_of("a.HTML"), kind_of("changelog.Debian.gz"), kind_of("lib.NEWS.gz"), kind_of("photo.jpg")
    ('html', 'text', 'text', None)
    """
    inner = PurePath(name[:-3] if name.lower().endswith(".gz") else name)
    kind = KINDS.get(inner.suffix.lower())
    return kind or ("text" if is_plain_name(inner.name) or not inner.suffix else None)


def unsupported(name: str) -> ImportFailure:
    """Return the failure of a file whose kind can't be read.

    >>> str(unsupported("photo.jpg")), str(unsupported("Makefile.gz"))
    ('.jpg: not a supported kind of file', '.gz: not a supported kind of file')
    >>> str(unsupported("ls.1.gz"))
    '.1.gz (a source of `man`: import what `man` prints): not a supported kind of file'
    >>> str(unsupported("Plan.DOC"))
    '.DOC (save it as .docx; many at once: `soffice --convert-to docx *.DOC`): not a supported kind of file'
    """
    packed = ".gz" if name.lower().endswith(".gz") else ""
    suffix = PurePath(name.removesuffix(packed)).suffix + packed
    saved_as = _SAVED_AS.get(suffix.lower())
    if saved_as is not None:
        by = f"; many at once: `soffice --convert-to {saved_as[1:]} *{suffix}`" if saved_as != ".eml" else ""
        suffix += f" (save it as {saved_as}{by})"
    elif _MANUAL.fullmatch(name):
        suffix += " (a source of `man`: import what `man` prints)"
    return ImportFailure(f"{suffix or 'no suffix'}{UNSUPPORTED}")


def is_plain_name(name: str) -> bool:
    """Return whether a name is that of a plain text in many projects, such as README or copyright."""
    return _PLAIN.match(name) is not None


def is_table(name: str) -> bool:
    """Return whether a file of this name may have rows that become documents."""
    kind = kind_of(name)
    return kind is not None and READERS[kind].rows is not None
