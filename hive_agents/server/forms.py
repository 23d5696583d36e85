"""Bodies of forms, as RFC 7578 and browsers write them: `multipart/form-data`, with files, and those without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.message import Message
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from starlette.exceptions import HTTPException

from hive_agents.base import HiveError
from hive_agents.base.files import diagnostics_of, jsontext

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_PARTS = 500
LONGEST_HEAD = 16_384
LONGEST_TEXT = 1_000_000
"""Bytes of the head of a part, and of a part that is no file."""
MULTIPART = "multipart/form-data"
URLENCODED = "application/x-www-form-urlencoded"
M = TypeVar("M", bound="Form")


class SentFile(NamedTuple):
    """A file of a form: its name as the browser has it, and its bytes."""

    name: str
    data: bytes


SentFiles = Annotated[
    list[SentFile],
    Field(min_length=1, max_length=MOST_PARTS),
    WithJsonSchema(
        {"type": "array", "minItems": 1, "maxItems": MOST_PARTS, "items": {"type": "string", "format": "binary"}}
    ),
]


class Form(BaseModel):
    """Base of bodies with files. A field of a list or a mapping is sent as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)


def form(model: type[M], request: Request, sent: bytes) -> M:
    """Return a body as a form. Raises: 415 for another media type; HIVE-101 for one that can't be read, and
    diagnostics of level 1 for one that doesn't fit."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    boundary = header.get_boundary()
    if header.get_content_type() != MULTIPART or not boundary:
        raise HTTPException(415, f"the body is not sent as {MULTIPART}")
    values = _values(sent, boundary.encode("utf-8", "surrogateescape"))
    for name, field in model.model_fields.items():
        text = values.get(name)
        if isinstance(text, str) and field.annotation is not str and name != "file":
            values[name] = _json(text, name)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        shown = {name: value for name, value in values.items() if name != "file"}
        raise HiveError(diagnostics_of(error, model, shown, "body"), exit_code=2) from None


def fields(media: str, sent: bytes) -> dict[str, list[str]]:
    """Return the fields of a form without files, each with its values in their order.

    Raises: 415 for another media type, HIVE-101 for too many fields.

    >>> fields("application/x-www-form-urlencoded", b"role=reader&role=admin&note=")
    {'role': ['reader', 'admin'], 'note': ['']}
    """
    from urllib.parse import parse_qs

    if media.partition(";")[0].strip().lower() != URLENCODED:
        raise HTTPException(415, f"the body is not sent as {URLENCODED}")
    try:
        return parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_PARTS)
    except ValueError:
        raise _unreadable(f"it has more than {MOST_PARTS} fields") from None


def _json(text: str, name: str) -> Any:
    try:
        return jsontext.parse(text, name) if text.strip() else None
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None


def _values(sent: bytes, boundary: bytes) -> dict[str, Any]:
    """Return the fields by name; `file` has the list of all files. Raises: HIVE-101."""
    ends = re.compile(rb"\r\n--" + re.escape(boundary) + rb"(?=--|[ \t]*\r\n)")
    parts = ends.split(b"\r\n" + sent, MOST_PARTS + 2)  # each further one would cost memory
    if len(parts) - 2 > MOST_PARTS:
        raise _unreadable(f"it has more than {MOST_PARTS} parts")
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise _unreadable("its end is missing")
    values: dict[str, Any] = {}
    for part in parts[1:-1]:
        head, blank, data = part.lstrip(b" \t").partition(b"\r\n\r\n")
        if len(head) > LONGEST_HEAD:
            raise _unreadable(f"the head of a part has more than {LONGEST_HEAD:,} bytes")
        shown = HeaderParser().parsestr(head.decode("utf-8", "replace").removeprefix("\r\n"))
        about = _disposition(shown.get("content-disposition", ""))
        name = about.get("name")
        if not blank or name is None:
            raise _unreadable("a part has no name")
        if "filename" in about or name == "file":
            if about.get("filename"):  # a browser sends an empty one where nothing was chosen
                values.setdefault(name, []).append(SentFile(about["filename"], data))
        elif len(data) > LONGEST_TEXT:
            raise _unreadable(f"{name[:40]} has more than {LONGEST_TEXT:,} bytes")
        elif name in values:
            raise _unreadable(f"{name[:40]} is sent twice")
        else:
            values[name] = data.decode("utf-8", "replace")
    return values


def _disposition(header: str) -> Mapping[str, str]:
    """Return the parameters of a Content-Disposition.

    >>> _disposition('form-data; name="file"; filename="a%22b.md"')
    {'name': 'file', 'filename': 'a"b.md'}
    """
    found = re.findall(r';\s*([\w*]+)=(?:"((?:\\.|[^"\\])*)"|([^;\s]+))', header)
    values = {name.lower(): quoted or plain for name, quoted, plain in found}
    extended = values.pop("filename*", None)
    if extended is not None and extended.lower().startswith("utf-8''"):
        from urllib.parse import unquote

        values["filename"] = unquote(extended[7:])
    escaped = {"%22": '"', "%0D": "\r", "%0A": "\n"}
    return {name: re.sub("%22|%0D|%0A", lambda one: escaped[one[0]], value) for name, value in values.items()}


def _unreadable(why: str) -> HiveError:
    fix = f"send {MULTIPART} with a part `file` for each file, or {URLENCODED}"
    return HiveError.of("HIVE-101", f"the form can't be read: {why}", path="body", fix=fix, exit_code=2)
