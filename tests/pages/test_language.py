"""What pages say stands in one file for each language; no state is shown as the program names it."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path
from typing import get_args

import pytest

from hive_agents.approvals import Status
from hive_agents.events import EventType, TicketSeverity
from hive_agents.events.tickets import TicketCause
from hive_agents.gate.decision import GateDecision
from hive_agents.judging import JudgmentAction
from hive_agents.server.pages import language
from tests.pages.filled import EVERYTHING, filled
from tests.server.serving import asked, bearer, followed, sample, served

ROOT = Path(__file__).parents[2]
RUNS = ("queued", "running", "waiting", "paused", "done", "failed", "stopped")
SEARCHES = ("no_improvement", "certifying", "deployed", "escalated", "unavailable", "interrupted", "approved")
ENDS = ("iterations", "patience", "seconds", "evaluations", "max_usd", "no_deploy", "too_few_queries", "interrupted",
        "max_iterations", "doom_loop", "stalled", "max_tool_calls", "condition_error", "fault", "steps", "tool_calls",
        "tokens", "usd", "rejected", "expired", "superseded")  # fmt: skip
QUEEN = ("note", "steer", "pause", "stop", "ask", "resume", "withdraw", "begun", "done")
LOGGED = ("requested", "revised", "decided", "delegated", "reminder", "escalated", "expired", "superseded")
OTHERS = ("up", "waiting", "down", "error", "warning", "info", "relevant", "distractor", "irrelevant", "unjudged",
          "repeat", "train", "validation", "holdout", "agent", "tool", "person", "judge", "task", "rollback",
          "deploy", "optimize", "approval")  # fmt: skip
SHOWN = {*RUNS, *SEARCHES, *ENDS, *QUEEN, *LOGGED, *OTHERS, *get_args(Status), *get_args(GateDecision),
         *get_args(TicketSeverity), *get_args(TicketCause), *map(str, JudgmentAction)}  # fmt: skip
"""What stands in a badge, or tells how something ended."""


def written(name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(language.TEXTS.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", ["en", "de"])
def test_every_state_that_is_shown_has_a_word(name: str) -> None:
    assert {f"word.{one}" for one in SHOWN} - set(written(name)) == set()


def values(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_german_is_complete_and_takes_the_same_values() -> None:
    english, german = written("en"), written("de")
    assert list(english) == list(german)
    assert [name for name in english if values(english[name]) != values(german[name])] == []
    same = {name for name in english if english[name] == german[name] and not name.startswith(("word.", "app.name"))}
    assert len(same) < 20, "what is alike in both languages are names"


@pytest.mark.parametrize("name", ["en", "de"])
def test_every_event_and_every_code_of_a_diagnostic_has_words(name: str) -> None:
    documented = re.findall(r"^## (HIVE-\d+) ", (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8"), re.M)
    assert {f"event.{one}" for one in EventType} - set(written(name)) == set()
    assert {one for one in written(name) if one.startswith("code.")} == {f"code.{one}" for one in documented}


@pytest.mark.slow
async def test_a_diagnostic_is_told_in_german_by_its_code_and_in_english_by_the_server(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place, roles=("http",)) as client:
        german = bearer(place, "root", *EVERYTHING) | {"Accept-Language": "de"}
        page = (await client.get("/optimize/configs/none", headers=german)).text
        assert 'Nichts heißt so: <span lang="en">no config is named' in page
        assert "sind auf Englisch" in page
        assert (await client.get("/codes/de")).json()["HIVE-414"] == "Schon entschieden"
        assert (await client.get("/codes/en")).json() == {}
        assert (await client.get("/codes/xx")).status_code == 404
        english = (await client.get("/optimize/configs/none", headers=german | {"Accept-Language": "en"})).text
        assert '<strong><span lang="en">no config is named' in english
        assert "in English" not in english


async def test_figures_and_what_explains_a_turn_stand_in_the_readers_language(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        root = bearer(place, "root", *EVERYTHING)
        run = await asked(client, root, "smallest volume the P50 can do")
        await followed(client, run["events"], root)
        found = (await client.get(f"/api/runs/{run['run_id']}", headers=root)).json()["result"]
        first = found["results"][0]
        german = root | {"Accept-Language": "de"}
        page = (await client.get(f"/chat/{run['thread_id']}", headers=german)).text
        assert f"Relevanz {first['relevance']:.2f}".replace(".", ",") in page
        why = (await client.get(f"/chat/runs/{run['run_id']}/why?doc_id={first['doc_id']}", headers=german)).text
        assert "<dt>Rang nach Wörtern</dt><dd>1</dd>" in why
        assert "<dt>keyword rank</dt>" not in why
        trace = (await client.get(f"/chat/runs/{run['run_id']}/trace", headers=german)).text
        assert re.search(r"<td>suchen</td><td class=\"number\">\d+,\d\d</td>", trace)
        assert set(re.findall("<dt>([a-z_ ]+)</dt>", trace)) <= {"beruht auf", "anders als geplant", "genommener Weg"}


def test_who_stopped_something_is_named_without_a_prefix_and_an_unknown_end_in_words() -> None:
    assert language.worded("de", "user:dana") == "dana"
    assert language.worded("de", "something_new") == "something new"


@pytest.mark.slow
async def test_a_reader_of_german_finds_no_english_state(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    async with served(place) as client:
        made = await filled(place, client)
        headers = bearer(place, "root", *EVERYTHING) | {"Accept-Language": "de"}
        colony = (await client.get("/colony", headers=headers)).text
        assert ">wartet</span>" in colony
        assert ">fertig</span>" in colony
        assert "lange kein Schritt" in colony
        run = (await client.get(f"/colony/runs/{made.agent}", headers=headers)).text
        assert re.search(r"Meldung eröffnet</strong>.{0,60}>lange kein Schritt</span>", run)
        for path in ("/colony", f"/colony/runs/{made.waiting}", "/approvals?status=all", f"/optimize/{made.found}"):
            page = (await client.get(path, headers=headers)).text
            badges = {one.split("</span>")[0] for one in page.split('<span class="badge')[1:]}
            words = {one.split(">")[-1] for one in badges}
            assert not words & (SHOWN - {language.worded("de", one) for one in SHOWN}), (path, words)
