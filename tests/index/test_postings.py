from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hive_agents.index import postings
from hive_agents.index.postings import TokenRuns, build_postings, document_lengths, read_postings

TERMS = 12
DOCUMENT = st.lists(st.integers(0, TERMS - 1), max_size=20)


def runs(documents: list[list[int]]) -> TokenRuns:
    offsets = np.cumsum([0] + [len(each) for each in documents])
    return TokenRuns(np.array([term for each in documents for term in each], np.int32), offsets.astype(np.int64))


def one_term(n_docs: int, tf: dict[int, int]) -> TokenRuns:
    """Term 0, `tf[d]` times in document d, and in no other of the many documents."""
    counts = np.zeros(n_docs, np.int64)
    for doc, times in tf.items():
        counts[doc] = times
    return TokenRuns(np.zeros(counts.sum(), np.int32), np.append(0, np.cumsum(counts)))


def read_only_term(body: TokenRuns, title: TokenRuns, boost: float = 1.0) -> dict[int, float]:
    [(term, df, blob)] = build_postings(body, title, 1)
    assert term == 0
    read = read_postings(df, blob)
    return dict(zip(read.docs.tolist(), read.tf(boost).tolist(), strict=True))


@given(st.lists(st.tuples(DOCUMENT, DOCUMENT), max_size=15), st.sampled_from([0.0, 0.5, 1.0, 2.75, 10.0]))
def test_postings_give_back_the_frequencies_they_were_built_from(documents, boost):
    body, title = runs([body for body, _ in documents]), runs([title for _, title in documents])
    read = {term: (df, read_postings(df, blob)) for term, df, blob in build_postings(body, title, TERMS)}
    for term in range(TERMS):
        expected = {}
        for doc, (in_body, in_title) in enumerate(documents):
            if term in in_body or term in in_title:
                expected[doc] = Counter(in_body)[term] + boost * Counter(in_title)[term]
        assert (term in read) == bool(expected)
        if expected:
            df, postings = read[term]
            assert df == len(expected)
            assert postings.docs.tolist() == list(expected)
            assert postings.tf(boost).tolist() == list(expected.values())


@given(st.lists(st.tuples(DOCUMENT, DOCUMENT), max_size=15), st.integers(1, 40))
def test_slicing_the_vocabulary_changes_no_blob(documents, tokens_at_once):
    body, title = runs([body for body, _ in documents]), runs([title for _, title in documents])
    whole = list(build_postings(body, title, TERMS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_TOKENS_AT_ONCE", tokens_at_once)
        patch.setattr(postings, "_MOST_SLICES", 1000)
        assert list(build_postings(body, title, TERMS)) == whole


def test_terms_come_in_order_and_those_of_no_document_are_left_out():
    built = list(build_postings(runs([[5, 2], [2]]), runs([[], [7]]), 9))
    assert [(term, df) for term, df, _ in built] == [(2, 2), (5, 1), (7, 1)]


@pytest.mark.parametrize("last", [65_535, 65_536, 199_999])
def test_documents_may_lie_further_apart_than_two_bytes_count(last):
    assert read_only_term(one_term(200_000, {0: 1, last: 3}), one_term(200_000, {})) == {0: 1, last: 3}


def test_the_first_document_may_have_a_number_of_more_than_two_bytes():
    assert read_only_term(one_term(200_000, {150_000: 2}), one_term(200_000, {})) == {150_000: 2}


@pytest.mark.parametrize("times", [255, 256, 70_000])
def test_a_frequency_may_exceed_one_byte_in_body_and_title(times):
    nothing = one_term(3, {})
    assert read_only_term(one_term(3, {0: 1, 2: times}), nothing) == {0: 1, 2: times}
    assert read_only_term(nothing, one_term(3, {0: 1, 2: times})) == {0: 1, 2: times}
    assert read_only_term(one_term(3, {2: times}), one_term(3, {2: times}), boost=0.5) == {2: 1.5 * times}


def test_a_title_may_stand_further_down_the_list_than_two_bytes_count():
    body = one_term(70_000, dict.fromkeys(range(70_000), 1))
    read = read_only_term(body, one_term(70_000, {3: 1, 69_999: 300}), boost=2)
    assert (read[0], read[3], read[69_998], read[69_999]) == (1, 3, 1, 601)


def test_a_common_posting_takes_three_bytes_and_a_title_three_more():
    body, nobody = one_term(1000, dict.fromkeys(range(1000), 1)), one_term(1000, {})
    [(_, _, plain)] = build_postings(body, nobody, 1)
    [(_, _, titled)] = build_postings(body, one_term(1000, {4: 1, 5: 1}), 1)
    assert len(plain) == 3 * 1000 + 1
    assert len(titled) == len(plain) + 2 * 3


def test_a_length_counts_body_and_title_alike():
    assert document_lengths(runs([[0, 0], [], [1]]), runs([[3], [], [0, 1]])).tolist() == [3, 0, 3]


def test_an_empty_collection_has_no_postings():
    nothing = runs([])
    assert list(build_postings(nothing, nothing, 0)) == []
    assert list(build_postings(nothing, nothing, 5)) == []
    assert document_lengths(nothing, nothing).tolist() == []
