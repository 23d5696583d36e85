"""`hive help`: help pages of commands, and answers from the documentation that ships with the package."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.sample import hive, indexed_sample


def asked(*words: str) -> Any:
    ran = hive("help", "ask", *words, "--json")
    assert (ran.code, ran.err) == (0, ""), ran.err
    return ran.json


def test_help_shows_what_the_option_shows() -> None:
    assert hive("help") == hive("--help")
    assert hive("help", "query") == hive("query", "--help")
    assert hive("help", "runs", "show") == hive("runs", "show", "--help")
    assert "ask" in hive("help", "--help").out
    unknown = hive("help", "qery")
    assert (unknown.code, "qery" in unknown.err) == (2, True)


def test_a_question_is_answered_in_any_folder_with_page_and_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = hive("help", "ask", "how", "do", "I", "back", "up", "a", "workspace?")
    assert ran.code == 0
    assert "docs/workspace.md" in ran.out
    assert '"Backup"' in ran.out
    assert not list(tmp_path.iterdir())


def test_a_reply_has_the_form_of_a_readers_query() -> None:
    reply = asked("how do I back up a workspace?")
    query = hive("query", "back up", "--as", "dana", "-w", indexed_sample(), "--json").json
    assert reply.keys() == query.keys()
    assert reply["results"][0].keys() == query["results"][0].keys()
    assert [result["rank"] for result in reply["results"]] == [1, 2, 3]


def test_nothing_is_asked_elsewhere_and_nothing_of_the_users_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that can't be written, a token that is refused, settings of other workspaces, and no network."""

    def refused(*_: object) -> None:
        raise OSError("no network")

    (tmp_path / "file").touch()
    theirs = {
        "HIVE_HOME": str(tmp_path / "file" / "home"),
        "HIVE_TOKEN": "forged",
        "HIVE_STORAGE__URL": "postgresql://nobody@127.0.0.1:1/none",
        "HIVE_MODELS__EMBEDDING": "none",
    }
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket.socket, "connect", refused)
    assert asked("what is a distractor")["results"]
    assert {name: os.environ.get(name) for name in theirs} == theirs


def test_where_nothing_is_near_that_is_said_and_the_nearest_headings_are_named() -> None:
    """Somebody who asks in other words than the page's may know them when they see them."""
    question = "which adversaries did you consider?"
    ran = hive("help", "ask", question)
    assert (ran.code, "nothing near" in ran.out) == (0, True)
    reply = asked(question)
    assert (reply["results"], len(reply["nearest"])) == ([], 3)
    for one in reply["nearest"]:
        assert f"{one['doc_id']}: {one['heading']}" in " ".join(ran.out.split())


def test_a_question_that_is_none_is_refused() -> None:
    assert hive("help", "ask").code == 2
    assert hive("help", "ask", " ", "--json").codes == {"HIVE-409"}
