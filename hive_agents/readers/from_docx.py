"""DOCX to Markdown: structure by styles, without pictures."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import mammoth

from hive_agents.readers.docx_shown import as_shown
from hive_agents.readers.docx_styles import heading_styles, style_map
from hive_agents.readers.from_html import from_markup
from hive_agents.readers.imported import Imported
from hive_agents.readers.office import checked_package

_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Code'] => pre:separator('\\n')
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name^='toc'] => !
p[style-name='table of figures'] => !
p[style-name='Quote'] => blockquote:fresh > p:fresh
p[style-name='Intense Quote'] => blockquote:fresh > p:fresh
"""


def from_docx(data: bytes, settings: Set[str]) -> Imported:
    package = checked_package(data, "docx")
    styles = _STYLES + style_map(package)
    shown, left_out = as_shown(package, heading_styles(package), settings)
    imported = from_markup(f"<body>{mammoth.convert_to_html(shown, style_map=styles).value}</body>")
    return replace(imported, left_out=left_out)
