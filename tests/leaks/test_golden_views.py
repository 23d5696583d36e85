"""The golden set as an operator may know it: what is hidden from them is missing, in every figure and every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, known_principal, local_user, mint, owner
from hive_agents.access.tokens import verify
from hive_agents.access.who import TOKEN
from hive_agents.approvals import WITHHELD, ApprovalRequest, ApprovalStore, Filing, RequestReader
from hive_agents.base import HiveError
from hive_agents.evaluation import load_golden, viewable_golden
from hive_agents.gate import is_accepted
from hive_agents.host import decide
from hive_agents.optimizer import OptimizeRun
from hive_agents.optimizer.certify import certify_on_holdout
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.steps import escalate
from hive_agents.workspace.trusted import trust
from tests.leaks.pairs import ASKED, HIDDEN, HIDDEN_QUESTION, MARK, MISSING, OPEN, bearer, made, pair, settled
from tests.sample import hive
from tests.server.serving import served


async def posted(client: httpx.AsyncClient, place: Workspace, path: str, body: dict[str, Any]) -> httpx.Response:
    return await client.post(path, json=body, headers=bearer(place))


async def test_an_operator_learns_nothing_by_the_golden_set_over_http(tmp_path: Path) -> None:
    shown = []
    for place in pair(tmp_path):
        async with served(place, roles=("http",)) as client:
            answers = [await client.get("/api/golden", headers=bearer(place))]
            for split in (None, "train", "holdout"):
                answers.append(await posted(client, place, "/api/evaluate", {"split": split}))
                answers.append(await posted(client, place, "/api/compare", {"b": "words", "split": split}))
            # One's own label for the words of a hidden document: its rank would tell of the document.
            probe = {"query": f"{MARK} cabinet", "relevant": [OPEN], "split": "train"}
            answers.append(await posted(client, place, "/api/golden/labels", probe))
            answers.append(await posted(client, place, "/api/golden/labels", {"query": ASKED, "irrelevant": []}))
            answers.append(await posted(client, place, "/api/golden/labels", {"query": HIDDEN_QUESTION} | LABELS))
            answers.append(await posted(client, place, "/api/evaluate", {"split": "train"}))
            answers.append(await client.get("/api/golden/worth", headers=bearer(place)))
            answers += [await posted(client, place, f"/api/configs/{name}/validate", {}) for name in ("filtered", "v1")]
        shown.append([f"{one.status_code} {settled(place, one.text)}" for one in answers])
    for without, beside in zip(*shown, strict=True):
        assert without == beside
    assert MARK in shown[0][10]  # one's own words are there
    assert '"n":2' in shown[0][3]


LABELS = {"relevant": [OPEN], "split": "train"}


async def test_a_label_of_a_hidden_document_answers_as_one_of_a_missing_document(tmp_path: Path) -> None:
    place = made(tmp_path / "ws", hidden=True)
    before = (place.root / "evals/golden.json").read_bytes()
    async with served(place, roles=("http",)) as client:
        for lists in ("relevant", "distractors", "irrelevant"):
            hidden, missing = [
                await posted(client, place, "/api/golden/labels", {"query": ASKED, lists: [doc_id]})
                for doc_id in (HIDDEN, MISSING)
            ]
            assert (hidden.status_code, missing.json()["code"]) == (missing.status_code, "HIVE-109")
            assert hidden.text == missing.text.replace(MISSING, HIDDEN)
    assert (place.root / "evals/golden.json").read_bytes() == before


async def test_labels_that_the_labeller_may_not_know_of_stay(tmp_path: Path) -> None:
    place = made(tmp_path / "ws", hidden=True)
    assert is_accepted(place, load_golden(place))
    async with served(place, roles=("http",)) as client:
        bodies = {"query": ASKED, "irrelevant": ["open/pump.md"]}, {"query": HIDDEN_QUESTION} | LABELS
        mine, anew = [(await posted(client, place, "/api/golden/labels", body)).json() for body in bodies]
    assert mine["distractors"] == ["open/rotor-2.md"]
    queries = {query.id: query for query in load_golden(place)}
    assert queries[mine["query_id"]].distractors == ["open/rotor-2.md", f"{MARK}/twin.md"]
    assert (queries[f"{MARK}0"].relevant, queries[anew["query_id"]].relevant) == ([HIDDEN], [OPEN])
    assert is_accepted(place, load_golden(place))


def test_a_fault_of_the_golden_set_names_no_query_to_whom_it_is_hidden(tmp_path: Path) -> None:
    place = made(tmp_path / "ws", hidden=True)
    kim = known_principal(place, "kim")
    (place.documents / HIDDEN).unlink()  # its labels lack their document: to her they were never there
    assert [query.id for query in viewable_golden(place, kim)] == [f"o{n}" for n in range(6)]
    value = json.loads((place.root / "evals/golden.json").read_text())
    value["queries"].append(value["queries"][0])
    (place.root / "evals/golden.json").write_text(json.dumps(value))
    told = hive("label", ASKED, "-r", OPEN, "--as", "kim", "-w", place.root)
    assert MARK not in f"{told.out}{told.err}"


def test_the_owner_knows_all_of_it(tmp_path: Path) -> None:
    place = made(tmp_path / "ws", hidden=True)
    measured = hive("evaluate", "--json", "-w", place.root).json
    assert measured["n"] == 12
    assert hive("evaluate", "--json", "--as", "kim", "-w", place.root).json["n"] == 6
    assert hive("evaluate", "--json", "--as", "dana", "-w", place.root).json["n"] == 12


@pytest.mark.parametrize("user", ["kim", "dana"])
def test_what_is_left_has_the_hash_of_a_file_that_has_no_more(tmp_path: Path, user: str) -> None:
    without, beside = pair(tmp_path)
    seen = viewable_golden(beside, known_principal(beside, user))
    assert seen.hash == load_golden(without if user == "kim" else beside).hash


def escalated(place: Workspace, starter: Principal | None) -> ApprovalRequest:
    """Return what a run of the optimizer asks for, once the gate has kept a config back."""
    run = OptimizeRun.start(place, golden=None, deploy=True, settings={}, owner=starter, hold=False)
    session = OptimizerSession(place, place.settings.optimizer, viewer=starter)
    certificate, evaluation = certify_on_holdout(session, "words", run.run_id)
    best = session.stored("words").config.model_dump(mode="json", exclude_unset=True)
    state = {"run_id": run.run_id, "best": best, "certificate": certificate, "evaluation": evaluation}
    update = escalate(session, state | {"diagnosis": {"summary": {"lost": 1}}})
    return ApprovalStore(place).get(update["approval_id"])


def overridden(place: Workspace) -> ApprovalRequest:
    ran = hive("deploy", "words", "--override", "--reason", "we know", "-w", place.root, "--json")
    return ApprovalStore(place).get(ran.json["approval_id"])


@pytest.mark.parametrize("ask", [overridden, lambda place: escalated(place, None)])
def test_an_approver_is_not_shown_the_gates_figures_over_what_they_may_not_view(tmp_path: Path, ask: Any) -> None:
    """They are told the decision, and may decide; who may view everything is shown everything."""
    place = made(tmp_path / "ws", hidden=True)
    kim, request = known_principal(place, "kim"), ask(place)
    shown = RequestReader(place, kim).shown(request)
    assert RequestReader(place, None).shown(request) == request
    assert shown.context["evaluation"] == WITHHELD
    assert shown.context.get("diagnosis", WITHHELD) == WITHHELD
    found, told = request.context["certificate"], shown.context["certificate"]
    assert told["decision"] == found["decision"]
    assert [reason["code"] for reason in told["reasons"]] == [reason["code"] for reason in found["reasons"]]
    text = json.dumps([shown.title, shown.context])
    assert not [reason["message"] for reason in found["reasons"] if reason["message"] in text]
    assert RequestReader(without := made(tmp_path / "open", hidden=False), kim).shown(open := ask(without)) == open
    assert decide(place, request.id, "reject", by="dana")[0].status == "rejected"


def test_an_approver_is_not_shown_an_agents_figures_over_what_they_may_not_view(tmp_path: Path) -> None:
    figures = {"n": 4, "candidate": {"passed": 3}, "decision": "inconclusive"}
    context = {"evaluation": figures}
    asked = Filing(kind="deploy", title="let it serve", requester="user:root", tenant="acme", context=context)
    for hidden in (True, False):
        place = made(tmp_path / str(hidden), hidden=hidden)
        request = ApprovalStore(place).file(asked)
        shown = RequestReader(place, known_principal(place, "kim")).shown(request)
        assert shown.context["evaluation"] == (WITHHELD if hidden else figures)


def test_whoever_started_the_search_does_not_approve_what_it_asks_for(tmp_path: Path) -> None:
    """Its tenant's approvers do, neither the starter nor anybody whose token they made."""
    place = made(tmp_path / "ws", hidden=False)
    kim, hana = known_principal(place, "kim"), Principal("globex", "hana", roles=frozenset({"approver"}))
    signed = verify(place, mint(place, known_principal(place, "dana"), maker=kim).token)
    own = known_principal(place, "dana")
    asked = escalated(place, kim)
    assert (asked.tenant, asked.on_behalf_of, asked.requester) == ("acme", "user:kim", "agent:optimizer")

    def answer(request: ApprovalRequest, who: Principal) -> str:
        more = {"tenant": who.tenant, "makers": who.makers}
        return decide(place, request.id, "reject", by=who.user, **more)[0].status

    for who in (kim, hana, signed):
        with pytest.raises(HiveError, match="HIVE-415"):
            answer(asked, who)
    assert answer(asked, own) == "rejected"
    by_owner = escalated(place, None)
    assert (by_owner.tenant, by_owner.on_behalf_of) == ("local", local_user())
    assert by_owner.makers == list(owner().hands)
    with pytest.raises(HiveError, match="HIVE-415"):
        decide(place, by_owner.id, "approve", by=local_user())


def test_a_search_is_started_once_by_its_key_whichever_token_asks_for_it(tmp_path: Path) -> None:
    place = made(tmp_path / "ws", hidden=False)
    kim = known_principal(place, "kim")
    asked = {"golden": None, "deploy": True, "settings": {}, "hold": False, "key": "k"}
    first = OptimizeRun.start(place, owner=kim, **asked)
    again = OptimizeRun.start(place, owner=verify(place, mint(place, kim).token), **asked)
    assert again.run_id == first.run_id


def reasoned(place: Workspace) -> OptimizeRun:
    """A search of Dana's, whose model gives what it read as the reason of each of its ideas."""
    said = f"The {MARK} rotor is lost at: {HIDDEN_QUESTION}"
    patches = [
        {"patch": [{"op": "replace", "path": "/retrieval/top_k", "value": number}], "reason": said}
        for number in (1, 2, 3, 6)
    ]
    answer = json.dumps({"structured": {"patches": patches}})
    (place.root / "ideas.jsonl").write_text("\n".join([answer] * 5), encoding="utf-8")
    settings = place.root / "hive.toml"
    model = '[models]\noptimizer = ["scripted:ideas.jsonl"]\n'
    settings.write_text(settings.read_text(encoding="utf-8").replace("[models]\n", model), encoding="utf-8")
    place, budgets = Workspace(place.root), {"iterations": 2, "evaluations": 40}
    trust(place)
    run = OptimizeRun.start(place, golden=None, deploy=False, settings=budgets, owner=known_principal(place, "dana"))
    result = run.go()
    assert [said for row in result["iterations"] if row["proposer"] == "model" and row["reason"] == said]
    assert result["best"]["config"] == "v2"
    return run


async def test_no_operator_reads_what_a_model_quotes_as_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the file of the config, which all of them read, nor in a search of somebody who may view more."""
    place = made(tmp_path / "ws", hidden=True)
    run = reasoned(place).run_id
    shown = f"/api/runs/{run}", f"/api/runs/{run}/trials", f"/optimize/{run}/trials", "/api/configs", "/api/configs/v2"
    async with served(place, roles=("http",)) as client:
        for user in ("kim", "dana"):
            told = [(await client.get(path, headers=bearer(place, user))).text for path in shown]
            assert [MARK in text for text in told] == [user == "dana"] * 3 + [False] * 2
    monkeypatch.setenv(TOKEN, bearer(place)["Authorization"].removeprefix("Bearer "))
    again = hive("optimize", "--resume", run, "-w", place.root, "--json")
    assert (again.code, MARK in again.out, again.json["best"]["config"]) == (0, False, "v2")
