"""Sessions of models that a workspace names: their code is foreign, and may loop for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LOADING = 60.0
"""Seconds in which a model has to be ready."""


class BoundedSession:
    """An onnxruntime session whose computations end after `seconds`, and by Ctrl-C.

    Raises: TimeoutError, onnxruntime's errors for a model that can't be loaded or run.
    """

    def __init__(self, model: bytes, seconds: float, *, threads: int = 0) -> None:
        # onnxruntime sends telemetry unless this is set before the import.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime

        self._seconds, self._options = seconds, onnxruntime.RunOptions
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads  # 0 is all
        loaded = lambda: onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])  # noqa: E731
        self._session: Any = _within(max(seconds, LOADING), loaded, lambda: None)

    def get_inputs(self) -> Sequence[Any]:
        return self._session.get_inputs()  # type: ignore[no-any-return]

    def get_outputs(self) -> Sequence[Any]:
        return self._session.get_outputs()  # type: ignore[no-any-return]

    def run(self, outputs: Sequence[str] | None, inputs: Mapping[str, Any]) -> Sequence[Any]:
        options = self._options()

        def stop() -> None:
            options.terminate = True  # looked at between two operators, so within a loop, too

        return _within(self._seconds, lambda: self._session.run(outputs, inputs, options), stop)  # type: ignore[no-any-return]


def _within(seconds: float, work: Callable[[], Any], stop: Callable[[], None]) -> Any:
    """Return what `work` does, in a thread which a signal doesn't have to wait for. Raises: TimeoutError."""
    found: list[Any] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:  # it is raised where it was asked for
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="hive-onnx", daemon=True).start()
    try:
        if not done.wait(seconds):
            raise TimeoutError(f"it took longer than {seconds:g} s ")
    except BaseException:
        stop()
        raise
    if failed:
        raise failed[0]
    return found[0]
