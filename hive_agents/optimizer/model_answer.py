"""The answer of a model: JSON patches with reasons, read as edits or as faults that it can correct."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hive_agents.approvals import PatchError, patched
from hive_agents.base import Diagnostic, HiveError, one_line
from hive_agents.optimizer.proposal import Situation
from hive_agents.optimizer.space import Edit, apply, identity, parsed
from hive_agents.ranking import RetrievalConfig

BLOCKS = ("retrieval", "bm25", "dynamic_k", "filters", "boosts", "abstain")
"""The blocks that a model may change: all others name a config, or change nothing that a trial measures."""

MAX_OPERATIONS = 20
REASON_LENGTH = 300
_OPERATION = {
    "type": "object",
    "properties": {
        "op": {"type": "string", "description": "add, replace or remove"},
        "path": {"type": "string", "description": "a JSON pointer into config, for example /retrieval/top_k"},
        "value": {"description": "the new value; not for remove"},
    },
    "required": ["op", "path"],
}
SCHEMA: dict[str, Any] = {
    "title": "proposals",
    "description": "Changes of the configuration to try next, the most promising first.",
    "type": "object",
    "properties": {
        "patches": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "patch": {"type": "array", "items": _OPERATION, "description": "RFC 6902 operations"},
                    "reason": {"type": "string", "description": "one sentence: which loss this mends, and how"},
                },
                "required": ["patch", "reason"],
            },
        }
    },
    "required": ["patches"],
}

FaultsOf = Callable[[RetrievalConfig, Edit], list[str]]


def edit_of(proposed: Mapping[str, Any], situation: Situation, tried: set[str], faults: FaultsOf) -> Edit:
    """Return one patch as an edit, with everything that is wrong with it in the edit's `faults`.

    `tried` has the identities of configs that need no second trial; a sound edit's is added.
    """
    config, reason = situation.config, one_line(str(proposed["reason"]), REASON_LENGTH) or "the model gave no reason"
    try:
        values = _values(config, proposed["patch"])
        edit = Edit(values, "model", reason, "model")
        edited = identity(apply(config, values))
        wrong = ["it changes nothing"] if not values else ["it was tried before"] if edited in tried else []
        wrong = wrong or faults(config, edit)
    except PatchError as error:
        wrong = [str(error)]
    except HiveError as error:
        wrong = [diagnostic_line(one) for one in error.diagnostics]
    except RecursionError:
        wrong = ["it is nested too deeply"]
    if wrong:
        return Edit((), "model", reason, "model", tuple(one_line(why, REASON_LENGTH) for why in wrong))
    tried.add(edited)
    return edit


def patchable(config: RetrievalConfig) -> dict[str, Any]:
    """Return the part of a config that patches may change, defaults spelled out, so that every path exists."""
    return config.model_dump(mode="json", include=set(BLOCKS))


def diagnostic_line(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as one line."""
    fix = f"; {diagnostic.fix}" if diagnostic.fix else ""
    return f"{diagnostic.code}: {diagnostic.path}: {diagnostic.message}{fix}"


def _values(config: RetrievalConfig, patch: list[dict[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Return the values that a patch changes. Raises: `PatchError`, level 1 for the patched config."""
    if len(patch) > MAX_OPERATIONS:
        raise PatchError(f"a patch has at most {MAX_OPERATIONS} operations")
    for operation in patch:
        # Repeated copy and move operations could double a value each time.
        if operation["op"] not in ("add", "replace", "remove"):
            raise PatchError(f'the operation "{operation["op"]}" is none of add, replace, remove')
        if operation["path"].split("/")[1:2] not in [[block] for block in BLOCKS]:
            raise PatchError(f'"{operation["path"]}" may not be changed, only what is below /{", /".join(BLOCKS)}')
    before = patchable(config)
    changed = parsed(config.model_dump(mode="json", exclude=set(BLOCKS)) | patched(before, patch))
    after = patchable(changed)
    new = {name for block in ("filters", "boosts") for name in after[block].keys() - before[block].keys()}
    dotted = next((name for name in sorted(new) if "." in name), None)
    if dotted is not None:  # its path would be read as two keys
        raise PatchError(f'there is no field "{dotted}"')
    return tuple(
        (f"{block}.{key}", after[block].get(key))
        for block in BLOCKS
        for key in sorted(before[block].keys() | after[block].keys())
        if before[block].get(key) != after[block].get(key)
    )
