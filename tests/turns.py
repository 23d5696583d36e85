"""What two processes write at once to one file: `python -m tests.turns ROOT`, for tests/test_turns.py.

Between reading and replacing a file a process waits for a moment, so that whoever doesn't hold a lock meanwhile loses
what the other one wrote.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access.keys import local_key
from hive_agents.base.files import atomic_write
from hive_agents.memory import AcceptedNote, AcceptedNotes, AgentMemory, DataFiles, Spillover, ToolResult
from hive_agents.models.abilities import AbilityFile
from hive_agents.store import FileChange, audit
from hive_agents.store.edits import digest_of, write_changes
from hive_agents.workspace.credentials import CredentialStore

PROCESSES, TIMES = 2, 6
NAMES = [f"n{process}-{time}" for process in range(PROCESSES) for time in range(TIMES)]


@dataclass(frozen=True)
class Job:
    """`act` writes one name; `found` returns the names whose writing left what it should."""

    act: Callable[[Workspace, str], object]
    found: Callable[[Workspace], list[str]]
    prepare: Callable[[Workspace], object] = lambda _: None


def credentials(place: Workspace) -> CredentialStore:
    return CredentialStore(place, {"HIVE_CREDENTIAL_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="})


def missing(all_there: Callable[[Workspace], list[str]]) -> Callable[[Workspace], list[str]]:
    return lambda place: [name for name in NAMES if name not in all_there(place)]


def each(act: Callable[[Workspace, str], object]) -> Callable[[Workspace], None]:
    def prepare(place: Workspace) -> None:
        for name in NAMES:
            act(place, name)

    return prepare


def set_credential(place: Workspace, name: str) -> None:
    credentials(place).set(name, "value")


def abilities(place: Workspace) -> AbilityFile:
    return AbilityFile(place.state_folder("models") / "abilities.json", "server", "model")


def learn(place: Workspace, name: str) -> None:
    abilities(place).learn(lambda known: known.model_copy(update={"without": [*known.without, name]}))


def notes(place: Workspace) -> AcceptedNotes:
    return AcceptedNotes(place, tenant="default", agent_id="a", of="dana")


def accept(place: Workspace, name: str) -> None:
    notes(place).add([AcceptedNote(text=name, run_id=name, by="dana", at="2026-01-01")])


def accepted(place: Workspace) -> list[str]:
    return [note.text for note in notes(place).all()]


def files(place: Workspace) -> DataFiles:
    return DataFiles(place.state_folder("files"))


def words(place: Workspace) -> list[str]:
    return files(place).read("a.txt").split()


def spilled(place: Workspace) -> list[str]:
    return [files(place).read(file.name).strip('"').split()[0] for file in files(place).list()]


def adaptive(place: Workspace) -> AgentMemory:
    return AgentMemory(place, place.state_folder("adapt"))


def seed(place: Workspace) -> None:
    adaptive(place).seed("an agent", notes="\n".join(f"old {name}." for name in NAMES))


def count(place: Workspace, name: str) -> None:
    with place.exclusive("counting"):
        path = place.state / "counted"
        before = path.read_text() if path.exists() else ""
        atomic_write(path, f"{before}{name}\n".encode())


def change(place: Workspace, name: str) -> None:
    """Write a change that was read; where another came between, read it anew."""

    def made() -> list[FileChange]:
        path = place.root / "changed"
        before = path.read_text() if path.exists() else ""
        return [FileChange("changed", before, f"{before}{name}\n")]

    while not write_changes(place, made, digest_of(made()), "dana"):
        pass


def key(place: Workspace, name: str) -> None:
    (place.root / f"key-{name}").write_bytes(local_key(place))


def one_key(place: Workspace) -> list[str]:
    return [name for name in NAMES if (place.root / f"key-{name}").read_bytes() == local_key(place)]


JOBS: dict[str, Job] = {
    "a credential is set": Job(set_credential, lambda place: credentials(place).names()),
    "a credential is deleted": Job(
        lambda place, name: credentials(place).delete(name),
        missing(lambda place: credentials(place).names()),
        each(set_credential),
    ),
    "an ability is learned": Job(learn, lambda place: abilities(place).known.without),
    "a note is accepted": Job(accept, accepted),
    "a note is removed": Job(lambda place, name: notes(place).remove(run_id=name), missing(accepted), each(accept)),
    "a file is edited": Job(
        lambda place, name: files(place).edit("a.txt", f"old{name}.", name),
        words,
        lambda place: files(place).save("a.txt", " ".join(f"old{name}." for name in NAMES)),
    ),
    "a result is saved": Job(
        lambda place, name: Spillover(files(place), limit=3).deliver("tool", ToolResult(f"{name} is long")), spilled
    ),
    "an output is noted": Job(
        lambda place, name: adaptive(place).add_output(name, "x"),
        lambda place: [name for name in NAMES if f"- {name}: x" in adaptive(place).read()],
    ),
    "memory is edited": Job(
        lambda place, name: adaptive(place).edit(f"old {name}.", f"new {name}."),
        lambda place: [name for name in NAMES if f"new {name}." in adaptive(place).read()],
        seed,
    ),
    "the log gets a line": Job(
        lambda place, name: audit.append(place, "test", name=name),
        lambda place: [entry["name"] for entry in audit.vouched(place, "test")],
    ),
    "a change that was read is written": Job(change, lambda place: (place.root / "changed").read_text().split()),
    "the local key is made": Job(key, one_key),
    "a workspace is written": Job(count, lambda place: (place.state / "counted").read_text().split()),
}


def place_of(root: Path, job: str) -> Workspace:
    folder = root / job.replace(" ", "-")
    (folder / "collections").mkdir(parents=True, exist_ok=True)
    return Workspace(folder)


def hesitate(seconds: float) -> None:
    """From now on wait before each file is replaced or appended to."""
    replaced, opened = os.replace, os.open

    def replace(*arguments: Any, **options: Any) -> None:
        time.sleep(seconds)
        replaced(*arguments, **options)

    def open_(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_APPEND:
            time.sleep(seconds)
        return opened(path, flags, *arguments, **options)

    os.replace, os.open = replace, open_


def main(root: str) -> None:
    """Do all jobs, one after the other, each in processes that have imported everything."""
    failed = False
    for name, job in JOBS.items():
        place = place_of(Path(root), name)
        job.prepare(place)
        children = []
        for process in range(PROCESSES):
            child = os.fork()
            if not child:
                code = 1
                try:
                    hesitate(0.01 + 0.02 * process)
                    for written in NAMES[process * TIMES : (process + 1) * TIMES]:
                        job.act(place, written)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        failed = failed or any(codes)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
