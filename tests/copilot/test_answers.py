from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.copilot.answer import claims, cleaned, grounded
from hive_agents.copilot.asking import content_terms
from hive_agents.copilot.extract import Passage, extractive, quotable
from hive_agents.copilot.planner import prompt
from hive_agents.copilot.prose import read
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
    ("query", "text"),
    [
        ("how long are buffers kept", None),
        ("lifetime of PBS", None),
        ("how many days does PBS buffer last", None),
        ("when does the canteen open", "The canteen opens at noon. [3]"),
        ("who wrote Hamlet", None),
        ("salary of the director", None),
        ("", None),
    ],
)
def test_an_extractive_answer_is_whole_sentences_or_nothing(query: str, text: str | None) -> None:
    answer = extractive(query, BUFFERS)
    assert (answer.text if answer else None) == text


def said(query: str, found: list[Passage], language: str = "english") -> str | None:
    answer = extractive(query, found, language)
    return answer.text if answer else None


def test_half_of_what_is_asked_is_no_answer() -> None:
    found = passages("Aprons are washed weekly. Hats too. Gloves and goggles are washed daily.", "Goggles are blue.")
    assert said("how often are gloves, goggles and aprons washed", found) is None
    asked = "how often are gloves and goggles washed"
    answer = extractive(asked, found)
    assert answer is not None
    assert answer.text == "Gloves and goggles are washed daily. [1]"
    assert (answer.cited, answer.source, answer.usage.input_tokens) == ((1,), "extractive", 0)
    assert extractive(asked, found) == answer


def test_a_word_that_no_document_has_is_answered_by_nothing() -> None:
    found = passages("A red lamp is kept for 30 days.")
    weights = {"red": 1.0, "lamp": 1.0, "kept": 1.0}
    assert extractive("how long is a red lamp kept", found, weights=weights) is not None
    assert extractive("how long is a red lamp kept at Carrow", found, weights=weights | {"carrow": 0.0}) is None


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    found = passages("The lamp of the red unit burns for 9 days.", heading="Lamp life")
    asked = "how long does the lamp of the incubator burn"
    assert extractive(asked, found, weights={"lamp": 4.0, "incub": 0.2, "burn": 2.0}) is not None
    assert extractive(asked, found, weights={"lamp": 0.2, "incub": 4.0, "burn": 0.2}) is None


def test_another_document_is_quoted_beside_the_best_where_it_names_other_figures() -> None:
    mine, other = "A sealed sample is kept for 30 days.", "A sealed sample is kept for 2 years."
    asked = "how long is a sealed sample kept"
    assert said(asked, passages(mine, other)) == f"{mine} [1] {other} [2]"
    assert said(asked, passages(mine, "A sealed sample is always kept for 30 days.")) == f"{mine} [1]"


@pytest.mark.parametrize(
    "text",
    [
        "```\n# the retry limit is 5\n```",
        "2024-05-01 10:00:03 INFO the retry limit is 5",
        "    the retry limit is 5",
        "## The retry limit is 5",
        "Contents: the retry limit is 5, and what else the chapter has to say about it:",
        "The retry limit is 5 " + "and so on and on with other things that nobody asked about " * 5 + ".",
    ],
    ids=["a comment", "a log", "a listing", "a heading", "an announcement", "everything at once"],
)
def test_what_nobody_wrote_as_a_statement_is_no_answer(text: str) -> None:
    assert said("what is the retry limit", passages(text)) is None
    assert said("what is the retry limit", passages(f"The retry limit is 5.\n\n{text}")) == "The retry limit is 5. [1]"


@pytest.mark.parametrize(
    "query", ["why is the retry limit 5", "what does the retry limit do", "which part has a retry limit"]
)
def test_what_no_sentence_surely_tells_is_left_to_the_passages(query: str) -> None:
    assert said(query, passages("The retry limit is set for a part.")) is None


@pytest.mark.parametrize(
    ("query", "text", "answer"),
    [
        ("token lifetime", "See [Token lifetime](a.md) for that. A token has a lifetime of 90 days.", "A token has a"),
        ("token lifetime", "The lifetime of a token is described in Limits.", None),
        ("token lifetime", "What is the lifetime of a token?", None),
        ("token lifetime", "The lifetime of a token depends on:\n\n- its owner", None),
        (
            "how long is a token valid",
            "A token is valid if signed. A token is valid for 90 days.",
            "A token is valid for",
        ),
        ("who renews a token", "Renew a token in Settings. The owner of a token renews it.", "The owner of"),
        (
            "when is a token renewed",
            "A token is renewed by mail. A token is renewed on Fridays.",
            "A token is renewed on",
        ),
        ("how many tokens per user", "A user has tokens of their own. A user has 5 tokens.", "A user has 5"),
        ("what is a token", "- token: see key\n- send a token\n\nA token is a secret word.", "A token is a secret"),
        ("how many tokens can I have", "Tokens that I have show E-507. Have your tokens by step 2.", None),
        ("who signs tokens", "All tokens are signed in ink.", None),
        ("what is Hub", "Programs wait until Hub calls, which is slow. We update Hub because it is old.", None),
        ("what is Hub", "pip drops Hub. Hub is a service.", "Hub is a service"),
        ("what changed in tokens of version 4.0", "Version 1 tokens changed.", None),
        (
            "how can I redirect all requests from http to https?",
            "All requests to http are redirected to the https scheme with the 301 status. Redirect none.",
            None,
        ),
        ("wie lange gilt ein Token", "Der Token gilt im Labor. Der Token gilt 90 Tage.", "Der Token gilt 90"),
    ],
)
def test_a_sentence_that_tells_what_was_asked_comes_first(query: str, text: str, answer: str | None) -> None:
    """Before those that point elsewhere, ask, announce, or tell of another kind of thing."""
    found = said(query, passages(text), "german" if query.startswith("wie") else "english")
    assert found is None if answer is None else found is not None and found.startswith(answer)


@pytest.mark.parametrize(
    ("query", "text", "answered"),
    [
        ("how many columns can a table have at most?", "This makes a table with two columns.", False),
        ("how many columns can a table have at most?", "A table can have up to 900 columns.", True),
        ("what is the longest name of a table?", "The name of a table is short.", False),
        ("how do I build an index without locking?", "You can build an index, locking it.", False),
        ("how do I build an index without locking?", "You can build an index without locking it.", True),
        ("wie viele Spalten hat eine Tabelle höchstens?", "Die Tabelle hat zwei Spalten.", False),
        ("when was release 17 made?", "Release 15.17 was made in 2020.", False),
        ("when was release 17 made?", "Release 17 was made in 2020.", True),
    ],
)
def test_bounds_denials_and_numbers_of_a_question_are_those_of_its_answer(
    query: str, text: str, answered: bool
) -> None:
    assert (said(query, passages(text)) is not None) is answered


@pytest.mark.parametrize(
    ("query", "beside", "answer"),
    [
        (
            "how many gates does the harbour have?",
            "The harbour has a plan of about 40 pages.",
            "The harbour has 6 gates.",
        ),
        ("how many gates does the harbour have?", "The harbour has two kinds of gates.", "The harbour has 6 gates."),
        ("how many wide gates are there?", "There are two wide iron gates.", "There are 5 wide gates."),
        ("how many berths can a pier have?", "This is a pier with two berths.", "A pier can have at most 8 berths."),
        ("how many berths does a pier have?", "For example, a pier with 3 berths is short.", "A pier has 8 berths."),
        ("how large is a crane file?", "Cranes named in one kept file weigh 8 tons.", "A crane file is 16 MB large."),
        ("how high is the toll?", "Up to 300 marks the toll is waived.", "The toll is 40 marks."),
        ("when does a lamp dim?", "When the lamp dims, its ring dims, too.", "A lamp dims at noon."),
        ("who appoints the pilots?", "The pilots of the office appoint a person.", "The owner appoints the pilots."),
        ("what is a fender?", "Fenders are usually wet.", "A fender is a cushion of rope."),
        ("what is a fender?", "Round fenders are cushions of rope.", "A fender is a cushion of rope."),
        ("when is a berth closed?", "A flooded berth is closed at noon.", "A berth is closed at noon, when it is hot."),
        ("how long is a berth kept?", "A berth isn't kept 5 days.", "A berth is kept for 2 days."),
        ("what is the default of tide.level?", "The default of tide is 4.", "The default of tide.level is 3."),
        ("wie viele Tore hat der Hafen?", "(2) Tore hat der Hafen im Westen.", "Der Hafen hat sechs Tore."),
        ("wie hoch ist die Maut?", "Bis zu 300 Mark ist die Maut frei.", "Die Maut beträgt 40 Mark."),
        ("wer ernennt die Lotsen?", "Der Lotse ernennt einen Mitarbeiter.", "Die Leitung ernennt die Lotsen."),
        ("was ist ein Fender?", "Runde Fender sind Kissen.", "Ein Fender ist ein Kissen."),
    ],
)
def test_a_sentence_with_the_words_of_a_question_is_no_answer_to_it(query: str, beside: str, answer: str) -> None:
    language = "german" if re.match(r"w(ie|er|as) ", query) else "english"
    assert said(query, passages(beside, heading="Harbour"), language) is None
    assert said(query, passages(f"{beside}\n\n{answer}", heading="Harbour"), language) == f"{answer} [1]"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("how long is it valid?", "A pass is valid for 24 hours."),
        ("when does it expire?", "A pass expires on Fridays."),
        ("wie lange gilt er?", "Der Ausweis gilt 90 Tage."),
    ],
)
def test_a_pronoun_that_nothing_was_named_for_is_answered_by_nothing(query: str, text: str) -> None:
    found = passages(text, text.replace("24", "36").replace("90", "30"))
    assert said(query, found, "german" if query.startswith("wie") else "english") is None


def test_half_a_sentence_is_no_answer() -> None:
    cut = "The keeper pays the toll of 40 marks\n\n1. at noon, or\n2. at six.\n"
    assert said("who pays the toll", passages(cut)) is None
    assert said("who pays the toll", passages("The keeper pays the toll of 40 marks.")) is not None
    leaning = passages("That is the most common way to get a lamp.", heading="Lamps")
    assert said("lamps", leaning) is None


def test_a_german_date_ends_no_sentence() -> None:
    dated = "Die Maut beträgt ab dem 1. Januar 2031 mindestens 40 Mark. Sie wird am 3. 4. fällig."
    assert [sentence.text for sentence in read(dated)] == [
        "Die Maut beträgt ab dem 1. Januar 2031 mindestens 40 Mark.",
        "Sie wird am 3. 4. fällig.",
    ]


def test_german_is_read_in_an_index_of_english() -> None:
    found = passages("Das Amt des Lotsen dauert fünf Jahre.")
    assert said("Wie lange dauert das Amt des Lotsen?", found) == "Das Amt des Lotsen dauert fünf Jahre. [1]"
    assert content_terms("Wie backe ich ein Brot?", "english") == ["back", "brot"]


MEMORY = "**`work_mem` (`integer`)**\n\nThe default of `work_mem` is 4 MB.\n"
FACTOR = "**`mem_factor` (`float`)**\n\nThe default is 2.0, of the work_mem.\n"


def test_what_is_said_of_another_parameter_is_no_answer_though_it_mentions_the_one_asked_about() -> None:
    assert said("what is the default of work_mem?", passages(FACTOR)) is None
    assert said("what is the default of work_mem?", passages(MEMORY)) == "The default of work_mem is 4 MB. [1]"


def test_a_term_alone_is_no_answer_and_what_follows_it_tells_of_it() -> None:
    contents = passages("**E.4.1. Migration to Version 15**\n\n**E.4.2. Changes**\n")
    assert said("migration to version 15", contents) is None
    defined = passages("**Grace period**\n\nIt lasts 14 days.\n\n**Trial**\n\nIt lasts 30 days.\n")
    assert said("how long is the trial?", defined) in (None, "It lasts 30 days. [1]")


def test_a_form_that_shares_little_but_the_stem_is_half_a_match() -> None:
    lists = "Clean meter with a valid label, at noon. A brush, a lamp and a sink. A cloth of cotton. A pair of gloves."
    asked = "when is the cleaning validation done"
    assert said(asked, passages(lists)) is None
    told = "The cleaning validation is done at noon."
    assert said(asked, passages(f"{lists} {told}")) == f"{told} [1]"


@pytest.mark.parametrize("heading", ["Pumps > 1. Purpose", "Pumps > Related documents", "Pumps > Revision history"])
def test_a_section_about_its_document_gives_way(heading: str) -> None:
    aside = Passage(1, "a.md#0", "a.md", "Pumps", heading, "The pump is cleaned after use.")
    body = Passage(2, "b.md#3", "b.md", "Pumps", "Pumps > After work", "The pump is cleaned at noon.")
    assert said("when is the pump cleaned", [aside, body]) == "The pump is cleaned at noon. [2]"


@pytest.mark.parametrize(
    ("query", "cited"),
    [
        ("how high is the rinse limit", (2,)),
        ("how high is the retired rinse limit", (1,)),
        ("how high is the lamp's rinse", (3,)),
    ],
)
def test_a_document_that_is_not_in_force_speaks_after_those_that_are(query: str, cited: tuple[int, ...]) -> None:
    texts = ("The rinse limit is 5.", "The rinse limit is 1.", "The lamp's rinse is 7.")
    found = [
        Passage(n, f"{n}.md#0", f"{n}.md", "Rinse", "", text, {"state": state})
        for n, (text, state) in enumerate(zip(texts, ("Retired", "effective", "draft"), strict=True), start=1)
    ]
    answer = extractive(query, found)
    assert answer is not None
    assert answer.cited == cited


def test_one_word_is_answered_only_by_what_says_what_it_is() -> None:
    assert said("what is a lamp?", passages("The lamp is red.")) == "The lamp is red. [1]"
    assert said("what is a lamp?", passages("Ask for the lamp, which is red.")) is None


def test_a_sentence_that_leans_on_the_one_before_brings_it_along() -> None:
    found = passages("The code is shown once. It expires after ten minutes. Type it in.")
    assert said("after how many minutes does the code expire", found) == (
        "The code is shown once. [1] It expires after ten minutes. [1]"
    )


@pytest.mark.parametrize("query", ["how do I rotate the key", "who approves this", "how many attempts are made"])
def test_every_sentence_of_an_extractive_answer_stands_in_its_passage(query: str) -> None:
    texts = [each["text"] for each in INJECTIONS] + [
        "Rotate the key: it is new [4]. It works. Then *rotate* the <mark>key</mark> again.",
        "| buffer | days | by |\n|---|---|---|\n| PBS [1] | 30 | Ann |\n\n1. Ann approves.\n2. 3 attempts are made\n",
    ]
    for text in texts:
        found = passages("Nothing here.", text)
        answer = extractive(query, found)
        if answer is not None:
            parts = re.findall(r"(.+?) \[(\d+)\](?: |$)", answer.text)
            assert 1 <= len(parts) <= 4
            assert all(sentence in quotable(found[int(n) - 1]) for sentence, n in parts)


def test_a_document_cannot_cite_in_an_extractive_answer() -> None:
    answer = extractive("buffer lifetime", passages("The buffer lifetime is a year [2], as 【7†payroll】 says."))
    assert answer is not None
    assert answer.text == "The buffer lifetime is a year (2), as (7) says. [1]"
    assert answer.cited == (1,)


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
    assert (answer.text, answer.source, answer.cited, answer.removed_citations) == ("Kept cold [1].", "model", (1,), 1)
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


@pytest.mark.parametrize("injected", INJECTIONS, ids=lambda each: each["id"])
def test_an_injection_never_changes_what_is_cited(injected: dict[str, Any]) -> None:
    """Quoted by an extractive answer, or beside what is quoted, a document's own brackets cite nothing."""
    inside, beside = (
        extractive(
            "how long are buffers kept cold?", passages("Nothing here.", f"Buffers are kept cold for 9 days{text}")
        )
        for text in (f", {' '.join(injected['text'].split())}", f".\n\n{injected['text']}")
    )
    assert beside is not None
    for answer in (beside, inside):
        if answer is not None:
            parsed = [n for claim in claims(answer.text) for n in claim.cites]
            assert set(parsed) == set(answer.cited) == {2}


def test_most_injections_can_stand_in_a_quoted_sentence() -> None:
    """The control of the test above."""
    quoted = [
        extractive("how long are buffers kept cold?", passages(f"Buffers are kept cold for 9 days, {text}"))
        for text in (" ".join(each["text"].split()) for each in INJECTIONS)
    ]
    assert sum(answer is not None for answer in quoted) > 40


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


@pytest.mark.parametrize(("section", "told"), [("Cleaning", True), ("Revision history", False)])
def test_a_sentence_is_judged_by_the_section_that_it_stands_in(section: str, told: bool) -> None:
    text = f"## 4. Use\n\nOil it.\n\n### {section}\n\nThe pump is cleaned after use.\n"
    found = [Passage(1, "a.md#0", "a.md", "Pumps", "Pumps > 4. Use", text)]
    assert (said("when is the pump cleaned", found) == "The pump is cleaned after use. [1]") is told


def test_a_quoted_sentence_shows_the_words_of_a_link() -> None:
    told = said("what makes a lamp red", passages("A filter makes a lamp red, as in [Chapter\n2][storing-lamps]."))
    assert told == "A filter makes a lamp red, as in Chapter 2. [1]"
