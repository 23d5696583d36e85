"""How much processor time it takes to bring documents in, and to look whether they changed.

    python benchmarks/importing.py [FOLDER] [--documents N] [--embedded N] [--times N] [--json FILE]

Texts are taken from FOLDER (/usr/share/doc), one document a file, repeated under other names where there are too few.
Steps: import, index without embedding, import of what is unchanged, and the look before each search: once with every
file read, once by the files' stamps. Embedding is measured on the first `--embedded` documents, and told a document.
Seconds are user and system time of this process and its children: a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

from hive_agents import Workspace
from hive_agents.cli.sample import init_workspace
from hive_agents.ranking import build_index
from hive_agents.readers import KINDS
from hive_agents.store import connected
from hive_agents.sync.importing import import_documents

WITHOUT_MODEL = '[models]\nembedding = "none"\n'
MOST_SECONDS = 60.0  # a 5,000 documents, without embedding
PLAIN = (None, "text")


def cpu(step: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the processor's seconds, the clock's, and what the step gives."""
    before, started = _spent(), time.perf_counter()
    result = step()
    return _spent() - before, time.perf_counter() - started, result


def _spent() -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def texts(folder: Path, into: Path, wanted: int) -> int:
    """Copy so many plain texts; return their bytes."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if not path.name.startswith(".")
        and path.is_file()
        and not path.is_symlink()
        and KINDS.get(path.suffix.lower()) in PLAIN
        and _is_text(path)
    ]
    size = 0
    for number, path in zip(range(wanted), cycle(found), strict=False):
        target = into / f"part{number // len(found)}" / path.relative_to(folder)
        target = target.with_name(f"{target.name}.txt")
        target.parent.mkdir(parents=True, exist_ok=True)
        size += len(target.name)
        shutil.copyfile(path, target)
        size += target.stat().st_size
    return size


def _is_text(path: Path) -> bool:
    try:
        data = path.read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError):
        return False
    return 200 < len(data) < 200_000 and b"\0" not in data


def workspace(root: Path, settings: str) -> Workspace:
    place = Workspace(init_workspace(root, empty=True))
    (place.root / "hive.toml").write_text(settings, encoding="utf-8")
    return place


def measured(folder: Path, documents: int, embedded: int, times: int) -> dict[str, Any]:
    rows: dict[str, dict[str, float]] = {}

    def row(name: str, step: Callable[[], Any], number: int) -> Any:
        used, clock, result = cpu(step)
        rows[name] = {"cpu": round(used, 3), "clock": round(clock, 3), "ms a document": round(1000 * used / number, 3)}
        return result

    with tempfile.TemporaryDirectory() as made:
        source = Path(made) / "source"
        size = texts(folder, source, documents)
        place = workspace(Path(made) / "words", WITHOUT_MODEL)
        report = row("import", lambda: import_documents(place, source), documents)
        index = row("index", lambda: build_index(place), documents)
        row("import again", lambda: import_documents(place), documents)
        build_index(place, quick=True)  # by now every file's time has passed
        for name, quick in (("look, all read", False), ("look, by stamps", True)):
            for _ in range(times):
                row(name, lambda quick=quick: build_index(place, quick=quick), documents)  # type: ignore[misc]
        vectors = workspace(Path(made) / "vectors", "")
        for doc_id in sorted(report.added)[:: max(1, documents // max(1, embedded))][:embedded]:
            target = vectors.documents / doc_id
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place.documents / doc_id, target)
        if embedded:
            row("index with embedding", lambda: build_index(vectors), embedded)
        bare = _wordless(place)
    beyond = rows["import"]["cpu"] + rows["index"]["cpu"]
    ratios = {
        "a look by stamps, of one that reads all": rows["look, by stamps"]["cpu"] / rows["look, all read"]["cpu"],
        "seconds a 5,000 documents beyond embedding": beyond * 5_000 / documents,
    }
    if embedded:
        each = rows["index with embedding"]["ms a document"]
        ratios["embedding, of all that a document takes"] = (each - rows["index"]["ms a document"]) / (
            each + rows["import"]["ms a document"]
        )
    return {
        "documents": index.documents,
        "chunks": index.chunks,
        "megabytes": round(size / 1e6, 1),
        "lost": documents - index.documents,
        "chunks without a word": bare,
        "steps": rows,
        "ratios": {name: round(ratio, 4) for name, ratio in ratios.items()},
    }


def _wordless(place: Workspace) -> int:
    with connected(place.database) as connection:
        rows = connection.execute("SELECT text FROM chunks").fetchall()
    return sum(not any(map(str.isalnum, text)) for (text,) in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/usr/share/doc"))
    parser.add_argument("--documents", type=int, default=5_000)
    parser.add_argument("--embedded", type=int, default=200)
    parser.add_argument("--times", type=int, default=1, help="how often to look for changes; the last counts")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = measured(given.folder, given.documents, given.embedded, given.times)
    print(f"{found['documents']} documents of {found['megabytes']} MB, {found['chunks']} chunks, {found['lost']} lost")
    for name, row in found["steps"].items():
        print(f"{name:24} {row['cpu']:9.2f} s CPU {row['clock']:9.2f} s {row['ms a document']:8.3f} ms a document")
    for name, ratio in found["ratios"].items():
        print(f"{name:45} {ratio:9.4f}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    beyond = found["ratios"]["seconds a 5,000 documents beyond embedding"]
    return int(found["lost"] > 0 or found["chunks without a word"] > 0 or beyond > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
