"""Conditions of rules and constraints: a subset of Python's expressions over plain data.

Parsing refuses all that doesn't depend on data: names, calls, attributes, kinds of nodes, nesting, constant parts that
fail. Evaluation is bounded: every operation is charged for its work and memory *before* it starts, so no signal, timer
or thread is needed. simpleeval walks the tree; the permitted nodes, operators, functions and methods are ours.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import simpleeval

from hive_agents.base import closest, listed
from hive_agents.goals.expressions import functions, operations
from hive_agents.goals.expressions.operations import Allowance, ExpressionError, plain_data

NAMES = ("result", "goal", "attempt")
MAX_SOURCE = 4_000
MAX_NODES = 600
MAX_NESTING = 40
MAX_BRACKETS = 20  # Python's parser recurses, and a thread's stack may be small

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
        """Return the value for `names`; a missing one is None.

        Raises: `ExpressionError` for data that isn't plain, an exceeded limit, and any error of the evaluation.
        """
        return self.evaluate_plain(plain_names({name: names.get(name) for name in self.names}))

    def evaluate_plain(self, names: Mapping[str, Any]) -> Any:
        """Return the value for names from `plain_names`, which several conditions can share. Raises: as `evaluate`."""
        return _run(self._tree, {name: names.get(name) for name in self.names})

    def uses(self, name: str) -> bool:
        """Return whether the condition reads a name."""
        return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self._tree))

    def keys(self, name: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the keys of a name that the condition requires, and all that it reads.

        >>> needed, read = parse("result['a'] > 1 and result.get('b') is None").keys("result")
        >>> sorted(needed), sorted(read)
        (['a'], ['a', 'b'])
        """
        keys = self._keys(name)
        return frozenset(key for key, required in keys if required), frozenset(key for key, _ in keys)

    def reads_whole(self, name: str) -> bool:
        """Return whether the condition reads more of a name than its `keys`.

        >>> [parse(text).reads_whole("result") for text in ("result['a'] == 1", "'x' in str(result)")]
        [False, True]
        """
        reads = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == name]
        return len(reads) > len(self._keys(name))

    def _keys(self, name: str) -> list[tuple[str, bool]]:
        """Return the key of each access to a name, and whether the key is required."""
        keys = []
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str(key))) if of == name:
                    keys.append((key, True))
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=of), attr="get"), args=[ast.Constant(value=str(key)), *_]
                ) if of == name:
                    keys.append((key, False))
        return keys

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def plain_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of plain data, all charged to one allowance.

    Raises: `ExpressionError` with the place of any other object, or of what is too large.
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
    """Refuse texts that could exhaust Python's parser, or of which it would only warn."""
    if not source:
        raise ExpressionError("the condition is empty", "write what has to be true, such as result['ok'] == True")
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"{len(source)} characters; at most {MAX_SOURCE}")
    depth = tokens = place = 0
    before = "space"
    while place < len(source):
        token = _TOKEN.match(source, place)
        if token is None:
            raise ExpressionError(f"{source[place : place + 12]!r} at character {place + 1} is not allowed")
        kind, text = str(token.lastgroup), token[0]
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
        before, place = kind, token.end()


def _check_tree(tree: ast.expr, names: tuple[str, ...]) -> None:
    pending: list[tuple[ast.AST, int]] = [(tree, 1)]
    count = 0
    while pending:
        node, depth = pending.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_NESTING:
            raise ExpressionError(f"at most {MAX_NODES} parts, nested at most {MAX_NESTING} deep")
        pending += [(child, depth + 1) for child in _children(node, names)]


def _children(node: ast.AST, names: tuple[str, ...]) -> list[ast.expr]:
    """Return the subexpressions of a node. Raises: ExpressionError for one that isn't permitted."""
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
    allowed = [*functions.FUNCTIONS, *(f".{method}" for method in functions.METHODS)]
    raise ExpressionError(f"{called[:40]}() is not allowed; known are {', '.join(allowed)}")


def _check_constants(tree: ast.expr, names: tuple[str, ...]) -> None:
    """Evaluate the constant parts once, so that `9**9**9` is refused when it is parsed."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node)):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        elif not isinstance(node, ast.Constant | ast.Name | ast.Slice | ast.Attribute):
            _run(node, {})


def _run(tree: ast.expr, names: dict[str, Any]) -> Any:
    walker = _Walker(names)
    try:
        value = walker._eval(tree)
        operations.size(walker.allowance, value)  # shared parts are small in memory, and huge when printed
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
    """simpleeval's walk with our nodes; each evaluation has its own, so that threads share nothing."""

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
        mapping = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            key, value = self._eval(key_node), self._eval(value_node)  # type: ignore[arg-type]
            self.allowance.work(operations.size(self.allowance, key))
            mapping[key] = value
        return mapping

    def _called(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name):
            return functions.FUNCTIONS[node.func.id](self.allowance, *(self._eval(part) for part in node.args))
        assert isinstance(node.func, ast.Attribute)
        value = self._eval(node.func.value)
        return functions.call(self.allowance, node.func.attr, value, [self._eval(part) for part in node.args])


def _bound(operation: Any, allowance: Allowance) -> Any:
    return lambda *values: operation(allowance, *values)
