from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from hive_agents.documents.analysis import names_in, terms, words


def test_words_are_unicode_and_lower_case() -> None:
    assert words("Zürich: naïve CAFÉ, Ελλάδα 東京 ２０２５") == ["zürich", "naïve", "café", "ελλάδα", "東京", "2025"]


def test_writing_without_spaces_is_signs_and_pairs_of_signs() -> None:
    assert terms("数组的") == ["数", "数组", "组", "组的", "的"]
    assert terms("カメラ、ｶﾒﾗ") == 2 * ["カ", "カメ", "メ", "メラ", "ラ"]
    assert terms("서버를") == ["서", "서버", "버", "버를", "를"]
    assert terms("箱") == ["箱"]


def test_words_inside_writing_without_spaces_are_words() -> None:
    assert terms("v-model修饰符 2个keys") == ["v", "model", "修", "修饰", "饰", "饰符", "符", "2", "个", "key"]


def test_the_marks_of_a_letter_part_no_word() -> None:
    assert words("हिन्दी में फ़ाइल") == ["हिन्दी", "में", "फ़ाइल".replace("\u095e", "फ\u093c")]
    assert words("கோப்பு, শব্দ; שָׁלוֹם") == ["கோப்பு", "শব্দ", "שָׁלוֹם"]
    assert words("x\u0308y 1\ufe0f\u20e3 \u0301") == ["x\u0308y".replace("x\u0308", "ẍ"), "1"]


def test_joiners_inside_a_word_are_not_seen() -> None:
    assert words("می\u200cشود") == words("میشود")


def test_thai_and_its_like_are_pairs_of_consonants_with_their_vowels() -> None:
    assert terms("ล้างหน้าจอ") == ["ล้าง", "งห", "หน้า", "น้าจ", "จอ"]
    assert set(terms("หน้าจอ")) <= set(terms("ล้างหน้าจอ"))
    assert terms("ភាសាខ្មែរ") == ["ភាសា", "សាខ្មែ", "ខ្មែរ"]
    assert terms("မြန်မာ") == ["မြန်", "န်မာ"]
    assert terms("ລາວ node") == ["ລາວ", "node"]
    assert terms("ไป") == ["ไป"]


def test_composed_and_decomposed_letters_are_one_word() -> None:
    assert words("cafe\u0301") == words("café")


def test_an_apostrophe_inside_a_word_is_part_of_it() -> None:
    assert words("can't 'quoted' the users' 1990's") == ["can't", "quoted", "the", "users", "1990's"]
    assert terms("user’s") == terms("user's")


def test_an_underscore_parts_words() -> None:
    assert words("max_tokens __init__") == ["max", "tokens", "init"]


def test_stop_words_stay() -> None:
    assert terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_words_of_one_stem_are_one_term() -> None:
    assert len(set(terms("connect connected connecting connection connections"))) == 1


def test_text_without_words_has_no_terms() -> None:
    assert terms("") == terms(" ?!… — ___ \U0001f41d") == []


def test_threads_get_the_same_terms() -> None:
    text = "rotating keys revoked requests limits generously " * 20
    with ThreadPoolExecutor(4) as pool:
        assert len({tuple(found) for found in pool.map(lambda _: terms(text), range(16))}) == 1


@given(st.text())
def test_case_never_matters(text: str) -> None:
    assert words(text) == words(text.lower())
    assert all(words(word) for word in words(text))


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("cafe", "café"),
        ("Ha Noi", "Hà Nội"),
        ("strasse", "Straße"),
        ("елка", "ёлка"),
        ("istanbul", "İSTANBUL"),
        ("get user by id", "getUserById()"),
        ("server", "HTTPServerFactory"),
        ("foobar", "foo_bar"),
        ("ABC42", "ABC-42"),
        ("3.14.2", "v3.14.2"),
        ("1234567.89", "1,234,567.89"),
        ("nodejs", "Node.js"),
        ("std::vector", "stdvector"),
    ],
)
def test_an_exact_analyzer_finds_other_writings(asked: str, written: str) -> None:
    assert set(terms(asked, "english+")) & set(terms(written, "english+"))
    assert set(terms(written)) <= set(terms(written, "english+"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *[("C++", "C"), ("C#", "C"), (".NET", "net"), ("3.14.2", "3.1.42"), ("10.20.0.4", "10.200.4")],
        *[("--code", "code"), ("--dry-run", "dry-run")],
    ],
)
def test_an_exact_analyzer_tells_signs_and_versions_apart(one: str, other: str) -> None:
    assert names_in(one, "english+") - set(terms(other, "english+"))


def test_ordinary_compounds_and_long_runs_are_not_joined() -> None:
    text = "well-known and/or " + "a1-" * 20 + "a1"
    assert terms(text, "none+") == terms(text, "none")
