"""Django's documentation as Markdown documents: `python examples/django_docs/fetch.py [--into DIR] [--release 5.2]`.

pip downloads Django's source distribution; `docs/**/*.txt` is reStructuredText, whatever its suffix says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml
from references import Titles, with_titles

from hive_agents.base.files import atomic_write_text
from hive_agents.readers import ImportFailure
from hive_agents.readers.conversion import convert

RELEASE = "5.2"
CATEGORIES = {
    "intro": "tutorial",
    "howto": "guide",
    "topics": "guide",
    "ref": "api",
    "faq": "faq",
    "releases": "changelog",
    "internals": "internals",
}
NO_DOCUMENTS = {"requirements.txt"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, help="workspace that gets documents/")
    parser.add_argument("--release", default=RELEASE, help="a series of Django; the golden set belongs to %(default)s")
    options = parser.parse_args()
    documents = options.into / "documents"
    with tempfile.TemporaryDirectory() as scratch:
        archive = download(Path(scratch), f"django=={options.release}.*")
        if archive is None:
            return 1
        sources = dict(unpacked(archive))
        if not sources:
            print(f"{archive.name} holds no docs/*.txt; is it Django's source distribution?", file=sys.stderr)
            return 1
        print(f"{archive.name}: {len(sources)} files in docs/")
        return write(sources, documents, Path(scratch))


def download(folder: Path, requirement: str) -> Path | None:
    """The source distribution, or None after saying what to do."""
    command = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", ":all:", "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True)
    archive = next(folder.glob("*.tar.gz"), None)
    if result.returncode == 0 and archive is not None:
        return archive
    reason = next((line for line in reversed(result.stderr.splitlines()) if line.strip()), "pip gave no reason")
    print(
        f"Django's source distribution could not be downloaded: {reason.strip()}\n"
        "Check that `python -m pip --version` works and that pip reaches a package index "
        "(PIP_INDEX_URL names another one), then run this script again.",
        file=sys.stderr,
    )
    return None


def unpacked(archive: Path) -> Iterator[tuple[str, str]]:
    """(path below docs/, text) of each document. Read straight from the archive: nothing in it can choose a place."""
    with tarfile.open(archive) as members:
        for member in members:
            path = PurePosixPath(member.name)
            inside = path.parts[1:]
            if not member.isfile() or path.suffix != ".txt" or inside[:1] != ("docs",) or ".." in inside:
                continue
            relative = PurePosixPath(*inside[1:])
            file = members.extractfile(member)
            if file is not None and str(relative) not in NO_DOCUMENTS and not relative.parts[0].startswith("_"):
                yield str(relative), file.read().decode("utf-8")


def write(sources: dict[str, str], documents: Path, scratch: Path) -> int:
    titles = Titles.of(sources)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    source = scratch / "source.rst"
    for relative, text in sorted(sources.items()):
        source.write_text(with_titles(text, relative, titles), encoding="utf-8")
        try:
            imported = convert(source, kind="rst")
        except ImportFailure as failure:
            failures.append(f"{relative}: {failure}")
            continue
        category = CATEGORIES.get(relative.split("/")[0], "guide")
        head = {"title": imported.title or PurePosixPath(relative).stem, "category": category}
        front_matter = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
        target = documents / PurePosixPath(relative).with_suffix(".md")
        atomic_write_text(target, f"---\n{front_matter}---\n\n{imported.markdown}")
        counts[category] += 1
    print(f"{counts.total()} documents: " + ", ".join(f"{number} {name}" for name, number in counts.most_common()))
    for line in failures:
        print(f"not converted: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
