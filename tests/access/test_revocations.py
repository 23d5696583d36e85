"""What was ended before its time stays ended, on every host, and its record goes when it would have ended by itself."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, Principal, Standing, local_key, mint, proofs, revoke
from hive_agents.access.logins import (
    LINK_SECONDS,
    SESSION_SECONDS,
    begin_session,
    end_session,
    login_code,
    session_of_token,
)
from hive_agents.access.proofs import end_all, forget_expired
from hive_agents.access.tokens import verify
from hive_agents.base.errors import HiveError
from hive_agents.events import EventLog
from hive_agents.store import audit, connected
from tests.records import lose_records

DANA = Principal("acme", "dana")


def another_host(place: Workspace) -> Workspace:
    """The workspace as another host sees it, with the same key; with records in a file it is the same host."""
    local_key(place)
    if isinstance(place.records, Path):
        return Workspace(place.root)
    copy = place.root.with_name(f"{place.root.name}_b")
    shutil.copytree(place.root, copy, ignore=shutil.ignore_patterns("hive.db*", "audit*"))
    return Workspace(copy)


def refused(use: Callable[[], Any]) -> str:
    with pytest.raises(HiveError, match="HIVE-417") as caught:
        use()
    return caught.value.diagnostics[0].message


def test_used_links_and_ended_sessions_go_when_they_would_be_over(text_workspace: Workspace) -> None:
    now = time.time()
    session = begin_session(text_workspace, login_code(text_workspace))
    end_session(text_workspace, session)
    assert forget_expired(text_workspace, now) == 0
    assert forget_expired(text_workspace, now + LINK_SECONDS + 5) == 1
    assert "it was ended" in refused(Asker.of(text_workspace, session).reader_or_owner)
    assert forget_expired(text_workspace, now + SESSION_SECONDS + 5) == 1
    assert "don't know it" in refused(Asker.of(text_workspace, session).reader_or_owner)


def test_a_token_that_is_not_of_here_stays_ended(text_workspace: Workspace) -> None:
    """Its expiry isn't known."""
    revoke(text_workspace, "t1")
    assert forget_expired(text_workspace, 4_000_000_000) == 0
    assert not revoke(text_workspace, "t1")


def test_what_an_earlier_release_revoked_in_a_file_counts(text_workspace: Workspace) -> None:
    token, other = mint(text_workspace, DANA), mint(text_workspace, DANA)
    lines = f"{token.jti}\nother,1\n{other.jti},,globex\n"
    (text_workspace.state / "revoked_tokens").write_text(lines)
    assert "was revoked" in refused(lambda: verify(text_workspace, token.token))
    assert verify(text_workspace, other.token) == DANA, "it was ended for another tenant"
    (text_workspace.state / "revoked_tokens").unlink()
    assert "was revoked" in refused(lambda: verify(text_workspace, token.token))


def test_a_damaged_line_refuses_every_token(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA)
    (text_workspace.state / "revoked_tokens").write_text("x,soon\n")
    with pytest.raises(HiveError, match="revoked tokens cannot be read"):
        verify(text_workspace, token.token)
    with pytest.raises(HiveError, match="revoked tokens cannot be read"):
        forget_expired(text_workspace, 1.0)


def test_each_host_sees_what_another_ended(text_workspace: Workspace) -> None:
    a, b = text_workspace, another_host(text_workspace)
    token, session = mint(a, DANA), begin_session(a, login_code(a))
    assert verify(b, token.token) == DANA
    assert Asker.of(b, session).reader_or_owner().tenant == "local"
    revoke(a, token.jti)
    assert "was revoked" in refused(lambda: verify(b, token.token))
    asker = Asker.of(b, session)
    end_session(a, session)
    assert "was ended" in refused(asker.reader_or_owner), "an asker looks at each use"
    code = login_code(a)
    begin_session(a, code)
    assert "used before" in refused(lambda: begin_session(b, code))


def _begun(root: Path, code: str) -> bool:
    try:
        begin_session(Workspace(root), code)
    except HiveError:
        return False
    return True


def test_a_link_works_once_where_two_hosts_race(text_workspace: Workspace) -> None:
    a, b = text_workspace, another_host(text_workspace)
    codes = [login_code(a) for _ in range(8)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        both = [pool.submit(_begun, place.root, code) for code in codes for place in (a, b)]
        won = [one.result() for one in both]
    assert [sum(won[n : n + 2]) for n in range(0, len(won), 2)] == [1] * len(codes)


def test_a_session_of_a_token_ends_with_it(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA)
    session, kept = (session_of_token(text_workspace, token.token) for _ in range(2))
    asker = Asker.of(text_workspace, session)
    assert (asker.reader(), asker.authn) == (DANA, "token")
    end_session(text_workspace, session)
    assert "was ended" in refused(asker.reader)
    assert verify(text_workspace, token.token) == DANA
    revoke(text_workspace, token.jti)
    assert "was revoked" in refused(Asker.of(text_workspace, kept).reader)


def test_all_that_a_person_holds_ends(text_workspace: Workspace) -> None:
    token, other = mint(text_workspace, DANA), mint(text_workspace, Principal("globex", "dana"))
    session = session_of_token(text_workspace, token.token)
    assert end_all(text_workspace, "dana", "acme", "user:root") == (1, 1, 0, [])
    assert "was revoked" in refused(lambda: verify(text_workspace, token.token))
    assert "was ended" in refused(Asker.of(text_workspace, session).reader_or_owner)
    assert verify(text_workspace, other.token).tenant == "globex"
    assert verify(text_workspace, mint(text_workspace, DANA).token) == DANA, "a new token counts"


def test_a_link_of_before_begins_no_session_of_who_was_ended(text_workspace: Workspace) -> None:
    """It counted for a minute afterwards, and its session for twelve hours."""
    people = {"principals": {"dana": {"tenant": "acme"}}}
    (text_workspace.root / "access").mkdir()
    (text_workspace.root / "access" / "a.json").write_text(json.dumps(people))
    code = login_code(text_workspace, "dana")
    end_all(text_workspace, "dana", "acme", "user:root")
    assert "was ended" in refused(lambda: begin_session(text_workspace, code))
    time.sleep(1.1)  # a link tells the second in which it was made
    session = begin_session(text_workspace, login_code(text_workspace, "dana"))
    assert Asker.of(text_workspace, session).reader().user == "dana"


def test_tokens_that_who_was_ended_made_for_others_end(text_workspace: Workspace) -> None:
    """An admin who leaves had kept a colleague's token, and had made a third's by it."""
    people = {"principals": {"amy": {"tenant": "acme"}, "kim": {"tenant": "globex"}}}
    (text_workspace.root / "access").mkdir()
    (text_workspace.root / "access" / "a.json").write_text(json.dumps(people))
    root = Principal("acme", "root", frozenset(), frozenset({"admin"}))
    ghost = Principal("acme", "ghost", frozenset(), frozenset({"admin"}))
    amy = Principal("acme", "amy", frozenset(), frozenset({"reader"}))
    of_root = [mint(text_workspace, who, maker=root) for who in (root, ghost, amy)]
    third = mint(text_workspace, Principal("acme", "third"), maker=verify(text_workspace, of_root[1].token))
    fourth = mint(text_workspace, Principal("acme", "fourth"), maker=verify(text_workspace, of_root[2].token))
    session, run = (
        session_of_token(text_workspace, third.token),
        Standing.of(text_workspace, verify(text_workspace, of_root[2].token)),
    )
    kept = [mint(text_workspace, amy), mint(text_workspace, DANA, maker=amy)]
    made_for = ["amy", "fourth", "ghost", "third"]
    assert proofs.made_for(text_workspace, "root", "acme") == made_for
    assert end_all(text_workspace, "root", "acme", "user:amy") == (5, 0, 0, made_for)
    for one in (*of_root, third, fourth):
        assert "was revoked" in refused(lambda token=one.token: verify(text_workspace, token))
    assert "was revoked" in refused(Asker.of(text_workspace, session).reader_or_owner)
    assert "was revoked" in refused(lambda: run.now(text_workspace))
    assert [verify(text_workspace, one.token).user for one in kept] == ["amy", "dana"]
    assert proofs.made_for(text_workspace, "root", "acme") == []
    (told,) = (one for one in audit.entries(text_workspace) if one["kind"] == "person.ended")
    assert (told["made_for"], len(told["jtis"])) == (made_for, 5)


def test_lost_records_know_no_token_and_still_what_was_revoked(text_workspace: Workspace) -> None:
    """A token that was made here counts only while the records know it; others were revoked in the log, too."""
    token = mint(text_workspace, DANA)
    revoke(text_workspace, "of-elsewhere", tenant="acme")
    end_all(text_workspace, "dana", "acme", "user:root")
    lose_records(text_workspace)
    proofs._complete.clear()  # as in another process
    assert "don't know it" in refused(lambda: verify(Workspace(text_workspace.root), token.token))
    assert not revoke(text_workspace, "of-elsewhere", tenant="acme")
    with connected(text_workspace.records) as connection:
        assert connection.execute("SELECT id FROM proofs WHERE kind = 'person'").fetchall() == [("dana",)]


def test_records_that_cannot_be_read_refuse_every_token(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA)
    with connected(text_workspace.records) as connection:
        connection.execute("ALTER TABLE proofs RENAME TO gone")
    with pytest.raises(HiveError):
        verify(text_workspace, token.token)
    with connected(text_workspace.records) as connection:
        connection.execute("ALTER TABLE gone RENAME TO proofs")


def test_each_mint_revocation_and_end_is_in_the_audit_log_and_an_event(text_workspace: Workspace) -> None:
    token = mint(text_workspace, DANA, maker=Principal("acme", "root"))
    revoke(text_workspace, token.jti, by="user:amy")
    end_all(text_workspace, "dana", "acme", "user:kim")
    kinds = ("token.made", "token.revoked", "person.ended")
    lines = {one["kind"]: one for one in audit.entries(text_workspace) if one["kind"] in kinds}
    assert [lines[kind]["by"] for kind in kinds] == ["user:root", "user:amy", "user:kim"]
    assert {lines[kind]["tenant"] for kind in kinds} == {"acme"}
    assert lines["token.made"]["jti"] == lines["token.revoked"]["jti"] == token.jti
    events = {str(one.type): one for one in EventLog(text_workspace).replay() if str(one.type) in kinds}
    assert {kind: (one.tenant, one.payload["by"]) for kind, one in events.items()} == {
        kind: ("acme", lines[kind]["by"]) for kind in kinds
    }
