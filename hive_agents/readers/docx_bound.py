"""Texts of content controls that are bound to a part of the package: Word shows what that part says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from hive_agents.readers.docx_numbers import W

_STORE = re.compile(r"customXml/itemProps(\d*)\.xml")
_ITEM_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/customXml}itemID"
_MAPPED = re.compile(r"xmlns:([\w.-]+)=['\"]([^'\"]*)['\"]")
_NOT_AS_STORED = frozenset(W + name for name in "date dropDownList comboBox picture richText docPartObj".split())
"""Kinds of controls that show their values in another form than they store them in."""


def stores(files: Mapping[str, bytes]) -> dict[str, Element]:
    """Return the parts that content controls may be bound to, by their ids. Broken ones are left out."""
    found = {}
    for name in files:
        number = _STORE.fullmatch(name)
        content = files.get(f"customXml/item{number[1]}.xml") if number is not None else None
        if content is None:
            continue
        try:
            said = ElementTree.fromstring(files[name]).get(_ITEM_ID, "")
            found[said.lower()] = ElementTree.fromstring(content)
        except ElementTree.ParseError:
            continue
    return found


def bound_text(control: Element, known: Mapping[str, Element]) -> str:
    """Return the text that a content control is bound to, "" where it is bound to none."""
    about = control.find(W + "sdtPr")
    binding = about.find(W + "dataBinding") if about is not None else None
    if about is None or binding is None or any(part.tag in _NOT_AS_STORED for part in about):
        return ""
    root = known.get(binding.get(W + "storeItemID", "").lower())
    first, _, path = binding.get(W + "xpath", "").strip("/").partition("/")
    if root is None or not first:
        return ""
    path, _, attribute = path.partition("@")
    names = dict(_MAPPED.findall(binding.get(W + "prefixMappings", "")))
    try:
        part = root.find(path.rstrip("/") or ".", names)
    except (SyntaxError, KeyError, TypeError, ValueError):  # a path beyond those that ElementTree knows
        return ""
    if part is None:
        return ""
    text = part.get(attribute, "") if attribute else "".join(part.itertext())
    return "" if "<pkg:package" in text else text.strip()
