"""What a claim says of one item of a list or section with a name: its default, and whether it must be given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hive_agents.judging.amounts import NUMBER_WORDS
from hive_agents.judging.passages import PassageText, is_term, mentions, normal, stems

_ITEM = re.compile(
    r"\s*(?:[-*+•]|\d{1,2}[.)])\s+([*_`\"]{0,4})(?=\S*[^\W\d_])([^\W_][\w.:/-]{1,39})([*_`\"]{0,4})(?!\w)(.*)"
)
_HEAD = re.compile(r"#{1,6}\s+([*_`\"]{0,4})([^\W_][\w.:-]{1,39})[*_`\"]{0,4}\s*$")
_IDENTIFIER = re.compile(r"[^\W_]+[_.-]\w|\w*[a-z][A-Z]|\w*\d")
_ABSENT = r"(?:not |n['’]t )(?:set|given|specified|changed|told|present|configured)|omitted|left out|missing|absent"
_TOLD = re.compile(
    rf"\b(?:default(?:s|ed)?|unless|(?:if|when)\b[^.,;]{{0,40}}?(?:\bis |\bare |['’]s |is|are| )(?:{_ABSENT}))\b", re.I
)
_DEFAULT = re.compile(
    r"\bdefault(?:s|ed)?\b(?: value| setting)?[\s:=(*`\"“']{0,8}(?:(?:is|are|to|of)\b)?[\s:=(*`\"“']{0,8}(?:the )?"
    r"(-?[^\W_][\w.%:/-]*)",
    re.I,
)
_REQUIRED = re.compile(r"\b(?:required|mandatory|must (?:always )?be (?:set|given|specified|provided|present))\b", re.I)
_OPTIONAL = re.compile(
    r"\b(?:optional|(?:may|can) be (?:omitted|left out)|(?:not|n['’]t) (?:be )?(?:required|mandatory))\b"
    r"|\b(?:need not|needn['’]t|does(?: not|n['’]t) (?:need|have) to) be (?:set|given|specified|provided)\b",
    re.I,
)
_UNDER = re.compile(r"\b(?:if|when|where|unless|only|for|with)\b", re.I)
_SWITCH = {word: side for side, words in enumerate(("off false no disabled", "on true yes enabled"))
           for word in words.split()}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    text: str


def items_differ(claim: str, source: PassageText) -> Iterator[tuple[str, str]]:
    """Yield what the claim says of the one item that it names, where that item says otherwise.

    >>> from hive_agents.judging.passages import read
    >>> source = read("- **size** (*Optional*, string): How large it is. Defaults to ``4MB``.\\n"
    ...               "- **key_file** (**Required**): Where the key is.")
    >>> list(items_differ("The size is 4MB by default, and may be left out.", source))
    []
    >>> list(items_differ("The default size is 8MB.", source)), list(items_differ("key_file is optional.", source))
    ([('row', '8MB')], [('negation', 'optional')])
    """
    named = [item for item in _items(source.text) if mentions(claim, item.name)
             or mentions(claim, re.sub(r"[_-]", " ", item.name))]  # fmt: skip
    named = named or _likest(claim, source.text)
    if len({item.name for item in named}) != 1:
        return
    item = next((one for one in named if _DEFAULT.search(one.text)), named[0])
    required, optional = (pattern.search(item.text) for pattern in (_REQUIRED, _OPTIONAL))
    if required and not optional and (said := _OPTIONAL.search(claim)):
        yield "negation", said[0]
    if optional and not required and not _OPTIONAL.search(claim) and not _UNDER.search(claim):
        yield from (("negation", said[0]) for said in _REQUIRED.finditer(claim))
    if not _TOLD.search(claim):
        return
    claim = _TOLD.sub(" ", claim)
    defaults = {normal(one) for one in _DEFAULT.findall(item.text)}
    about = f"{item.name} {re.sub('[_-]', ' ', item.name)}"
    if len(defaults) == 1 and not re.search(r"\b(?:not|never)\b|n['’]t\b", claim):
        yield from (("row", one) for one in _rivals(claim, about, *defaults))


def _likest(claim: str, text: str) -> list[_Item]:
    """Return the item that tells most of a claim, where no other tells nearly as much."""
    said = stems(claim)
    scored = sorted(((len(said & stems(item.text)), place) for place, item in enumerate(_items(text))), reverse=True)
    clear = len(scored) > 1 and scored[0][0] >= max(0.7 * len(said), scored[1][0] + 1)
    return [_items(text)[scored[0][1]]] if clear else []


def _rivals(claim: str, about: str, default: str) -> Iterator[str]:
    """Yield the value that a claim has in the place of a default: a switch's other side, or another number."""
    said = [word for word in re.findall(r"-?[^\W_](?:[\w.%:/-]*[\w%])?", claim) if not mentions(about, word.strip("-"))]
    if default in _SWITCH:
        sides = {_SWITCH[normal(word)]: word for word in said if normal(word) in _SWITCH and normal(word) != "no"}
        if len(sides) == 1 and _SWITCH[default] not in sides:
            yield next(iter(sides.values()))
    elif (number := _number(default)) is not None:
        others = {word: value for word in said if word != "once" and (value := _number(normal(word))) is not None}
        if others and number not in others.values():
            yield next(iter(others))


def _number(word: str) -> float | None:
    found = re.match(r"-?\d+(?:\.\d+)?", word)
    return float(found[0]) if found else NUMBER_WORDS.get(word)


def _items(text: str) -> list[_Item]:
    """Return what begins with a name, or stands below one: items of lists, with the lines that are deeper, and
    sections."""
    found: list[_Item] = []
    indent, section = 0, None
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("#"):
            head, indent = _HEAD.match(line), 1_000
            section = len(found) if head and (head[1] or _IDENTIFIER.match(head[2])) else None
            found += [_Item(head[2], "")] if head and section is not None else []
            continue
        begins = _ITEM.match(line)
        deep = len(line) - len(line.lstrip())
        if section is not None:
            found[section] = _Item(found[section].name, f"{found[section].text} {line.strip()}")
        elif is_term(lines, place) and _IDENTIFIER.match(line.strip()):
            found.append(_Item(line.strip(), ""))
            indent = deep
        elif begins and bool(begins[1]) is bool(begins[3]) and (begins[1] or _IDENTIFIER.match(begins[2])):
            found.append(_Item(begins[2].rstrip(".:"), begins[4]))
            indent = deep
        elif found and line.strip() and deep > indent:
            found[-1] = _Item(found[-1].name, f"{found[-1].text} {line.strip()}")
        elif line.strip():
            indent = 1_000  # what follows a list is no part of its last item
    return found
