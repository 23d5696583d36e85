"""Web tools against a server on loopback, which counts as a private host."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.agents import ToolContext, Tools
from hive_agents.agents.bundled import NAMES, ONLY_SUB_AGENTS, bundled_tools
from hive_agents.agents.web_tools import MAX_BYTES, Web, _text, destination, is_public, page_text
from hive_agents.base.errors import HiveError
from tests.listening import answering

PAGE = "<html><head><title>Bees</title><style>p {}</style></head><body><p>Honey &amp; <b>wax</b></p></body></html>"


INSIDE = {
    "inside": "http://169.254.169.254/latest",
    "loopback": "http://localhost/",
    "figures": "//2130706433/",
    "mapped": "http://[::ffff:10.0.0.1]/",
    "named": "http://inside.example/",
}
"""Where pages send a reader who follows them."""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/").partition("?")[0]
        moved = {"moved": "/page", "round": "/round", "file": "file:///etc", **INSIDE}
        if name in moved:
            self.answer(302, location=moved[name])
        elif name == "page":
            self.answer(200, PAGE.encode(), **{"content-type": "text/html; charset=utf-8"})
        elif name == "image":
            self.answer(200, b"\x89PNG", **{"content-type": "image/png"})
        elif name == "large":
            self.answer(200, b"x" * (MAX_BYTES + 1), **{"content-type": "text/plain"})
        elif name == "host":
            self.answer(200, self.headers["host"].encode(), **{"content-type": "text/plain; charset=nonsense"})
        else:
            self.answer(404, b"gone")

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]  # who is refused hangs up
    with answering(server) as url:
        yield url.removeprefix("http://")


@pytest.fixture
def context(text_workspace: Workspace) -> ToolContext:
    return ToolContext(text_workspace)


def tools(context: ToolContext, *private: str) -> Tools:
    return bundled_tools(context.workspace, private_hosts=private).view(sub_agent=True)


async def scraped(context: ToolContext, url: str, *private: str) -> tuple[str, bool]:
    found = await tools(context, *private).call("web_scrape", {"url": url}, context, approved=True)
    return found.content, found.is_error


def test_the_bundled_tools_are_those_that_are_named(context: ToolContext) -> None:
    registry = bundled_tools(context.workspace)
    assert set(registry.all_names) == NAMES
    assert registry.sub_agents_only == ONLY_SUB_AGENTS
    assert {name for name in NAMES if tools(context)[name].side_effect == "external"} == {
        "web_search", "web_scrape", "browser",
    }  # fmt: skip
    assert {tools(context).decide(name) for name in NAMES} == {"ask"}


async def test_a_page_is_read_as_text(context: ToolContext, host: str) -> None:
    assert await scraped(context, f"http://{host}/page#top", host) == (
        f"http://{host}/page\n\nBees\nHoney & wax",
        False,
    )
    assert (await scraped(context, f"http://{host}/moved", host))[0].endswith("Honey & wax")
    named = host.replace("127.0.0.1", "localhost")
    assert (await scraped(context, f"http://{named}/host", named))[0].endswith(f"\n{named}")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        *((path, "private address") for path in INSIDE),
        ("file", "no http or https"),
        ("round", "moved more than 5 times"),
        ("image", "image/png, no text"),
        ("large", f"over {MAX_BYTES} bytes"),
        ("gone", "404"),
    ],
)
async def test_what_should_not_be_read_is_not(
    context: ToolContext, host: str, path: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = socket.getaddrinfo
    names = {"inside.example": "127.0.0.1"}
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, *rest, **more: asked(names.get(name, name), *rest, **more))
    content, is_error = await scraped(context, f"http://{host}/{path}", host)
    assert is_error
    assert why in content


@pytest.mark.parametrize(
    "url",
    [
        "http://{host}/page",
        "http://localhost:{port}/page",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://0/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[64:ff9b::7f00:1]/",
        "http://93.184.216.34:22/",
        "http://user:pass@93.184.216.34/",
        "file:///etc/passwd",
        "ftp://93.184.216.34/",
        "http://",
        "//93.184.216.34/",
        "http://93.184.216.34:99999/",
        "http://93.184.216.34/\r\nx: y",
    ],
)
async def test_nothing_inside_can_be_reached(context: ToolContext, host: str, url: str) -> None:
    target = url.format(host=host, port=host.partition(":")[2])
    assert (await scraped(context, target))[1]
    with pytest.raises((HiveError, OSError)):
        await destination(target)


async def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns a name decides what it says; a second answer could be the one that is used."""
    answers = ["93.184.216.34", "2606:2800:220:1::1", "10.0.0.1"]

    def look_up(host: str, port: int, *rest: Any, **options: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in answers]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(HiveError, match="private address"):
        await destination("https://example.org/")
    answers.pop()
    place = await destination("https://example.org/")
    assert (place.host, place.port, place.address) == ("example.org", 443, "93.184.216.34")


async def test_the_address_that_was_looked_at_is_the_one_to_connect_to() -> None:
    place = await destination("http://93.184.216.34/a?b=c#d")
    assert (place.url, place.host, place.port, place.address) == (
        "http://93.184.216.34/a?b=c", "93.184.216.34", 80, "93.184.216.34",
    )  # fmt: skip


async def test_a_name_that_changes_its_mind_is_not_asked_again(
    context: ToolContext, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, names = socket.getaddrinfo, list[str]()

    def look_up(name: Any, *rest: Any, **more: Any) -> Any:
        if name != "mind.example":
            return asked(name, *rest, **more)
        names.append(name)
        assert len(names) == 1, "the second answer could be an address inside"
        return asked("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    named = host.replace("127.0.0.1", "mind.example")
    assert (await scraped(context, f"http://{named}/page", named))[0].endswith("Honey & wax")


PRIVATE = """
    224.0.0.1 0.0.0.0 100.64.0.1 10.0.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.168.1.1 198.18.0.1 203.0.113.1
    240.0.0.1 255.255.255.255 192.0.0.9 192.88.99.1
    ::1 :: fec0::1 fe80::1%eth0 fd00::1 ff02::1 2001:db8::1 3fff::1 3fff:fff::1 100::1 100:0:0:1::1 5f00::1
    ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::ffff:0:10.0.0.1
    64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b:1::7f00:1 64:ff9b:1::5db8:d822
    2002:7f00:1:: 2002:a9fe:a9fe::1 2002:c0a8:101::1 2001:0:4136:e378:8000:63bf:80ff:fffe
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:10.0.0.1
    x 1.2.3 01.2.3.4 2130706433
""".split()
PUBLIC = "93.184.216.34 2606:4700::1111 ::ffff:93.184.216.34 64:ff9b::93.184.216.34 2002:5db8:d822::1".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_no_public_ones(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_web(address: str) -> None:
    assert is_public(address)


async def test_search_needs_a_provider(context: ToolContext) -> None:
    found = await tools(context).call("web_search", {"query": "bees"}, context, approved=True)
    assert found.is_error
    assert "no search provider" in found.content

    async def provider(query: str, results: int) -> list[dict[str, str]]:
        return [{"title": query, "url": "https://example.org", "snippet": str(results)}]

    with_one = bundled_tools(context.workspace, web_search=provider)
    found = await with_one.call("web_search", {"query": "bees"}, context, approved=True)
    assert found.content == (
        '{"query": "bees", "results": [{"title": "bees", "url": "https://example.org", "snippet": "5"}]}'
    )


@pytest.mark.parametrize(
    ("method", "url", "goes"),
    [
        ("GET", "http://93.184.216.34/style.css", True),
        ("POST", "http://93.184.216.34/", False),
        ("GET", "http://93.184.216.35/", False),
        ("GET", "http://127.0.0.1/", False),
        ("GET", "http://169.254.169.254/latest", False),
        ("GET", "http://[::1]/", False),
        ("GET", "http://2130706433/", False),
        ("GET", "file:///etc/passwd", False),
        ("GET", "http://93.184.216.34:8080/", False),
        ("GET", "http://nothing.invalid/", False),
    ],
)
async def test_a_page_in_the_browser_reads_from_its_own_host_alone(method: str, url: str, goes: bool) -> None:
    """Whatever its scripts ask for; `Route` is what the browser hands over for each request."""
    said: list[str] = []

    class Route:
        request = SimpleNamespace(url=url, method=method)

        async def continue_(self) -> None:
            said.append("goes")

        async def abort(self) -> None:
            said.append("stops")

    place = await destination("http://93.184.216.34/")
    await Web(frozenset(), None)._let_through(Route(), place)
    assert said == (["goes"] if goes else ["stops"])


async def test_the_browser_says_how_to_get_it(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    found = await tools(context).call("browser", {"url": "https://example.org"}, context, approved=True)
    assert found.is_error
    assert "HIVE-411" in found.content


@pytest.mark.parametrize("encoding", ["punycode", "Punycode", "idna"])
def test_no_page_chooses_a_decoder_that_takes_the_square_of_its_length(encoding: str) -> None:
    assert _text("text/plain", b"words-kva", encoding) == "words-kva"


def test_a_page_that_is_broken_is_read_as_far_as_it_goes() -> None:
    assert page_text("<p>One<p>two<br>three</script><style>x") == "One\ntwo\nthree"
    assert page_text("<script>a</script>b<iframe>c</iframe>") == "b"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a<svg><b>x</b></svg>b<svg/>c", "a\nb\nc"),
        ("1 < 2 <a href='x>y'>link</a><!-- <p> -->d", "1 < 2 linkd"),
        ("<SCRIPT>if (a</b>)</SCRIPT >e<br/>f &amp; g", "e\nf & g"),
        ("x<a ", "x"),
        ("&#" + "9" * 5000 + ";", "\ufffd"),
    ],
)
def test_markup_is_taken_out(html: str, text: str) -> None:
    assert page_text(html) == text


@pytest.mark.parametrize(
    "part", ["<", "<a ", "<!--", "<![CDATA[", "<script>", "<script></scrip", "<?", "<a x='", "</a", "<a x=", "= ", "&#"]
)
def test_no_page_takes_the_time_of_its_square(part: str) -> None:
    """As long as a page may be: what looks ahead from each tag to the end would take hours."""
    page_text(part * (MAX_BYTES // len(part)))
