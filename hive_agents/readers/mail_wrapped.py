"""What mails wrap: mails signed or encoded in one block, files in Outlook's `winmail.dat` (TNEF) or uuencoded."""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from typing import Any

TNEF = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
SIGNED = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
UUENCODED = re.compile(r"^begin [0-7]{3,4} ?(?P<name>[^\n]*)\n(?P<rows>(?:[!-`]{1,61}+\n)++)(?:end[ \t]*$|\Z)", re.M)
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_OCTETS, _CONSTRUCTED, _WRAPPED = 0x04, 0x24, 0xA0
_DEEPEST = 8
_TNEF_BEGINS = b"\x78\x9f\x3e\x22"
_BEGINS, _NAME, _CONTENT, _PROPERTIES = 0x00069002, 0x00018010, 0x0006800F, 0x00069005
_LONG_NAME = {b"\x1e\x00\x07\x37": "windows-1252", b"\x1f\x00\x07\x37": "utf-16-le"}
"""The property of a file's long name, as signs of a byte and of two."""


def wrapped_mail(part: Message) -> Message | None:
    """Return the mail that a part holds in one block: signed, or as base64; None for one encrypted or broken."""
    if part.get_content_maintype() == "message":
        return _encoded(part)
    data = part.get_payload(decode=True)
    if part.get_content_type() not in SIGNED or not isinstance(data, bytes):
        return None
    try:
        content = _signed(data)
    except (IndexError, ValueError):
        return None
    return message_from_bytes(content, policy=part.policy) if content else None


def _encoded(part: Message) -> Message | None:
    held: Any = part.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() != "base64" or not isinstance(held, list):
        return None
    text = held[0].get_payload() if len(held) == 1 and not held[0].keys() else None
    try:
        content = binascii.a2b_base64(text) if isinstance(text, str) else b""
    except ValueError:
        return None
    return message_from_bytes(content, policy=part.policy) if content else None


def uuencoded(text: str) -> Iterator[tuple[str, bytes | None]]:
    """Yield the name and the content of each file that a text holds uuencoded; None for a broken one."""
    for found in UUENCODED.finditer(text):
        try:
            yield found["name"].strip(), b"".join(map(binascii.a2b_uu, found["rows"].splitlines()))
        except binascii.Error:
            yield found["name"].strip(), None


def _signed(data: bytes) -> bytes:
    """Return the content of CMS SignedData: ContentInfo, its [0], SignedData, its third field, that one's [0]."""
    (_, *whole), *_ = _elements(data, 0, len(data), 0)
    kind, holder, *_ = _elements(data, *whole)
    if data[kind[1] : kind[2]] != _SIGNED_DATA or holder[0] != _WRAPPED:
        return b""
    (_, *signed), *_ = _elements(data, *holder[1:])
    fields = _elements(data, *signed)
    inner = _elements(data, *fields[2][1:])
    if len(inner) < 2:  # the text stands beside it
        return b""
    return b"".join(_octets(data, each) for each in _elements(data, *inner[1][1:]))


_Element = tuple[int, int, int, int]


def _octets(data: bytes, element: _Element) -> bytes:
    if element[0] == _CONSTRUCTED:
        return b"".join(_octets(data, each) for each in _elements(data, *element[1:]))
    return data[element[1] : element[2]] if element[0] == _OCTETS else b""


def _elements(data: bytes, at: int, end: int, depth: int) -> list[_Element]:
    """Return (tag, start, end, depth) of the elements of BER between two places. Raises: ValueError, IndexError."""
    return _scanned(data, at, end, depth)[0]


def _scanned(data: bytes, at: int, end: int, depth: int) -> tuple[list[_Element], int]:
    """Return the elements, and where they end."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    found: list[_Element] = []
    while at < end and data[at : at + 2] != b"\0\0":
        tag, length, start = data[at], data[at + 1], at + 2
        if length == 0x80:  # ends with two zeros
            stop = _scanned(data, start, end, depth + 1)[1]
            at = stop + 2
        else:
            if length > 0x80:
                size = length & 0x7F
                length = int.from_bytes(data[start : start + size], "big")
                start += size
            stop = at = start + length
        found.append((tag, start, min(stop, end), depth + 1))
    return found, at


def packed_files(data: bytes) -> list[tuple[str, bytes]]:
    """Return the names and contents of the files in a `winmail.dat`; none for one that is broken."""
    if not data.startswith(_TNEF_BEGINS):
        return []
    files: list[tuple[str, bytes]] = []
    for kind, content in _attributes(data):
        if kind == _BEGINS:
            files.append(("", b""))
        elif files:
            name, held = files[-1]
            if kind == _NAME:
                files[-1] = (name or content.rstrip(b"\0").decode("windows-1252", "replace"), held)
            elif kind == _CONTENT:
                files[-1] = (name, content)
            elif kind == _PROPERTIES:
                files[-1] = (_long_name(content) or name, held)
    return [(" ".join(name.split()) or f"file {at}", held) for at, (name, held) in enumerate(files, start=1) if held]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 6
    while at + 9 <= len(data):
        _, kind, length = struct.unpack_from("<BII", data, at)
        yield kind, data[at + 9 : at + 9 + length]
        at += 9 + length + 2


def _long_name(properties: bytes) -> str:
    for tag, encoding in _LONG_NAME.items():
        at = properties.find(tag)
        if at >= 0 and at + 12 <= len(properties):
            (length,) = struct.unpack_from("<I", properties, at + 8)
            return properties[at + 12 : at + 12 + length].decode(encoding, "replace").rstrip("\0")
    return ""
