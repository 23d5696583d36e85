"""JSON patches: RFC 6902 operations, and RFC 7396 merge patches."""

from __future__ import annotations

import copy
from typing import Any


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
    box = {"": copy.deepcopy(value)}
    for operation in patch:
        if not isinstance(operation, dict):
            raise PatchError("an operation of a patch is an object")
        _apply(box, operation)
    return box[""]


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


def _apply(box: dict[str, Any], operation: dict[str, Any]) -> None:
    verb = operation.get("op")
    path = operation.get("path")
    if not isinstance(path, str):
        raise PatchError("an operation of a patch needs a path")
    if verb in ("add", "replace", "test") and "value" not in operation:
        raise PatchError(f"{verb} {path} has no value")
    if verb == "test":
        if json_patch(_read(box, path), operation["value"]):
            raise PatchError(f"{path} is not what the patch expects")
    elif verb == "add":
        _add(box, path, copy.deepcopy(operation["value"]))
    elif verb == "remove":
        _remove(box, path)
    elif verb == "replace":
        _read(box, path)
        parent, name = _parent(box, path)
        parent[_position(parent, name) if isinstance(parent, list) else name] = copy.deepcopy(operation["value"])
    elif verb in ("move", "copy") and isinstance(operation.get("from"), str):
        source = operation["from"]
        moved = copy.deepcopy(_read(box, source))
        if verb == "move":
            if path.startswith(source + "/"):
                raise PatchError(f"{source} can't be moved into itself")
            _remove(box, source)
        _add(box, path, moved)
    else:
        raise PatchError(f'unknown operation "{verb}"')


def _tokens(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(f'the path {path} must start with "/"')
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")]


def _read(box: dict[str, Any], path: str) -> Any:
    current: Any = box
    for token in _tokens(path):
        current = _member(current, token, path)
    return current


def _member(value: Any, token: str, path: str) -> Any:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list):
        return value[_position(value, token)]
    raise PatchError(f"there is no {path}")


def _parent(box: dict[str, Any], path: str) -> tuple[Any, str]:
    *above, name = _tokens(path)
    current: Any = box
    for token in above:
        current = _member(current, token, path)
    if not isinstance(current, dict | list):
        raise PatchError(f"there is no {path}")
    return current, name


def _add(box: dict[str, Any], path: str, value: Any) -> None:
    parent, name = _parent(box, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if name == "-" else _position(parent, name, room=1), value)
    else:
        parent[name] = value


def _remove(box: dict[str, Any], path: str) -> None:
    _read(box, path)
    parent, name = _parent(box, path)
    del parent[_position(parent, name) if isinstance(parent, list) else name]


def _position(items: list[Any], token: str, room: int = 0) -> int:
    if not (token.isascii() and token.isdigit()) or (len(token) > 1 and token[0] == "0"):
        raise PatchError(f'"{token}" is no position in a list')
    position = int(token) if len(token) < 10 else len(items) + 1
    if position >= len(items) + room:
        raise PatchError(f"position {token} is behind the end of the list")
    return position
