"""Sentences that hold every word of a question and yet don't answer it, by the form that an answer to it has."""

from __future__ import annotations

import re

import pytest

from tests.copilot.test_answers import passages, said


@pytest.mark.parametrize(
    ("query", "beside", "answer"),
    [
        ("how often are check-ins?", "Pilots meet at a check-in or hold 1:1s.", "Check-ins are held every month."),
        ("how often are check-ins?", "Pilots check the hull every day.", "Check-ins are held every month."),
        ("how often is the hull painted?", "The hull is painted in 3 days.", "The hull is painted twice a year."),
        ("how often is the hull painted?", "The hull is painted in 3 days.", "The hull is painted every 4 years."),
        ("what is STORM_MODE?", "Storm mode is based on strict mode.", "Storm mode is a state without sails."),
        ("what is the rank of a pilot?", "The rank of a pilot is settled by the office.", None),
        (
            "what is the maximum keel size?",
            "The keel size is the least that needs fewer than 2000 nails, or the maximum keel size for barges.",
            "The maximum keel size is 40 feet.",
        ),
        ("when is the next tide?", "Create a note for the next tide, due at noon.", "The next tide is at noon."),
        (
            "how do I close a lock?",
            "If you are leaving, you can close a lock as described in Leaving.",
            "You can close a lock by turning its wheel.",
        ),
        (
            "how do I moor a barge?",
            "You should never moor a barge by its rudder.",
            "You can moor a barge by its ropes.",
        ),
        (
            "how many weeks of leave do pilots get?",
            "Pilots get leave once they stayed for 12 months.",
            "Pilots get 5 weeks of leave.",
        ),
        ("how many buoys are there?", "The chart shows 3 buoy lamps.", "There are 9 buoys."),
        (
            "how do I steer to the pier?",
            "Use these instructions to steer to the pier.",
            "Turn the wheel to steer to the pier.",
        ),
        ("when are pilots paid?", "Pilots take paid leave until May.", "Pilots are paid on Fridays."),
        (
            "how many buoys are there?",
            "Buoys are covered as a part of the unlimited budget.",
            "There is an unlimited number of buoys.",
        ),
        ("wie oft wird der Rumpf gestrichen?", "Der Rumpf wird in 3 Tagen gestrichen.", None),
    ],
)
def test_the_words_of_a_question_in_another_form_are_no_answer(query: str, beside: str, answer: str | None) -> None:
    language = "german" if re.match(r"w(ie|as) ", query) else "english"
    heading = "STORM_MODE" if "STORM" in query else "Harbour"
    assert said(query, passages(beside, heading=heading), language) is None
    if answer is not None:
        assert said(query, passages(f"{beside}\n\n{answer}", heading=heading), language) == f"{answer} [1]"


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("how long should I ring the bell?", "Ring the bell for at least 20 seconds."),
        ("what is the default speed?", "By default, the speed is 5 knots."),
        ("how many bits does a flag have?", "A flag has an 8-bit form."),
        ("what is a fender?", "A fender means a cushion of rope."),
        ("what are fenders?", "Fenders are cushions of rope."),
        ("was sind Bojen?", "Bojen sind Zeichen."),
    ],
)
def test_the_forms_that_answers_have_are_quoted(query: str, answer: str) -> None:
    language = "german" if query.startswith("was") else "english"
    assert said(query, passages(answer, heading="Harbour"), language) == f"{answer} [1]"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("is the cargo insured?", "The cargo is insured."),
        ("can I paint a barge?", "You can paint a barge."),
        ("must buoys be red?", "Buoys must be red."),
        ("where are ropes stored?", "Ropes are stored in the shed."),
        ("why are ropes dry?", "Ropes are dry because they hang."),
        ("what happens if the pump fails?", "If the pump fails, the bell rings."),
        ("how are barges named?", "Barges are named after rivers."),
        ("barge names", "Barges are named after rivers."),
        ("wo liegt das Logbuch?", "Das Logbuch liegt im Kartenraum."),
        ("darf man hier ankern?", "Man darf hier ankern."),
    ],
)
def test_what_has_no_form_of_its_own_is_left_to_the_passages(query: str, text: str) -> None:
    """On documents that nobody had seen more than half of such quotes were wrong."""
    language = "german" if query.startswith(("wo", "darf")) else "english"
    assert said(query, passages(text, heading="Harbour"), language) is None


def test_a_row_of_a_table_answers_only_a_question_that_says_which_row_it_means() -> None:
    rows = "| Barge | Crew | Lamps |\n|---|---|---|\n| 1 mast | 2 sailors | 4 |\n| 3 masts | 9 sailors | 6 |\n"
    rigs = passages(f"# Crews of barges\n\n{rows}")
    assert said("how many sailors are needed?", rigs) is None
