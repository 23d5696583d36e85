"""Templates of requests with named parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAME = "$parameter"


def parameter(name: str) -> dict[str, str]:
    """Return the placeholder of a parameter in a request."""
    return {_NAME: name}


def filled(request: Any, values: Mapping[str, Any]) -> Any:
    """Return the request with a value for each parameter; none may be missing, least of all the reader's.

    Raises: KeyError for a parameter without a value.

    >>> filled({"terms": {"readers": {"$parameter": "reader"}}}, {"reader": ["acme,tenant"]})
    {'terms': {'readers': ['acme,tenant']}}
    """
    if isinstance(request, dict):
        if set(request) == {_NAME}:
            return values[request[_NAME]]
        return {key: filled(value, values) for key, value in request.items()}
    if isinstance(request, list):
        return [filled(value, values) for value in request]
    return request
