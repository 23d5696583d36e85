"""Agents for a task, and the choice of the best."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hive_agents.goals import CapabilityLevel

_COMMON = frozenset(
    "a an and are at be by can for from in is it my of on or our please that the this to with you".split()
)


@dataclass(frozen=True)
class Worker:
    """An agent's description; `about` is its goal's name and description, `inputs` the required inputs."""

    id: str
    about: str
    capability: CapabilityLevel
    inputs: tuple[str, ...] = ()


def pick(task: str, workers: Sequence[Worker]) -> list[Worker]:
    """Return the workers that share words with the task: most words first, then the higher capability, then the id.

    One that says that it cannot handle anything is never picked.

    >>> digest = Worker("digest", "a weekly digest of news", CapabilityLevel.CAN_HANDLE)
    >>> mailer = Worker("mailer", "sends the digest", CapabilityLevel.CANNOT_HANDLE)
    >>> [worker.id for worker in pick("write the weekly digest", [mailer, digest])]
    ['digest']
    """
    wanted = _words(task)
    found = [(len(wanted & _words(f"{one.id} {one.about}")), one) for one in workers]
    fit = [(shared, one) for shared, one in found if shared and one.capability is not CapabilityLevel.CANNOT_HANDLE]
    return [one for _, one in sorted(fit, key=lambda each: (-each[0], -each[1].capability.rank, each[1].id))]


def _words(text: str) -> set[str]:
    # "digests" and "digest" are one word here; more stemming would add faults.
    return {word.rstrip("s") or word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in _COMMON}
