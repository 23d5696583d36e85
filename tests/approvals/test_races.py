"""Two deciders, one winner: between threads and between processes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.approvals.request import Verb
from hive_agents.base.errors import HiveError
from hive_agents.store import audit
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


def assert_one_winner(place: Workspace, requests: list[str], outcomes: list[tuple[str, ...]], loser: str) -> None:
    assert len(outcomes) == len(requests)
    for request, said in zip(requests, outcomes, strict=True):
        (winner,) = [one for one in said if one != loser]
        found = ApprovalStore(place).get(request)
        assert (found.status, len(found.decisions)) == (winner, 1)
    assert len(list(audit.entries(place, "approval"))) == 2 * len(requests)
    assert audit.verify(place).ok
