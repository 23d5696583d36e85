"""Optimization in a browser: a search is started and watched, what it found deployed; 5,000 trials stay usable."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, known_principal
from hive_agents.access.logins import login_code
from hive_agents.evaluation import held_out, load_golden
from hive_agents.gate.decision import too_few
from hive_agents.ranking import RetrievalConfig
from hive_agents.runs import RunStore
from hive_agents.server.pages.effects import effects
from tests.pages.browser import NARROW, chromium, needs_chromium, reached, require_accessible, signed_in, skipped
from tests.pages.filled import search
from tests.server.serving import bearer, sample, served

SETTINGS = (
    ("boosts.status", {"draft": 0.5}, {"draft": 2.0}), ("boosts.updated", None, {"half_life_days": 90.0}),
    ("boosts.status", {"draft": 0.5}, None), ("filters.status", None, {"not": ["draft"]}),
    ("filters.status", ["draft"], None), ("filters.status", None, ["draft"]), ("filters.status", None, "draft"),
    ("retrieval.top_k", 10, 1),
    ("filters.updated", None, {"gte": "2026-01-01"}), ("retrieval.method", "hybrid", "keyword"),
    ("retrieval.method", "keyword", "vector"), ("retrieval.method", "vector", "hybrid"),
    ("retrieval.per_document", 2, None), ("abstain.min_cosine", 0.3, None), ("lift.weight", None, 0.0),
    ("collection", "pages", "handbook"),
)  # fmt: skip
"""Changes of settings of which more can be said than that a number or a switch moved."""
OPERATES = ("operator", "reader", "approver")


def searched(place: Workspace, trials: int, *, owner: Principal | None = None, **changes: Any) -> str:
    """A search that ended without a gain after so many trials, as its row tells."""
    store = RunStore(place)
    value: dict[str, Any] = {"golden": None, "deploy": False, "settings": {}}
    row = store.insert("optimizer", value, owner=owner or known_principal(place, "root"), status="running")[0]
    figures = {
        "config": "v1-naive",
        "changes": [],
        "train": 0.3,
        "validation": 0.28,
        "holdout": None,
        "distractors": 0.5,
    }
    rows = [
        {
            "n": 1 + n // 20, "config": None, "changes": [], "step": f"top_k {n} → {n + 1}", "reason": "why not",
            "cause": "tail_junk", "proposer": "heuristic", "train": 0.3 + 0.1 * (n % 7) / 7 + n / 100_000,
            "validation": 0.3, "distractors": 0.4, "verdict": "accept" if n % 50 == 0 else "retry",
            "feedback": f"no gain in {n}",
        }
        for n in range(trials)
    ]  # fmt: skip
    result = {
        "run_id": row.run_id, "status": "no_improvement", "baseline": figures, "best": figures, "certificate": None,
        "needed_queries": None, "rejected": [], "watch": [], "iterations": rows,
        "usage": {}, "fallbacks": [], "unavailable": None, "diagnosis": None, "first_diagnosis": "the list goes on",
        "evaluations": trials, "stopped_by": "patience", "approval_id": None, "decision": None,
    } | changes  # fmt: skip
    assert store.update(row.run_id, "done", result=result)
    return row.run_id


def flat(model: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        default = 10 if field.is_required() else field.default
        found |= flat(field.annotation, f"{prefix}{name}.") if inner else {prefix + name: default}
    return found


@pytest.mark.parametrize("language", ["en", "de"])
def test_each_setting_of_a_search_is_told_as_what_it_does(language: str) -> None:
    """A new setting without a sentence would be told by its path, as one that no program knows."""
    named = ("schema_", "name", "collection", "description", "parent", "retrieval.method", "filters", "boosts")
    changes = list(SETTINGS)
    for path, default in flat(RetrievalConfig).items():
        if path not in named:
            moved = not default if path.endswith(("enabled", "unless_all_words")) else 3
            turned = [(path, moved, default)] if default is not None else []
            changes += [(path, default, moved), *turned]
            changes += [(path, 1.0, 0.0), (path, 0.0, 1.0)] if path.startswith(("retrieval.weights", "bm25")) else []
    for path, a, b in changes:
        (line,) = effects(language, [{"path": path, "a": a, "b": b}])
        assert not re.search(rf"{path}: |None|\[|_|{{", line), line
    assert effects(language, [{"path": "new.key", "a": None, "b": [1]}]) == ["new.key: – → [1]"]
    older = {"path": "boosts.status", "a": {"draft": 0.5, "old": 2.0}, "b": {"draft": 2.0, "old": 2.0}}
    assert len(effects("en", [older])) == 1


async def test_the_page_says_what_serves_and_how_to_begin(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        page = (await client.get("/optimize", headers=bearer(place, "root", *OPERATES))).text
        assert "Nothing was tried yet" in page
        assert "v1-naive" in page
        assert (await client.get("/optimize", headers=bearer(place))).status_code == 403


@pytest.mark.parametrize(("status", "badge"), [("done", "finished"), ("paused", "paused"), ("stopped", "stopped")])
async def test_a_search_is_called_stopped_only_where_somebody_stopped_it(
    tmp_path: Path, status: str, badge: str
) -> None:
    place = sample(tmp_path / "ws")
    run = searched(place, 3, status="stopped", stopped_by="no_deploy", search_ended_by="patience")
    assert RunStore(place).update(run, status, result=RunStore(place).get(run).result)
    async with served(place, roles=("http",)) as client:
        page = (await client.get(f"/optimize/{run}", headers=bearer(place, "root", *OPERATES))).text
        assert re.findall(r'<p class="row"><span class="badge [a-z]+">([a-z]+)</span>', page) == [badge]
        assert "Why it ended: nothing helped any more; as asked, before anything was put to use" in page


async def test_the_history_says_in_words_why_whoever_may_not_read_everything_sees_no_figures(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        body = {"config": "v1-naive", "allow_inconclusive": True, "reason": "it is as good"}
        made = await client.post("/api/deploy", json=body, headers=bearer(place, "root", *OPERATES))
        assert made.status_code == 200, made.text
        page = (await client.get("/optimize", headers=bearer(place, "root", *OPERATES))).text
        assert "is told only to whoever may read all of them" in page
        assert '<th class="number">Gain</th>' not in page
        await client.get("/login", params={"code": login_code(place)})
        page = (await client.get("/optimize")).text
        assert "is told only to whoever may read all of them" not in page
        assert '<th class="number">Gain</th>' in page


async def test_every_page_tells_how_many_labels_are_missing_as_the_gate_does(tmp_path: Path) -> None:
    """Of twenty labelled questions too few are held out; a hundred and no names are enough."""
    place = sample(tmp_path / "ws")
    file = place.root / load_golden(place).file
    whole = json.loads(file.read_text(encoding="utf-8"))
    queries = [{key: value for key, value in one.items() if key != "split"} for one in whole["queries"]]
    root = bearer(place, "root", *OPERATES)
    async with served(place, roles=("http",)) as client:
        for n, missing in ((20, 47), (100, 0)):
            file.write_text(json.dumps(whole | {"queries": queries[:n]}), encoding="utf-8")
            golden = load_golden(place)
            assert len(golden) == n
            reason = too_few(golden, len(held_out(golden) or ()))
            assert (f"about {missing} more labels" in reason.message) if reason else not missing
            told = [(await client.get(path, headers=root)).text for path in ("/golden", "/optimize")]
            assert [f"about {missing} more labels are missing" in page for page in told] == [missing > 0] * 2
            labelling = (await client.get("/golden/label?query=token", headers=root)).text
            assert ("enough to prove a gain" in labelling) == (not missing)
            assert f"about {missing} more are missing" in labelling or not missing
            home = (await client.get("/", headers=root)).text
            assert (f"{n} of about {n + missing} questions are labelled" in home) == (missing > 0)


async def test_trials_come_in_pages_and_by_verdict(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    run = searched(place, 120)
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", *OPERATES)
        path = f"/api/runs/{run}/trials"
        first = (await client.get(path, params={"limit": 50}, headers=root)).json()
        assert [one["number"] for one in first["trials"]] == [*range(1, 51)]
        assert (first["total"], first["more"], first["diagnosis"]) == (120, True, "the list goes on")
        last = (await client.get(path, params={"after": 110}, headers=root)).json()
        assert ([one["number"] for one in last["trials"]], last["more"]) == ([*range(111, 121)], False)
        accepted = (await client.get(path, params={"verdict": "accept", "newest": True}, headers=root)).json()
        assert [one["number"] for one in accepted["trials"]] == [101, 51, 1]
        assert (await client.get(path, headers=bearer(place))).status_code == 403
        page = (await client.get(f"/optimize/{run}", headers=root)).text
        assert "Nothing that was tried is better" in page
        assert "by which no setting was chosen" not in page


@pytest.mark.parametrize("decision", ["passed", "inconclusive", "blocked", None])
async def test_what_is_not_proved_is_not_the_first_thing_to_deploy(tmp_path: Path, decision: str | None) -> None:
    place = sample(tmp_path / "ws")
    (place.configs / "v9.json").write_text(
        json.dumps(json.loads((place.configs / "v1.json").read_text()) | {"name": "v9"})
    )
    figures: dict[str, Any] = {"config": "v9", "changes": [], "train": 0.5, "holdout": None, "distractors": 0.1}
    figures["validation"] = 0.4 if decision else None  # with one label there are no questions for it
    certificate = {
        "decision": decision, "n": 24, "before": 0.3, "after": 0.4, "difference": 0.1, "ci95": None, "mde": None,
        "distractors_before": 0.5, "distractors_after": 0.1, "p_value": 0.2, "alpha": 0.03, "reasons": [], "watch": [],
    }  # fmt: skip
    run = searched(place, 3, status="stopped", best=figures, certificate=certificate if decision else None)
    async with served(place, roles=("http",)) as client:
        page = (await client.get(f"/optimize/{run}", headers=bearer(place, "root", *OPERATES))).text
    form = page[page.index('<form class="card" data-deploy>') :]
    button = form[form.index("<button") : form.index("</button>")]
    style = "" if decision == "passed" else ' class="quiet"'
    assert button == f'<button type="submit"{style}>Deploy'
    said = {
        "passed": "Proved better on 24 questions that the search never saw: the lists gain +0.100",
        "inconclusive": "that the search never saw, by +0.100 on a scale from 0 to 1, which may be chance",
        "blocked": "something would be worse for readers",
        None: "Whether that holds on others was not measured",
    }
    assert said[decision] in page[: page.index('id="chart"')]
    assert ("Label more questions" in page) == (decision != "passed")
    outcome = page[page.index('<section class="card outcome') : page.index("</section>")]
    links = re.findall(r'<a class="button([^"]*)" href="([^"]+)"', outcome)
    first = ("", "#found") if decision == "passed" else ("", "/golden/label")
    assert links[0] == first
    assert [address for style, address in links if "quiet" not in style] == [first[1]]
    assert re.search(r"<h1><bdi>\S+ → v9</bdi></h1>", page)


async def test_a_search_that_failed_says_what_comes_next(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    store = RunStore(place)
    run = store.insert("optimizer", {"golden": None, "deploy": False, "settings": {}},
                       owner=known_principal(place, "root"), status="running")[0].run_id  # fmt: skip
    error = {"code": "HIVE-423", "message": "the money is spent", "fix": "raise budgets.max_usd"}
    store.update(run, "failed", error=error, stopped_by="budget")
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", *OPERATES)
        page = (await client.get(f"/optimize/{run}", headers=root)).text
        assert "raise budgets.max_usd" in page
        assert '<a class="button quiet" href="/optimize">Start another search</a>' in page
        assert "ended before the first trial" in (await client.get(f"/optimize/{run}/trials", headers=root)).text


async def test_a_tags_loss_is_answered_for_by_persons_with_a_reason(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        body = {"config": "v1-naive", "accept_tags": ["versions"], "reason": "they are old"}
        operator = await client.post("/api/deploy", json=body, headers=bearer(place, "root", "operator"))
        assert (operator.status_code, operator.json()["code"]) == (403, "HIVE-415")
        both = await client.post(
            "/api/deploy", json=body | {"override": True}, headers=bearer(place, "root", *OPERATES)
        )
        assert both.status_code == 400


@pytest.mark.slow
async def test_both_configs_hits_stand_beside_each_other_as_far_as_the_caller_may_view_them(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws", every=1)
    worse = json.loads((place.configs / "v1.json").read_text()) | {"name": "v9"}
    worse["retrieval"] = worse["retrieval"] | {"top_k": 2}
    (place.configs / "v9.json").write_text(json.dumps(worse))
    async with served(place, roles=("http",)) as client:
        root = bearer(place, "root", *OPERATES)
        found = (await client.post("/api/compare", json={"b": "v9"}, headers=root)).json()
        assert max(len(one["hits"]["b"]) for one in found["queries"]) <= 2
        golden = (await client.get("/api/golden", headers=root)).json()["queries"]
        shown = {one["id"]: one["relevant"] for one in found["queries"]}
        assert shown == {one["id"]: one["relevant"] for one in golden}
        assert not any("carrow" in doc_id for relevant in shown.values() for doc_id in relevant)
        page = (await client.get("/optimize/compare/v1-naive/v9", headers=root | {"HX-Request": "true"})).text
        assert page.count("<details>") == 50
        assert f"{len(found['queries']) - 50} more queries differ less" in page
        changes = (await client.get("/api/configs/v9/changes", headers=root)).json()["changes"]
        assert [one["path"] for one in changes] == ["retrieval.top_k"]
        assert "retrieval.<wbr>top_k" in (await client.get("/optimize/configs/v9", headers=root)).text


@pytest.mark.slow
@needs_chromium
async def test_a_search_is_started_watched_and_what_it_found_deployed(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES) as page:
            await page.goto("/optimize")
            await require_accessible(page)
            await page.get_by_text("How long, and at what price").click()
            await page.get_by_label("Rounds at most").fill("2")
            await page.get_by_role("button", name="Start").click()
            await page.locator("#chart canvas").wait_for()
            await page.locator("#trials tbody tr").first.wait_for()
            await page.get_by_role("heading", name="Certificate").wait_for()
            await require_accessible(page)
            await page.locator("#chart .u-over").hover()
            await page.locator("#hovered", has_text=": ").wait_for()
            await page.get_by_role("button", name="Measure both").click()
            await page.locator("#queries details").first.wait_for()
            await page.get_by_label("Reason").fill("better, and fewer distractors")
            await page.get_by_label("Deploy also what is equal").check()
            await page.get_by_role("button", name="Deploy", exact=True).click()
            await page.locator("[data-outcome] .good").wait_for()
            await page.goto("/optimize")
            assert await page.get_by_text("better, and fewer distractors").filter(visible=True).is_visible()
            await require_accessible(page)
            page.on("dialog", lambda dialog: dialog.accept())
            await page.locator("#rollback-reason").fill("a second thought")
            await page.get_by_role("button", name="Roll back").click()
            await page.get_by_text("a second thought").filter(visible=True).wait_for()
            serves = (await client.get("/api/configs", headers=bearer(place, "root", *OPERATES))).json()["active"]
            assert serves == "v1-naive"


@pytest.mark.slow
@needs_chromium
async def test_five_thousand_trials_are_a_chart_and_a_table_in_pages(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    run = searched(place, 5000)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES, viewport=NARROW) as page:
            await page.goto(f"/optimize/{run}")
            await page.locator("#chart canvas").wait_for()
            await page.locator("#trials tbody tr").first.wait_for()
            assert await page.locator("#trials tbody tr").count() == 50
            await page.get_by_role("button", name="Trials before 4951").click()
            await page.get_by_role("button", name="Trials before 4901").wait_for()
            assert await page.evaluate("document.documentElement.scrollWidth") <= 400
            await require_accessible(page)


@pytest.mark.slow
@needs_chromium
async def test_by_keyboard_a_search_is_started_and_stopped_and_what_another_found_deployed(
    tmp_path: Path,
) -> None:
    place = sample(tmp_path / "ws", every=1)
    found = search(place)
    async with served(place, roles=("http",)) as client, chromium() as browser:
        async with signed_in(browser, str(client.base_url), place, "root", *OPERATES) as page:
            await page.goto("/optimize")
            await reached(page, "form[data-search] button")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**/optimize/r*")
            await reached(page, "button.danger")
            async with page.expect_event("dialog") as asked:
                page.once("dialog", lambda dialog: dialog.accept())
                await page.keyboard.press("Enter")
            assert (await asked.value).message == "Stop this run?"
            await page.get_by_role("button", name="Go on").wait_for()
            await page.goto("/optimize")
            await skipped(page, "#searches")
            await reached(page, f"#searches a[href$='{found}']")
            await page.keyboard.press("Enter")
            await page.get_by_role("heading", name="Certificate").wait_for()
            await page.locator("#chart canvas").wait_for()
            await skipped(page, "#found")
            await reached(page, "#deploy-reason")
            await page.keyboard.type("fewer of them mislead")
            await page.keyboard.press("Tab")
            await page.keyboard.press("Space")
            await reached(page, "form[data-deploy] button")
            await page.keyboard.press("Enter")
            await page.locator("[data-outcome] p").first.wait_for()
            outcome = await page.locator("[data-outcome]").inner_text()
            assert "serves" in outcome, outcome
            await require_accessible(page)
