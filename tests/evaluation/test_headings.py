"""Headings become questions that somebody could ask: no brackets, no lost capitals, a verb where they have one."""

from __future__ import annotations

import re

import pytest

from hive_agents.evaluation.headings import question_for


@pytest.mark.parametrize(
    ("heading", "title", "question"),
    [
        ("Common Caddyfile Patterns", "Patterns", "what are common Caddyfile patterns?"),
        ("Caddy core", "Architecture", "what is Caddy core?"),
        ("Retention period", "Logs", "what is the retention period of Logs?"),
        ("Retention period", "How to keep logs", "what is retention period?"),
        ("Status codes", "", "what are status codes?"),
        ("Root cause analysis", "", "what is root cause analysis?"),
        ("The default limits", "API", "what are the default limits?"),
        ("Install the client", "Setup", "how do I install the client?"),
        ("Update history", "", "what is update history?"),
        ("Update the history", "", "how do I update the history?"),
        ("Set up a device", "", "how do I set up a device?"),
        ("Rotating the keys", "API tokens", "how does rotating the keys work?"),
        ("How to pair a device", "", "how do I pair a device?"),
        ("When the network fails", "", "what happens if the network fails?"),
        ("What happens next", "Recall", "what happens next?"),
        ("Who signs?", "Recall", "Who signs?"),
        ("How We Work", "", "what should I know about how we work?"),
        ("Chapter 1. About this manual", "", "what should I know about this manual?"),
        ("A Note About Moonlighting", "", "what is moonlighting?"),
        ("GET /rest/folders", "REST", "what does GET /rest/folders do?"),
        ("Making a Career", "", "how does making a career work?"),
        ("Backup and restore", "Storage", "how do backup and restore work in Storage?"),
        ("Pay & Promotions", "Careers", "what should I know about pay & promotions?"),
        ("Access to code", "Devices", "what should I know about access to code?"),
        ("Your first year", "Careers", "what should I know about your first year?"),
    ],
)
def test_a_heading_is_asked_for_in_plain_words(heading: str, title: str, question: str) -> None:
    assert question_for(heading, title, "The parts of Caddy are few, and a Caddyfile tells them.") == question


def test_a_german_heading_stays_as_it_is() -> None:
    assert question_for("Rechte und Pflichten", "Betrieb", language="german") == "was bedeutet Rechte und Pflichten?"


@pytest.mark.parametrize("heading", ["(a", "[x] of (y", "a|b *c", "... ---", "Set ", "\\d+ (?P<x", "And", "If it"])
def test_any_heading_becomes_one_question(heading: str) -> None:
    question = question_for(heading, "T", "some text")
    assert re.fullmatch(r"[^\n]+\?", question)
