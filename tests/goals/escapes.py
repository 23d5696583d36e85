"""What no condition may do, whatever its author had in mind: each is refused when parsed, or when it meets data."""

from __future__ import annotations

from typing import Any

DATA: dict[str, Any] = {
    "result": {
        "code": "x = 1", "n": 3, "f": 0.5, "items": [1, 2, 3], "nested": {"a": {"b": [None]}}, "text": "a" * 9_000,
        "long": list(range(9_000)), "unicode": "ΐ" * 5_000, "huge": 10**300,
    },
    "goal": {"id": "g", "goal_type": "security"},
    "attempt": 1,
}  # fmt: skip

_UNDERSCORED = [
    f"{value}.{name}{call}"
    for value in ("result", "''", "(1).real", "[]", "{}")
    for name in ("__class__", "__dict__", "__init__", "__doc__", "__reduce_ex__", "_private")
    for call in ("", "()")
]
_BUILTINS = [
    f"{name}('x')"
    for name in (
        "eval exec open compile __import__ getattr setattr delattr globals locals vars dir type object super input "
        "print repr format ascii chr ord bytes bytearray memoryview map filter zip range enumerate iter next hash id "
        "isinstance callable help breakpoint exit set frozenset list dict tuple pow divmod slice property"
    ).split()
]
_METHODS = [
    f"{value}.{method}"
    for value, method in (
        ("'{0.__class__}'", "format(result)"), ("'{a}'", "format_map(result)"), ("'x'", "encode()"),
        ("'x'", "join([])"), ("'x'", "center(10**9)"), ("'x'", "ljust(10**9)"), ("'x'", "rjust(10**9)"),
        ("'x'", "zfill(10**9)"), ("'\\t'", "expandtabs(10**9)"), ("'x'", "replace('', 'y' * 9999)"),
        ("'x'", "translate({})"), ("'x'", "maketrans({})"), ("[]", "append(1)"), ("[]", "extend([1])"),
        ("[]", "sort()"), ("[]", "clear()"), ("result", "pop('code')"), ("result", "update({})"),
        ("result", "clear()"), ("result", "setdefault('a', 1)"), ("result", "popitem()"), ("result", "copy()"),
        ("(1)", "to_bytes(10**9, 'big')"), ("(1)", "bit_length()"), ("(1.5)", "hex()"), ("(1)", "conjugate()"),
        ("''", "mro()"), ("result", "items().__iter__()"),
    )
]  # fmt: skip
_SYNTAX = [
    "lambda: 1", "(lambda: 1)()", "[x for x in result]", "{x for x in result}", "{x: 1 for x in result}",
    "(x for x in result)", "any(x for x in result)", "f'{result}'", "f'{result.__class__}'", "(x := 1)",
    "result = 1", "import os", "result; goal", "del result", "await result", "yield", "(yield)", "*result",
    "[*result]", "{**result}", "len(*[result])", "result.get(**{})", "{1, 2}", "b'x'", "1j", "...", "`ls`",
    "'''x'''", '"""x"""', "result # comment", "x if", "", "   ", "\\", "result\\\n.get", "\x00", "result!", "$x",
    "result.get", "len", "result.get is result.get", "sorted(result, key=len)", "max(result, default=1)",
    "sum([[1]], [])", "int('ff', 16)", "str(b'x')", "str(object=1)", "print", "__name__", "__builtins__",
    "__import__('os').system('id')", "result['x'].__class__", "result.ｇet('a')", "resulｔ", "os.system('id')",
    "simpleeval", "self", "budget", "ast", "unknown", "goals", "results", "True.real", "1 @ 2", "1 << 2",
    "1 << 10**9", "1 >> 2", "1 & 2", "1 | 2", "1 ^ 2", "~1", "result['n'] << 2", "'%s' % result", "'%1000000000d' % 1",
    "'a' - 'b'", "[1] - [1]", "'a' / 2", "{} | {}", "'\\d' in 'x'", "rb'x'", "u'x'", "'a''b'", "1if 1 else 2",
    "0777", "1__000", "0x", "exec('1')", "result.get('a').get('__class__').mro()",
]  # fmt: skip
_POWERS = [
    "9**9**9", "9**9**9**9", "2**10**9", "10**7", "1000001**1", "(-10)**7", "0.1**-7", "result['n']**99",
    "result['huge']**2", "result['huge']**result['huge']", "2**result['huge']", "(-8)**0.5", "0**-1", "1.5**1000",
    "result['f']**-99", "10**10**10", "(2**19)**2",
]  # fmt: skip
_EXHAUSTIONS = [
    "'a'*10**9", "10**6*'a'", "'a'*10001", "[0]*10001", "(0,)*20000", "[[0]*10000]*10000",
    "result['text']*2", "result['text']*result['n']", "result['long']+result['long']", "result['long']*2",
    "[result['long']+[1]*1001]", "'a'*result['huge']", "result['huge']*result['huge']*result['huge']",
    "result['huge']*10**6*10**6*10**6", "round(5, -10**6)", "round(5, 10**6)", "int('9'*500)", "int('9'*5000)",
    "float('9'*5000)", "int(float('inf'))", "int(1e308*10)", "str([result['long']]*1000)",
    "str([[result['long']]*100]*100)", "str([result['unicode']]*300)",
    "[[result['long']]*9999]==[[result['long']]*9999]",
    "[[[[1]*9999]*9999]*9999]*9999 == [[[[1]*9999]*9999]*9999]*9999",
    "[result['long']]*9999 == [result['long']+[]]*9999",
    "sorted([[result['long']]*99]*9999)", "sorted(result['text']*2)", "min([result['long']]*9999)",
    "max([[0]*9999]*9999, [[0]*9999]*9999)", "any([0]*10001)", "all('a'*10001)", "sum([result['huge']]*9999*9999)",
    "[1]*9999 in [[0]*9999]*9999", "[[0]*9999]*999 in [[[0]*9999]*999]*999", "((0,)*9999,)*9999 in {}",
    "{((0,)*9999,)*9999: 1}", "result.get(((0,)*9999,)*9999)", "result[((0,)*9999,)*9999]",
    "([[0]*9999]*9999).count([0]*9999)", "('a '*5000).split(' ', -1) * 3", "('a'*10000).split('a')*99",
    "(('a,'*5000) + ('a,'*5000)).split(',')", "len([[0]*10000]*10000*2)",
    "['a'*10000] * 10000 == ['a'*9999 + 'a'] * 10000", "sorted(['a'*9999+'b', 'a'*9999+'c']*5000)",
    "-"*5000 + "1", "not "*900 + "1", "("*100 + "1" + ")"*100, "["*100 + "]"*100, "{'a':"*50 + "1" + "}"*50,
    "1" + "+1"*500, "1" + "*2"*60, "result" + "['a']"*60, "result" + ".get('a')"*60, "'" + "a"*5000 + "'",
    "[" + "1,"*1500 + "]", "1" + " if 1 else 1"*60, "1" + "<1"*1300, "9"*4500, "9"*400 + "9"*400 + "+1",
    "1e308*1e308 is 1 or int(1e308*1e308)", "1/0", "1%0", "1//0", "'a'+1", "[1]+(1,)", "-'a'", "+[]", "abs('a')",
    "'a'<1", "None<1", "len(1)", "sum('ab')", "int('x')", "float('x')", "result['missing']", "result['items'][99]",
    "result['items']['a']", "result['items'].get(1)", "'a'.keys()", "'a'['b']", "{}[[]]", "'a'*1.5", "'a'*'b'",
    "round('a')", "min([])", "min(1)", "len()", "str(1, 2)", "'x'.split('')", "1 in 2", "1 in 'a'", "'x'.count(1)",
    "'x'.startswith(1)", "'x'.split(',', 'a')", "result['code'].strip(1)", "result['items'][::0]",
]  # fmt: skip

REFUSED = list(dict.fromkeys([*_UNDERSCORED, *_BUILTINS, *_METHODS, *_SYNTAX, *_POWERS, *_EXHAUSTIONS]))
