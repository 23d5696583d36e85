"""JSON Schema (2020-12) for untrusted schemas: `jsonschema` with bounds on references and patterns.

A schema may come from a model or an uploaded file, so it must not fetch, hang or exhaust the stack: references stay
inside the schema and are followed a limited number of times, and patterns are matched by a linear-time engine (Rust's
`regex`, through pydantic) instead of `re`, in which `(a+)+$` takes years.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from hive_agents.base.errors import closest
from hive_agents.base.files import jsontext

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from pydantic_core import SchemaValidator
    from referencing import Registry

LONGEST_PATTERN, LONGEST_MATCHED = 200, 10_000
"""Characters of a pattern and of a matched text; together they bound a match to milliseconds."""

MOST_REFERENCES = 20_000
"""How often a check follows a `$ref`; definitions can refer to each other exponentially often."""

_REFUSED = frozenset({"patternProperties", "$dynamicRef", "$id"})
"""`jsonschema` matches the first with `re`; the others redirect references past the bounds."""

_WORDS = {
    "minimum": "less than {}",
    "maximum": "more than {}",
    "exclusiveMinimum": "not more than {}",
    "exclusiveMaximum": "not less than {}",
    "multipleOf": "not a multiple of {}",
    "minLength": "shorter than {} characters",
    "maxLength": "longer than {} characters",
    "minItems": "fewer than {} items",
    "maxItems": "more than {} items",
    "pattern": "which doesn't match {}",
    "enum": "none of {}",
    "const": "not {!r}",
}
_followed: ContextVar[int] = ContextVar("followed")


class _TooMuch(Exception):
    """A check followed more than `MOST_REFERENCES` references."""


def faults(value: Any, schema: Mapping[str, Any], *, closed: bool = False) -> list[str]:
    """Return everything in `value` that `schema` doesn't allow, each with its path. The schema must have no `defects`.

    With `closed`, an object schema with `properties` allows no others, unless it has `additionalProperties`.

    >>> faults({"n": 0}, {"properties": {"n": {"minimum": 1}}, "required": ["n", "why"]})
    ['n is 0, less than 1', 'why is missing']
    """
    infinite = jsontext.non_finite(value)  # a comparison with NaN is false, so that it would be within any bounds
    if infinite is not None:
        return [f"{jsontext.show_path(infinite)} is no finite number"]
    token = _followed.set(0)
    try:
        errors = _validator(closed)(schema, registry=_nothing_to_fetch()).iter_errors(value)
        return list(dict.fromkeys(sentence for error in errors for sentence in _sentences(error)))
    except (RecursionError, _TooMuch):
        return ["$ cannot be checked: the schema's references lead on and on"]
    finally:
        _followed.reset(token)


def defects(schema: Any) -> list[str]:
    """Return the faults of a schema that make it unusable here, each with its path in the schema.

    >>> defects({"properties": {"n": {"type": "integr"}}})
    ['properties.n.type is not valid in a JSON schema: "integr"; did you mean "integer"?']
    """
    try:
        written = repr(schema)
    except RecursionError:
        return ["$ nests too deep"]
    return list(_kept_defects(_Written(written, schema)) if len(written) <= _LONGEST_KEPT else _defects(schema))


@dataclass(frozen=True)
class _Written:
    """A schema that equals another written the same way."""

    text: str
    schema: Any = field(compare=False)


_LONGEST_KEPT = 10_000
"""Characters of a schema whose faults are kept: 500 of them are 5 MB at most."""


@lru_cache(maxsize=500)  # each run checks its agents' schemas, in which hardly anything ever changes
def _kept_defects(written: _Written) -> tuple[str, ...]:
    return tuple(_defects(written.schema))


def _defects(schema: Any) -> list[str]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        error = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema))
        if error is None:
            return list(_out_of_bounds(schema))
    except RecursionError:
        return ["$ nests too deep"]
    value = json.dumps(error.instance, ensure_ascii=False, default=str)
    known = next((cause.validator_value for cause in [error, *(error.context or ())] if cause.validator == "enum"), ())
    guess = closest(str(error.instance), known)
    hint = f'; did you mean "{guess}"?' if guess else ""
    return [f"{jsontext.show_path(list(error.absolute_path))} is not valid in a JSON schema: {value:.80}{hint}"]


def subschemas(schema: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Yield (path, subschema) of every subschema that is an object, `schema` included; it must be valid."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name, inner in schema.items():
        if name in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
            parts: Iterable[tuple[tuple[str | int, ...], Any]] = (((name, key), part) for key, part in inner.items())
        elif name in ("allOf", "anyOf", "oneOf", "prefixItems"):
            parts = (((name, number), part) for number, part in enumerate(inner))
        elif name not in ("const", "enum", "default", "examples"):
            parts = [((name,), inner)]
        else:
            continue
        for steps, part in parts:
            yield from subschemas(part, (*path, *steps))


def _out_of_bounds(schema: Any) -> Iterator[str]:
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for path, inner in subschemas(schema):
        for name in _REFUSED & inner.keys():
            yield f"{jsontext.show_path([*path, name])} is not supported here"
        if "$ref" in inner:
            try:
                resolver.lookup(inner["$ref"])
            except Unresolvable:
                where = jsontext.show_path([*path, "$ref"])
                yield f"{where} refers to {inner['$ref']:.80}, which is not in this schema; nothing is fetched"
        if "pattern" in inner:
            try:
                _compiled(inner["pattern"])
            except ValueError as error:
                yield f"{jsontext.show_path([*path, 'pattern'])} {error}"


@cache
def _nothing_to_fetch() -> Registry[Any]:
    """Return an empty registry, so that nothing is fetched; cached, as it is slow to make."""
    from referencing import Registry

    return Registry()


@cache
def _validator(closed: bool) -> Any:
    from jsonschema import Draft202012Validator, validators

    keywords = {"$ref": _ref, "pattern": _pattern}
    extend: Callable[..., Any] = validators.extend
    return extend(Draft202012Validator, keywords | ({"properties": _closed} if closed else {}))


def _ref(validator: Any, reference: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    _followed.set(_followed.get() + 1)
    if _followed.get() > MOST_REFERENCES:
        raise _TooMuch
    yield from _standard("$ref")(validator, reference, value, schema)


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ARG001
    from jsonschema import ValidationError
    from pydantic_core import ValidationError as NoMatch

    if not isinstance(value, str):
        return
    try:
        if len(value) > LONGEST_MATCHED:
            yield ValidationError("too long to match", validator="maxLength", validator_value=LONGEST_MATCHED)
        else:
            _compiled(pattern).validate_python(value)
    except NoMatch:
        yield ValidationError("does not match")


def _closed(validator: Any, properties: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    yield from _standard("properties")(validator, properties, value, schema)
    if "additionalProperties" not in schema:
        for error in _standard("additionalProperties")(validator, False, value, schema):
            error.validator = "additionalProperties"
            yield error


def _standard(keyword: str) -> Callable[..., Iterator[ValidationError]]:
    from jsonschema import Draft202012Validator

    check: Callable[..., Iterator[ValidationError]] = Draft202012Validator.VALIDATORS[keyword]
    return lambda *arguments: check(*arguments) or iter(())


@lru_cache(256)
def _compiled(pattern: str) -> SchemaValidator:
    """Raises: ValueError for a pattern that a linear-time engine can't match."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"has {len(pattern)} characters, more than {LONGEST_PATTERN}")
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        why = str(error).rsplit("error: ", 1)[-1].splitlines()[-1].strip().removeprefix("SchemaError: ")
        raise ValueError(f"cannot be used: {why}") from None


def _sentences(error: ValidationError) -> Iterator[str]:
    """Yield an error as sentences; of `anyOf` and `oneOf`, those of the branch with the fewest faults."""
    here = jsontext.show_path(list(error.absolute_path))
    value: Any = error.instance
    expected: Any = error.validator_value
    prefix = "" if here == "$" else f"{here}."
    if error.validator is None:
        yield f"{here} is not allowed"
    elif error.validator == "type":
        yield f"{here} is {value!r:.80}, not {expected if isinstance(expected, str) else ' or '.join(expected)}"
    elif error.validator == "required":
        yield from (f"{prefix}{name} is missing" for name in expected if name not in value)
    elif error.validator == "additionalProperties" and isinstance(error.schema, Mapping):
        known = error.schema.get("properties", {})
        for name in (name for name in value if name not in known):
            guess = closest(name, known.keys() - value.keys())
            yield f"{prefix}{name} is not allowed" + (f'; did you mean "{guess}"?' if guess else "")
    elif error.context:
        yield from _fewest(error.context)
    elif error.validator in _WORDS:
        yield f"{here} is {value!r:.80}, {_WORDS[str(error.validator)].format(expected)}"
    else:
        yield f"{here}: {error.message:.200}"


def _fewest(context: Iterable[ValidationError]) -> list[str]:
    branches: dict[Any, list[ValidationError]] = {}
    for error in context:
        branches.setdefault(error.schema_path[0], []).append(error)
    single = [errors[0] for errors in branches.values() if len(errors) == 1]
    types = [
        error
        for error in single
        if error.validator == "type" and not error.path and isinstance(error.validator_value, str)
    ]
    if len(types) == len(branches):
        where, names = jsontext.show_path(list(types[0].absolute_path)), [str(error.validator_value) for error in types]
        return [f"{where} is {types[0].instance!r:.80}, not {' or '.join(names)}"]
    return [sentence for error in min(branches.values(), key=len) for sentence in _sentences(error)]
