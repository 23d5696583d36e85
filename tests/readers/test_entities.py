"""Entities that grow without end, or that lead to other files, in every kind of file that is made of XML."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest

from hive_agents.readers import ImportFailure
from hive_agents.readers.conversion import convert_bytes
from tests.readers.test_shown import of_each_office

SECRET = "the words of another file"
PARTS = {"docx": "word/document.xml", "xlsx": "xl/worksheets/sheet1.xml", "pptx": "ppt/slides/slide1.xml"}
LAUGHS = "<!DOCTYPE x [" + '<!ENTITY a0 "ha">' + "".join(
    f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
) + "]>"  # fmt: skip


def outside(tmp_path: Path) -> str:
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    return f'<!DOCTYPE x [<!ENTITY a11 SYSTEM "{secret.as_uri()}">]>'


def with_declaration(data: bytes, part: str, declaration: str, encoding: str = "utf-8") -> bytes:
    """Return an Office file one of whose parts declares entities, and names one in each text."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w") as rewritten:
        for name in archive.namelist():
            content = archive.read(name)
            if name == part:
                text = re.sub(r"^<\?xml.*?\?>", "", content.decode()).replace("otor", "otor &a11;")
                content = f'<?xml version="1.0" encoding="{encoding}"?>{declaration}{text}'.encode(encoding)
            rewritten.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("kind", PARTS)
def test_an_office_file_that_declares_entities_is_refused(kind: str, tmp_path: Path) -> None:
    data = of_each_office()[kind]
    assert "otor" in convert_bytes(f"a.{kind}", data).markdown
    padded = f"<!--{' ' * 70_000}-->{LAUGHS}"
    for declaration in (LAUGHS, outside(tmp_path), padded):
        for encoding in ("utf-8", "utf-16", "cp037"):
            made = with_declaration(data, PARTS[kind], declaration, encoding)
            with pytest.raises(ImportFailure, match="declares entities"):
                convert_bytes(f"a.{kind}", made)


def test_a_page_or_a_drawing_in_it_expands_no_entity_of_its_own(tmp_path: Path) -> None:
    body = "<html><body><p>The rotor &a11;</p><svg><text>turns &a11;</text></svg></body></html>"
    for declaration in (LAUGHS, outside(tmp_path)):
        markdown = convert_bytes("a.xhtml", f'<?xml version="1.0"?>{declaration}{body}'.encode()).markdown
        assert "The rotor" in markdown
        assert "turns" in markdown
        assert SECRET not in markdown
        assert "haha" not in markdown.partition("The rotor")[2]
