"""What comes with `pip install hive-agents` without an extra."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MOST_PACKAGES = 80


def with_all_they_need(requirements: list[str]) -> set[str]:
    """Return the names of the packages that pip installs for these, as what is installed here tells."""
    seen: set[tuple[str, str]] = set()
    pending = [(Requirement(text), "") for text in requirements]
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in {"", *requirement.extras} - {known for other, known in seen if other == name}:
            seen.add((name, wanted))
            pending += [(Requirement(text), wanted) for text in distribution(name).requires or ()]
    return {name for name, _ in seen}


def test_the_base_stays_small() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = with_all_they_need(project["dependencies"])
    assert {"langgraph", "langchain-core", "boto3", "pydantic", "numpy", "botocore"} <= base
    assert len(base) <= MOST_PACKAGES, sorted(base)
    assert not base & {"pytest", "mcp", "playwright", "tokenizers", "torch"}
