"""The documentation as a site: what a reader finds, follows and searches."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs.site.build import ROOT, address, groups, sources, write_pages
from hive_agents import Workspace
from hive_agents.documents import terms, words
from hive_agents.documents.analysis import found_words
from hive_agents.evaluation import load_golden
from hive_agents.index import BM25Params
from tests.help.pages import with_golden
from tests.pages.browser import chromium, needs_chromium


class Read(HTMLParser):
    """What a page names itself, links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names += [str(found["id"])] if "id" in found else []
        self.loads += [str(found["src"])] if "src" in found else []
        if "href" in found:
            (self.links if tag == "a" else self.loads).append(str(found["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    folder = tmp_path_factory.mktemp("site")
    write_pages(folder)
    (folder / "search-index.js").touch()
    pages = {page.name: Read(page.read_text(encoding="utf-8")) for page in folder.glob("*.html")}
    assert len(pages) == len(sources()) >= 38
    for page in pages.values():
        assert all((folder / file).is_file() for file in page.loads)
    return pages


def test_every_link_leads_to_a_heading_of_the_site_or_into_the_web(site: dict[str, Read]) -> None:
    lost = []
    for name, page in site.items():
        for link in page.links:
            target, _, heading = link.partition("#")
            there = site.get(target or name)
            if "://" not in link and (there is None or (heading and heading not in there.names)):
                lost.append((name, link))
    assert lost == []
    assert all(len(page.names) == len(set(page.names)) for page in site.values())


def test_no_page_loads_anything_from_elsewhere(site: dict[str, Read]) -> None:
    assert [load for page in site.values() for load in page.loads if ":" in load or load.startswith("/")] == []


def test_the_navigation_has_every_page_once() -> None:
    shown = [page for _, pages in groups() for page, _ in pages]
    assert sorted(shown) == sorted({address(source) for source in sources()})
    assert [name for name, _ in groups()][1:] == ["begin", "prove", "ask", "agents", "run", "trust"]


def test_the_first_page_has_three_pictures_and_a_path_for_each_user(site: dict[str, Read]) -> None:
    first = site["index.html"]
    assert len([load for load in first.loads if load.startswith("pictures/")]) == 3
    assert {"concepts.html", "copilot.html", "agents-in-code.html"} <= set(first.links)


def test_the_readme_is_short_and_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    commands = [line.split("#")[0].strip() for line in lines[lines.index("```") :]][1:3]
    assert commands == ["make demo", "make test"]


@pytest.mark.slow
@needs_chromium
async def test_its_search_ranks_as_the_engine_does(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "docs.site.build", tmp_path / "site"], cwd=ROOT, check=True)
    place: Workspace = with_golden(tmp_path / "workspace")
    engine = place.engine()
    config = engine.resolve(None)
    index = engine.index(config.collection)
    params = BM25Params(**config.bm25.model_dump())

    @cache
    def names(page: str) -> list[str]:
        return Read((tmp_path / "site" / page).read_text(encoding="utf-8")).names

    async with chromium() as browser:
        page = await browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda one: complaints.append(one.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto((tmp_path / "site" / "index.html").as_uri())
        exact = shown = 0
        for query in load_golden(place).queries:
            theirs = dict(await page.evaluate("query => rank(query)", query.query))
            best = sorted(theirs.values(), reverse=True)
            alone = [term for word in found_words(query.query) for term in terms(word[0], index.language)]
            known = await page.evaluate("words => words.every(word => word in hiveIndex.words)", words(query.query))
            if known and Counter(alone) == Counter(terms(query.query, index.language)):
                lane = index.keyword(query.query, 5, params, None)
                assert best[:5] == pytest.approx(lane.scores.tolist(), abs=0.02), query.query
                assert [theirs[chunk] for chunk in lane.chunks.tolist()] == pytest.approx(best[:5], abs=0.02)
                exact += 1
            if query.tags == ["own words"]:
                await page.locator("#query").fill(query.query)
                pages = await page.locator("#found a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
                shown += not {address(Path(right)) for right in query.relevant}.isdisjoint(
                    {link.split("#")[0] for link in pages}
                )
        assert (exact >= 70, shown >= 69) == (True, True), (exact, shown)
        assert [
            one for one in await page.evaluate("hiveIndex.passages") if one[1] and one[1] not in names(one[0])
        ] == []
        await page.locator("#query").fill("")
        await page.locator("#query").blur()
        await page.keyboard.press("/")
        await page.keyboard.type("revoke a token")
        await page.locator("#found a").first.click()
        await page.wait_for_url("**/*.html#*")
        assert complaints == []
