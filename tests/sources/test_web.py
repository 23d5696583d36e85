"""A web site that is read by its links: what robots.txt says, a trap without an end, ways inside that are closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hive_agents.sources import add_source
from hive_agents.sources.running import SourceReport, run_source
from hive_agents.workspace import Workspace

Page = tuple[int, str, str]
ENDLESS = "without an end"


class Site:
    """A site of pages by path, which counts what it was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, str | Page] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                found = site.pages.get(self.path)
                if found is None and self.path.startswith("/docs/trap/"):
                    found = f'<h1>Trap</h1><p>Words.</p><a href="{self.path}deeper/">deeper</a>'
                while found == ENDLESS:
                    try:
                        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                    except OSError:
                        return
                status, kind, body = (404, "text/plain", "none") if found is None else _page(found)
                self.send_response(status)
                self.send_header("location" if 300 <= status < 400 else "content-type", kind)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


def _page(found: str | Page) -> Page:
    return found if isinstance(found, tuple) else (200, "text/html", found)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.pages |= {
        "/robots.txt": (200, "text/plain", "User-agent: *\nDisallow: /docs/*.secret.html$\nDisallow: /docs/private/\n"),
        "/docs/": '<h1>Start</h1><p>Welcome.</p><a href="a.html">a</a> <a href="x.secret.html">x</a>'
        '<a href="/elsewhere.html">out</a> <a href="private/p.html">p</a> <a href="a.html?page=2#top">again</a>',
        "/docs/a.html": "<h1>A</h1><p>The text of a.</p>",
        "/docs/x.secret.html": "<h1>X</h1><p>Secret.</p>",
        "/docs/private/p.html": "<h1>P</h1><p>Private.</p>",
        "/elsewhere.html": "<h1>Out</h1><p>Out of scope.</p>",
    }
    yield made
    made.server.shutdown()
    made.server.server_close()


def workspace(tmp_path: Path, site: Site, url: str = "", **options: Any) -> Workspace:
    (tmp_path / "ws" / "collections").mkdir(parents=True)
    options = {"private_hosts": [site.host], "seconds": 0.0, **options}
    values = {"kind": "web", "url": url or f"http://{site.host}/docs/", "options": options}
    add_source(Workspace(tmp_path / "ws"), "site", values)
    return Workspace(tmp_path / "ws")


def run(place: Workspace) -> SourceReport:
    return run_source(place, "site")


def names(place: Workspace) -> list[str]:
    root = place.documents / "site"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.md"))


def test_links_are_followed_below_the_address_as_robots_lets_us(tmp_path: Path, site: Site) -> None:
    place = workspace(tmp_path, site)
    report = run(place)
    assert (report.status, names(place)) == ("done", ["docs/a.md", "docs/index.md"])
    assert report.documents.ignored == {"by robots.txt": 2}
    assert not {"/docs/x.secret.html", "/docs/private/p.html", "/elsewhere.html"} & set(site.asked)


def test_a_trap_ends_and_deletes_nothing(tmp_path: Path, site: Site) -> None:
    place = workspace(tmp_path, site, pages=8)
    run(place)
    site.pages["/docs/"] = '<h1>Start</h1><p>Welcome.</p><a href="trap/">on</a>'
    report = run(place)
    assert (report.status, len(site.asked) < 30, report.documents.deleted) == ("partial", True, [])
    assert {"docs/a.md", "docs/index.md"} <= set(names(place))


def test_a_page_that_is_gone_goes_and_one_that_fails_stays(tmp_path: Path, site: Site) -> None:
    site.pages["/docs/"] = "<h1>Start</h1><p>Welcome.</p>" + "".join(f'<a href="{n}.html">n</a>' for n in range(9))
    site.pages |= {f"/docs/{n}.html": f"<h1>{n}</h1><p>Text {n}.</p>" for n in range(9)}
    place = workspace(tmp_path, site)
    run(place)
    del site.pages["/docs/1.html"]
    site.pages["/docs/2.html"] = (500, "text/html", "broken")
    assert (run(place).status, len(names(place))) == ("partial", 10)
    site.pages["/docs/2.html"] = "<h1>2</h1><p>Text 2.</p>"
    assert (run(place).documents.deleted, len(names(place))) == (["site/docs/1.md"], 9)


def test_what_the_server_denies_is_nobodys_from_then_on(tmp_path: Path, site: Site) -> None:
    place = workspace(tmp_path, site)
    settings = place.root / "hive.toml"
    settings.write_text(settings.read_text().replace("[sources.site]", '[sources.site]\nview = ["tenant"]'))
    from hive_agents.workspace import trust

    trust(Workspace(place.root))
    place = Workspace(place.root)
    run(place)
    document = place.documents / "site" / "docs" / "a.md"
    assert "view:\n- tenant" in document.read_text()
    site.pages["/docs/a.html"] = (403, "text/html", "no")
    assert run(place).status == "partial"
    assert "view: []" in document.read_text()


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/", "http://[::1]/", "http://10.0.0.1/docs/"])
def test_no_private_address_is_opened_unless_it_is_declared(tmp_path: Path, site: Site, target: str) -> None:
    report = run(workspace(tmp_path, site, url=target))
    assert report.status == "failed"
    assert "private address" in str(report.message)


def test_a_redirect_leads_nowhere_else(tmp_path: Path, site: Site) -> None:
    site.pages["/docs/a.html"] = (302, f"http://localhost:{site.server.server_port}/elsewhere.html", "")
    place = workspace(tmp_path, site)
    assert (run(place).status, names(place)) == ("done", ["docs/index.md"])
    assert "/elsewhere.html" not in site.asked


def sitemap(*places: str, kind: str = "urlset") -> Page:
    return 200, "text/xml", f"<{kind}>{''.join(f'<loc>{place}</loc>' for place in places)}</{kind}>"


@pytest.mark.parametrize("up", ["%2e%2e/", "%2e%2e%2f", ".%2E/", "%2e./"])
def test_no_spelling_of_a_link_leads_out_of_the_address_or_past_robots(tmp_path: Path, site: Site, up: str) -> None:
    site.pages["/docs/"] = (
        f'<h1>Start</h1><p>Welcome.</p><a href="{up}private/p.html">up</a><a href="a/%2e%2e/a.html">a</a>'
    )
    site.pages["/private/p.html"] = "<h1>P</h1><p>Private.</p>"
    place = workspace(tmp_path, site)
    assert (run(place).status, names(place)) == ("done", ["docs/a.md", "docs/index.md"])
    assert "/private/p.html" not in site.asked


@pytest.mark.parametrize(
    "broken",
    [
        "<![odd[<p>Words.</p>",
        f'<p>Words.</p><a href="&#{"9" * 5_000};">number</a>',
        '<base href="http://[x/"><p>Words.</p><a href="http://[x/">x</a>',
    ],
    ids=["declaration", "number", "base"],
)
def test_a_page_that_no_parser_reads_costs_no_other(tmp_path: Path, site: Site, broken: str) -> None:
    site.pages["/docs/a.html"] = broken
    site.pages["/docs/"] = '<h1>Start</h1><p>Welcome.</p><a href="a.html">a</a> <a href="b.html">b</a>'
    site.pages["/docs/b.html"] = (302, "http://[x/", "")
    place = workspace(tmp_path, site)
    assert run(place).status in ("done", "partial")
    assert "docs/index.md" in names(place)


def test_a_sitemap_costs_no_more_than_its_length(tmp_path: Path, site: Site) -> None:
    padded = f"<![CDATA[ http://{site.host}/docs/a.html ]]>"
    site.pages["/map.xml"] = sitemap(" " * 100_000, "&#" + "9" * 5_000 + ";", padded)
    place = workspace(tmp_path, site, sitemap="/map.xml")
    assert (run(place).status, names(place)) == ("done", ["docs/a.md"])


def test_a_million_sitemaps_of_one_name_are_one(tmp_path: Path, site: Site) -> None:
    site.pages["/index.xml"] = sitemap(*[f"http://{site.host}/map.xml"] * 100_000, kind="sitemapindex")
    site.pages["/map.xml"] = sitemap(*(f"http://{site.host}/docs/{n}.html" for n in range(100_000)))
    place = workspace(tmp_path, site, sitemap="/index.xml", pages=3)
    assert (run(place).status, site.asked.count("/map.xml")) == ("partial", 1)
    assert len(site.asked) == 6


def test_a_secret_goes_to_no_sitemap_over_another_scheme(tmp_path: Path, site: Site) -> None:
    site.pages["/index.xml"] = sitemap(f"https://{site.host}/map.xml", kind="sitemapindex")
    report = run(workspace(tmp_path, site, sitemap="/index.xml"))
    assert (report.status, report.message) == ("failed", "its sitemaps are too many, or of another site")


def test_a_site_that_asks_for_days_between_two_pages_is_told_so(tmp_path: Path, site: Site) -> None:
    site.pages["/robots.txt"] = (200, "text/plain", "User-agent: *\nCrawl-delay: 86400\n")
    report = run(workspace(tmp_path, site))
    assert report.status == "failed"
    assert "asks for 86400 s between two pages" in str(report.message)


def test_the_names_of_a_robots_txt_have_no_copies_of_its_rules(tmp_path: Path, site: Site) -> None:
    named = "".join(f"User-Agent : agent{n}\n" for n in range(10_000))
    rules = "".join(f"Disallow: /{n}\n" for n in range(10_000))
    ours = "user agent Hive-Agents*\nDisallow: /docs/a.html\n"
    site.pages["/robots.txt"] = (200, "text/plain", named + rules + ours)
    report = run(workspace(tmp_path, site))
    assert (report.status, report.documents.ignored) == ("done", {"by robots.txt": 1})


def test_an_answer_without_an_end_ends(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hive_agents.sources.http_answer._SECONDS", 0.3)
    site.pages["/docs/a.html"] = ENDLESS
    report = run(workspace(tmp_path, site))
    assert report.status == "partial"
    assert [failed["message"] for failed in report.failed] == ["its answer has no end within 0.3 s"]
