"""reStructuredText to Markdown, including Sphinx's dialect; included files aren't read."""

from __future__ import annotations

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Parser

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported
from hive_agents.readers.rst.dialect import begins_with_header, header, sphinx_dialect
from hive_agents.readers.rst.writer import MarkdownWriter

_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "halt_level": 5,
    "report_level": 3,
    "warning_stream": False,
    "syntax_highlight": "none",
    "smart_quotes": False,
}


def from_rst_bytes(data: bytes) -> Imported:
    return from_rst(decode(data))


def from_rst(text: str) -> Imported:
    """Return the text as Markdown; source that the parser rejects becomes a code block."""
    text = text.lstrip("\ufeff\r\n")
    parser = Parser(rfc2822=begins_with_header(text))
    with sphinx_dialect():
        document = publish_doctree(text, parser=parser, settings_overrides=dict(_SETTINGS))
    metadata = header(document)
    section = next(document.findall(nodes.section), None)
    title = metadata.pop("title", None) or (section[0].astext() if section else None)
    return Imported(MarkdownWriter(document).markdown(), title, metadata)
