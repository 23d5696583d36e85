"""How long `hive why` takes on the sample workspace, and how often it finds a way.

For each open golden query whose first relevant document isn't first, it asks why. Prints medians and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from hive_agents import Workspace
from hive_agents.cli.sample import init_workspace
from hive_agents.evaluation import load_golden
from hive_agents.optimizer import document_ways
from hive_agents.optimizer.why import Costs, DocumentQuestion, config_ways
from hive_agents.ranking import find_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        init_workspace(Path(made) / "kb")
        place = Workspace(Path(made) / "kb")
        place.index()
        engine, golden = place.engine(), load_golden(place)
        config = find_config(place, "v1-naive").config
        rows: list[tuple[float, float, bool, bool]] = []
        for query in golden:
            if query.split == "holdout" or not query.relevant or len(rows) == options.questions:
                continue
            question = DocumentQuestion(engine, query.query, query.relevant[0], config)
            if question.standing().rank == 1:
                continue
            started = time.perf_counter()
            costs = Costs(golden, engine, config, beside=query.query)
            by_config = config_ways(question, costs)
            middle = time.perf_counter()
            by_document = document_ways(question, costs)
            rows.append((middle - started, time.perf_counter() - middle, bool(by_config), bool(by_document)))
    figures = {
        "questions": len(rows),
        "config_seconds": round(statistics.median(row[0] for row in rows), 2),
        "document_seconds": round(statistics.median(row[1] for row in rows), 2),
        "with_a_config": sum(row[2] for row in rows),
        "with_words": sum(row[3] for row in rows),
    }
    for name, value in figures.items():
        print(f"{name:17} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
