"""What was ended before its time stays ended, and its line goes when it would have ended by itself."""

from __future__ import annotations

import time

import pytest

from hive_agents import Workspace
from hive_agents.access import (
    LINK_SECONDS,
    SESSION_SECONDS,
    Principal,
    asker_of,
    begin_session,
    end_session,
    forget_expired,
    login_code,
    mint,
    revoke,
    verify,
)
from hive_agents.errors import HiveError


def lines(place: Workspace) -> list[str]:
    return (place.state / "revoked_tokens").read_text().splitlines()


def test_used_links_and_ended_sessions_go_when_they_would_be_over(text_workspace: Workspace) -> None:
    now = time.time()
    session = begin_session(text_workspace, login_code(text_workspace))
    end_session(text_workspace, session)
    assert len(lines(text_workspace)) == 2
    assert forget_expired(text_workspace, now) == 0
    assert forget_expired(text_workspace, now + LINK_SECONDS + 5) == 1
    with pytest.raises(HiveError, match="it was ended"):
        asker_of(text_workspace, session)
    assert forget_expired(text_workspace, now + SESSION_SECONDS + 5) == 1
    assert lines(text_workspace) == []


def test_a_token_of_which_only_the_id_is_known_stays_ended(text_workspace: Workspace) -> None:
    token = mint(text_workspace, Principal("acme", "dana"))
    revoke(text_workspace, token.jti)
    assert forget_expired(text_workspace, 4_000_000_000) == 0
    with pytest.raises(HiveError, match="was revoked"):
        verify(text_workspace, token.token)


def test_a_line_without_an_end_of_an_earlier_release_counts(text_workspace: Workspace) -> None:
    token = mint(text_workspace, Principal("acme", "dana"))
    (text_workspace.state / "revoked_tokens").write_text(f"{token.jti}\nother,1\n")
    assert forget_expired(text_workspace, 2.0) == 1
    assert lines(text_workspace) == [token.jti]
    with pytest.raises(HiveError, match="was revoked"):
        verify(text_workspace, token.token)


def test_a_damaged_line_refuses_every_token(text_workspace: Workspace) -> None:
    token = mint(text_workspace, Principal("acme", "dana"))
    (text_workspace.state / "revoked_tokens").write_text("x,soon\n")
    with pytest.raises(HiveError, match="revoked tokens cannot be read"):
        verify(text_workspace, token.token)
    with pytest.raises(HiveError, match="revoked tokens cannot be read"):
        forget_expired(text_workspace, 1.0)
