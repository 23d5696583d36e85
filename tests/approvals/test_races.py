"""Two deciders, one winner: between threads and between processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hive_agents import Workspace
from hive_agents.access import Asker, known_principal, mint, revoke
from hive_agents.approvals import ApprovalStore
from hive_agents.approvals.request import Verb
from hive_agents.base.errors import HiveError
from hive_agents.runs import end_person
from hive_agents.store import audit
from tests.agents.conftest import write_json
from tests.approvals.asking import filing

RACER = """
import sys
from hive_agents.approvals import ApprovalStore
from hive_agents.base.errors import HiveError
from hive_agents import Workspace

store, (verb, who, *requests) = ApprovalStore(Workspace(sys.argv[1])), sys.argv[2:]
print("ready", flush=True)
sys.stdin.readline()
for request in requests:
    try:
        print(store.decide(request, verb, by=who).status, flush=True)
    except HiveError as error:
        print(error.diagnostics[0].code, error.exit_code, flush=True)
"""


def test_races_between_threads_have_one_winner(place: Workspace) -> None:
    barrier = Barrier(2)
    requests = [ApprovalStore(place).file(filing()).id for _ in range(100)]

    def decider(verb: Verb, who: str) -> list[str]:
        said = []
        for request in requests:
            barrier.wait()
            try:
                said.append(ApprovalStore(place).decide(request, verb, by=who).status)
            except HiveError as error:
                said.append(error.diagnostics[0].code)
        return said

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(decider, "approve", "dana"), pool.submit(decider, "reject", "eve")]
        outcomes = list(zip(*(one.result() for one in both), strict=True))
    assert_one_winner(place, requests, outcomes, loser="HIVE-414")


@pytest.mark.slow
@pytest.mark.parametrize("verbs", [("approve", "reject"), ("approve", "approve")])
def test_races_between_processes_have_one_winner(place: Workspace, verbs: tuple[str, str]) -> None:
    requests = [ApprovalStore(place).file(filing()).id for _ in range(50)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(place.root), verb, who, *requests],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for verb, who in zip(verbs, ("dana", "eve"), strict=True)
    ]
    for racer in racers:
        assert racer.stdout
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("\n")
        racer.stdin.flush()
    outcomes = list(zip(*(racer.communicate()[0].splitlines() for racer in racers), strict=True))
    assert_one_winner(place, requests, outcomes, loser="HIVE-414 1")


LEAVING: dict[str, Callable[[Workspace, str], object]] = {
    "the token is revoked": revoke,
    "the person is ended": lambda place, _: end_person(place, "dana", "acme", "user:root"),
    "the entry is gone": lambda place, _: write_json(place, "access/people.json", {"principals": {}}),
    "the role is taken away": lambda place, _: write_json(place, "access/people.json", {"principals": {"dana": READS}}),
}
READS = {"tenant": "acme", "roles": ["reader"]}


@pytest.mark.parametrize("what", LEAVING)
def test_who_leaves_while_their_decision_waits_for_others_to_write_decides_nothing(
    place: Workspace, what: str
) -> None:
    entry = READS | {"roles": ["approver"]}
    write_json(place, "access/people.json", {"principals": {"dana": entry, "eve": entry}})
    signed = mint(place, known_principal(place, "dana"))
    store, decider = ApprovalStore(place), Asker.of(place, signed.token).decider()
    first, second = [store.file(filing(tenant="acme")).id for _ in range(2)]

    def leaves(_: object) -> None:
        LEAVING[what](place, signed.jti)

    with pytest.raises(HiveError) as caught:
        store.decide(first, "approve", **decider.named(), check=leaves)
    assert caught.value.diagnostics[0].code in ("HIVE-415", "HIVE-417")
    with pytest.raises(HiveError):
        store.delegate(second, to="eve", **decider.handing())
    assert [(one.status, one.delegations) for one in map(store.get, (first, second))] == [("pending", [])] * 2
    assert audit.verify(place).ok


def assert_one_winner(place: Workspace, requests: list[str], outcomes: list[tuple[str, ...]], loser: str) -> None:
    assert len(outcomes) == len(requests)
    for request, said in zip(requests, outcomes, strict=True):
        (winner,) = [one for one in said if one != loser]
        found = ApprovalStore(place).get(request)
        assert (found.status, len(found.decisions)) == (winner, 1)
    assert len(list(audit.entries(place, "approval"))) == 2 * len(requests)
    assert audit.verify(place).ok
