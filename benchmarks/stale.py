"""How many planted contradictions `hive stale` finds, how many pairs it names besides, and how long it takes.

Takes documents from a folder of Markdown files (or the sample), copies some of them with one figure changed, and asks.
Prints a line and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from pathlib import Path

from hive_agents import Workspace
from hive_agents.base.files import frontmatter
from hive_agents.cli.sample import init_workspace
from hive_agents.documents import load_collection
from hive_agents.optimizer.stale import stale_pairs
from hive_agents.ranking import RetrievalConfig, SearchEngine

FIGURE = re.compile(r"(?<![\w.-])(\d{1,3})(?= (?:\w+ )?[a-z]{3,})")


def planted(text: str, dice: random.Random) -> str | None:
    """Return the text with one figure of its prose changed; None where it has none."""
    prose = re.sub(r"```.*?(```|\Z)", lambda found: " " * len(found.group()), text, flags=re.S)
    places = list(FIGURE.finditer(prose))
    if not places:
        return None
    place = dice.choice(places)
    return text[: place.start()] + str(int(place.group(1)) + 7) + text[place.end() :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, help="a folder of Markdown files (default: the sample's)")
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as made:
        init_workspace(Path(made) / "kb")
        place = Workspace(Path(made) / "kb")
        (place.root / "hive.toml").write_text('[models]\nembedding = "none"\n', encoding="utf-8")
        if options.documents is not None:
            for file in place.documents.rglob("*.md"):
                file.unlink()
            for file in sorted(options.documents.rglob("*.md")):
                target = place.documents / file.relative_to(options.documents)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
        files = sorted(place.documents.rglob("*.md"))
        config = RetrievalConfig.model_validate(
            {
                "name": "words",
                "collection": load_collection(place, None).name,
                "retrieval": {"method": "keyword", "top_k": 10},
            }
        )
        place.index()
        before = {pair.documents for pair in stale_pairs(SearchEngine(place), config, [])}
        pairs: set[tuple[str, str]] = set()
        for file in dice.sample(files, len(files)):
            block, body = frontmatter.split(file.read_text(encoding="utf-8"), file.name)
            changed = planted(body, dice)
            if changed is None or len(pairs) == options.planted:
                continue
            copy = file.with_name(f"{file.stem}-copy.md")
            copy.write_text(f"---\n{block}\n---\n{changed}" if block else changed, encoding="utf-8")
            names = sorted(path.relative_to(place.documents).as_posix() for path in (file, copy))
            pairs.add((names[0], names[1]))
        place.index()
        started = time.process_time()
        found = {pair.documents for pair in stale_pairs(SearchEngine(place), config, [])}
        seconds = time.process_time() - started
    copies = {doc_id for pair in pairs for doc_id in pair if doc_id.endswith("-copy.md")}
    besides = {pair for pair in found - before - pairs if not copies & set(pair)}
    result = {
        "documents": len(files) + len(pairs),
        "planted": len(pairs),
        "found": len(pairs & found),
        "pairs_before": len(before),
        "pairs_besides": len(besides),
        "cpu_seconds": round(seconds, 2),
    }
    print(", ".join(f"{name} {value}" for name, value in result.items()))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
