"""Public names of a package that are loaded when they are first used, so that importing the package costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package.

    `names` holds the public names of each of its files, separated by spaces; `modules` the files that are public as a
    whole. The package lists all of them in `__all__` as well, and imports them where only type checkers look.
    """
    homes = {name: file for file, some in names.items() for name in some.split()}

    def getter(name: str) -> Any:
        if name in modules:
            value: Any = import_module(f"{package}.{name}")
        elif name in homes:
            value = getattr(import_module(f"{package}.{homes[name]}"), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return getter, lambda: sorted({*homes, *modules})
