from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hive_agents.index.vectors import VectorIndex

Floats = NDArray[np.float32]


def unit_rows(seed: int, n: int, dim: int, *, distinct: int | None = None) -> Floats:
    """Random unit vectors; `distinct` fewer of them, repeated, make ties."""
    random = np.random.default_rng(seed)
    rows = random.standard_normal((distinct or n, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[random.integers(len(rows), size=n)].astype(np.float32) if distinct else rows.astype(np.float32)


def brute_force(
    matrix: Floats, query: Floats, k: int, mask: NDArray[np.bool_] | None = None
) -> tuple[list[int], Floats]:
    scores = (matrix.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    allowed = range(len(matrix)) if mask is None else mask.nonzero()[0].tolist()
    best = sorted(allowed, key=lambda row: (-scores[row], row))[:k]
    return best, scores[best]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 4_000),
    dim=st.sampled_from([1, 2, 7, 32, 384]),
    k=st.integers(1, 120),
    distinct=st.sampled_from([None, 1, 3, 50]),
    allowed=st.sampled_from([None, 0.0, 0.02, 0.5, 1.0]),
)
def test_lists_and_scores_are_those_of_a_float64_brute_force(
    seed: int, n: int, dim: int, k: int, distinct: int | None, allowed: float | None
) -> None:
    matrix = unit_rows(seed, n, dim, distinct=distinct)
    queries = unit_rows(seed + 1, 3, dim)
    mask = None if allowed is None else np.random.default_rng(seed + 2).random(n) < allowed
    index = VectorIndex(matrix)

    together = index.top_many(queries, k, mask=mask)

    for query, (rows, scores) in zip(queries, together, strict=True):
        alone_rows, alone_scores = index.top(query, k, mask=mask)
        assert rows.tolist() == alone_rows.tolist()
        assert scores.tobytes() == alone_scores.tobytes() == index.scores(query, rows).tobytes()
        expected_rows, expected_scores = brute_force(matrix, query, k, mask)
        np.testing.assert_allclose(scores, expected_scores, rtol=0, atol=1e-7)
        if distinct is None and dim == 384:  # elsewhere the brute force's own last bit decides among near ties
            assert rows.tolist() == expected_rows


def test_ties_are_ordered_by_row_number() -> None:
    matrix = np.tile(unit_rows(1, 1, 8), (5_000, 1))
    rows, scores = VectorIndex(matrix).top(matrix[0], 7)
    assert rows.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert len(set(scores.tolist())) == 1


def test_a_row_that_differs_in_the_last_bits_is_never_lost_to_rounding() -> None:
    matrix = np.tile(unit_rows(3, 1, 384), (4_000, 1))
    matrix[:, 0] += np.random.default_rng(4).integers(-3, 4, 4_000).astype(np.float32) * np.float32(2**-27)
    query = unit_rows(5, 1, 384)[0]
    index = VectorIndex(matrix)
    exact = index.scores(query, np.arange(4_000))
    rows, _ = index.top(query, 10)
    assert rows.tolist() == np.lexsort((np.arange(4_000), -exact))[:10].tolist()


def test_masked_rows_never_set_the_bound() -> None:
    """The best rows are all masked; a bound read from them would leave nothing."""
    query = unit_rows(6, 1, 16)[0]
    matrix = unit_rows(7, 20_000, 16)
    matrix[:10_000] = query
    mask = np.arange(20_000) >= 10_000
    rows, scores = VectorIndex(matrix).top(query, 10, mask=mask)
    expected_rows, expected_scores = brute_force(matrix, query, 10, mask)
    assert rows.tolist() == expected_rows
    np.testing.assert_allclose(scores, expected_scores, atol=1e-7)


def test_allowed_rows_outside_the_sample_are_found() -> None:
    matrix = unit_rows(8, 40_000, 16)
    mask = np.arange(40_000) % 16 != 0
    query = unit_rows(9, 1, 16)[0]
    assert VectorIndex(matrix).top(query, 10, mask=mask)[0].tolist() == brute_force(matrix, query, 10, mask)[0]


def test_one_query_over_few_of_many_rows_gets_the_list_of_a_batch() -> None:
    matrix, queries = unit_rows(20, 70_000, 8), unit_rows(21, 3, 8)
    mask = np.arange(70_000) % 60 == 0
    index = VectorIndex(matrix)
    for query, (rows, scores) in zip(queries, index.top_many(queries, 40, mask=mask), strict=True):
        alone = index.top(query, 40, mask=mask)
        assert (alone[0].tolist(), alone[1].tobytes()) == (rows.tolist(), scores.tobytes())
        np.testing.assert_allclose(scores, brute_force(matrix, query, 40, mask)[1], rtol=0, atol=1e-7)


def test_scores_do_not_depend_on_the_rows_beside_them() -> None:
    matrix, query = unit_rows(10, 9_000, 384), unit_rows(11, 1, 384)[0]
    index = VectorIndex(matrix)
    whole = index.scores(query, np.arange(9_000))
    assert whole[5_000:5_003].tobytes() == index.scores(query, [5_000, 5_001, 5_002]).tobytes()
    assert whole[8_999] == index.scores(query, [8_999])[0]


def test_a_mapped_file_serves_many_threads(tmp_path: Path) -> None:
    matrix, queries = unit_rows(12, 5_000, 32), unit_rows(13, 40, 32)
    np.save(tmp_path / "vectors.npy", matrix)
    index = VectorIndex(np.load(tmp_path / "vectors.npy", mmap_mode="r"))
    expected = [rows.tolist() for rows, _ in index.top_many(queries, 5)]
    with ThreadPoolExecutor(4) as pool:
        assert [rows.tolist() for rows, _ in pool.map(lambda query: index.top(query, 5), queries)] == expected


def test_an_empty_matrix_has_empty_lists() -> None:
    rows, scores = VectorIndex(np.empty((0, 384), np.float32)).top(np.ones(384, np.float32), 3)
    assert rows.tolist() == scores.tolist() == []


def test_no_queries_give_no_lists() -> None:
    assert VectorIndex(unit_rows(1, 3_000, 4)).top_many(np.empty((0, 4), np.float32), 3) == []


@pytest.mark.parametrize(
    ("query", "k", "mask", "message"),
    [
        (np.ones(3, np.float32), 1, None, "4 dimensions"),
        (np.array([1, np.nan, 0, 0], np.float32), 1, None, "finite"),
        (np.ones(4, np.float32), 0, None, "k is 0"),
        (np.ones(4, np.float32), 1, np.ones(2, np.bool_), "mask of 5"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(
    query: Floats, k: int, mask: NDArray[np.bool_] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        VectorIndex(unit_rows(1, 5, 4)).top(query, k, mask=mask)
