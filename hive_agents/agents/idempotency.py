"""Whether a tool takes a key by which its effect happens once, however often it is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Keyless = Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Awaitable[Any]]
"""What calls a tool: with its arguments, the context that has the key, and its secrets."""

NAMES = ("idempotency_key", "idempotencyKey")
MARK = "x-idempotency"


def key_parameter(schema: Mapping[str, Any]) -> str | None:
    """Return the parameter that takes the key: one by that name, or marked in the schema; None without one.

    >>> key_parameter({"properties": {"amount": {}, "request": {"type": "string", "x-idempotency": True}}})
    'request'
    """
    properties = schema.get("properties") or {}
    marked = (name for name, held in properties.items() if isinstance(held, Mapping) and held.get(MARK))
    return next(marked, next((name for name in NAMES if name in properties), None))


def with_key(schema: Mapping[str, Any], call: Keyless) -> tuple[dict[str, Any], Keyless, bool]:
    """Return a tool's schema and call so that the key is filled in, and never the model's to choose; whether it is."""
    name = key_parameter(schema)
    if name is None:
        return dict(schema), call, False
    properties = {key: held for key, held in schema["properties"].items() if key != name}
    required = [key for key in schema.get("required", ()) if key != name]

    async def filled(arguments: Mapping[str, Any], context: Any, secrets: Mapping[str, Any]) -> Any:
        return await call({**arguments, name: context.idempotency_key}, context, secrets)

    return {**schema, "properties": properties, "required": required}, filled, True
