import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hive_agents import Workspace
from hive_agents.models.embedding.embedding_cache import SHARD, EmbeddingCache, text_hash
from hive_agents.models.embedding.wordpieces import WordPieces
from hive_agents.ranking import build_index
from tests.conftest import make_workspace, write_document


class LetterCounts(WordPieces):
    """A small real embedder: how often each letter occurs, as a unit vector; it counts what it embeds."""

    def __init__(self, model_id: str = "letters/1") -> None:
        self.model_id = model_id
        self.dimensions = 27
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        self.embedded += texts
        rows = [[1, *(text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz")] for text in texts]
        if progress:
            progress(len(texts))
        vectors = np.array(rows, np.float32).reshape(len(texts), 27)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


TEXTS = ["alpha", "beta", "gamma"]
HASHES = [text_hash(text) for text in TEXTS]


def files(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in (workspace.state / "embeddings").iterdir())


def test_a_text_is_embedded_once(text_workspace: Workspace) -> None:
    embedder = LetterCounts()
    first = EmbeddingCache(text_workspace, embedder).vectors(HASHES + HASHES[:1], [*TEXTS, "alpha"])
    assert sorted(embedder.embedded) == TEXTS
    cache = EmbeddingCache(text_workspace, embedder)
    assert cache.missing(HASHES) == 0
    assert cache.vectors(HASHES, TEXTS).tobytes() == first[:3].tobytes() == LetterCounts().embed(TEXTS).tobytes()
    assert len(embedder.embedded) == 3


def test_another_model_has_another_cache_and_leaves_the_first_alone(text_workspace: Workspace) -> None:
    old, new = LetterCounts(), LetterCounts("letters/2")
    for embedder in (old, new, old, new):
        cache = EmbeddingCache(text_workspace, embedder)
        cache.vectors(HASHES, TEXTS)
        cache.compact(HASHES)
    assert (len(old.embedded), len(new.embedded)) == (3, 3)
    assert files(text_workspace) == ["letters-1.npz", "letters-2.npz"]


def test_work_is_saved_as_it_is_done(text_workspace: Workspace) -> None:
    class Interrupted(LetterCounts):
        def embed(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> NDArray[np.float32]:
            if len(self.embedded) >= SHARD:
                raise KeyboardInterrupt
            return super().embed(texts, progress)

    texts = [f"text {number}" for number in range(SHARD + 5)]
    hashes = [text_hash(text) for text in texts]
    with pytest.raises(KeyboardInterrupt):
        EmbeddingCache(text_workspace, Interrupted()).vectors(hashes, texts)
    seen: list[tuple[int, int]] = []
    cache = EmbeddingCache(text_workspace, LetterCounts())
    assert cache.missing(hashes) == 5
    assert cache.vectors(hashes, texts, lambda done, total: seen.append((done, total))).shape == (SHARD + 5, 27)
    assert seen == [(5, 5)]


def test_compacting_keeps_what_is_used_in_one_file(text_workspace: Workspace) -> None:
    for text in TEXTS:
        EmbeddingCache(text_workspace, LetterCounts()).vectors([text_hash(text)], [text])
    assert len(files(text_workspace)) == 3
    EmbeddingCache(text_workspace, LetterCounts()).compact(HASHES[:2])
    assert files(text_workspace) == ["letters-1.npz"]
    assert EmbeddingCache(text_workspace, LetterCounts()).missing(HASHES) == 1


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "pickle", "shape", "double"])
def test_a_damaged_cache_costs_time_and_nothing_else(text_workspace: Workspace, damage: str) -> None:
    embedder = LetterCounts()
    expected = EmbeddingCache(text_workspace, embedder).vectors(HASHES, TEXTS)
    (path,) = (text_workspace.state / "embeddings").iterdir()
    data = path.read_bytes()
    model = np.array(embedder.model_id)
    hashes = np.zeros((3, 32), np.uint8)
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        path.write_bytes(data[:200] + bytes(byte ^ 0xFF for byte in data[200:260]) + data[260:])
    elif damage == "text":
        path.write_text("no archive")
    elif damage == "pickle":
        np.savez(path, model=model, hashes=hashes, vectors=np.array([{}], object))
    elif damage == "shape":
        np.savez(path, model=model, hashes=hashes, vectors=np.zeros((2, 27), np.float32))
    else:
        np.savez(path, model=model, hashes=hashes, vectors=np.zeros((3, 27)))
    cache = EmbeddingCache(text_workspace, embedder)
    assert cache.missing(HASHES) == 3
    assert cache.vectors(HASHES, TEXTS).tobytes() == expected.tobytes()
    cache.compact(HASHES)
    assert EmbeddingCache(text_workspace, embedder).missing(HASHES) == 0


def test_no_texts_have_no_vectors(text_workspace: Workspace) -> None:
    assert EmbeddingCache(text_workspace, LetterCounts()).vectors([], []).shape == (0, 27)


def test_a_fresh_clone_with_the_seed_embeds_nothing(workspace: Workspace, tmp_path: Path) -> None:
    assert build_index(workspace, write_seed=True).embedded == 10
    (seed,) = (workspace.root / "embeddings").iterdir()
    with np.load(seed) as stored:
        assert (stored["hashes"].shape, stored["vectors"].shape) == ((10, 32), (10, 384))
    clone = make_workspace(tmp_path / "clone")
    shutil.copytree(workspace.root / "embeddings", clone.root / "embeddings")
    report = build_index(clone)
    assert (report.embedded, report.chunks) == (0, 10)
    query = "How do I rotate a key?"
    assert clone.engine().search(query, "v1").to_json() == workspace.engine().search(query, "v1").to_json()


def test_the_seed_can_be_written_again_without_embedding(indexed: Workspace) -> None:
    assert build_index(indexed, write_seed=True).embedded == 0
    assert len(list((indexed.root / "embeddings").iterdir())) == 1


def test_two_collections_keep_each_others_embeddings(workspace: Workspace) -> None:
    text = (workspace.root / "collections" / "kb.json").read_text(encoding="utf-8")
    other = text.replace('"kb"', '"fine"').replace('"heading_level": 2', '"heading_level": 1')
    (workspace.root / "collections" / "fine.json").write_text(other, encoding="utf-8")
    build_index(workspace)
    write_document(workspace, "new.md", "# New\n\nAll new.\n")
    assert build_index(workspace).embedded == 1
