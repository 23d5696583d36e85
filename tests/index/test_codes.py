from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hive_agents import Workspace
from hive_agents.index import VectorIndex, vectors
from hive_agents.index.codes import CodedQueries, Codes, coded
from hive_agents.index.segments import SegmentPart
from hive_agents.models.embedding import byte_products
from tests.index.test_vectors import unit_rows

Floats = NDArray[np.float32]
DIMENSIONS = st.sampled_from([1, 2, 7, 33, 384])


def uneven_rows(seed: int, n: int, dim: int) -> Floats:
    """Unit vectors near each other, or with a few large numbers, or with zeros; some are the same."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, dim)) * random.choice([1, 1e-3, 0], (n, dim)) + random.integers(0, 2, (n, 1))
    rows[:: max(1, n // 7)] = rows[0]
    rows[:, 0] += random.choice([0, 30], n)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return np.asarray(rows, np.float32)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 300), dim=DIMENSIONS, uneven=st.booleans())
def test_a_cosine_by_codes_is_off_by_no_more_than_is_promised(seed: int, n: int, dim: int, uneven: bool) -> None:
    matrix = (uneven_rows if uneven else unit_rows)(seed, n, dim)
    queries = unit_rows(seed + 1, 5, dim) * np.array([[1], [7], [1e-3], [0], [1]], np.float32)
    queries[4] = matrix[-1]
    codes, given_queries = Codes(coded(matrix), dim), CodedQueries.of(queries)

    found = codes.cosines(given_queries).astype(np.float64)

    exact = queries.astype(np.float64) @ matrix.T.astype(np.float64)
    allowed = given_queries.share[:, None].astype(np.float64) * codes.errors + given_queries.rest[:, None]
    assert (np.abs(found - exact) <= allowed).all()
    some = np.arange(0, n, 3)
    assert codes.cosines(given_queries, some).tobytes() == np.ascontiguousarray(found[:, some], np.float32).tobytes()


def test_the_largest_products_of_bytes_are_exact() -> None:
    """Sums of two of them just fit into the 16 bits of processors without instructions for more."""
    rows = np.full((40, 384), 255, np.uint8)
    columns = np.stack([np.full(384, 64, np.int8), np.full(384, -64, np.int8)], axis=1)
    (found,) = byte_products().run(None, {"rows": rows, "columns": columns, "scales": np.ones(2, np.float32)})
    assert found.tolist() == [[127 * 64 * 384, -127 * 64 * 384]] * 40


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 6_000),
    dim=DIMENSIONS,
    k=st.integers(1, 150),
    uneven=st.booleans(),
    allowed=st.sampled_from([None, 0.0, 0.1, 0.5, 1.0]),
    kinds=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_lists_by_codes_are_those_without_to_the_bit(
    seed: int, n: int, dim: int, k: int, uneven: bool, allowed: float | None, kinds: list[bool]
) -> None:
    """Some segments have codes, and some rows are gone."""
    random = np.random.default_rng(seed)
    matrix = (uneven_rows if uneven else unit_rows)(seed, n, dim)
    queries = np.concatenate([unit_rows(seed + 1, 2, dim), matrix[-1:]])
    mask = None if allowed is None else random.random(n) < allowed
    of = random.integers(-1, len(kinds), n)
    parts = []
    for number, has_codes in enumerate(kinds):
        rows = np.flatnonzero((of == number) | (of == -1))
        numbers = np.where(of[rows] == number, rows, -1).astype(np.int32)
        parts.append((matrix[rows], Codes(coded(matrix[rows]), dim) if has_codes else None, numbers))
    last = np.flatnonzero(of == -1)
    parts.append((matrix[last], None, last.astype(np.int32)))
    plain = VectorIndex(matrix)
    for index in (VectorIndex(matrix, Codes(coded(matrix), dim)), VectorIndex.of(parts)):
        found = [*index.top_many(queries, k, mask=mask), *(index.top(query, k, mask=mask) for query in queries)]
        expected = plain.top_many(queries, k, mask=mask) * 2
        for (rows, scores), (wanted, exact) in zip(found, expected, strict=True):
            assert (rows.tolist(), scores.tobytes()) == (wanted.tolist(), exact.tobytes())


def test_a_row_with_a_large_error_hides_no_other() -> None:
    matrix = unit_rows(1, 3_000, 64)
    matrix[7] = matrix[5] = 0
    matrix[7, 0] = 1
    stored = coded(matrix)
    Codes(stored, 64).errors[7] = 2
    query = unit_rows(2, 1, 64)[0]
    found, expected = VectorIndex(matrix, Codes(stored, 64)).top(query, 50), VectorIndex(matrix).top(query, 50)
    assert (found[0].tolist(), found[1].tobytes()) == (expected[0].tolist(), expected[1].tobytes())


@pytest.mark.parametrize("stored", [np.zeros(13, np.uint8), np.zeros(12, np.int8), np.zeros((1, 12), np.uint8)])
def test_what_cannot_be_codes_is_refused(stored: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="codes of 4 dimensions"):
        Codes(stored, 4)


def test_only_many_vectors_have_codes_beside_them(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CODED", 100)
    for segment, n in enumerate((99, 100)):
        vectors.save_vectors(text_workspace, segment, unit_rows(segment, n, 8))
    assert [path.name for path in sorted(folder(text_workspace).glob("*.npy"))] == ["0.npy", "1.codes.npy", "1.npy"]


def test_codes_that_a_killed_process_left_are_no_codes_of_the_next_vectors(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_CODED", 100)
    before, after = unit_rows(1, 200, 8), unit_rows(2, 200, 8)
    vectors.save_vectors(text_workspace, 1, before)
    monkeypatch.setattr(vectors, "_CODED", 1000)
    vectors.save_vectors(text_workspace, 1, after)
    index = vectors.open_vectors(text_workspace, [part(200)])
    assert index.top(after[3], 5)[0].tolist() == VectorIndex(after).top(after[3], 5)[0].tolist()


@pytest.mark.parametrize("size", [200, 150])
def test_codes_that_were_changed_are_noticed(
    text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(vectors, "_CODED", 100)
    vectors.save_vectors(text_workspace, 1, unit_rows(1, 200, 8))
    np.save(folder(text_workspace) / "1.codes.npy", coded(unit_rows(2, size, 8)))
    with pytest.raises(ValueError, match="checksum"):
        vectors.open_vectors(text_workspace, [part(200)])


def test_codes_of_other_vectors_are_refused(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_CODED", 100)
    for segment, n in ((1, 200), (2, 150)):
        vectors.save_vectors(text_workspace, segment, unit_rows(segment, n, 8))
    for name in ("codes.npy", "codes.json"):
        (folder(text_workspace) / f"2.{name}").rename(folder(text_workspace) / f"1.{name}")
    with pytest.raises(ValueError, match="200 chunks"):
        vectors.open_vectors(text_workspace, [part(200)])


def folder(place: Workspace) -> Path:
    return place.state / "vectors"


def part(n: int) -> SegmentPart:
    return SegmentPart(1, np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32))
