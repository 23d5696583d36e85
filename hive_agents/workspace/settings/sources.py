"""Where settings come from: `hive.toml`, then environment `HIVE_<SECTION>__<KEY>`, then flags.

Not by pydantic-settings, which merges first and validates once: of a fault in the file and one in the environment it
tells one, names neither line nor variable, takes a misspelt section of the environment for none, and its import costs
each command 40 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hive_agents.base import Diagnostic, HiveError
from hive_agents.base.files import diagnostics_of, jsontext, load_value, read_bytes
from hive_agents.workspace.settings.keys import Settings

FILE = "hive.toml"


def load_settings(root: Path, environment: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the workspace's settings; raises `HiveError` with every fault of file and environment."""
    text, given = _text(root / FILE), tuple(_given(environment))
    return _settings(text, given) if flags is None else _settings.__wrapped__(text, given, flags)


@lru_cache(maxsize=16)
def _settings(
    text: str | None, environment: Sequence[tuple[str, str]], flags: Mapping[str, Any] | None = None
) -> Settings:
    """Return what a file's text and these variables say: each connection to a database asks for it."""
    in_file, faults = _from_file(text)
    data = in_file
    names: dict[str, str] = {}
    for name, keys, raw in _from_environment(environment):
        value = _nest(keys, raw)
        try:
            Settings.model_validate(value, strict=False)
        except ValidationError as error:
            told = zip(error.errors(), diagnostics_of(error, Settings, value, "environment"), strict=True)
            own = [_of_variable(found, name, fault) for fault, found in told if not _may_be_elsewhere(fault)]
            faults += own
            if own:
                continue
        data = _merge(data, value)
        in_file = _without(in_file, value)
        names[".".join(keys)] = name
    if faults:
        raise HiveError(faults)
    replaced = dict(flags or {})
    try:
        settings = Settings.model_validate(_merge(data, replaced), strict=False)
        return settings.read_from(_without(in_file, replaced))
    except ValidationError as error:
        told = zip(error.errors(), diagnostics_of(error, Settings, data, "environment"), strict=True)
        raise HiveError([_of_variable(one, _nearest(names, one.path or ""), fault) for fault, one in told]) from None


def _may_be_elsewhere(fault: ErrorDetails) -> bool:
    """Return whether a variable is only faulty by itself: the file, or another one, may hold the rest of its table."""
    return fault["type"] == "missing" or (fault["type"] == "may_hold_secret" and isinstance(fault["input"], dict))


def _nearest(names: Mapping[str, str], path: str) -> str:
    """Return the variable that says the most about what is at a path; the path where none was given."""
    parts = path.split(".")

    def shared(keys: str) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(keys.split("."), parts, strict=False)))

    return names[max(names, key=shared)] if names else path


def _of_variable(found: Diagnostic, name: str, fault: ErrorDetails) -> Diagnostic:
    fix = 'write it as JSON, such as ["one", "two"]' if fault["type"] == "list_type" else found.fix
    return replace(found, message=f"{name}: {found.message}", path=name, fix=fix)


@dataclass(frozen=True)
class Setting:
    """One value as it holds, and who set it: default, file, env or flag. Lists of keys are secrets."""

    key: str
    value: Any
    source: Literal["default", "file", "env", "flag"]


def describe_settings(root: Path, environment: Mapping[str, str]) -> list[Setting]:
    """Return every setting by key. Raises: as `load_settings`."""
    in_file = _flat(_from_file(_text(root / FILE))[0])
    in_environment: dict[str, Any] = {}
    for _, keys, raw in _from_environment(tuple(_given(environment))):
        in_environment |= _flat(_nest(keys, raw))
    described = []
    for key, value in _flat(load_settings(root, environment).model_dump()).items():
        given = [name for name, keys in (("env", in_environment), ("file", in_file)) if key in keys]
        source: Any = given[0] if given else "default"
        described.append(Setting(key, "***" if value and _is_secret(key, value) else value, source))
    return described


def _is_secret(key: str, value: Any) -> bool:
    """Keys of tokens, and what stands where a reference should; the environment of a server may hold secrets,
    and so may options of a source."""
    if re.match(r"mcp\.servers\..*\.env\.|sources\..*\.options\.(arguments|config)", key):
        return True
    refers = key.endswith((".api_key_ref", ".login_ref", ".password_ref", ".secret_ref")) or ".headers_ref." in key
    return key == "access.keys" or (refers and ":" not in str(value))


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _text(path: Path) -> str | None:
    try:
        return jsontext.decode(read_bytes(path), FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"{FILE} cannot be read: {error.strerror}"
        raise HiveError.of("HIVE-403", why, file=FILE, path="$", fix="make it a readable file") from None


def _from_file(text: str | None) -> tuple[dict[str, Any], list[Diagnostic]]:
    import tomllib

    if text is None:
        return {}, []
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        fix = "mend the line; text stands in quotes"
        raise HiveError.of("HIVE-101", f"not valid TOML: {why}", file=FILE, path="$", line=line, fix=fix) from None
    try:
        load_value(Settings, data, FILE)
    except HiveError as error:
        return {}, [replace(found, line=_line_of(text, found.path or "$")) for found in error.diagnostics]
    return data, []


def _line_of(text: str, path: str) -> int | None:
    """Return the line that gives the key at `path`, or the heading of its section; None where there is neither."""
    section, heading = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        name = re.match(r"\s*\[+\s*([\w.-]+)\s*\]", line)
        if name:
            section = name[1] + "."
        key = re.match(r"\s*([\w.-]+)\s*=", line)
        here = section + key[1] if key else section.rstrip(".") if name else ""
        if here and re.match(re.escape(here) + r"(?:[.\[]|$)", path):
            heading = number
            if key:
                return number
    return heading


def _given(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that are settings, by name."""
    for name in sorted(name for name in environment if name.startswith("HIVE_")):
        if name.removeprefix("HIVE_").partition("__")[2]:
            yield name, environment[name]


def _from_environment(given: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[str], Any]]:
    for name, text in given:
        section, _, key = name.removeprefix("HIVE_").lower().partition("__")
        raw: Any = text
        if raw.startswith(("[", "{")):
            with suppress(ValueError, RecursionError):
                raw = json.loads(raw)
        yield name, [section, *key.split("__")], raw


def _nest(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return merged


def _without(base: dict[str, Any], over: Mapping[str, Any], depth: int = 3) -> dict[str, Any]:
    """Return `base` without the values that `over` replaces in a merge; an entry of a table is replaced as a whole."""
    left = dict(base)
    for key, value in over.items():
        inner = left.get(key)
        if isinstance(value, dict) and isinstance(inner, dict):
            left[key] = _without(inner, value, depth - 1) if depth > 1 else inner
        else:
            left.pop(key, None)
    return left


def _path(table: str) -> str:
    """Return the names in a table's head, joined as `_flat` joins them.

    >>> _path('signin.groups."a b"')
    'signin.groups.a b'
    """
    import tomllib

    names, value = [], tomllib.loads(f"[{table}]")
    while value:
        ((name, value),) = value.items()
        names.append(name)
    return ".".join(names)


def with_values(text: str, table: str, values: Mapping[str, str | list[str]]) -> str:
    """Return the text of a settings file with these values in a table; an empty one is left out.

    Raises: HIVE-409 where the file writes the table in a way that isn't known here.

    >>> with_values("[storage]\\nurl = 'old'\\nnamespace = 'x'\\n", "storage", {"url": "new"})
    '[storage]\\nurl = "new"\\nnamespace = \\'x\\'\\n'
    >>> with_values("", 'signin.groups."a b"', {"roles": ["reader"]})
    '[signin.groups."a b"]\\nroles = ["reader"]\\n'
    """
    import tomllib

    lines = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items() if value)
    head = re.search(rf"^\[{re.escape(table)}\][^\n]*\n?", text, re.MULTILINE)
    if head is None:
        after = f"{text.rstrip()}\n\n[{table}]\n{lines}".lstrip() if lines else text
    else:
        end = re.search(r"^\[", text[head.end() :], re.MULTILINE)
        stop = head.end() + end.start() if end else len(text)
        line = rf"^[ \t]*({'|'.join(values)})[ \t]*=[^\n]*\n?"
        body = re.sub(line, "", text[head.end() : stop], flags=re.MULTILINE)
        after = f"{text[: head.end()].rstrip()}\n{lines}{body}{text[stop:]}"
    try:
        path = _path(table)
        named = {f"{path}.{key}": value for key, value in values.items()}
        kept = {key: value for key, value in _flat(tomllib.loads(text)).items() if key not in named}
        is_meant = _flat(tomllib.loads(after)) == kept | {key: value for key, value in named.items() if value}
    except ValueError:
        is_meant = False
    if not is_meant:
        fix = f"write it by hand: [{table}] with {lines.strip()}"
        raise HiveError.of("HIVE-409", f"{FILE} isn't written as it could be changed here", file=FILE, fix=fix)
    return after
