"""What is promised beside what was measured, with the command that measured it.

    python benchmarks/report.py [--measure] [--only TEXT] [--folder DIR]

The promises stand in promises.toml. Each benchmark's JSON is kept as DIR/NAME.json (build/measured by default), where
this program finds it; `--measure` first runs those that are marked short, one after another. Prints the table, and
writes it to DIR/report.md. What no file has a figure for is "not measured"; figures are shown as they were written, and
a promise that its figure doesn't keep "falls short". The exit code is 0 whatever stands there: it is a report, no gate.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import operator
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("promises.toml")
FOLDER = ROOT / "build" / "measured"
_COMPARE: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}

_NONE, _SHORT = "not measured", "FALLS SHORT"

Step = str | int


@dataclass(frozen=True)
class Promise:
    """`field` leads to the figure in the JSON of `measure`, `over` to one that it is divided by.

    `why` is the reason where it is known to fall short.
    """

    what: str
    where: str
    measure: str
    field: tuple[Step, ...]
    reach: str = ""
    over: tuple[Step, ...] = ()
    unit: str = ""
    why: str = ""

    def kept(self, figure: float) -> bool:
        sign, _, limit = self.reach.partition(" ")
        return _COMPARE[sign](figure, float(limit))


@dataclass(frozen=True)
class Measure:
    """A command that writes JSON to `{file}`, or prints it as its last line; a timed one is measured by the clock."""

    name: str
    command: str
    short: bool = False
    timed: bool = False

    def run(self, folder: Path) -> None:
        file = folder / f"{self.name}.json"
        given = self.command.format(file=file).split()
        command = [sys.executable, *given[1:]] if given[0] == "python" else given
        started = time.perf_counter()
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        if ran.returncode:
            print(f"{self.command}: exit code {ran.returncode}\n{ran.stderr[-500:]}", file=sys.stderr)
        elif self.timed:
            file.write_text(json.dumps({"seconds": round(seconds, 2)}) + "\n", encoding="utf-8")
        elif "{file}" not in self.command:
            file.write_text(ran.stdout.strip().rpartition("\n")[2] + "\n", encoding="utf-8")


def table() -> tuple[dict[str, Measure], list[Promise]]:
    found = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    measures = {one["name"]: Measure(**one) for one in found["measure"]}
    promises = [
        Promise(**one | {key: tuple(value) for key, value in one.items() if isinstance(value, list)})
        for one in found["promise"]
    ]
    return measures, promises


def figure_at(value: Any, steps: Sequence[Step]) -> float | None:
    """Return the number that the steps lead to, None where there is none; of a list of numbers the median.

    A step `name=value` takes the rows of a list that have it, `name=value&name=value` those that have both, `*` all of
    them; what follows is taken of each, and the median of that.

    >>> found = {"rows": [{"n": 1, "by": "us", "s": 4.0}, {"n": 1, "by": "them", "s": 8.0}]}
    >>> figure_at(found, ["rows", "n=1", "s"]), figure_at(found, ["rows", "n=1&by=us", "s"])
    (6.0, 4.0)
    """
    for number, step in enumerate(steps):
        if isinstance(value, list) and isinstance(step, str):
            wanted = [] if step == "*" else [tuple(part.split("=", 1)) for part in step.split("&")]
            rows = [row for row in value if not wanted or (isinstance(row, dict) and _has(row, wanted))]
            each = [figure_at(row, steps[number + 1 :]) for row in rows]
            numbers = [one for one in each if one is not None]
            return statistics.median(numbers) if numbers else None
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(value, list) and value and all(isinstance(one, (int, float)) for one in value):
        return float(statistics.median(value))
    return float(value) if isinstance(value, (int, float)) else None


def _has(row: Mapping[str, Any], wanted: Iterable[tuple[str, ...]]) -> bool:
    return all(str(row.get(key)) == value for key, value in wanted)


def measured(promise: Promise, folder: Path) -> tuple[float | None, str]:
    """Return the figure and the day of it; None and "" where there is none."""
    file = folder / f"{promise.measure}.json"
    if not file.is_file():
        return None, ""
    value = json.loads(file.read_text(encoding="utf-8"))
    figure = figure_at(value, promise.field)
    if promise.over:
        below = figure_at(value, promise.over)
        figure = figure / below if figure is not None and below else None
    day = dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC).date().isoformat()
    return figure, day if figure is not None else ""


def rows(promises: Sequence[Promise], measures: dict[str, Measure], folder: Path) -> Iterator[tuple[str, ...]]:
    for promise in promises:
        figure, day = measured(promise, folder)
        shown = _NONE if figure is None else f"{figure:,.4g}{promise.unit and ' ' + promise.unit}"
        state = "" if figure is None or not promise.reach else "kept" if promise.kept(figure) else _SHORT
        state += f": {promise.why}" if state == _SHORT and promise.why else ""
        command = measures[promise.measure].command.format(file=f"{promise.measure}.json")
        yield promise.what, promise.where, promise.reach, shown, state, f"`{command}`", day


HEAD = ("promise", "where", "to reach", "measured", "", "by", "on")


def markdown(found: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in found]
    states, shown = [row[4] for row in found], [row[3] for row in found]
    short = sum(state.startswith(_SHORT) for state in states)
    told = f"{states.count('kept')} kept, {short} fall short, {shown.count(_NONE)} not measured"
    return "\n".join(["# Promises and figures", "", told, "", *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="first run the short benchmarks")
    parser.add_argument("--only", default="", help="those measures whose name holds this text")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    measures, promises = table()
    if options.measure:
        for one in measures.values():
            if one.short and options.only in one.name:
                print(one.command, file=sys.stderr, flush=True)
                one.run(options.folder)
    text = markdown(list(rows(promises, measures, options.folder)))
    (options.folder / "report.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
