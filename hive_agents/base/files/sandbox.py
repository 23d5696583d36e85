"""A child process that parses foreign formats, one job at a time, within limits of time and memory."""

from __future__ import annotations

import atexit
import io
import math
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import Any, BinaryIO

from hive_agents.base.files.guarded import Exceeded

_LENGTH = struct.Struct("<Q")
_PLAIN = {("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")}
_START = "import sys; sys.path[:] = {path!r}; from hive_agents.base.files.sandbox import serve; serve({memory})"


class JobFailed(Exception):
    """The job's exception, by the name of its class; `module` is the missing module of an import error."""

    def __init__(self, kind: str, message: str, module: str | None) -> None:
        super().__init__(message)
        self.kind, self.module = kind, module


class Sandbox:
    """Calls functions by module and name in a child process; arguments and results are plain values and dates.

    The process is started for the first job, and again after one that exceeded its limits or left it with over half of
    its memory, so that no file is the reason why the next one can't be read. It ends with this process.
    """

    def __init__(self, *, seconds: float, memory: int) -> None:
        self.seconds, self.memory = seconds, memory
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def call(self, module: str, function: str, *arguments: Any, work: int | None = None) -> Any:
        """Return the function's result; `work` limits its CPU seconds.

        Raises: Exceeded when it exceeds time or memory, or the process dies; JobFailed for its exceptions.
        """
        with self._lock:
            child = self._running()
            deadline = time.monotonic() + self.seconds
            try:
                _send(child.stdin, (module, function, arguments, work))
                answer, used_up = _Plain(io.BytesIO(self._received(child, deadline))).load()
            except (OSError, EOFError, pickle.UnpicklingError):
                self._end()
                if child.returncode == -signal.SIGXCPU:
                    raise Exceeded(f"it takes longer than {work} s of computing") from None
                raise Exceeded("its reader broke down") from None
            except BaseException:
                self._end()
                raise
            if used_up:
                self._end()
        if answer[0] == "memory":
            raise Exceeded(f"it takes more than {self.memory // 1_000_000} MB of memory")
        if answer[0] == "failed":
            raise JobFailed(*answer[1:])
        return answer[1]

    def close(self) -> None:
        """End the process; the next job starts another one."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._owner != os.getpid():  # a fork must not talk to its parent's child
            self._child = None
        if self._child is None or self._child.poll() is not None:
            self._end()
            start = _START.format(path=[place for place in sys.path if place], memory=self.memory)
            # Isolated: the working directory may be untrusted and contain modules.
            command = [sys.executable, "-I", "-c", start]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._owner = os.getpid()
            atexit.register(self.close)
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()
            child.wait()
            atexit.unregister(self.close)

    def _received(self, child: subprocess.Popen[bytes], deadline: float) -> bytes:
        assert child.stdout is not None
        head = self._exactly(child.stdout.fileno(), _LENGTH.size, deadline)
        size = _LENGTH.unpack(head)[0]
        if size > self.memory:
            raise EOFError
        return self._exactly(child.stdout.fileno(), size, deadline)

    def _exactly(self, handle: int, size: int, deadline: float) -> bytes:
        parts, readable = [], select.poll()  # `select` itself knows no file above the 1,024th
        readable.register(handle, select.POLLIN)
        while size:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not readable.poll(remaining * 1000):
                raise Exceeded(f"it takes longer than {self.seconds:g} s")
            part = os.read(handle, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class _Plain(pickle.Unpickler):
    """An unpickler for answers of a process that read untrusted files: it constructs no objects but dates."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PLAIN:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


def serve(memory: int) -> None:
    """Run the jobs from stdin until it ends, in the child process."""
    import resource
    from importlib import import_module

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # what a library says of a file would corrupt the answers, and reach the terminal as it is
        os.dup2(nowhere, output)
    while head := sys.stdin.buffer.read(_LENGTH.size):
        module, function, arguments, work = pickle.loads(sys.stdin.buffer.read(_LENGTH.unpack(head)[0]))
        answer: tuple[Any, ...]
        allowed = resource.getrlimit(resource.RLIMIT_CPU)[1]  # a limit inherited from the parent
        most = math.ceil(time.process_time()) + work if work is not None else allowed
        if allowed != resource.RLIM_INFINITY:
            most = min(most, allowed)
        resource.setrlimit(resource.RLIMIT_CPU, (most, allowed))
        try:
            answer = ("done", getattr(import_module(module), function)(*arguments))
        except MemoryError:
            answer = ("memory",)
        except BaseException as error:
            named = error.name if isinstance(error, ModuleNotFoundError) else None
            answer = ("failed", type(error).__name__, str(error)[:2000], named)
        used_up = answer[0] == "memory" or _size() > memory / 2
        try:
            _send(answers, (answer, used_up))
        except MemoryError:
            _send(answers, (("memory",), True))


def _size() -> int:
    """Return the size of this process's address space in bytes, 0 where the system doesn't tell."""
    try:
        with open("/proc/self/statm", "rb") as told:
            return int(told.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _send(stream: BinaryIO | Any, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()
