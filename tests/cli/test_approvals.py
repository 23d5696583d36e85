"""`hive approvals …`: fields, exit codes, and what a decision does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from hive_agents.approvals import ApprovalStore
from hive_agents.cli.answering import read_patch
from hive_agents.ranking.deployed import active_config, versions
from hive_agents.store import audit
from hive_agents.store.database import connect
from tests.approvals.asking import editable, filing
from tests.copilot.chats import copied_knowledge_base
from tests.sample import Ran, hive, words_sample, write_config

ITEM = {
    "id", "kind", "title", "tenant", "status", "risk", "requester", "created_at", "due_at", "allowed_decisions",
    "version",
}  # fmt: skip
ROW = ITEM | {
    "decisions", "context", "signals", "diff", "args_schema", "approvers", "remind_at", "on_timeout", "content_hash",
    "idempotency_key", "run_id", "thread_id",
}  # fmt: skip
WORDS = {"method": "keyword"}
DECIDED = {"id", "status", "decision", "by", "authn", "decided_at", "remaining_approvals", "run"}


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return words_sample(tmp_path / "w")


def approvals(place: Workspace, *arguments: object) -> Ran:
    return hive("approvals", *arguments, "-w", place.root, "--json")


@pytest.fixture
def override(place: Workspace) -> str:
    """A request to deploy `same` in spite of the gate."""
    write_config(place, "same", retrieval=WORDS)
    ran = hive("deploy", "same", "--override", "--reason", "we know", "-w", place.root, "--json")
    assert (ran.code, ran.json["override"]) == (1, {"reason": "we know"})
    return str(ran.json["approval_id"])


def test_list_and_show_have_every_field(place: Workspace, override: str) -> None:
    (item,) = approvals(place, "list").json["items"]
    assert set(item) == ITEM
    assert (item["id"], item["kind"], item["status"]) == (override, "deploy", "pending")
    row = approvals(place, "show", override).json
    assert set(row) >= ROW
    assert row["approvers"] == {"min": 1, "exclude_requester": True}
    assert row["context"]["reason"] == "we know"
    assert row["context"]["evaluation"]["certificate"]["config_hash"] == row["diff"]["after_hash"]
    assert row["context"]["changes"] == [{"path": "dynamic_k.max_results", "a": 10, "b": None}]
    assert {"op": "replace", "path": "/name", "value": "same"} in row["diff"]["json_patch"]
    assert approvals(place, "list", "--status", "approved").json == {"items": []}
    for command in (("list",), ("show", override), ("verify",)):
        assert override in hive("approvals", *command, "-w", place.root).out or command == ("verify",)


def test_another_person_deploys_in_spite_of_the_gate(place: Workspace, override: str) -> None:
    alone = approvals(place, "approve", override)
    assert (alone.code, alone.codes) == (1, {"HIVE-415"})
    ran = approvals(place, "approve", override, "--as", "dana", "--version", 1)
    assert ran.code == 0
    assert set(ran.json) == DECIDED
    assert (ran.json["status"], ran.json["by"], ran.json["authn"]) == ("approved", "user:dana", "local")
    newest = versions(place)[0]
    assert (newest.name, newest.via, newest.by, newest.reason) == ("same", "override", "user:dana", "we know")
    assert active_config(place).stored.name == "same"
    assert approvals(place, "approve", override, "--as", "dana").json == ran.json
    assert len([one for one in versions(place) if one.via == "override"]) == 1
    assert approvals(place, "approve", override, "--as", "eve").code == 1
    assert approvals(place, "reject", override, "--as", "dana").codes == {"HIVE-414"}


def test_a_row_or_a_line_that_somebody_forged_deploys_nothing(place: Workspace, override: str) -> None:
    decision = {"verb": "approve", "by": "user:ceo", "authn": "token", "at": "2026-11-21T19:00:00+00:00", "version": 1}
    changes = {"status": "approved", "decisions": [decision]}
    log = place.root / audit.FILE
    whole, entry = log.read_text(), list(audit.entries(place))[-1]
    log.write_text(whole + json.dumps(entry | {"step": 2, "changes": changes, "digest": "f" * 64}) + "\n")
    ran = approvals(place, "list")
    assert (ran.code, "HIVE-413" in ran.err, ran.json["items"][0]["status"]) == (0, True, "pending")
    assert approvals(place, "show", override).json["status"] == "pending"
    log.write_text(whole)
    connection = connect(place.database)
    statement = "UPDATE approvals SET status = 'approved', decisions = ?"
    connection.execute(statement, (json.dumps([decision]),))
    connection.close()
    ran = approvals(place, "list")
    assert (ran.code, "HIVE-413" in ran.err, ran.json["items"]) == (0, True, [])
    assert hive("deploy", "same", "--override", "--reason", "again", "-w", place.root, "--json").json["approval_id"]
    assert not [one for one in versions(place) if one.via == "override"]
    assert active_config(place).stored.name == "v1-naive"


def test_an_override_is_asked_for_once_as_long_as_it_waits(place: Workspace, override: str) -> None:
    """The same reason and figures give the same request; a new reason or measurement supersedes the requester's own."""

    def ask(reason: str) -> str:
        ran = hive("deploy", "same", "--override", "--reason", reason, "-w", place.root, "--json")
        return str(ran.json["approval_id"])

    def statuses() -> list[tuple[str, str]]:
        return [(one["id"], one["status"]) for one in approvals(place, "list").json["items"]]

    assert ask("we know") == override
    assert statuses() == [(override, "pending")]
    second = ask("they insist")
    assert statuses() == [(second, "pending"), (override, "superseded")]
    write_config(place, "same", retrieval=WORDS | {"top_k": 3})
    third = ask("they insist")
    assert statuses()[:2] == [(third, "pending"), (second, "superseded")]
    assert approvals(place, "show", second).json["note"] == f"asked for again as {third}"
    assert approvals(place, "reject", third, "--as", "dana").code == 0
    fourth = ask("they insist")
    assert statuses()[:2] == [(fourth, "pending"), (third, "rejected")]
    assert audit.verify(place).ok


def test_what_was_rolled_back_is_not_deployed_again(place: Workspace, override: str) -> None:
    assert approvals(place, "approve", override, "--as", "dana").code == 0
    assert hive("rollback", "-w", place.root).code == 0
    assert approvals(place, "approve", override, "--as", "dana").code == 0
    approvals(place, "list")
    assert active_config(place).stored.name == "v1-naive"


def test_an_override_of_what_has_changed_is_superseded(place: Workspace, override: str) -> None:
    write_config(place, "same", retrieval=WORDS | {"top_k": 3})
    ran = approvals(place, "approve", override, "--as", "dana")
    assert (ran.code, ran.codes) == (1, {"HIVE-307"})
    assert "--override" in ran.json["diagnostics"][0]["fix"]
    assert approvals(place, "show", override).json["status"] == "superseded"
    assert not [one for one in versions(place) if one.via == "override"]


def test_a_person_who_may_not_decide_supersedes_nothing(place: Workspace, override: str) -> None:
    write_config(place, "same", retrieval=WORDS | {"top_k": 3})
    assert approvals(place, "approve", override).codes == {"HIVE-415"}
    assert approvals(place, "show", override).json["status"] == "pending"


def test_unknown_ids_and_missing_ones_are_wrong_usage(place: Workspace) -> None:
    for verb in (("show",), ("approve",), ("reject",), ("respond", "--message", "x"), ("delegate", "--to", "eve")):
        assert approvals(place, *verb, "nope").code == 2, verb
    assert approvals(place, "approve").code == 2
    assert approvals(place, "approve", "x", "--as", "agent:queen").code == 2
    assert approvals(place, "list", "--status", "bogus").codes == {"HIVE-409"}
    assert approvals(place, "list", "--status", "bogus").code == 2
    assert approvals(place, "list").json == {"items": []}


def test_edit_and_respond(place: Workspace, tmp_path: Path) -> None:
    store = ApprovalStore(place)
    first, second = store.file(editable()).id, store.file(editable()).id
    patch = tmp_path / "patch.json"
    patch.write_text(json.dumps([{"op": "replace", "path": "/n", "value": 9}]))
    assert approvals(place, "edit", first, "--patch", patch, "--as", "dana").codes == {"HIVE-105"}
    patch.write_text(json.dumps({"n": 2}))
    ran = approvals(place, "edit", first, "--patch", patch, "--as", "dana", "--reason", "fewer")
    assert (ran.code, ran.json["status"]) == (0, "edited")
    assert approvals(place, "show", first).json["context"]["args"]["n"] == 2
    assert approvals(place, "edit", first, "--patch", tmp_path / "gone", "--as", "dana").code == 2
    third = store.file(editable()).id
    assert approvals(place, "edit", third, "--patch", '{"n": 2', "--as", "dana").codes == {"HIVE-101"}
    assert approvals(place, "edit", third, "--patch", '{"n": 2}', "--as", "dana").json["status"] == "edited"
    assert approvals(place, "show", third).json["context"]["args"]["n"] == 2
    steps = '[{"op": "replace", "path": "/n", "value": 2}]'
    assert approvals(place, "edit", store.file(editable()).id, "--patch", steps, "--as", "dana").code == 0
    ran = approvals(place, "respond", second, "--message", "ask dana", "--as", "dana")
    assert (ran.code, ran.json["status"]) == (0, "responded")


def test_an_edit_of_a_denied_tool_is_refused(place: Workspace, tmp_path: Path) -> None:
    denied = {"tool": "send_mail", "args": {"to": "a@example.org"}, "policy": [{"match": "*", "decision": "deny"}]}
    request = ApprovalStore(place).file(editable(context=denied)).id
    (tmp_path / "patch.json").write_text('{"n": 1}')
    ran = approvals(place, "edit", request, "--patch", tmp_path / "patch.json", "--as", "dana")
    assert (ran.code, ran.codes) == (1, {"HIVE-105"})
    assert "denies send_mail" in ran.json["diagnostics"][0]["message"]


def test_a_list_narrows_to_a_tenant(place: Workspace) -> None:
    store = ApprovalStore(place)
    own, acme = store.file(filing()).id, store.file(filing(tenant="acme")).id

    def listed(*arguments: str) -> list[tuple[str, str]]:
        return [(one["id"], one["tenant"]) for one in approvals(place, "list", *arguments).json["items"]]

    assert listed() == [(acme, "acme"), (own, "local")]
    assert listed("--tenant", "acme", "--status", "pending") == [(acme, "acme")]
    assert listed("--tenant", "globex") == []
    assert "of acme" in hive("approvals", "show", acme, "-w", place.root).out
    assert "of the workspace itself, risk" in hive("approvals", "show", own, "-w", place.root).out


def test_texts_are_shown_as_they_were_written(place: Workspace) -> None:
    request = ApprovalStore(place).file(filing(title="[red]may I[/red] \\[x]?")).id
    for command in (("show", request), ("list",)):
        out = "".join(hive("approvals", *command, "-w", place.root).out.split())
        assert "[bold]" not in out
    assert "[red]may I[/red] \\[x]?" in hive("approvals", "show", request, "-w", place.root).out


def test_what_a_request_is_about_is_shown_as_json(place: Workspace) -> None:
    context = {"tool": "rotate", "args": {"dry": True, "note": None}}
    request = ApprovalStore(place).file(filing(context=context)).id
    out = hive("approvals", "show", request, "-w", place.root).out
    assert json.loads(out[out.index("\n{") : out.index("\n}") + 2]) == context


def test_an_empty_log_is_intact_and_has_no_head(tmp_path: Path) -> None:
    assert hive("init", tmp_path / "new", "--empty").code == 0
    assert "intact: 0 entries\n" in hive("approvals", "verify", "-w", tmp_path / "new").out


EVIL = "a\x1b[2J\x1b]0;x\x07b\nc\x9b1m\u202ed"


def test_what_others_wrote_does_not_speak_to_the_terminal(place: Workspace) -> None:
    store = ApprovalStore(place)
    parts = filing(title=EVIL, requester=f"user:{EVIL}", tenant=EVIL, context={EVIL: EVIL, "rule_id": EVIL})
    request = store.file(parts).id
    for command in (
        ("list",),
        ("show", request),
        ("approve", EVIL),
        ("approve", request, "--as", "dana", "--reason", EVIL),
        ("approve", request, EVIL, "--as", "eve"),
        ("show", request),
    ):
        ran = hive("approvals", *command, "-w", place.root)
        told = (ran.out + ran.err).replace("\n", "")
        assert told.isprintable(), command
        assert "a\nc" not in ran.out


def test_the_table_is_whole_at_80_columns(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("hive_agents.cli.terminal.is_terminal", lambda _: True)
    parts = filing(kind="threshold", requester="user:somebody.with.a.long.name@example.org", title="lower " * 9)
    made = ApprovalStore(place).file(parts)
    ran = hive("approvals", "list", "-w", place.root)
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "…" not in ran.out
    assert str(made.due_at)[:16].replace("T", " ") in ran.out
    assert parts.requester in "".join(line[47:64].strip() for line in ran.out.splitlines()[1:])


def test_a_patch_may_come_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Stdin:
        buffer = io.BytesIO(b'{"n": 1}')

    monkeypatch.setattr("sys.stdin", Stdin())
    assert read_patch("-") == {"n": 1}


def test_all_of_one_rule_in_one_go(place: Workspace) -> None:
    store = ApprovalStore(place)
    context: dict[str, Any] = {"rule_id": "noisy"}
    ids = [store.file(filing(context=context)).id for _ in range(3)]
    other = store.file(filing()).id
    ran = approvals(place, "approve", "--rule", "noisy", "--as", "dana")
    assert ran.code == 0
    assert [(one["id"], one["status"]) for one in ran.json["items"]] == [(one, "approved") for one in ids]
    assert store.get(other).status == "pending"
    assert approvals(place, "reject", *ids, "--as", "dana").code == 1
    assert approvals(place, "approve", "--rule", "noisy", "--as", "dana").json == {"items": []}


def test_delegate_hands_over(place: Workspace) -> None:
    request = ApprovalStore(place).file(filing()).id
    ran = approvals(place, "delegate", request, "--to", "finn", "--as", "eve")
    assert (ran.code, ran.json["delegations"][0]["to"]) == (0, "user:finn")
    assert approvals(place, "approve", request, "--as", "eve").code == 1
    assert approvals(place, "approve", request, "--as", "finn").code == 0


def test_verify_says_whether_the_log_is_intact_and_how_far_to_trust_it(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_AUDIT_KEY", "k")
    store = ApprovalStore(place)
    store.decide(store.file(filing()).id, "approve", by="dana")
    entries = len(list(audit.entries(place)))
    ran = approvals(place, "verify")
    assert (ran.code, set(ran.json)) == (0, {"ok", "entries", "first_bad", "keyed", "head"})
    assert (ran.json["ok"], ran.json["entries"], ran.json["keyed"]) == (True, entries, True)
    path = place.root / audit.FILE
    path.write_text(path.read_text().replace("user:dana", "user:evil"))
    ran = approvals(place, "verify")
    assert (ran.code, ran.json["ok"], ran.json["first_bad"]) == (1, False, entries)


def test_verify_without_a_key_says_that_it_detects_accidents_only(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIVE_AUDIT_KEY", raising=False)
    assert "accidents only" in " ".join(hive("approvals", "verify", "-w", place.root).out.split())
    assert approvals(place, "verify").json["keyed"] is False


def test_a_token_reads_the_requests_of_its_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = copied_knowledge_base(tmp_path / "kb")
    context = {"result": {"question": "q", "documents": ["sops/recall.md", "faqs/lost.md"]}}
    acme, own = (
        ApprovalStore(place).file(filing(tenant=tenant, context=context, idempotency_key=tenant)).id
        for tenant in ("acme", "local")
    )

    def read_by(user: str, *, tenant: str = "acme", role: str = "approver", groups: tuple[str, ...] = ()) -> None:
        principal = Principal(tenant, user, frozenset(groups), frozenset({role}))
        monkeypatch.setenv("HIVE_TOKEN", mint(place, principal).token)

    def listed() -> set[str]:
        return {item["id"] for item in approvals(place, "list").json["items"]}

    def documents() -> list[str]:
        found: list[str] = approvals(place, "show", acme).json["context"]["result"]["documents"]
        return found

    monkeypatch.delenv("HIVE_TOKEN", raising=False)
    assert (listed(), documents()) == ({acme, own}, context["result"]["documents"])
    read_by("dana", groups=("qa",))
    assert (listed(), documents()) == ({acme, own}, context["result"]["documents"])
    read_by("olga", role="operator")
    assert (listed(), documents()) == ({acme, own}, ["faqs/lost.md"])
    read_by("hana", tenant="globex")
    assert listed() == {own}
    hidden, missing = approvals(place, "show", acme), approvals(place, "show", "a0000000000")
    assert hidden.out.replace(acme, "a0000000000") == missing.out
    assert (hidden.code, missing.code) == (missing.code, hidden.code)
    read_by("guest", role="reader")
    for command in (("list",), ("show", acme)):
        assert approvals(place, *command).codes == {"HIVE-415"}


@pytest.mark.parametrize(("user", "decides"), [("guest", False), ("hana", True), ("nobody", True)])
def test_a_tenants_request_is_decided_by_its_approvers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, decides: bool
) -> None:
    """The workspace's own requests take any person's name but of those who are known to be no approvers; faulty access
    files name nobody."""
    monkeypatch.delenv("HIVE_TOKEN", raising=False)
    place = copied_knowledge_base(tmp_path / "kb")
    acme, own = (
        ApprovalStore(place).file(filing(tenant=tenant, idempotency_key=tenant)).id for tenant in ("acme", "local")
    )
    assert approvals(place, "approve", acme, "--as", user).codes == {"HIVE-415"}
    assert approvals(place, "delegate", acme, "--to", "dana", "--as", user).codes == {"HIVE-415"}
    ran = approvals(place, "approve", own, "--as", user)
    assert (ran.code, ApprovalStore(place).get(own).status) == ((0, "approved") if decides else (1, "pending"))
    people = place.root / "access" / "principals.json"
    text = people.read_text()
    people.write_text("{")
    assert approvals(place, "approve", acme, "--as", "dana").codes == {"HIVE-415"}
    people.write_text(text)
    assert approvals(place, "approve", acme, "--as", "dana").code == 0


@pytest.mark.slow
def test_an_override_whose_figures_hold_no_more_names_the_whole_command_that_asks_anew(tmp_path: Path) -> None:
    place = words_sample(tmp_path / "w")
    write_config(place, "same", retrieval={"method": "keyword"})
    asked = hive("deploy", "same", "--override", "--reason", "for the fair", "-w", place.root, "--json")
    golden = place.root / "evals" / "golden.json"
    golden.write_text(golden.read_text().replace('"tags": [', '"tags": ["new", ', 1))
    refused = hive("approvals", "approve", asked.json["approval_id"], "--as", "dana", "-w", place.root, "--json")
    assert (refused.code, refused.codes) == (1, {"HIVE-307"})
    assert refused.json["diagnostics"][0]["fix"] == 'measure again: `hive deploy same --override --reason "…"`'
