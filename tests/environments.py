"""Packages that a slow test needs and the project doesn't: in environments of their own, made once and kept.

Where the package index can't be reached, such a test is skipped and says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

KEPT = Path(tempfile.gettempdir()) / f"hive-test-environments-{os.getuid()}"


def python_with(*packages: str, options: Sequence[str] = ()) -> Path:
    """Return the folder of the programs of a Python environment with these packages; `options` are pip's."""
    bin = "bin/python"

    def make(folder: Path) -> list[list[str]]:
        # The pip here installs there, and compiles nothing: most of what is installed is never imported.
        pip = [sys.executable, "-m", "pip", "--python", str(folder / bin), "install", "--no-compile", "-q"]
        options_of_pip = ["--disable-pip-version-check", *options]
        return [[sys.executable, "-m", "venv", "--without-pip", str(folder)], [*pip, *options_of_pip, *packages]]

    return _made("py", [*packages, *options, sys.version], make) / "bin"


def node_with(*packages: str) -> Path:
    """Return the folder of the programs of these packages of npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")

    def make(folder: Path) -> list[list[str]]:
        return [[npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *packages]]

    return _made("js", packages, make) / "node_modules" / ".bin"


def _made(kind: str, packages: Sequence[str], make: Callable[[Path], list[list[str]]]) -> Path:
    name = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:12]
    KEPT.mkdir(mode=0o700, exist_ok=True)
    if KEPT.stat().st_uid != os.getuid():
        pytest.skip(f"{KEPT} is somebody else's")
    folder, done = KEPT / f"{kind}-{name}", KEPT / f"{kind}-{name}.done"
    with (KEPT / f"{kind}-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for command in make(folder):
                ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
                if ran.returncode:
                    pytest.skip(f"can't be installed here: {', '.join(packages)}: {ran.stderr.strip()[-200:]}")
            done.touch()
    return folder
