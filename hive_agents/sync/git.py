"""git as a child process that a repository, or a server of one, costs no more than it may: memory, output and time."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

from hive_agents.readers import ImportFailure

GIT_MEMORY = 2_000_000_000
"""Bytes of address space for each of git's processes: a server's answer without an end is kept in them."""
_MOST_SAID = 1_000_000
_LIMITED = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
"""Set before git begins: a limit that is set from outside may come after git has begun a helper without one."""
_FRUGAL = {"core.packedGitWindowSize": "64m", "core.packedGitLimit": "512m", "core.bigFileThreshold": "50m"}
"""Settings by which large repositories fit into that."""


def git_output(
    arguments: Sequence[str], *, seconds: float, most: int, env: Mapping[str, str], stdin: bytes = b""
) -> bytes:
    """Return what git writes, up to `most` bytes. Raises: ImportFailure with the last line of its errors, or where it
    takes or says more than it may; FileNotFoundError where git isn't installed.

    A tree of ten trees of ten trees takes a few kB and lists ten thousand million files: nothing is read to its end.
    """
    git = shutil.which("git")
    if git is None:
        raise FileNotFoundError("git")
    frugal = [part for name, value in _FRUGAL.items() for part in ("-c", f"{name}={value}")]
    with tempfile.TemporaryFile() as asked:
        asked.write(stdin)
        asked.seek(0)
        running = subprocess.Popen(
            ["sh", "-c", _LIMITED, str(GIT_MEMORY // 1024), git, *frugal, *arguments],
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
            start_new_session=True,
        )
    with running:
        try:
            output, errors = _read(running, time.monotonic() + seconds, seconds, most)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)  # its helpers, too
            raise
    if running.returncode:
        why = errors.decode(errors="replace").strip().splitlines() or ["git failed"]
        raise ImportFailure(why[-1].removeprefix("fatal: "))
    return output


def _read(git: subprocess.Popen[bytes], until: float, seconds: float, most: int) -> tuple[bytes, bytes]:
    assert git.stdout is not None
    assert git.stderr is not None
    read = {git.stdout: (bytearray(), most), git.stderr: (bytearray(), _MOST_SAID)}
    with selectors.DefaultSelector() as ready:
        for stream in read:
            ready.register(stream, selectors.EVENT_READ, read[stream])
        while ready.get_map():
            if not (waiting := ready.select(until - time.monotonic())) and time.monotonic() >= until:
                raise ImportFailure(f"git did not answer within {seconds:g} seconds")
            for key, _ in waiting:
                part = os.read(key.fd, 1 << 16)
                came, limit = key.data
                came += part
                if len(came) > limit:
                    raise ImportFailure(f"git says more than {limit // 1_000_000} MB; name a folder of the repository")
                if not part:
                    ready.unregister(key.fileobj)
    return bytes(read[git.stdout][0]), bytes(read[git.stderr][0])
