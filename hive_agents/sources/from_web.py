"""A web site: the pages below an address, found by their links or by sitemaps, as far as robots.txt lets us.

No private address is opened unless the options declare its host; the name of a host is resolved once for each request,
and the answer is what is connected to.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from pydantic import Field

from hive_agents.agents import destination
from hive_agents.readers import KINDS
from hive_agents.sources.contract import (
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceFailure,
    SourceItem,
    SourceOptions,
    SourcePlace,
)
from hive_agents.sources.http_answer import DENIED, GONE, HttpClient

AGENT = "hive-agents"
_LONGEST_PAUSE = 60.0
"""Seconds between two requests, for whatever site comes next."""
_MOST_REDIRECTS, _MOST_SITEMAPS, _LONGEST_URL, _MOST_ROBOTS = 5, 1_000, 500, 512_000
_MOVED = frozenset({301, 302, 303, 307, 308})
# Nothing is given back: a sitemap costs what it is long.
_LOCATION = re.compile(r"<(?:\w+:)?loc>\s*+(?:<!\[CDATA\[)?+([^<\]]++)(?:\]\]>)?+\s*+</(?:\w+:)?loc>", re.I)


class WebOptions(SourceOptions):
    """`sitemap` is the address of one, or "robots" for those that robots.txt names; "" follows links from the url. At
    most `pages` are read, `seconds` apart (more where robots.txt asks for it). `private_hosts` may be in this network,
    as `host` or `host:port`. Addresses with a query are other pages only with `queries`: calendars have no end."""

    sitemap: str = ""
    pages: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    seconds: Annotated[float, Field(ge=0)] = 0.5
    private_hosts: list[str] = []
    queries: bool = False


@dataclass(frozen=True)
class _WebAnswer:
    status: int
    body: bytes = b""
    kind: str = ""
    revision: str = ""
    moved: str | None = None


class WebSource(DocumentSource[WebOptions]):
    def __init__(self, place: SourcePlace, options: WebOptions) -> None:
        super().__init__(place, options)
        from protego import Protego

        self._start = self._plain(place.settings.url) or ""
        parts = urlsplit(self._start)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceFailure("write its url as https://host/path")
        self._site = (parts.scheme, parts.netloc)
        self._below = parts.path if parts.path.endswith("/") else posixpath.dirname(parts.path).rstrip("/") + "/"
        self._client = HttpClient()
        self._next = 0.0
        self._pause = options.seconds
        try:
            found = self._get(f"{parts.scheme}://{parts.netloc}/robots.txt")
            if found.status >= 500 or found.status == 429:
                raise SourceFailure(f"robots.txt answers {found.status}, so that nothing may be read")
            self._robots: Any = Protego.parse(_robots_for_us(found.body) if found.status == 200 else "")
            asked = float(self._robots.crawl_delay(AGENT) or 0)
            if asked > _LONGEST_PAUSE:
                raise SourceFailure(f"robots.txt asks for {asked:g} s between two pages: over {_LONGEST_PAUSE:g}")
        except BaseException:
            self.close()
            raise
        self._pause = max(options.seconds, asked)

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        follow = not self.options.sitemap
        # One more than may be read tells that there are more.
        queue = [self._start] if follow else list(islice(self._mapped(), self.options.pages + 1))
        known, number = dict.fromkeys(queue), 0
        keys = set[str]()
        while number < len(queue):
            url, number = queue[number], number + 1
            if number > self.options.pages:
                yield MissedItem("", f"it has more than {self.options.pages} pages")
                return
            if not self._robots.can_fetch(url, AGENT):
                self.ignored["by robots.txt"] = self.ignored.get("by robots.txt", 0) + 1
                continue
            key = _key(url)
            try:
                answer, url = self._page(url, seen.revisions.get(key, ""))
            except SourceFailure as failure:
                if number == 1 and follow:
                    raise
                yield MissedItem(key, str(failure), alone=not follow)
                continue
            if answer is None or answer.status in GONE or (at := _key(url)) in keys:
                if number == 1 and follow:
                    raise SourceFailure(f"{self._start} answers {answer.status if answer else 'from elsewhere'}")
                continue
            keys.add(at)
            if answer.status in DENIED:
                yield MissedItem(at, f"the server answers {answer.status}", denied=True, alone=True)
                continue
            if answer.status == 304:
                body, revision, kind = seen.content(at) or b"", seen.revisions.get(at, ""), "text/html"
            else:
                body, revision, kind = answer.body, answer.revision, answer.kind
            try:
                page = _WebPage(body, url) if "html" in kind and at.endswith(".html") else None
            except (AssertionError, ValueError) as error:  # the parser's, of what is no HTML
                yield MissedItem(at, f"it can't be read as HTML: {error}", alone=not follow)
                continue
            if page is not None and follow and not page.nofollow:
                for link in page.links:
                    plain = self._plain(link)
                    if len(queue) > self.options.pages:
                        break
                    if plain is not None and plain not in known and self._is_within(plain):
                        known[plain] = None
                        queue.append(plain)
            if page is not None and page.noindex:
                self.ignored["by noindex"] = self.ignored.get("by noindex", 0) + 1
            elif page is None and at.endswith(".html"):
                self.ignored["of other types"] = self.ignored.get("of other types", 0) + 1
            else:
                yield SourceItem(at, revision, len(body), content=body)

    def close(self) -> None:
        self._client.close()

    def _mapped(self) -> Iterator[str]:
        """Yield the pages of the sitemaps, and of those that they name. Raises: SourceFailure for a missing one."""
        wanted = self.options.sitemap
        waiting = deque(self._robots.sitemaps if wanted == "robots" else [urljoin(self._start, wanted)])
        read, known = 0, set[str]()
        while waiting:
            url = self._plain(waiting.popleft()) or ""
            if url in known:
                continue
            known.add(url)
            read += 1
            if read > _MOST_SITEMAPS or not url or urlsplit(url)[:2] != self._site:
                raise SourceFailure("its sitemaps are too many, or of another site")
            found = self._get(url)
            if found.status != 200:
                raise SourceFailure(f"the sitemap {url} answers {found.status}")
            text = found.body.decode("utf-8", "replace")
            if not text.rstrip().endswith(("</urlset>", "</sitemapindex>")):
                raise SourceFailure(f"the sitemap {url} has no end")
            places = (unescape(found[1]) for found in _LOCATION.finditer(text) if len(found[1]) < 4 * _LONGEST_URL)
            if "<sitemapindex" in text:
                waiting += dict.fromkeys(places)
            else:
                yield from (plain for place in places if (plain := self._plain(place)) and self._is_within(plain))

    def _plain(self, url: str) -> str | None:
        """Return an address as it is compared: without fragment, and without query unless these are pages."""
        try:
            parts = urlsplit(url.strip())
            if parts.scheme not in ("http", "https") or len(url) > _LONGEST_URL or (parts.port or 80) < 1:
                return None
        except ValueError:
            return None
        said = unquote(parts.path) or "/"  # before `..` is resolved: what asks resolves it however it is spelled
        path = re.sub("^/+", "/", posixpath.normpath(said) + ("/" if said.endswith("/") and said != "/" else ""))
        path = quote(path, safe="/~!$&'()*+,;=:@")
        if parts.query and not self.options.queries:
            return None
        return parts._replace(netloc=parts.netloc.lower(), path=path, fragment="").geturl()

    def _is_within(self, url: str) -> bool:
        parts = urlsplit(url)
        return (parts.scheme, parts.netloc) == self._site and parts.path.startswith(self._below)

    def _page(self, url: str, revision: str) -> tuple[_WebAnswer | None, str]:
        """Return the answer for a page, and its address after redirects; None where these leave the site."""
        for _ in range(_MOST_REDIRECTS):
            answer = self._get(url, revision)
            if answer.status not in _MOVED:
                if answer.status not in (200, 304, *DENIED, *GONE):
                    raise SourceFailure(f"the server answers {answer.status}")
                return answer, url
            try:
                target = self._plain(urljoin(url, answer.moved or ""))
            except ValueError:
                target = None
            if target is None or not self._is_within(target) or not self._robots.can_fetch(target, AGENT):
                return None, url
            url, revision = target, ""
        raise SourceFailure("it redirects without an end")

    def _get(self, url: str, revision: str = "") -> _WebAnswer:
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._pause
        return self._client.run(self._answer(url, revision))

    async def _answer(self, url: str, revision: str) -> _WebAnswer:
        import httpx

        place = await destination(url, self.options.private_hosts)
        headers = {"host": httpx.URL(place.url).netloc.decode(), "user-agent": AGENT}
        if self.place.secret is not None:
            headers["authorization"] = self.place.secret.reveal()
        if revision:
            headers["if-none-match" if revision.startswith(('"', "W/")) else "if-modified-since"] = revision
        target = httpx.URL(place.url).copy_with(host=place.address)
        found = await self._client.answer("GET", target, headers, sni_hostname=place.host)
        told = found.headers
        known = told.get("etag") or told.get("last-modified") or ""
        kind = told.get("content-type", "").partition(";")[0].strip().lower()
        return _WebAnswer(found.status, found.body, kind, known, told.get("location"))


def _robots_for_us(body: bytes) -> str:
    """Return a robots.txt, cut, with one name for all who aren't asked for here: each name has a copy of its rules.

    >>> _robots_for_us(b"User-agent: crawler\\nUser-agent: hive*\\nDisallow: /x")
    'user-agent: another\\nUser-agent: hive*\\nDisallow: /x'
    """
    lines = body[:_MOST_ROBOTS].decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines):
        told = line.partition("#")[0].strip().lower()
        if told.startswith("user"):
            named = re.fullmatch(r"user(?:-|\s+)?agent\s*+:?(.*)", told)
            if named is None or named[1].replace("*", "").strip() not in AGENT:
                lines[number] = "user-agent: another"
    return "\n".join(lines)


def _key(url: str) -> str:
    """Return the path below the site by which a page is known; one without a suffix is read as HTML.

    >>> _key("https://a.example/docs/"), _key("https://a.example/a?b=1"), _key("https://a.example/x.pdf")
    ('docs/index.html', 'a-b=1.html', 'x.pdf')
    """
    parts = urlsplit(url)
    path = unquote(parts.path).lstrip("/")
    if not path or path.endswith("/"):
        path += "index.html"
    if parts.query:
        path += f"-{parts.query}"
    suffix = PurePosixPath(path).suffix.lower()
    return re.sub(r"\.(?:htm|xhtml)$", ".html", path) if suffix in KINDS else f"{path}.html"


class _WebPage(HTMLParser):
    """The links of a page, and what it says to robots."""

    def __init__(self, body: bytes, url: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.noindex = self.nofollow = False
        self._base = url
        self.feed(body.decode("utf-8", "replace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "base" and told.get("href"):
            with suppress(ValueError):
                self._base = urljoin(self._base, told["href"])
        elif tag == "meta" and told.get("name", "").lower() == "robots":
            words = told.get("content", "").lower()
            self.noindex |= "noindex" in words or "none" in words
            self.nofollow |= "nofollow" in words or "none" in words
        elif tag in ("a", "area") and told.get("href") and "nofollow" not in told.get("rel", "").lower():
            with suppress(ValueError):  # no address
                self.links.append(urljoin(self._base, told["href"]))
