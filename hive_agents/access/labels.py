"""What a document says about its readers: tenants and view, from its front matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hive_agents.access.principal import is_name, is_subject


@dataclass(frozen=True, slots=True)
class AccessLabels:
    """Whose the document is, and who of them may view it.

    `fault` says why the labels can't be read; then `view` is empty, and grants don't add to it.

    >>> AccessLabels.of({"tenant": "acme", "view": ["group:qa"]}).view
    frozenset({'group:qa'})
    >>> AccessLabels.of({"tenant": "acme", "view": ["qa"]}).fault
    'view: "qa" is neither user:ID, group:ID nor tenant'
    """

    tenants: frozenset[str] = frozenset()
    view: frozenset[str] = frozenset()
    fault: str | None = None

    @classmethod
    def of(cls, front_matter: Mapping[str, Any]) -> AccessLabels:
        """The labels in a front matter; a text counts as a list of one. Never raises: what is malformed is a fault."""
        tenants = _listed(front_matter, "tenant", is_name, "is no tenant's name")
        view = _listed(front_matter, "view", is_subject, "is neither user:ID, group:ID nor tenant")
        if isinstance(tenants, str):
            return _shared(frozenset(), frozenset(), tenants)
        if isinstance(view, str):
            return _shared(tenants, frozenset(), view)
        return _shared(tenants, view, None)


# Thousands of documents share a few labels, and may share the object too.
_shared = lru_cache(maxsize=4096)(AccessLabels)


def _listed(
    front_matter: Mapping[str, Any], key: str, fits: Callable[[object], bool], why_not: str
) -> frozenset[str] | str:
    """The values under `key`, or what is wrong with them."""
    value = front_matter.get(key)
    if value is None:
        return frozenset()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        return f"{key} is neither a text nor a list of texts"
    for one in values:
        if not fits(one):
            shown = f'"{one}"' if isinstance(one, str) else str(one)
            return f"{key}: {shown[:60]} {why_not}"
    return frozenset(values)
