"""A receipt has the same bytes whenever it is made, and says of each thing whether it still can be derived."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import known_principal, mint
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.base.errors import HiveError
from hive_agents.cli.receipts import answer_receipt, decision_receipt, deployment_receipt, verify_receipt
from hive_agents.copilot import Chat
from hive_agents.gate import deploy, rollback
from hive_agents.gate.receipts import Receipt
from hive_agents.store import audit
from tests.copilot.chats import ask, copied_knowledge_base
from tests.records import log_lines, rewrite_log
from tests.sample import hive
from tests.topics import holdout_queries, make_topics, stored, write_golden


def outcomes(place: Workspace, receipt: Receipt, user: str = "dana") -> dict[str, str]:
    """What became of each thing of a receipt, by its name."""
    checks = asyncio.run(verify_receipt(lambda: place, receipt, lambda: Chat(place, known_principal(place, user))))
    assert all(check.told for check in checks if check.outcome != "same")
    return {check.name: check.outcome for check in checks}


def unlike(found: dict[str, str]) -> dict[str, str]:
    return {name: outcome for name, outcome in found.items() if outcome != "same"}


@pytest.fixture
def served(tmp_path: Path) -> Workspace:
    place = make_topics(tmp_path / "ws")
    golden = write_golden(place, holdout_queries())
    deploy(place, stored(place, "naive"), golden, by="ana")
    deploy(place, stored(place, "careful"), golden, by="ana")
    return place


@pytest.fixture
def base(tmp_path: Path) -> Workspace:
    return copied_knowledge_base(tmp_path / "base")


def answered(base: Workspace, user: str = "dana") -> tuple[Chat, str]:
    reply = ask(base, user, "how do I rotate a key")
    assert reply["results"]
    return Chat(base, known_principal(base, user)), reply["run_id"]


def test_a_deployment_is_derived_again_with_its_measurement(served: Workspace) -> None:
    receipt = deployment_receipt(served)
    assert receipt.facts["config"] == "careful"
    assert unlike(outcomes(served, receipt)) == {}
    assert deployment_receipt(served).text == receipt.text


def test_verifying_a_deployment_spends_no_look_at_the_holdout(served: Workspace) -> None:
    before = list(audit.entries(served))
    outcomes(served, deployment_receipt(served))
    assert list(audit.entries(served)) == before


def test_a_receipt_is_an_in_toto_statement_and_is_read_as_it_was_written(served: Workspace, tmp_path: Path) -> None:
    receipt = deployment_receipt(served, 1)
    file = tmp_path / "receipt.json"
    file.write_text(receipt.text, encoding="utf-8")
    value = json.loads(receipt.text)
    assert set(value) == {"_type", "subject", "predicateType", "predicate"}
    assert value["_type"] == "https://in-toto.io/Statement/v1"
    assert all(len(one["digest"]["sha256"]) == 64 for one in value["subject"])
    assert Receipt.read(file).text == receipt.text


def test_a_figure_that_was_edited_in_a_receipt_differs(served: Workspace) -> None:
    receipt = deployment_receipt(served)
    evaluation = json.loads(json.dumps(receipt.facts["evaluation"]))
    evaluation["candidate"]["nudcg"] = 0.5
    edited = replace(receipt, facts={**receipt.facts, "evaluation": evaluation})
    assert unlike(outcomes(served, edited)) == {"record: evaluation": "differs"}


def test_a_hash_that_was_edited_in_a_receipt_differs(served: Workspace) -> None:
    receipt = deployment_receipt(served)
    name = next(iter(receipt.subjects))
    edited = replace(receipt, subjects={name: "0" * 64})
    assert unlike(outcomes(served, edited)) == {f"subject {name}": "differs"}


def test_after_documents_change_a_measurement_is_unknown_and_the_record_still_the_same(served: Workspace) -> None:
    receipt = deployment_receipt(served)
    (served.documents / "extra.md").write_text("# Another\n\nmore of it\n", encoding="utf-8")
    served.index()
    assert unlike(outcomes(served, receipt)) == {"measurement": "unknown"}


def test_a_log_that_was_edited_vouches_for_no_receipt(served: Workspace) -> None:
    receipt = deployment_receipt(served)
    rewrite_log(served, [line.replace('"by": "ana"', '"by": "eve"') for line in log_lines(served)])
    with pytest.raises(HiveError) as caught:
        outcomes(served, receipt)
    assert caught.value.diagnostics[0].code == "HIVE-413"


def test_an_unknown_deployment_is_told(served: Workspace) -> None:
    with pytest.raises(HiveError) as caught:
        deployment_receipt(served, 99)
    assert caught.value.diagnostics[0].code == "HIVE-409"


def test_a_rollback_has_a_receipt_of_its_own(served: Workspace) -> None:
    rollback(served, by="ana")
    receipt = deployment_receipt(served)
    assert (receipt.facts["via"], receipt.facts["config"]) == ("rollback", "naive")
    assert "differs" not in outcomes(served, receipt).values()


def test_a_decision_is_derived_again(served: Workspace) -> None:
    store = ApprovalStore(served)
    filed = store.file(Filing(kind="judgment", title="look", requester="agent:a", tenant="acme", run_id="r1"))
    store.decide(filed.id, "approve", by="ana")
    receipt = decision_receipt(served, filed.id)
    assert [one["by"] for one in receipt.facts["decisions"]] == ["user:ana"]
    assert "look" not in receipt.text
    assert unlike(outcomes(served, receipt)) == {}


def test_anothers_decision_has_no_receipt_and_is_not_verified(
    base: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To whoever may not read a request, it isn't there: no hash, status or name that they guess is told apart."""
    store, token = ApprovalStore(base), mint(base, known_principal(base, "dana"), 600).token
    told = []
    for tenant in ("acme", "globex"):
        request = store.file(Filing(kind="question", title="May I?", requester="agent:x", tenant=tenant))
        store.decide(request.id, "approve", by="ana", tenant=tenant)
        (tmp_path / "r.json").write_text(decision_receipt(base, request.id).text)
        monkeypatch.setenv("HIVE_TOKEN", token)
        asked = (("receipt", "decision", request.id), ("verify", tmp_path / "r.json"))
        told.append([hive(*words, "-w", base.root) for words in asked])
        altered = (tmp_path / "r.json").read_text().replace(request.id, "a0000000000")
        (tmp_path / "r.json").write_text(altered)
        asked = (("receipt", "decision", "a0000000000"), ("verify", tmp_path / "r.json"))
        for ran, words in zip(told[-1], asked, strict=True):
            unknown = hive(*words, "-w", base.root)
            known = (ran.code, ran.out, ran.err.replace(request.id, "a0000000000"))
            if tenant == "globex":
                assert known == (unknown.code, unknown.out, unknown.err)
                assert "HIVE-409" in ran.err
        monkeypatch.delenv("HIVE_TOKEN")
    assert [ran.code for ran in told[0]] == [0, 0]


def test_an_undecided_request_has_no_receipt(served: Workspace) -> None:
    filed = ApprovalStore(served).file(Filing(kind="judgment", title="look", requester="agent:a", tenant="acme"))
    with pytest.raises(HiveError, match="isn't decided"):
        decision_receipt(served, filed.id)


def test_an_answer_is_derived_again_by_searching_again(base: Workspace) -> None:
    chat, run_id = answered(base)
    receipt = answer_receipt(chat, run_id)
    found = outcomes(base, receipt)
    assert unlike(found) == {}
    assert found["search"] == "same"
    assert answer_receipt(chat, run_id).text == receipt.text


def test_an_answers_receipt_holds_no_text_of_a_document_and_not_the_question(base: Workspace) -> None:
    chat, run_id = answered(base)
    text = answer_receipt(chat, run_id).text
    assert "rotate a key" not in text
    assert "revoke the first key" not in text


def test_a_passage_that_was_edited_since_differs(base: Workspace) -> None:
    chat, run_id = answered(base)
    receipt = answer_receipt(chat, run_id)
    page = base.documents / "faqs" / "rotate.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Keys cost nothing.", "Keys cost 5."), encoding="utf-8")
    base.index()
    found = outcomes(base, receipt)
    assert found["subject passage faqs/rotate.md#0"] == "differs"
    assert found["search"] == "unknown"


def test_anothers_answer_has_no_receipt(base: Workspace) -> None:
    _, run_id = answered(base)
    with pytest.raises(HiveError) as caught:
        answer_receipt(Chat(base, known_principal(base, "guest")), run_id)
    assert caught.value.diagnostics[0].code == "HIVE-409"


def test_documents_that_a_reader_may_not_view_change_nothing_in_their_receipts(base: Workspace) -> None:
    def facts(receipt: Receipt) -> dict[str, Any]:
        own = ("run_id", "thread_id", "at", "basis")
        basis = {name: value for name, value in receipt.facts["basis"].items() if name != "log"}
        return {name: value for name, value in receipt.facts.items() if name not in own} | basis

    chat, run_id = answered(base, "guest")
    before = facts(answer_receipt(chat, run_id))
    page = base.documents / "sops" / "recall.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nRotate the key of the vault.\n", encoding="utf-8")
    base.index()
    chat, run_id = answered(base, "guest")
    assert facts(answer_receipt(chat, run_id)) == before


def test_an_answer_that_its_reader_may_view_no_more_has_no_receipt(base: Workspace) -> None:
    chat, run_id = answered(base)
    page = base.documents / "faqs" / "rotate.md"
    page.write_text(page.read_text(encoding="utf-8").replace('["tenant"]', '["group:nobody"]'), encoding="utf-8")
    base.index()
    with pytest.raises(HiveError) as caught:
        answer_receipt(chat, run_id)
    assert caught.value.diagnostics[0].code == "HIVE-409"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"_type": "x"}', '{"_type": "https://in-toto.io/Statement/v1"}'])
def test_a_file_that_is_no_receipt_is_a_diagnostic(text: str, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(HiveError):
        Receipt.read(file)
