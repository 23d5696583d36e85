"""The files that pages load: ours, and third parties' as they were published, checked by their hashes."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

THIRD_PARTY = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}
"""SHA-256 of each file as its package on npm has it: htmx.org 4.0.1 (0BSD), uplot 1.6.32 (MIT)."""

_MEDIA = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


@cache
def content(name: str) -> tuple[bytes, str]:
    """Return a file's bytes and the beginning of their SHA-256. Raises: KeyError for a file that isn't there."""
    kind = name.rpartition(".")[2]
    file = files(__package__).joinpath("static", name)
    if kind not in _MEDIA or "/" in name or not file.is_file():
        raise KeyError(name)
    data = file.read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:12]


def address(name: str) -> str:
    """Return where a browser finds a file; another content has another address, so that it may be kept for good."""
    return f"/static/{name}?v={content(name)[1]}"


async def asset(request: Request) -> Response:
    """One file: anybody's, since the sign-in page needs them too."""
    name = request.path_params["name"]
    try:
        data, _ = content(name)
    except KeyError:
        raise HTTPException(404) from None
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(data, media_type=_MEDIA[name.rpartition(".")[2]], headers=headers)
