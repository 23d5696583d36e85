"""JSON patches: RFC 6902 operations, and RFC 7396 merge patches."""

from __future__ import annotations

import copy
from typing import Any

from jsonpatch import (
    JsonPatch,
    JsonPatchException,
    JsonPatchPathNotFound,
    JsonPatchTestFailed,
    JsonPointer,
    JsonPointerException,
)

from hive_agents.base.files import Exceeded, guarded

MAX_SIZE = 2_000_000
"""Most characters and parts of the patched value, and of all additions of a patch."""


class PatchError(ValueError):
    """An invalid patch, or one that doesn't fit the value."""


def json_patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Return the operations that turn `before` into `after`; objects are compared key by key, all else is replaced.

    >>> json_patch({"k": 10, "old": 1}, {"k": 5})
    [{'op': 'replace', 'path': '/k', 'value': 5}, {'op': 'remove', 'path': '/old'}]
    """
    if isinstance(before, dict) and isinstance(after, dict):
        operations = []
        for name in sorted(before.keys() | after.keys()):
            place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in after:
                operations.append({"op": "remove", "path": place})
            elif name not in before:
                operations.append({"op": "add", "path": place, "value": after[name]})
            else:
                operations += json_patch(before[name], after[name], place)
        return operations
    same = before == after and isinstance(before, bool) == isinstance(after, bool)
    return [] if same else [{"op": "replace", "path": path, "value": after}]


def patched(value: Any, patch: Any) -> Any:
    """Return a changed copy: a list is applied as RFC 6902, an object is merged as RFC 7396.

    Raises: `PatchError`, also for what grows past `MAX_SIZE` or would nest too deeply: each copy may double it.
    """
    try:
        size = guarded.require_bounded(value, size=MAX_SIZE) + guarded.require_bounded(patch, size=MAX_SIZE)
        if isinstance(patch, dict):
            return _merged(copy.deepcopy(value), patch)
        if not isinstance(patch, list):
            raise PatchError("a patch is a list of operations, or an object to merge")
        changed = copy.deepcopy(value)
        for operation in patch:
            size = _grown(size, changed, operation)
            changed = _applied(changed, operation)
        return changed
    except Exceeded as exceeded:
        raise PatchError(f"the patch makes too much: {exceeded}") from None


def _grown(size: int, value: Any, operation: Any) -> int:
    """Return a bound of the value's size after the patch. Raises: Exceeded."""
    if not isinstance(operation, dict) or operation.get("op") not in ("copy", "move"):
        return size
    source, target = operation.get("from"), operation.get("path")
    try:
        copied = JsonPointer(str(source)).resolve(value)
    except (JsonPointerException, TypeError, AttributeError, LookupError):
        return size  # applying the operation raises the error
    depth = str(target).count("/")
    added = guarded.require_bounded(copied, depth=max(guarded.MAX_DEPTH - depth, 1), size=MAX_SIZE)
    if operation["op"] == "copy":
        size += added
    if size > MAX_SIZE:
        raise Exceeded(f"it has more than {MAX_SIZE:,} characters and parts")
    return size


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = value if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), inner)
    return result


def _applied(value: Any, operation: Any) -> Any:
    """Change `value`, and return the result. Raises: `PatchError`, which quotes nothing of it."""
    told = operation if isinstance(operation, dict) else {}
    verb, path = told.get("op"), told.get("path")
    if verb in ("add", "replace", "test") and "value" not in told:
        raise PatchError(f"{verb} {path} has no value")
    try:
        return JsonPatch([operation]).apply(value, in_place=True)
    except JsonPatchTestFailed:
        raise PatchError(f"{path} is not what the patch expects") from None
    except (JsonPatchPathNotFound, JsonPointerException):
        raise PatchError(f"there is no {told['from']} or {path}" if "from" in told else f"there is no {path}") from None
    except JsonPatchException as error:
        raise PatchError(f"{verb} {path}: {error}" if told else str(error)) from None
