"""Lookup of directives and roles: docutils' own, ours, or the generic ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docutils.parsers.rst import Directive, directives as docutils_directives, roles as docutils_roles

from hive_agents.readers.rst.directives import OURS, Anything
from hive_agents.readers.rst.roles import STANDARD, generic_role

_LOCK = threading.Lock()
_BUILT_IN = frozenset(
    "attention caution danger error hint important note tip warning admonition topic sidebar line-block "
    "parsed-literal math rubric epigraph highlights pull-quote compound container table csv-table list-table "
    "image figure replace unicode date".split()
)


@contextmanager
def sphinx_dialect() -> Iterator[None]:
    """Define every directive and role in this context.

    docutils has no hook for unknown names, so its two lookup functions are replaced, and restored afterwards for Sphinx
    in the same process.
    """
    with _LOCK:
        directive, role = docutils_directives.directive, docutils_roles.role

        def find_directive(name: str, language: Any, document: Any) -> tuple[type[Directive] | None, list[Any]]:
            plain = name.lower().rpartition(":")[2]
            if plain in OURS:
                return OURS[plain], []
            if plain in _BUILT_IN:
                found, messages = directive(plain, language, document)
                return found, messages
            return Anything, []

        def find_role(name: str, language: Any, line: int, reporter: Any) -> tuple[Any, list[Any]]:
            return role(name, language, line, reporter) if name.lower() in STANDARD else (generic_role, [])

        _install(find_directive, find_role)
        try:
            yield
        finally:
            _install(directive, role)


def _install(find_directive: Any, find_role: Any) -> None:
    vars(docutils_directives)["directive"] = find_directive
    vars(docutils_roles)["role"] = find_role
