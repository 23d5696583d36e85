"""DOCX to Markdown: structure by styles, without pictures."""

from __future__ import annotations

from typing import Any

import mammoth

from hive_agents.readers.docx_styles import style_map
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


def from_docx(data: bytes) -> Imported:
    package = checked_package(data, "docx")
    markup = mammoth.convert_to_html(package, style_map=_STYLES + style_map(package), convert_image=_no_image).value
    return from_markup(f"<body>{markup}</body>")


def _no_image(image: Any) -> list[Any]:
    return []
