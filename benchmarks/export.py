"""What `hive export` costs, and what a question costs in PostgreSQL beside the same one here.

    python benchmarks/export.py [--rounds N] [--out FILE]

For each engine: the time to write the query, and to write the data, with its size. Where PostgreSQL with pgvector is
installed, also the time to fill it and the median time of a question, `EXPLAIN ANALYZE`'s, beside ours for the same
reader. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, known_principal
from hive_agents.cli.sample import init_workspace
from hive_agents.evaluation import load_golden
from hive_agents.ranking import RetrievalConfig
from hive_agents.ranking.exports import ENGINES, export, values_for
from tests.real_engines import has_postgres, postgres


def measured(place: Workspace, who: str, rounds: int) -> dict[str, Any]:
    engine = place.engine()
    program: RetrievalConfig = engine.resolve("v1-naive")
    index = engine.index(program.collection)
    found: dict[str, Any] = {"chunks": index.n_chunks, "engines": {}}
    for name in ENGINES:
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            made = export(place, index, program, name)
            times.append(1000 * (time.perf_counter() - started))
        started = time.perf_counter()
        size = sum(len(text.encode()) for lines in made.data.values() for text in lines())
        found["engines"][name] = {
            "query_ms": round(statistics.median(times), 2),
            "data_seconds": round(time.perf_counter() - started, 2),
            "data_mb": round(size / 1e6, 2),
        }
    if has_postgres():
        found["engines"]["postgres"] |= _asked(place, program, who)
    return found


def _asked(place: Workspace, program: RetrievalConfig, who: str) -> dict[str, float]:
    engine = place.engine()
    index, reader = engine.index(program.collection), known_principal(place, who)
    made = export(place, index, program, "postgres")
    labels = [(doc_id, AccessLabels.of(front)) for doc_id, front in index.front_matter()]
    scope = index.within(AccessRules.load(place).visible(reader, labels))
    questions = [one.query for one in load_golden(place, None)][:50]
    values = [values_for(made, index, question, reader) for question in questions]
    engine.run_on(scope, questions, program)  # the vectors of the questions are kept
    ours = []
    for question in questions:
        started = time.perf_counter()
        engine.run_on(scope, [question], program)
        ours.append(1000 * (time.perf_counter() - started))
    with postgres() as server:
        server.run(made.texts["schema.sql"])
        started = time.perf_counter()
        server.run("".join(made.data["chunks.sql"]()))
        filled_in = time.perf_counter() - started
        server.run(made.texts["query.sql"])
        server.ask("search_v1_naive", values[:5])
        plans = server.explain("search_v1_naive", values)
    theirs = [float(ms) for ms in re.findall(r"Execution Time: ([\d.]+) ms", plans)]
    return {
        "fill_seconds": round(filled_in, 2),
        "question_ms": round(statistics.median(theirs), 2),
        "our_question_ms": round(statistics.median(ours), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Workspace(init_workspace(Path(made) / "kb"))
        place.index()
        result = measured(place, "dana", options.rounds)
    for name, row in result["engines"].items():
        print(f"{name:<11}", ", ".join(f"{what} {value}" for what, value in row.items()))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
