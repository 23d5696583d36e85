"""Requests with named parameters in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAME = "$parameter"


def parameter(name: str) -> dict[str, str]:
    """Return what stands in a request for a value that is given with each query."""
    return {_NAME: name}


def filled(request: Any, values: Mapping[str, Any]) -> Any:
    """Return the request with a value for each parameter; none is ever left out, the reader's least of all.

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
