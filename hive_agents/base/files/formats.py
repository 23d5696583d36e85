"""Level 1: JSON texts become models, or diagnostics of all faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hive_agents.base.errors import Diagnostic, HiveError, did_you_mean
from hive_agents.base.files import jsontext
from hive_agents.base.text import count

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Model = TypeVar("Model", bound="Format")

_CODES = {
    "extra_forbidden": "HIVE-103",
    "missing": "HIVE-106",
    "string_pattern_mismatch": "HIVE-113",
    "reserved_name": "HIVE-113",
    "filter_key": "HIVE-103",
}
_RANGE = ("greater_than", "less_than", "finite_number", "too_short", "too_long", "literal_error", "enum", "value_error")


class Format(BaseModel):
    """Base of models of files' content: strict types, no unknown keys, immutable."""

    # Built on first use: a command needs few of them, and a section's is made again in that of the whole file.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class FileFormat(Format):
    """Base of models of whole files, which may have `$schema` for editors."""

    schema_: str | None = Field(default=None, alias="$schema", exclude=True)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


AnyCase = BeforeValidator(_lower)
"""Enum values are lower case in files; input ignores case."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]


def load(model: type[Model], data: bytes, file: str) -> Model:
    """Return the model in a file's bytes. Raises: `HiveError` with every diagnostic of level 1."""
    text = jsontext.decode(data, file)
    return load_value(model, jsontext.parse(text, file), file, text)


def load_value(model: type[Model], value: Any, file: str, text: str | None = None) -> Model:
    """Return the model in a parsed value; with `text` diagnostics have lines. Raises: as `load`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise HiveError(diagnostics_of(error, model, value, file, text)) from None


def faulty_paths(model: type[BaseModel], value: Any) -> list[tuple[int | str, ...]]:
    """Return the paths of level 1's faults in a parsed value."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [_path_in(value, fault["loc"]) for fault in error.errors()]
    return []


def diagnostics_of(
    error: ValidationError, model: type[BaseModel], value: Any, file: str, text: str | None = None
) -> list[Diagnostic]:
    return [_diagnostic(model, fault, value, file, text) for fault in error.errors()]


def _diagnostic(model: type[BaseModel], fault: Any, value: Any, file: str, text: str | None) -> Diagnostic:
    kind, path = fault["type"], _path_in(value, fault["loc"])
    if kind in ("model_type", "dict_type"):
        fault = {**fault, "msg": "Input should be an object, { … }"}
    elif kind == "value_error":  # our validators' message, without pydantic's prefix "Value error, "
        fault = {**fault, "msg": str(fault["ctx"]["error"])}
    code = _CODES.get(kind) or ("HIVE-105" if kind.startswith(_RANGE) or kind.endswith(_RANGE) else "HIVE-104")
    if kind in ("literal_error", "enum") and not isinstance(fault["input"], str):
        code = "HIVE-104"
    message, fix = fault["msg"], None
    shown = jsontext.show_path(path)
    if kind == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        message = f'unknown key "{path[-1]}"'
        fix = did_you_mean(str(path[-1]), known, f"remove it; known keys are {', '.join(sorted(known))}")
    elif kind == "missing":
        message, fix = f'"{path[-1]}" is missing', f'add "{path[-1]}"'
    elif kind in ("string_pattern_mismatch", "reserved_name"):
        message = f"{_show(fault['input'])} can't be a name"
        fix = 'use lower-case letters, digits, ".", "_" and "-", at most 64; "active" is reserved'
    elif kind == "may_hold_secret":
        code, message, fix = "HIVE-105", f"{shown} can't be used, and isn't shown: it may hold a secret", message
    else:
        message = f"{shown} is {_show(fault['input'])}: {message[0].lower()}{message[1:]}"
        fix = _fix(fault)
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, Exception):  # our errors may have a better fix
            fix = getattr(cause, "fix", None) or fix
    line = jsontext.line_of(text, path) if text is not None else None
    return Diagnostic(code, message, file, shown, fix, line)


def _fix(fault: Any) -> str:
    context = fault.get("ctx", {})
    if "expected" in context:
        return f"use {context['expected']}"
    bounds = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    for key, words in bounds.items():
        if key in context:
            return f"use a number that is {words} {context[key]}"
    lengths = {"min_length": "at least", "max_length": "at most"}
    for key, words in lengths.items():
        if key in context:
            return f"give {words} {count(context[key], 'character' if isinstance(fault['input'], str) else 'entry')}"
    message = str(fault["msg"])
    return message[0].lower() + message[1:]


def _show(value: Any) -> str:
    import json

    shown = json.dumps(value, default=str, ensure_ascii=False)
    shown = shown.encode("utf-8", "backslashreplace").decode()  # the environment can hold bytes that are no text
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _path_in(value: Any, location: Sequence[int | str]) -> tuple[int | str, ...]:
    """Return the part of pydantic's location that names keys of the file: tags of unions are left out."""
    path: list[int | str] = []
    for index, part in enumerate(location):
        if isinstance(value, dict) and (part in value or index == len(location) - 1):
            path.append(part)
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    return tuple(path)


def _known_keys(model: type[BaseModel], path: Sequence[int | str]) -> set[str]:
    current: Any = model
    for part in path:
        field = getattr(current, "model_fields", {}).get(part) if isinstance(part, str) else None
        inner = _models_in(field.annotation) if field is not None else _models_in(current)
        current = inner[0] if inner else current
    fields = getattr(current, "model_fields", {})
    return {info.alias or name for name, info in fields.items()} - {"$schema"}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
