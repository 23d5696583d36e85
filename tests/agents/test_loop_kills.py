"""Killed at any await and resumed: every effect once, no output lost, the conversation intact."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.approvals import ApprovalStore
from hive_agents.memory import ConversationStore
from hive_agents.runs import RunStore
from tests.agents.killed import EFFECTS, MESSAGES, OUTPUTS, prepared

CHECKOUT = Path(__file__).parents[2]


class Nursery:
    """One process that has imported everything, and forks for each run."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.agents.killed"]
        self.process = subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, place: Workspace, run: str, kill_at: int | None = None, ask: bool = False) -> int:
        """The exit code, -9 for a run that was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        settings = {name: value for name, value in os.environ.items() if name.startswith("HIVE_")}
        job = {"root": str(place.root), "run": run, "kill_at": kill_at, "ask": ask, "settings": settings}
        self.process.stdin.write(json.dumps(job) + "\n")
        return int(json.loads(self.process.stdout.readline()))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.process.communicate()


@pytest.fixture(scope="module")
def awaits(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many awaits a whole run has."""
    place = prepared(tmp_path_factory.mktemp("whole") / "ws")
    assert nursery.run(place, "start") == 0
    return int((place.root / "awaits").read_text())


def killed_and_resumed(nursery: Nursery, place: Workspace, kills: list[int]) -> int:
    """Start, die, go on, die again …, then run to the end; how often it was really killed."""
    killed, run = 0, "start"
    for number in kills:
        code = nursery.run(place, run, number)
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
        (row,) = RunStore(place).list()
        run = row.run_id
    assert nursery.run(place, run) == 0
    return killed


def approved_between_kills(nursery: Nursery, place: Workspace, kills: list[int]) -> int:
    """The same where every order needs a person, who agrees to whatever is asked whenever the process is gone."""
    left, killed, run = list(kills), 0, "start"
    store = ApprovalStore(place)
    for _ in range(40):
        code = nursery.run(place, run, left.pop() if left else None, ask=True)
        killed += code != 0
        (row,) = RunStore(place).list()
        run = row.run_id
        for request in store.list("pending"):
            store.decide(request.id, "approve", by="dana")
        if row.status == "done":
            return killed
    raise AssertionError(f"the run is still {row.status}")


def require_whole(place: Workspace, killed: int) -> None:
    """All was done once; a call of the model that a kill cut off counts as one that its server counted.

    A kill cuts off at most two: the sub-agents call at the same time.
    """
    (row,) = RunStore(place).list()
    result: Any = RunStore(place).get(row.run_id).result
    assert (result["status"], result["outputs"]) == ("done", OUTPUTS)
    done = (place.root / "done").read_text().splitlines()
    assert sorted(line.rpartition(" ")[0] for line in done) == EFFECTS
    store = ConversationStore(place)
    conversations = [store.messages(one) for one in store.of_run(row.run_id)]
    assert sum(map(len, conversations)) == MESSAGES
    for conversation in conversations:
        calls = [call.id for entry in conversation for call in entry.message.tool_calls]
        answers = [entry.message.tool_call_id for entry in conversation if entry.message.role == "tool"]
        assert sorted(calls) == sorted(answers)
        assert [entry.n for entry in conversation] == list(range(1, len(conversation) + 1))
    assert row.summary["steps"] == 13
    assert row.summary["tokens"] in {(13 + lost) * 11 for lost in range(2 * killed + 1)}


@pytest.mark.slow
@pytest.mark.parametrize("kills", [[0.2, 0.15], [0.45, 0.2], [0.65, 0.1]])
def test_a_killed_run_is_resumed_and_does_everything_once(
    nursery: Nursery, awaits: int, tmp_path: Path, kills: list[float]
) -> None:
    place = prepared(tmp_path / "ws")
    killed = killed_and_resumed(nursery, place, [int(awaits * share) for share in kills])
    assert killed == len(kills)
    require_whole(place, killed)


def test_a_run_killed_around_its_requests_asks_once_and_acts_once(
    nursery: Nursery, awaits: int, tmp_path: Path
) -> None:
    place = prepared(tmp_path / "ws")
    killed = approved_between_kills(nursery, place, [int(awaits * share) for share in (0.05, 0.25)])
    assert killed == 2
    require_whole(place, killed)
    assert len(ApprovalStore(place).list()) == len(EFFECTS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_50_kills_around_requests(nursery: Nursery, awaits: int, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    killed = n = 0
    while killed < 13:
        place = prepared(tmp_path / str(n))
        now = approved_between_kills(nursery, place, [chance.randrange(1, awaits // 3) for _ in range(4)])
        killed += now
        require_whole(place, now)
        assert len(ApprovalStore(place).list()) == len(EFFECTS)
        n += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_200_kills_at_random_awaits(nursery: Nursery, awaits: int, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    killed = n = 0
    while killed < 25:
        place = prepared(tmp_path / str(n))
        kills = [chance.randrange(1, awaits) for _ in range(chance.randint(1, 3))]
        now = killed_and_resumed(nursery, place, kills)
        killed += now
        require_whole(place, now)
        n += 1
