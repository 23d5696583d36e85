from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hive_agents.goals.expressions import ExpressionError, parse
from tests.goals.escapes import DATA, REFUSED


def value_of(source: str, **data: Any) -> Any:
    return parse(source).evaluate(DATA | data)


@pytest.mark.parametrize("source", REFUSED, ids=lambda source: source[:60])
def test_an_escape_or_exhaustion_is_refused(source: str) -> None:
    with pytest.raises(ExpressionError):
        value_of(source)


def test_there_are_at_least_two_hundred_of_them() -> None:
    assert len(REFUSED) >= 200


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address space limits hold on Linux")
def test_none_of_them_takes_memory_stack_or_time() -> None:
    """All of them, in a thread with half a MB of stack, 100 MB more than its process began with and ten s of CPU."""
    code = """
import resource, threading
from tests.goals.escapes import DATA, REFUSED
from hive_agents.goals.expressions import parse
from hive_agents.goals.expressions import ExpressionError
parse("1 + 1").evaluate({})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
refused = []
def work():
    for source in REFUSED:
        try:
            parse(source).evaluate(DATA)
        except ExpressionError as error:
            assert str(error) != "out of memory", source
            refused.append(source)
threading.stack_size(512 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert refused == REFUSED
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'eval(' in 'eval(x)'", True),
        ("result['n'] ** 2 == 9 and attempt is not None", True),
        ("1 < result['n'] <= 3", True),
        ("10 ** 6", 1_000_000),
        ("2 ** -1", 0.5),
        ("-result['n'] % 2", 1),
        ("7 // 2 - 7 / 2", -0.5),
        ("sorted([3, 1, 2])[1:]", [2, 3]),
        ("sum([1, 2.5]) + abs(-1) + round(1.26, 1) + min(3, 4) + max([5, 6])", 14.8),
        ("'a' * 10000 == 'a' * 9999 + 'a'", True),
        ("result.get('missing', 'x') if goal.get('id') else 0", "x"),
        ("any([0, 1]) and all([]) and bool('x') and not []", True),
        ("str(result['items']) + str(1.5) + str(None)", "[1, 2, 3]1.5None"),
        ("len(result.keys()) == len(result.values()) == len(result.items())", True),
        ("' aB '.strip().lower() + 'aB'.upper()", "abAB"),
        ("'a,b'.split(',') + 'a b'.split()", ["a", "b", "a", "b"]),
        ("'abc'.startswith('a') and 'abc'.endswith(('x', 'c')) and 'aba'.count('a') == [1, 2, 2].count(2)", True),
        ("{'a': (1, 2)}['a'][0] + int('3') + float('0.5')", 4.5),
        ("result['nested']['a']['b'][0] is None", True),
        ("1 in (1, 2) and 3 not in [1] and 'code' in result", True),
        (r"'\n\t\'' == '\x0a\u0009\'' and r'\d' == '\\d'", True),
    ],
)
def test_what_rules_need_is_there(source: str, value: Any) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {"a": [len]}, ValueError(), type("S", (str,), {})("x")])
def test_only_plain_data_is_seen(value: Any) -> None:
    with pytest.raises(ExpressionError, match="plain data only"):
        value_of("1", result=value)


def test_data_that_holds_itself_is_refused() -> None:
    ring: dict[str, Any] = {}
    ring["again"] = [ring, ring]
    with pytest.raises(ExpressionError):
        value_of("1", result=ring)


@pytest.mark.parametrize("value", ["a" * 1_000_001, [0] * 10_001, 10**400, [[0] * 9_999] * 9_999], ids=type)
def test_data_past_a_bound_is_refused(value: Any) -> None:
    with pytest.raises(ExpressionError):
        value_of("1", result=value)


def test_data_gives_no_names_and_takes_none() -> None:
    data = {"result": {"len": 1}, "len": lambda value: "taken", "extra": 1}
    assert parse("len(result)").evaluate(data) == 1
    with pytest.raises(ExpressionError, match="unknown name"):
        parse("extra")


def test_a_wrong_name_is_guessed_at() -> None:
    with pytest.raises(ExpressionError, match='did you mean "result"'):
        parse("resutl['a']")


def test_the_result_is_never_changed() -> None:
    result = {"items": [3, 1]}
    parse("sorted(result['items']) + result['items'] * 2").evaluate({"result": result})
    assert result == {"items": [3, 1]}


def test_the_same_expression_serves_many_threads() -> None:
    found: dict[int, Any] = {}
    expression = parse("sum(result) + attempt * 0")

    def work(number: int) -> None:
        for _ in range(50):
            found[number] = expression.evaluate({"result": [number] * 10, "attempt": 1})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number * 10 for number in range(8)}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
_ATOMS = st.sampled_from(
    ["result", "goal", "attempt", "result['a']", "'x'", "''", "0", "1", "-1", "1e308", "10000", "None", "True", "[]",
     "()", "{}", "[1, 2]", "(1,)", "{'a': 1}", "'a' * 9999", "[0] * 9999", "10 ** 6"]
)  # fmt: skip
_SOURCES = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(
            "+,-,*,/,//,%,**,==,!=,<,<=,>,>=,in,not in,is,is not,and,or,<<,>>,&,|".split(",")), inner),
        st.builds("{}({})".format, st.sampled_from(
            "str len int float bool abs min max sum any all sorted round not type eval".split()), inner),
        st.builds("({}).{}({})".format, inner, st.sampled_from(
            "get keys values items lower upper strip startswith endswith count split format __class__".split()),
            st.just("") | inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("({})[{}:{}]".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
    ),
    max_leaves=12,
)  # fmt: skip


def gives_plain_data_or_an_error_soon(source: str, result: Any) -> None:
    started = time.thread_time()
    try:
        value = parse(source).evaluate({"result": result, "goal": {"a": result}, "attempt": 2})
    except ExpressionError:
        value = None
    assert type(value) in (type(None), bool, int, float, str, list, tuple, dict)
    assert time.thread_time() - started < 5


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SOURCES, _VALUES)
def test_whatever_is_composed_gives_plain_data_or_an_error_soon(source: str, result: Any) -> None:
    gives_plain_data_or_an_error_soon(source, result)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_SOURCES, _VALUES)
def test_whatever_is_composed_in_many_ways_gives_plain_data_or_an_error_soon(source: str, result: Any) -> None:
    gives_plain_data_or_an_error_soon(source, result)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="result.[]()'\"\\_ lambdax:=*+-0<9{}f%", max_size=40))
def test_whatever_is_typed_parses_or_is_an_error(source: str) -> None:
    with suppress(ExpressionError):
        parse(source).evaluate(DATA)


@pytest.mark.parametrize("search", ["goal in result", "goal not in result", "result.count(goal) > 0"])
def test_each_search_in_a_long_text_is_paid_for_by_its_length(search: str) -> None:
    """Some searches of a short text are cheap; of a text of a million characters they are too much work."""
    condition, part = parse(f"[{', '.join([search] * 6)}]"), "b" * 120
    condition.evaluate({"result": "a" * 1_000, "goal": part})
    with pytest.raises(ExpressionError, match="too much work"):
        condition.evaluate({"result": "a" * 999_999, "goal": part})


def test_items_and_texts_take_room_together() -> None:
    data = {"result": {"text": "a" * 900_000, "items": list(range(9_000))}, "goal": "x"}
    texts, items = ["result['text'] + goal"] * 8, ["result['items'] + [1]"] * 8
    for made in (texts, items):
        parse(f"[{', '.join(made)}]").evaluate(data)
    with pytest.raises(ExpressionError, match="too much memory"):
        parse(f"[{', '.join(texts + items)}]").evaluate(data)
