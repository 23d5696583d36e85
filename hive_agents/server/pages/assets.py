"""Static files of the pages: our own, and published files of third parties with their hashes."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response

from hive_agents.server.middleware import takes_gzip

if TYPE_CHECKING:
    from starlette.requests import Request

THIRD_PARTY = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}
"""SHA-256 of each file in its npm package: htmx.org 4.0.1 (0BSD), uplot 1.6.32 (MIT)."""

_MEDIA = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file: its bytes, plain and compressed, and a prefix of their SHA-256."""

    data: bytes
    gzipped: bytes
    version: str


@cache
def content(name: str) -> Asset:
    """Return a file by its name. Raises: KeyError for an unknown one."""
    kind = name.rpartition(".")[2]
    file = files(__package__).joinpath("static", name)
    if kind not in _MEDIA or "/" in name or not file.is_file():
        raise KeyError(name)
    data = file.read_bytes()
    return Asset(data, gzip.compress(data, mtime=0), hashlib.sha256(data).hexdigest()[:12])


def address(name: str) -> str:
    """Return a file's address with the version of its content, so that browsers may cache it forever."""
    return f"/static/{name}?v={content(name).version}"


async def asset(request: Request) -> Response:
    """Return one file, without authentication: the sign-in page needs them too.

    Pages aren't compressed: they hold a CSRF token and documents besides text from the link, and the compressed length
    would reveal the former by the latter (BREACH).
    """
    name = request.path_params["name"]
    try:
        file = content(name)
    except KeyError:
        raise HTTPException(404) from None
    tag = f'W/"{file.version}"'  # weak: the same for both encodings
    # Only an address with the present version is immutable.
    caching = "public, max-age=31536000, immutable" if request.query_params.get("v") == file.version else "no-cache"
    headers = {"Cache-Control": caching, "ETag": tag, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    data = file.data
    if takes_gzip(request.headers.get("accept-encoding", "")):
        data, headers["Content-Encoding"] = file.gzipped, "gzip"
    return Response(data, media_type=_MEDIA[name.rpartition(".")[2]], headers=headers)
