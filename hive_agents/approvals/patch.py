"""JSON patches: RFC 6902 operations, and RFC 7396 merge patches."""

from __future__ import annotations

import copy
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchPathNotFound, JsonPatchTestFailed, JsonPointerException


class PatchError(ValueError):
    """A patch that is none, or doesn't fit what it is applied to."""


def json_patch(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """The operations that turn `before` into `after`; objects are compared key by key, all else is replaced.

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
    """A changed copy: a list is applied as RFC 6902, an object is merged as RFC 7396.

    Raises: `PatchError`.
    """
    if isinstance(patch, dict):
        return _merged(copy.deepcopy(value), patch)
    if not isinstance(patch, list):
        raise PatchError("a patch is a list of operations, or an object to merge")
    changed = copy.deepcopy(value)
    for operation in patch:
        changed = _applied(changed, operation)
    return changed


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
    """Change `value`, and return what takes its place. Raises: `PatchError`, in words that quote nothing of it."""
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
