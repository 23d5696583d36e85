"""A tag's loss is accepted by a second person: from the gate's refusal to the deployment that serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.ranking.config import point_active
from tests.conftest import write_config
from tests.pages.browser import chromium, needs_chromium, reached, require_accessible, signed_in, skipped
from tests.sample import hive
from tests.server.serving import bearer, sample, served

pytestmark = [pytest.mark.slow, needs_chromium]
BROAD, OTHER = [f"broad{n}" for n in range(30)], [f"other{n}" for n in range(60)]


def losing(place: Workspace) -> None:
    """`three` serves. `two` leaves a distractor out for sixty questions, and an answer to the thirty of tag "broad".

    Everybody of the tenant may view every document, and so is told all figures.
    """
    (collection,) = place.root.glob("collections/*.json")
    for path in place.documents.rglob("*.md"):
        path.unlink()
    for folder, times in (("a", 3), ("b", 2), ("c", 1)):
        (place.documents / folder).mkdir()
        for word in (*BROAD, *OTHER):
            said = f"{' '.join([word] * times)} set the dial.\n"
            text = f"---\ntitle: Page\nversion: 1\ntenant: acme\nview: [tenant]\n---\n{said}"
            (place.documents / folder / f"{word}.md").write_text(text)
    for name, depth in (("three", 3), ("two", 2)):
        write_config(place, name, "keyword", retrieval={"top_k": depth}, collection=collection.stem)

    def asked(word: str, tag: str, relevant: list[str], distractors: list[str]) -> dict[str, Any]:
        return {"id": word, "query": word, "relevant": relevant, "distractors": distractors, "tags": [tag]}

    queries = [asked(word, "broad", [f"{folder}/{word}.md" for folder in "abc"], []) for word in BROAD]
    queries += [asked(word, "other", [f"a/{word}.md"], [f"c/{word}.md"]) for word in OTHER]
    golden = {"collection": collection.stem, "queries": queries}
    (place.root / "evals" / "golden.json").write_text(json.dumps(golden))
    point_active(place, place.configs / "three.json")


async def test_a_refused_deployment_is_asked_for_and_a_second_person_accepts_the_tags_loss(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    losing(place)
    async with served(place) as client, chromium() as browser:
        url = str(client.base_url)
        async with (
            signed_in(browser, url, place, "root", "operator", "reader") as asks,
            signed_in(browser, url, place, "dana", "approver", "reader") as decides,
        ):
            await decides.goto("/approvals")
            await decides.get_by_text("Nothing waits for a person.").wait_for()

            await asks.goto("/optimize/configs/two")
            await asks.get_by_role("button", name="Deploy", exact=True).click()
            told = asks.locator("[data-outcome]")
            await told.get_by_text("It was not deployed; three goes on serving.").wait_for()
            assert 'tag "broad"' in await told.inner_text()
            await asks.get_by_label("Reason").fill("few read the broad pages")
            await asks.get_by_label("If the gate refuses it, ask another person").check()
            await asks.get_by_role("button", name="Deploy", exact=True).click()
            await told.get_by_role("link", name="Another person is asked: see the request").wait_for()
            await require_accessible(asks)

            await decides.reload()
            await skipped(decides, "#queue-list")
            await reached(decides, "#queue-list h2 a")
            await decides.keyboard.press("Enter")
            await decides.locator("#request:focus").wait_for()
            shown = await decides.locator("main").inner_text()
            assert "few read the broad pages" in shown
            assert 'tag "broad"' in shown, "what is lost stands where it is decided"
            await require_accessible(decides)
            await skipped(decides, "#answer")
            await reached(decides, "#approve-reason")
            await decides.keyboard.type("we answer for it")
            await decides.keyboard.press("Enter")
            await decides.get_by_text("All of them are decided.").wait_for()

            await asks.goto("/optimize")
            await asks.locator("#serves", has_text="two").wait_for()
            await asks.locator("#history tbody tr").first.get_by_text("two").wait_for()
        (request,) = ApprovalStore(place).list()
        assert (request.status, request.requester) == ("approved", "user:root")
        serves = (await client.get("/api/configs", headers=bearer(place, "root", "operator"))).json()["active"]
    assert serves == "two"


async def test_an_approver_who_operates_accepts_the_tag_by_name_and_the_history_tells_it(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    losing(place)
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "alice", "operator", "approver") as page:
            await page.goto("/optimize/configs/two")
            await page.get_by_role("button", name="Deploy", exact=True).click()
            await page.locator("[data-outcome]").get_by_text('tag "broad"').first.wait_for()
            await page.get_by_label("Reason").fill("few read that")
            await page.get_by_label("Tags whose loss you answer for").fill("broad")
            await page.get_by_label("Answers found").check()
            await page.get_by_role("button", name="Deploy", exact=True).click()
            await page.locator("[data-outcome]").get_by_text("two serves now.").wait_for()
            await page.goto("/optimize")
            newest = page.locator("#history tbody tr").first
            await newest.get_by_text("few read that").filter(visible=True).wait_for()
            told = await newest.inner_text()
            assert "alice" in told
    told = hive("history", "-w", place.root, "--json").json["versions"][0]
    assert "broad" in json.dumps(told), "what was accepted is told to the owner, whose figures are over everything"
