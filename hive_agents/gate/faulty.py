"""Level 2 of a config that level 1 refuses, without the faulty keys."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import formats, jsontext, read_bytes
from hive_agents.evaluation import GoldenSet
from hive_agents.ranking import RetrievalConfig, StoredConfig, check_config, find_config_file
from hive_agents.workspace import Workspace

Path = tuple[int | str, ...]

_STAND_INS: dict[Path, Any] = {
    ("name",): "unnamed",
    ("collection",): "",
    ("retrieval",): {"method": "hybrid", "top_k": 1},
    ("retrieval", "method"): "hybrid",
    ("retrieval", "top_k"): 1,
    ("retrieval", "candidates"): 10_000,
    ("rerank", "candidates"): 10_000,
}
"""Substitutes for values that are required, or whose default could cause other findings."""

_READERS: dict[Path, frozenset[str]] = {
    ("collection",): frozenset({"HIVE-211", "HIVE-213"}),
    ("retrieval",): frozenset({"HIVE-201", "HIVE-202", "HIVE-205", "HIVE-210"}),
    ("retrieval", "top_k"): frozenset({"HIVE-201", "HIVE-202", "HIVE-205", "HIVE-210"}),
    ("dynamic_k", "max_results"): frozenset({"HIVE-201"}),
}
"""Findings that a substitute may cause, which are dropped."""


def check_beside_faults(workspace: Workspace, reference: str, *, golden: GoldenSet | None = None) -> list[Diagnostic]:
    """Return level 2's findings on a config that level 1 refuses, without its faulty keys; none where it is no object,
    or where no one file has that name.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> text = '{"name": "c", "collection": "nowhere", "retrieval": {"method": "keyword", "top_k": 0}}'
    >>> _ = (place.configs / "c.json").write_text(text)
    >>> [finding.code for finding in check_beside_faults(place, "c")]
    ['HIVE-211']
    >>> folder.cleanup()
    """
    try:
        path = find_config_file(workspace, reference)
        file = workspace.relative(path)
        text = jsontext.decode(read_bytes(path), file)
        value = jsontext.parse(text, file)
        faults = [fault[:2] for fault in formats.faulty_paths(RetrievalConfig, value)]
        if () in faults:
            return []
        config = formats.load_value(RetrievalConfig, _without(value, faults), file)
    except HiveError:
        return []
    caused = frozenset[str]().union(*(_READERS.get(fault, frozenset()) for fault in faults))
    findings = check_config(workspace, StoredConfig(config, text, file), judged=golden.collection if golden else None)
    return [finding for finding in findings if finding.code not in caused]


def _without(value: dict[str, Any], faults: Sequence[Path]) -> dict[str, Any]:
    """Return a config without its faulty keys, or with substitutes for them."""
    config = copy.deepcopy(value)
    for fault in faults:
        *above, key = fault
        place: Any = config
        for part in above:
            place = place.get(part) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.pop(key, None)
            if fault in _STAND_INS:
                place[key] = copy.deepcopy(_STAND_INS[fault])
    return config
