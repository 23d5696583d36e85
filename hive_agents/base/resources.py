"""Files that ship with the package, installed from a wheel or in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def bundled(name: str) -> Path:
    """Return the bundled file or folder `name`, for example `workspace` or `docs/diagnostics.md`."""
    installed = _PACKAGE / "_bundled" / name
    return installed if installed.exists() else _PACKAGE.parent / name
