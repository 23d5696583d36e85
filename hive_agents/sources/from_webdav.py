"""A folder of a WebDAV server, listed folder by folder; what lies outside of it is left out."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.parsers.expat import ExpatError, ParserCreate

from hive_agents.sources.contract import (
    Denied,
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceFailure,
    SourceItem,
    SourceOptions,
    SourcePlace,
)
from hive_agents.sources.http_answer import DENIED, GONE, HttpAnswer, HttpClient

_MOST_FOLDERS, _LONGEST_VALUE = 20_000, 10_000
_NAMES = ("getcontentlength", "getetag", "getlastmodified", "resourcetype")
_ASKED = f'<propfind xmlns="DAV:"><prop>{"".join(f"<{name}/>" for name in _NAMES)}</prop></propfind>'.encode()


class WebDavOptions(SourceOptions):
    """Without `tls` the address may begin with http://: then the password is sent as it is."""

    tls: bool = True


@dataclass
class _Listed:
    href: str = ""
    size: str = "0"
    etag: str = ""
    modified: str = ""
    is_folder: bool = False


class WebDavSource(DocumentSource[WebDavOptions]):
    """The url is `https://host/folder/`, the secret `user:password`."""

    def __init__(self, place: SourcePlace, options: WebDavOptions) -> None:
        super().__init__(place, options)
        import httpx

        url = httpx.URL(place.settings.url)
        if url.scheme not in (("https",) if options.tls else ("https", "http")) or not url.host or url.userinfo:
            raise SourceFailure("write its url as https://host/folder/")
        self._root = "/" + "".join(f"{part}/" for part in url.path.split("/") if part)
        self._url = url
        self._headers = {"content-type": "application/xml"}
        if place.secret is not None:
            login = base64.b64encode(":".join(place.user_and_password()).encode()).decode()
            self._headers["authorization"] = f"Basic {login}"
        self._client = HttpClient(trust_env=True, verify=ssl.create_default_context())

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        waiting, known = [""], {""}
        for number, folder in enumerate(waiting):
            if number >= _MOST_FOLDERS:
                yield MissedItem("", f"it has more than {_MOST_FOLDERS:,} folders")
                return
            try:
                entries = self._listed(folder)
            except Denied as denied:
                if not folder:
                    raise
                yield MissedItem(folder.rstrip("/"), str(denied), denied=True, alone=True)
                continue
            except SourceFailure as failure:
                if not folder:
                    raise
                yield MissedItem(folder.rstrip("/"), str(failure))
                continue
            for entry in entries:
                key = self._key(entry.href)
                if key is None or not key.startswith(folder):
                    self.ignored["outside of the folder"] = self.ignored.get("outside of the folder", 0) + 1
                elif entry.is_folder:
                    below = f"{key.rstrip('/')}/"
                    if key.strip("/") and below not in known:
                        known.add(below)
                        waiting.append(below)
                else:
                    told = " ".join((entry.etag, entry.modified)).strip()
                    yield SourceItem(key, f"{told} {entry.size}" if told else "", _number(entry.size))

    def fetch(self, item: SourceItem) -> bytes:
        return self._asked("GET", item.key).body

    def close(self) -> None:
        self._client.close()

    def _key(self, href: str) -> str | None:
        """Return the path below the root, None outside of it. Whichever host a server names, its own is asked."""
        path = unquote(urlsplit(href).path)
        key = path.removeprefix(self._root)
        if f"{path}/" == self._root:
            return ""
        plain = all(part not in ("", ".", "..") for part in key.removesuffix("/").split("/")) if key else True
        return key if path.startswith(self._root) and plain and key.isprintable() else None

    def _listed(self, folder: str) -> list[_Listed]:
        answer = self._asked("PROPFIND", folder, {"depth": "1"}, _ASKED)
        if answer.status != 207:
            raise SourceFailure(f"it is no WebDAV server: it answers {answer.status}")
        return _entries(answer.body)

    def _asked(self, method: str, key: str, headers: dict[str, str] | None = None, content: bytes = b"") -> HttpAnswer:
        target = self._url.copy_with(raw_path=quote(self._root + key).encode())
        asking = self._client.answer(method, target, self._headers | (headers or {}), content)
        answer = self._client.run(asking)
        if answer.status in DENIED:
            raise Denied(f"the server answers {answer.status}")
        if answer.status not in (200, 207):
            raise SourceFailure("it isn't there" if answer.status in GONE else f"the server answers {answer.status}")
        return answer


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise SourceFailure("the server gives a size that is none")
    return int(text)


def _entries(body: bytes) -> list[_Listed]:
    """Return what a listing names. Raises: SourceFailure for one that can't be read, or declares what XML may.

    >>> _entries(b'<m xmlns="DAV:"><response><href>/a.md</href></response></m>')
    [_Listed(href='/a.md', size='0', etag='', modified='', is_folder=False)]
    """
    found, text = list[_Listed](), list[str]()
    fields = {"href": "href", "getcontentlength": "size", "getetag": "etag", "getlastmodified": "modified"}
    parser = ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def start(name: str, _: Any) -> None:
        text.clear()
        local = name.removeprefix("DAV: ")
        if local == "response":
            found.append(_Listed())
        elif local == "collection" and found:
            found[-1].is_folder = True

    def end(name: str) -> None:
        field, value = fields.get(name.removeprefix("DAV: ")), "".join(text).strip()
        if field and found and value:
            setattr(found[-1], field, value)
        text.clear()

    def more(part: str) -> None:
        if sum(map(len, text)) + len(part) > _LONGEST_VALUE:
            raise SourceFailure("its listing holds a value without an end")
        text.append(part)

    def declares(*_: Any) -> None:
        raise SourceFailure("its listing declares entities")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, more
    parser.StartDoctypeDeclHandler = declares
    try:
        parser.Parse(body, True)
    except ExpatError as error:
        raise SourceFailure(f"its listing can't be read: {error}") from None
    if not found:
        raise SourceFailure("its listing is empty, even of itself")
    return found
