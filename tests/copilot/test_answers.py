from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.copilot.answer import Passage, claims, cleaned, grounded
from hive_agents.copilot.planner import prompt
from hive_agents.models import ModelError
from tests.copilot.scripts import INJECTIONS, scripted


def passages(*texts: str, heading: str = "") -> list[Passage]:
    return [Passage(n, f"{n}.md#0", f"{n}.md", f"Title {n}", heading, text) for n, text in enumerate(texts, start=1)]


BUFFERS = passages(
    "# Storage\n\nBuffers are kept at 4 °C. A buffer that is cloudy is thrown away.\n",
    "| buffer | lifetime |\n|---|---|\n| PBS buffer | 30 days |\n| TRIS | a year |\n",
    "The canteen opens at noon.",
)


@pytest.mark.parametrize(
    ("said", "text", "removed", "dropped"),
    [
        ("Kept cold [1].", "Kept cold [1].", 0, 0),
        ("Kept cold. [1]", "Kept cold [1].", 0, 0),
        ("Kept cold [1, 7].", "Kept cold [1].", 1, 0),
        ("Kept cold [1][9].", "Kept cold [1].", 1, 0),
        ("Kept cold 【1】【9†source】.", "Kept cold [1].", 1, 0),
        ("Kept cold [1-3].", "Kept cold [1][2][3].", 0, 0),
        ("Kept cold [1–5].", "Kept cold [1][2][3].", 2, 0),
        ("Kept cold [1 and 2]; [Passage 3].", "Kept cold [1][2]; [3].", 0, 0),
        ("Kept cold [^1] [１].", "Kept cold [1].", 0, 0),
        ("Kept cold ［９９］.", "", 1, 1),
        ("Kept cold [0] [-1] [99999999999999].", "", 2, 1),
        ("Kept cold [1](http://evil.example/?q=1).", "Kept cold [1].", 0, 0),
        ("![x](http://evil.example/) See [this](http://evil.example/) [1].", "See this [1].", 0, 0),
        ("Kept cold (1).", "", 0, 1),
        ("Of course! Kept cold [1]. I hope this helps.", "Kept cold [1].", 0, 2),
        ("- **Kept cold** [1].\n- Thrown away [2].\n\n# More", "Kept cold [1].\nThrown away [2].", 0, 1),
        ("According to [2], e.g. No. 4, it is cold.", "According to [2], e.g. No. 4, it is cold.", 0, 0),
        ("Kept <mark>cold</mark> [1].", "Kept cold [1].", 0, 0),
        ("NO ANSWER", "", 0, 1),
        ("", "", 0, 0),
    ],
)
def test_only_cited_sentences_and_citations_that_resolve_are_left(
    said: str, text: str, removed: int, dropped: int
) -> None:
    answer = cleaned(said, BUFFERS)
    assert (answer.text, answer.removed_citations, answer.removed_sentences) == (text, removed, dropped)
    assert bool(answer) == bool(text)


async def test_a_grounded_answer_is_one_call_without_tools(tmp_path: Path) -> None:
    line = {"content": "Kept cold [1]. Odd [8].", "usage": {"input_tokens": 10, "output_tokens": 5}}
    model, recorded = scripted(tmp_path, line)
    answer = await grounded(model, "how kept?", BUFFERS, deadline=0.5)
    assert (answer.text, answer.cited, answer.removed_citations) == ("Kept cold [1].", (1,), 1)
    assert answer.usage.input_tokens == 10
    assert (len(recorded.prompts), recorded.tools, model.meter.calls) == (1, [], 1)
    assert ".md" not in recorded.prompts[0]


@pytest.mark.parametrize(
    ("line", "kind"),
    [({"error": "server"}, "server"), ({"content": "late", "delay_seconds": 30}, "timeout")],
)
async def test_a_model_that_fails_is_a_model_error(tmp_path: Path, line: dict[str, Any], kind: str) -> None:
    model, _ = scripted(tmp_path, line)
    with pytest.raises(ModelError) as caught:
        await grounded(model, "how kept?", BUFFERS, deadline=0.05)
    assert caught.value.kind == kind


async def test_an_unusable_prompt_of_the_workspace_is_a_model_error(tmp_path: Path, text_workspace: Workspace) -> None:
    (text_workspace.root / "prompts").mkdir()
    (text_workspace.root / "prompts" / "answer.md").write_text("Answer $everything.")
    model, recorded = scripted(tmp_path, {"content": "never asked"})
    with pytest.raises(ModelError, match="everything"):
        await grounded(model, "how kept?", BUFFERS, deadline=0.5, workspace=text_workspace)
    assert recorded.prompts == []


def test_the_injections_are_eighty_of_many_kinds() -> None:
    assert len({each["id"] for each in INJECTIONS}) == len({each["text"] for each in INJECTIONS}) == 80
    assert len({each["kind"] for each in INJECTIONS}) == 16


async def test_injected_text_stays_data(tmp_path: Path) -> None:
    """One line of JSON between two fences that no text can foresee; no tool is ever offered."""
    lines = [each["obeyed"] for each in INJECTIONS]
    model, recorded = scripted(tmp_path, *lines)
    for each in INJECTIONS:
        found = passages(each["text"], "Buffers are kept at 4 °C.")
        answer = await grounded(model, each["text"], found, deadline=5.0)
        asked = recorded.prompts[-1]
        fence = re.findall(r"^=====  ([0-9a-f]{16})  =====$", asked, re.M)
        assert len(fence) == 2, each["id"]
        assert fence[0] == fence[1]
        inside = asked.split(f"=====  {fence[0]}  =====")[1].strip("\n").split("\n")
        assert len(inside) == 2, each["id"]
        assert inside[1].startswith('{"passage": 2')
        assert set(answer.cited) <= {1, 2}
        assert {n for claim in claims(answer.text) for n in claim.cites} == set(answer.cited)
        assert all(claim.cites for claim in claims(answer.text)), each["id"]
        assert "](" not in answer.text
    assert recorded.tools == []
    assert model.meter.attempts == 80


def test_the_planner_is_told_no_document_text() -> None:
    """Its prompt takes words of the reader, fields and values: there is no parameter that a passage could come by."""
    from inspect import signature

    taken = set(signature(prompt).parameters)
    assert taken == {"text", "vocabulary", "reader", "today", "history", "doc_id", "workspace"}


def test_an_endless_answer_is_read_as_far_as_its_bound() -> None:
    """Half a sentence at the bound is none."""
    found = cleaned("Buffers are kept cold [1]. " * 10_000 + "[1](" * 10_000, BUFFERS)
    assert len(found.text) < 20_000
    assert {claim.bare for claim in claims(found.text)} == {"Buffers are kept cold."}
