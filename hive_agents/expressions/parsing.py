"""Conditions of rules and constraints: Python expressions over plain data, and nothing else of Python.

Everything that the text alone can show is refused when it is parsed: names, calls, attributes, kinds of node, nesting,
constant parts that fail. What depends on data is bounded while it runs: every operation pays for its work and for what
it makes *before* it starts, so no signal, timer or thread is needed. simpleeval walks the tree; which nodes, operators,
functions and methods there are is decided here alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import simpleeval

from hive_agents.errors import closest
from hive_agents.expressions import functions, operations
from hive_agents.expressions.operations import Allowance, ExpressionError, plain_data
from hive_agents.text import listed

NAMES = ("result", "goal", "attempt")
MAX_SOURCE = 4_000
MAX_NODES = 600
MAX_NESTING = 40
MAX_BRACKETS = 20  # the parser's own stack: a thread may have little of it

_TOKEN = re.compile(
    r"""(?P<string>[A-Za-z]{0,2}(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))|(?P<number>\.?[0-9][\w.]*)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<space>[ \t\n]+)|(?P<sign>[-+*/%<>=!,.:])""",
    re.A,
)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][0-9]*)?|0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = frozenset("\\'\"abfnrtvxuUN0")
_NODES = (
    ast.Constant, ast.Name, ast.BoolOp, ast.Compare, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Subscript, ast.Slice,
    ast.List, ast.Tuple, ast.Dict, ast.Call,
)  # fmt: skip
_WORDS = {
    ast.Lambda: "lambda", ast.JoinedStr: "an f-string", ast.NamedExpr: "an assignment", ast.Starred: "unpacking",
    ast.ListComp: "a comprehension", ast.SetComp: "a comprehension", ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension", ast.Set: "a set", ast.Await: "await", ast.Yield: "yield",
    ast.LShift: "a shift", ast.RShift: "a shift",
}  # fmt: skip


class Expression:
    """A parsed condition; safe to share between threads.

    >>> parse("'eval(' in result.get('code', '')").evaluate({"result": {"code": "eval(x)"}})
    True
    """

    def __init__(self, source: str, tree: ast.expr, names: tuple[str, ...]) -> None:
        self.source, self.names = source, names
        self._tree = tree

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """Return the value over `names`; a name that is not given is None.

        Raises: `ExpressionError` for data that is not plain, a bound that would be passed, and every fault inside.
        """
        return self.evaluate_plain(plain_names({name: names.get(name) for name in self.names}))

    def evaluate_plain(self, names: Mapping[str, Any]) -> Any:
        """Return the value over names from `plain_names`: for many conditions on one result. Raises: as `evaluate`."""
        return _run(self._tree, {name: names.get(name) for name in self.names})

    def uses(self, name: str) -> bool:
        """Return whether the condition reads a name."""
        return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self._tree))

    def keys(self, name: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the keys of a name that the condition can't do without, and all that it reads.

        >>> needed, read = parse("result['a'] > 1 and result.get('b') is None").keys("result")
        >>> sorted(needed), sorted(read)
        (['a'], ['a', 'b'])
        """
        found = self._keys(name)
        needed = frozenset(key for key, must in found if must)
        return needed, frozenset(key for key, _ in found)

    def reads_whole(self, name: str) -> bool:
        """Return whether the condition reads more of a name than the `keys` that it gives.

        >>> [parse(text).reads_whole("result") for text in ("result['a'] == 1", "'x' in str(result)")]
        [False, True]
        """
        read = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == name]
        return len(read) > len(self._keys(name))

    def _keys(self, name: str) -> list[tuple[str, bool]]:
        """Return each place that reads a key of a name, with whether it can't do without."""
        found = []
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str(key))) if of == name:
                    found.append((key, True))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=of), attr="get"), args=[ast.Constant(value=str(key)), *_]
                ) if of == name:
                    found.append((key, False))
        return found

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def plain_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies that hold plain data only, all from one allowance.

    Raises: `ExpressionError` that names the place of anything else, or of what is too large.
    """
    allowance = Allowance()
    return {name: plain_data(value, name, allowance) for name, value in names.items()}


@lru_cache(maxsize=1024)
def parse(source: str, names: tuple[str, ...] = NAMES) -> Expression:
    """Return the condition in `source`. Raises: `ExpressionError` that says what is not allowed."""
    source = source.strip()
    _check_text(source)
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ExpressionError(f"not an expression: {getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):
        raise ExpressionError("nested too deeply") from None
    _check_tree(tree, names)
    _check_constants(tree, names)
    return Expression(source, tree, names)


def _check_text(source: str) -> None:
    """Refuse, before Python's parser sees it, what could exhaust it or what it would only warn of."""
    if not source:
        raise ExpressionError("the condition is empty", "write what has to be true, such as result['ok'] == True")
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"{len(source)} characters; at most {MAX_SOURCE}")
    depth = tokens = place = 0
    before = "space"
    while place < len(source):
        found = _TOKEN.match(source, place)
        if found is None:
            raise ExpressionError(f"{source[place : place + 12]!r} at character {place + 1} is not allowed")
        kind, text = str(found.lastgroup), found[0]
        if kind == "string":
            quote = min(text.find(mark) for mark in "'\"" if mark in text)
            if text[:quote].lower() not in ("", "r"):
                raise ExpressionError(f"the text {text[:12]} has a prefix; only plain and r'…' are allowed")
            if before == "string":
                raise ExpressionError("triple quotes, and texts that touch, are not allowed")
            if not quote and not _ESCAPES.issuperset(_ESCAPE.findall(text)):
                raise ExpressionError(f"{text[:20]} has a backslash without meaning; write it twice")
        elif kind == "number" and not _NUMBER.fullmatch(text):
            raise ExpressionError(f"{text[:20]} is not a number")
        depth += (kind == "open") - (kind == "close")
        tokens += kind != "space"
        if depth > MAX_BRACKETS:
            raise ExpressionError(f"more than {MAX_BRACKETS} brackets inside each other")
        if tokens > 2 * MAX_NODES:
            raise ExpressionError(f"more than {2 * MAX_NODES} words and signs")
        before, place = kind, found.end()


def _check_tree(tree: ast.expr, names: tuple[str, ...]) -> None:
    level: list[tuple[ast.AST, int]] = [(tree, 1)]
    count = 0
    while level:
        node, depth = level.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_NESTING:
            raise ExpressionError(f"at most {MAX_NODES} parts, nested at most {MAX_NESTING} deep")
        level += [(child, depth + 1) for child in _children(node, names)]


def _children(node: ast.AST, names: tuple[str, ...]) -> list[ast.expr]:
    if not isinstance(node, _NODES):
        refused = _WORDS.get(type(node), f"{type(node).__name__}")
        if isinstance(node, ast.Attribute):
            refused = f".{node.attr} without a call"
        raise ExpressionError(f"{refused} is not allowed in a condition")
    for operator in _operators(node):
        if type(operator) not in operations.OPERATORS and not isinstance(operator, ast.And | ast.Or):
            raise ExpressionError(f"{_WORDS.get(type(operator), type(operator).__name__)} is not allowed")
    if isinstance(node, ast.Constant) and type(node.value) not in operations.SCALARS:
        raise ExpressionError(f"a literal of type {type(node.value).__name__} is not allowed")
    if isinstance(node, ast.Name) and node.id not in names:
        guess = closest(node.id, names)
        hint = f'; did you mean "{guess}"?' if guess else f"; known are {', '.join(names)}"
        fix = f'write "{guess}"' if guess else f"use {listed(names)}"
        raise ExpressionError(f'unknown name "{node.id}"{hint}', fix)
    if isinstance(node, ast.Dict) and None in node.keys:
        raise ExpressionError("unpacking is not allowed in a condition")
    if isinstance(node, ast.Call):
        return _call_children(node)
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _operators(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.UnaryOp):
        return [node.op]
    return list(node.ops) if isinstance(node, ast.Compare) else []


def _call_children(node: ast.Call) -> list[ast.expr]:
    if node.keywords:
        raise ExpressionError("arguments by name are not allowed in a condition")
    if isinstance(node.func, ast.Name) and node.func.id in functions.FUNCTIONS:
        return list(node.args)
    if isinstance(node.func, ast.Attribute) and node.func.attr in functions.METHODS:
        return [node.func.value, *node.args]
    called = ast.unparse(node.func) if isinstance(node.func, ast.Name) else "." + getattr(node.func, "attr", "(…)")
    known = [*functions.FUNCTIONS, *(f".{method}" for method in functions.METHODS)]
    raise ExpressionError(f"{called[:40]}() is not allowed; known are {', '.join(known)}")


def _check_constants(tree: ast.expr, names: tuple[str, ...]) -> None:
    """Evaluate the parts without data once, so that `9**9**9` fails with its rule and not with a result."""
    level = [tree]
    while level:
        node = level.pop()
        if any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node)):
            level += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        elif not isinstance(node, ast.Constant | ast.Name | ast.Slice | ast.Attribute):
            _run(node, {})


def _run(tree: ast.expr, names: dict[str, Any]) -> Any:
    walker = _Walker(names)
    try:
        value = walker._eval(tree)
        operations.size(walker.allowance, value)  # parts may be shared: small here, endless for who prints it
        return value
    except ExpressionError:
        raise
    except KeyError as error:
        raise ExpressionError(f"no key {str(error)[:60]}") from None
    except MemoryError:
        raise ExpressionError("out of memory") from None
    except Exception as error:
        raise ExpressionError(f"{type(error).__name__}: {str(error)[:120]}") from None


class _Walker(simpleeval.SimpleEval):  # type: ignore[misc]  # simpleeval ships no types
    """simpleeval's walk over our nodes; one for each evaluation, so that threads share nothing."""

    def __init__(self, names: dict[str, Any]) -> None:
        allowance = self.allowance = Allowance()
        self.names = names
        self.operators = {kind: _bound(operation, allowance) for kind, operation in operations.OPERATORS.items()}
        self.nodes = {
            ast.Constant: lambda node: node.value,
            ast.Name: lambda node: self.names[node.id],
            ast.BoolOp: self._eval_boolop,
            ast.Compare: self._eval_compare,
            ast.BinOp: self._eval_binop,
            ast.UnaryOp: self._eval_unaryop,
            ast.IfExp: self._eval_ifexp,
            ast.Slice: self._eval_slice,
            ast.Subscript: self._subscript,
            ast.List: self._items,
            ast.Tuple: lambda node: tuple(self._items(node)),
            ast.Dict: self._mapping,
            ast.Call: self._called,
        }

    def _eval(self, node: ast.AST) -> Any:
        self.allowance.work(1)
        return self.nodes[type(node)](node)

    def _subscript(self, node: ast.Subscript) -> Any:
        return operations.subscript(self.allowance, self._eval(node.value), self._eval(node.slice))

    def _items(self, node: ast.List | ast.Tuple) -> list[Any]:
        self.allowance.make(items=len(node.elts))
        return [self._eval(part) for part in node.elts]

    def _mapping(self, node: ast.Dict) -> dict[Any, Any]:
        self.allowance.make(items=2 * len(node.keys))
        made = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            key, value = self._eval(key_node), self._eval(value_node)  # type: ignore[arg-type]
            self.allowance.work(operations.size(self.allowance, key))
            made[key] = value
        return made

    def _called(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name):
            return functions.FUNCTIONS[node.func.id](self.allowance, *(self._eval(part) for part in node.args))
        assert isinstance(node.func, ast.Attribute)
        value = self._eval(node.func.value)
        return functions.call(self.allowance, node.func.attr, value, [self._eval(part) for part in node.args])


def _bound(operation: Any, allowance: Allowance) -> Any:
    return lambda *values: operation(allowance, *values)
