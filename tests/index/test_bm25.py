import math
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from hive_agents.index.bm25 import BM25, BM25Params
from hive_agents.index.postings import TokenRuns, build_postings, document_lengths, read_postings

VOCABULARY = [f"w{i}" for i in range(10)]
DEFAULTS = BM25Params()
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=8)
DOCUMENTS = st.lists(st.tuples(WORDS, WORDS.map(lambda words: words[:2])), max_size=60)
QUERY = st.lists(st.sampled_from([*VOCABULARY, "unknown"]), max_size=8)
PARAMS = st.builds(
    BM25Params,
    k1=st.sampled_from([0.0, 0.3, 1.2, 10.0]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
    title_boost=st.sampled_from([0.0, 1e-60, 0.5, 1.0, 2.75, 10.0]),
)


class Memory:
    """Postings of (body, title) pairs in a dict; counts how often it is read."""

    def __init__(self, documents):
        numbers = {}
        body, title = (self._runs([document[i] for document in documents], numbers) for i in (0, 1))
        names = list(numbers)
        self.n_docs = len(documents)
        self.lengths = document_lengths(body, title)
        built = build_postings(body, title, len(names))
        self._lists = {names[number]: read_postings(df, blob) for number, df, blob in built}
        self.reads = Counter()

    @staticmethod
    def _runs(texts, numbers):
        terms = [numbers.setdefault(word, len(numbers)) for words in texts for word in words]
        offsets = np.cumsum([0] + [len(words) for words in texts])
        return TokenRuns(np.array(terms, np.int32), offsets.astype(np.int64))

    def postings(self, term):
        self.reads[term] += 1
        return self._lists.get(term)


def brute_force(documents, query, params=DEFAULTS):
    """Scores in float64 and whether each document matches, straight from the formula."""
    lengths = [len(body) + len(title) for body, title in documents]
    counts = [(Counter(body), Counter(title)) for body, title in documents]
    average = sum(lengths) / max(1, len(documents))
    scores, matches = np.zeros(len(documents)), np.zeros(len(documents), bool)
    lists = []
    for word, times in Counter(query).items():
        tf = {doc: body[word] + params.title_boost * title[word] for doc, (body, title) in enumerate(counts)}
        tf = {doc: frequency for doc, frequency in tf.items() if frequency > 0}
        lists.append((len(tf), word, times, tf))
    for df, _, times, tf in sorted(lists, key=lambda entry: entry[:2]):
        idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
        for doc, frequency in tf.items():
            relative = lengths[doc] / average
            norm = params.k1 * (1 - params.b + params.b * relative)
            scores[doc] += times * (idf * frequency / (frequency + norm))
            matches[doc] = True
    return scores, matches


def assert_is_top(result, exact, k):
    """`result` is the exact top k, but for neighbours that differ by less than 1e-5 of their score."""
    docs, scores = result
    expected, matches = exact
    assert len(set(docs.tolist())) == len(docs) == min(k, matches.sum())
    assert matches[docs].all()
    best = np.sort(expected[matches])[::-1][:k]
    np.testing.assert_allclose(expected[docs], best, rtol=1e-5, atol=1e-36)
    np.testing.assert_allclose(scores, best, rtol=1e-5, atol=1e-36)
    assert (scores[1:] <= scores[:-1]).all()
    tied = scores[1:] == scores[:-1]
    assert (docs[1:][tied] > docs[:-1][tied]).all()


def assert_same_bits(result, other):
    for ours, theirs in zip(result, other, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


def zipf_documents(n, seed, words=400):
    rng = random.Random(seed)
    vocabulary = [f"z{i}" for i in range(words)]
    weights = [1 / (rank + 1) for rank in range(words)]

    def text(length):
        return rng.choices(vocabulary, weights, k=length)

    return [(text(rng.randint(0, 30)), text(rng.randint(0, 3))) for _ in range(n)]


@pytest.fixture(scope="module")
def collection():
    """4,000 documents with terms of every frequency, from one document to nearly all."""
    documents = zipf_documents(4000, seed=3, words=3000)
    return documents, Memory(documents)


@pytest.fixture(scope="module")
def exact(collection):
    return cache(lambda query, params: brute_force(collection[0], query, params))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS, st.integers(0, 70))
@example([([], ["w0"]), (["w1"], [])], ["w0"], BM25Params(title_boost=1e-60), 5)
def test_top_is_that_of_a_brute_force(documents, query, params, k):
    assert_is_top(BM25(Memory(documents), params).top(query, k), brute_force(documents, query, params), k)


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS)
@example([([], ["w0"]), (["w1"], [])], ["w0"], BM25Params(title_boost=1e-60))
def test_what_contains_a_term_is_the_same_by_the_parameters_that_others_share(documents, query, params):
    every = np.arange(len(documents))
    own, shared = (BM25(Memory(documents), one) for one in (params, params.matching))
    assert own.frequencies(query) == shared.frequencies(query)
    assert np.array_equal(own.having(query, every), shared.having(query, every))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS, st.integers(0, 70))
def test_float64_gives_the_very_bits_of_a_brute_force(documents, query, params, k):
    docs, scores = BM25(Memory(documents), params, dtype=np.float64).top(query, k)
    expected, matches = brute_force(documents, query, params)
    best = np.lexsort((np.arange(len(expected)), -expected, ~matches))[: min(k, matches.sum())]
    assert docs.tolist() == best.tolist()
    assert scores.tolist() == expected[best].tolist()


@pytest.mark.parametrize(
    "params",
    [BM25Params(), *(pytest.param(one, marks=pytest.mark.slow) for one in (BM25Params(0, 0, 0.5), BM25Params(2, 0, 0))),
     BM25Params(0.9, 1, 3)],
)  # fmt: skip
@pytest.mark.parametrize("share", [None, 0.5, 0.01])
def test_top_of_a_larger_collection_is_that_of_a_brute_force(collection, exact, params, share):
    documents, source = collection
    rng = random.Random(11)
    bm25 = BM25(source, params)
    for length in (1, 1, 2, 3, 5, 8, 13):
        query = [rng.choice(documents[rng.randrange(4000)][0] or ["z0"]) for _ in range(length)]
        scores, matches = exact(tuple(query), params)
        mask = None if share is None else np.random.default_rng(length).random(4000) < share
        allowed = matches if mask is None else matches & mask
        for k in (1, 10, 33, 100, 700, 5000):
            assert_is_top(bm25.top(query, k, mask=mask), (scores, allowed), k)


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS, st.integers(0, 70), st.data())
def test_a_mask_removes_documents_and_moves_no_score(documents, query, params, k, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))), bool)
    bm25 = BM25(Memory(documents), params)
    docs, scores = bm25.top(query, len(documents))
    kept = mask[docs]
    assert_same_bits(bm25.top(query, k, mask=mask), (docs[kept][:k], scores[kept][:k]))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS, st.integers(0, 70), st.data())
def test_hidden_documents_leave_no_trace_in_a_scope(documents, query, params, k, data):
    scope = np.array(data.draw(st.lists(st.booleans(), min_size=len(documents), max_size=len(documents))), bool)
    visible = np.flatnonzero(scope)
    docs, scores = BM25(Memory([documents[doc] for doc in visible]), params).top(query, k)
    scoped = BM25(Memory(documents), params, scope=scope)
    assert_same_bits(scoped.top(query, k), (visible[docs], scores))
    of_all = scoped.scores(query, np.arange(len(documents)))
    assert not of_all[~scope].any()


def test_hidden_documents_leave_no_trace_in_a_larger_collection(collection):
    documents, source = collection
    scope = np.random.default_rng(5).random(4000) < 0.3
    mask = np.random.default_rng(6).random(4000) < 0.5
    visible = np.flatnonzero(scope)
    scoped, alone = BM25(source, scope=scope), BM25(Memory([documents[doc] for doc in visible]))
    for query in (["z0"], ["z0", "z1", "z40", "z2000"], ["z2500", "z900"], [f"z{i}" for i in range(300)]):
        for k in (1, 10, 100, 5000):
            docs, scores = alone.top(query, k, mask=mask[visible])
            assert_same_bits(scoped.top(query, k, mask=mask), (visible[docs], scores))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS, st.randoms(use_true_random=False))
def test_the_order_of_the_words_changes_no_bit(documents, query, params, rng):
    bm25 = BM25(Memory(documents), params)
    shuffled = rng.sample(query, len(query))
    assert_same_bits(bm25.top(query, 60), bm25.top(shuffled, 60))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, QUERY, PARAMS)
def test_scores_of_given_documents_are_the_bits_of_top(documents, query, params):
    bm25 = BM25(Memory(documents), params)
    docs, scores = bm25.top(query, len(documents))
    assert bm25.scores(query, docs).tobytes() == scores.tobytes()
    unmatched = np.setdiff1d(np.arange(len(documents)), docs)
    assert not bm25.scores(query, unmatched).any()


def test_scores_of_a_larger_collection_are_the_bits_of_top(collection):
    bm25 = BM25(collection[1])
    query = ["z0", "z3", "z3", "z77", "z1500"]
    docs, scores = bm25.top(query, 5000)
    assert bm25.scores(query, docs).tobytes() == scores.tobytes()


def test_equal_documents_rank_in_order_of_number():
    documents = [(["same", "words"], [])] * 300
    docs, scores = BM25(Memory(documents)).top(["same"], 25)
    assert docs.tolist() == list(range(25))
    assert len(set(scores.tolist())) == 1


def test_a_word_asked_twice_counts_twice():
    documents = [(["a", "b"], []), (["b", "c"], []), (["c"], [])]
    bm25 = BM25(Memory(documents), dtype=np.float64)
    once, twice = bm25.scores(["a"], np.arange(3)), bm25.scores(["a", "a"], np.arange(3))
    assert twice.tolist() == (2 * once).tolist()


def test_a_title_of_no_weight_neither_matches_nor_counts_for_df():
    documents = [(["x"], ["a"]), (["a"], []), (["y"], [])]
    bm25 = BM25(Memory(documents), BM25Params(title_boost=0), dtype=np.float64)
    docs, scores = bm25.top(["a"], 10)
    assert docs.tolist() == [1]
    assert scores.tolist() == [math.log(1 + 2.5 / 1.5) / (1 + 1.2 * (0.25 + 0.75 * 1 / (4 / 3)))]


def test_titles_alone_make_a_searchable_collection():
    docs, _ = BM25(Memory([([], ["a"]), ([], ["b"])]), BM25Params(title_boost=2.5)).top(["b"], 3)
    assert docs.tolist() == [1]


@pytest.mark.parametrize("params", [BM25Params(), BM25Params(k1=0), BM25Params(b=1), BM25Params(k1=0, b=0)])
def test_a_collection_of_one_document_is_searchable(params):
    docs, scores = BM25(Memory([(["only"], [])]), params).top(["only", "else"], 10)
    assert docs.tolist() == [0]
    assert scores[0] > 0


@pytest.mark.parametrize("documents", [[], [([], [])], [(["a"], [])]])
@pytest.mark.parametrize("query", [[], ["unknown"], ["unknown", "other", "unknown"]])
def test_nothing_known_finds_nothing(documents, query):
    docs, scores = BM25(Memory(documents)).top(query, 10)
    assert (len(docs), len(scores), docs.dtype, scores.dtype) == (0, 0, np.intp, np.float32)


def test_a_scope_without_documents_finds_nothing():
    bm25 = BM25(Memory([(["a"], [])] * 3), scope=np.zeros(3, bool))
    assert bm25.top(["a"], 10)[0].tolist() == []
    assert bm25.scores(["a"], np.arange(3)).tolist() == [0, 0, 0]


def test_a_query_may_have_thousands_of_distinct_words():
    documents = zipf_documents(200, seed=1, words=3000)
    query = [f"z{i}" for i in range(3000)]
    assert_is_top(BM25(Memory(documents)).top(query, 20), brute_force(documents, query), 20)


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match="3 documents"):
        BM25(Memory([(["a"], [])] * 3)).top(["a"], 1, mask=np.ones(1, bool))


def test_a_refused_mask_leaves_later_searches_right(collection):
    bm25 = BM25(collection[1])
    before = bm25.top(["z0", "z9"], 10)
    with pytest.raises(ValueError, match="mask"):
        bm25.top(["z1"], 10, mask=np.ones(7, bool))
    assert_same_bits(bm25.top(["z0", "z9"], 10), before)


@pytest.mark.parametrize("cache_bytes", [0, 40_000, 48 << 20])
def test_threads_that_share_a_ranker_get_the_lists_of_one_alone(collection, cache_bytes):
    _, source = collection
    rng = random.Random(2)
    queries = [[f"z{int(3000 ** rng.random())}" for _ in range(rng.randint(1, 6))] for _ in range(60)]
    alone = BM25(source)
    expected = [alone.top(query, 10) for query in queries]
    shared = BM25(source, cache_bytes=cache_bytes)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [shared.top(query, 10) for query in queries], range(8)):
            for result, right in zip(found, expected, strict=True):
                assert_same_bits(result, right)
    assert shared.cache.nbytes <= cache_bytes


def test_the_cache_stays_within_its_bytes_and_keeps_what_is_used(collection):
    source = Memory(collection[0])
    bm25 = BM25(source, cache_bytes=60_000)
    for i in range(1000, 1400):
        bm25.top([f"z{i}", "z500"], 5)
        assert bm25.cache.nbytes <= 60_000
    assert 0 < len(bm25.cache) < 400
    assert source.reads["z500"] == 1
    bm25.top(["z1000"], 5)
    assert source.reads["z1000"] == 2


def test_an_unknown_word_is_looked_up_once(collection):
    source = Memory(collection[0])
    bm25 = BM25(source)
    bm25.top(["nowhere"], 5)
    bm25.top(["nowhere", "z1"], 5)
    assert source.reads["nowhere"] == 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_collections_of_hundreds_are_ranked_as_by_brute_force(seed):
    documents = zipf_documents(300, seed)
    rng = random.Random(seed)
    bm25 = BM25(Memory(documents))
    for _ in range(4):
        query = [f"z{rng.randrange(400)}" for _ in range(rng.randint(1, 4))]
        k = rng.choice((1, 5, 10, 100))
        assert_is_top(bm25.top(query, k), brute_force(documents, query), k)
