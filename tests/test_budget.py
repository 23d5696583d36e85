"""The size of each room of the house: what it may grow to, and what it is.

A room is a package or module directly in `hive_agents/`, and `graphs/`. Its limits are today's figures: they fall with
each step that makes the house smaller, and rise only in a commit that says why. `python -m tests.test_budget` prints
the table; `--limits` prints it as the limits to paste.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.parsed import ROOT, modules, nodes

pytestmark = pytest.mark.static

LIMITS = Path(__file__).with_name("budget.toml")
SMALL = 40


@dataclass(frozen=True)
class Room:
    """`lines` of Python; `exports`: names at its doors; `arrows`: other rooms that it imports, late imports included;
    `small`: files under `SMALL` lines; `single`: files that one other file imports."""

    lines: int
    exports: int
    arrows: int
    small: int
    single: int


def room_of(module: str) -> str:
    top, _, rest = module.partition(".")
    return (rest or top).partition(".")[0] if top == "hive_agents" else top


@cache
def doors() -> dict[str, dict[str, str]]:
    """Return for each package the module of each name that its `__init__.pyi` hands on."""
    handed_on = {}
    for package, path in modules().items():
        stub = path.with_suffix(".pyi")
        if path.name == "__init__.py" and stub.exists():
            handed_on[package] = {
                alias.asname or alias.name: ".".join(filter(None, [package, node.module]))
                for node in nodes(stub)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
    return handed_on


def defined_in(module: str, name: str) -> str:
    """Return the module that a name imported from `module` comes from, through every door on the way."""
    inner = f"{module}.{name}"
    if inner in modules():
        return inner
    through = doors().get(module, {}).get(name)
    return module if through in (None, module) else defined_in(str(through), name)


@cache
def imports_of(module: str) -> frozenset[str]:
    found = set()
    for node in nodes(modules()[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            found |= {defined_in(str(node.module), alias.name) for alias in node.names}
    return frozenset((found & modules().keys()) - {module})


def arrows() -> set[tuple[str, str]]:
    """Return (room, room that it imports); the package's own face, `hive_agents`, is no room."""
    return {
        (room_of(module), room_of(other))
        for module in modules()
        for other in imports_of(module)
        if room_of(module) != room_of(other) and "hive_agents" not in (room_of(module), room_of(other))
    }


@cache
def house() -> dict[str, Room]:
    importers = Counter(other for module in modules() for other in imports_of(module))
    out = Counter(room for room, _ in arrows())
    lines: Counter[str] = Counter()
    small: Counter[str] = Counter()
    single: Counter[str] = Counter()
    for module, path in modules().items():
        count = len(path.read_text(encoding="utf-8").splitlines())
        lines[room_of(module)] += count
        if path.name not in ("__init__.py", "__main__.py"):
            small[room_of(module)] += count < SMALL
            single[room_of(module)] += importers[module] == 1
    exports = Counter(dict.fromkeys(lines, 0))
    for package, names in doors().items():
        exports[room_of(package)] += len(names)
    return {
        room: Room(lines[room], exports[room], out[room], small[room], single[room])
        for room in sorted(lines)
        if room not in ("hive_agents", "__main__")
    }


def total(rooms: dict[str, Room]) -> Room:
    return Room(*(sum(column) for column in zip(*map(astuple, rooms.values()), strict=True)))


def table() -> str:
    rows = [f"{'room':14}{'lines':>8}{'exports':>9}{'arrows':>8}{'small':>7}{'single':>8}"]
    rooms = house()
    for name, room in (*rooms.items(), (f"{len(rooms)} rooms", total(rooms))):
        rows.append(f"{name:14}{room.lines:8}{room.exports:9}{room.arrows:8}{room.small:7}{room.single:8}")
    return "\n".join(rows)


def test_no_room_is_larger_than_its_limits() -> None:
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    rooms = house()
    assert rooms.keys() == limits["rooms"].keys(), "a room without limits, or limits without a room"
    over = {
        f"{room} {what}": (figure, limits["rooms"][room][what])
        for room in rooms
        for what, figure in vars(rooms[room]).items()
        if figure > limits["rooms"][room][what]
    }
    assert over == {}, f"(is, may be); a limit rises only in a commit that says why\n{table()}"


def test_no_file_is_long_without_a_reason() -> None:
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in modules().values()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > limits["longest_file"]
    }
    assert long.keys() == limits["long"].keys(), "a long file needs its reason in tests/budget.toml, or a split"


def test_names_at_a_door_are_followed_to_where_they_are_defined() -> None:
    assert defined_in("hive_agents", "Principal") == "hive_agents.access.principal"
    assert ("copilot", "access") in arrows()


if __name__ == "__main__":
    if "--limits" in sys.argv:
        for name, room in house().items():
            values = ", ".join(f"{what} = {figure}" for what, figure in vars(room).items())
            print(f"{name} = {{ {values} }}")
    else:
        print(table())
