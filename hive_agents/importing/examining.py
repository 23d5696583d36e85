"""What is odd about documents: twins, the same page in several versions, boilerplate, empty, huge, unparted, stale."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from hive_agents.errors import HiveError
from hive_agents.files import frontmatter, jsontext, read_bytes
from hive_agents.importing.imported import ImportFailure
from hive_agents.importing.including import with_includes
from hive_agents.importing.records import Records
from hive_agents.importing.sources import list_files
from hive_agents.importing.syncing import SyncProgress
from hive_agents.retrieval import LEAST_SHARING, LEAST_WORDS, SHARED, document_files
from hive_agents.store import connected
from hive_agents.workspace import Workspace

HUGE = 200_000
LONG = 20_000
ALIKE = 0.8
_SHINGLE, _SKETCH, _COMMON = 5, 64, 60
_VERSION = re.compile(
    r"(?i)^(?:v?\d+(?:[._]\d+|\.x)*(?:[-.]?(?:rc|beta|alpha|dev)\d*)?|latest|stable|next|master|main|current|edge|dev)$"
)
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class DocumentFinding:
    """`documents` are doc_ids; of twins and near-twins one list each."""

    name: str
    status: str
    message: str
    fix: str | None = None
    documents: list[list[str]] = field(default_factory=list)


def examine_documents(workspace: Workspace, progress: SyncProgress | None = None) -> list[DocumentFinding]:
    """Return what is odd about the documents; one finding says so where nothing is."""
    bodies, unreadable = _bodies(workspace, progress)
    findings = [
        *_unreadable(unreadable),
        *_sizes(bodies),
        *_without_headings(bodies),
        *_twins(bodies),
        *_boilerplate(bodies),
        *_stale(workspace),
        *_includes(workspace),
    ]
    return findings or [DocumentFinding("documents", "ok", f"nothing odd about {len(bodies)} documents")]


def _bodies(workspace: Workspace, progress: SyncProgress | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each document, and why the others can't be read."""
    bodies, unreadable = {}, {}
    files = list(document_files(workspace.documents))
    for number, (doc_id, path) in enumerate(files):
        if progress is not None:
            progress("reading documents", number, len(files))
        try:
            text = jsontext.decode(read_bytes(path).removeprefix(b"\xef\xbb\xbf"), f"documents/{doc_id}")
            block, bodies[doc_id] = frontmatter.split(text, f"documents/{doc_id}")
            frontmatter.values(block, f"documents/{doc_id}")
        except HiveError as error:
            bodies.pop(doc_id, None)
            unreadable[doc_id] = error.diagnostics[0].message
        except OSError as error:
            unreadable[doc_id] = error.strerror or str(error)
    return bodies, unreadable


def _unreadable(unreadable: Mapping[str, str]) -> Iterator[DocumentFinding]:
    if unreadable:
        first = next(iter(unreadable.items()))
        message = f"{len(unreadable)} can't be read, such as {first[0]}: {first[1]}"
        yield DocumentFinding(
            "unreadable", "fail", message, "mend the front matter, or save as UTF-8", [list(unreadable)]
        )


def _sizes(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
    empty = [doc_id for doc_id, body in bodies.items() if not re.search(r"\w", body)]
    if empty:
        fix = "delete them, or give them text: only their titles are found"
        yield DocumentFinding("empty", "warn", f"{len(empty)} hold no text", fix, [empty])
    huge = sorted((doc_id for doc_id, body in bodies.items() if len(body) > HUGE), key=lambda one: -len(bodies[one]))
    if huge:
        message = f"{len(huge)} are over {HUGE // 1000},000 characters, the largest {len(bodies[huge[0]]):,}"
        fix = "split them at their chapters; a log or a data set is better left out"
        yield DocumentFinding("huge", "warn", message, fix, [huge])


def _without_headings(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
    """Long texts whose passages have no section; tables and rows of a log need none."""
    plain = [doc_id for doc_id, body in bodies.items() if len(body) > LONG and _is_unparted(body)]
    if plain:
        message = f"{len(plain)} are long and have no heading, so that their passages have no section"
        fix = "give the source headings: in a text processor by its styles (Heading 1, …), in Markdown by `## …`"
        yield DocumentFinding("no-headings", "warn", message, fix, [plain])


def _is_unparted(body: str) -> bool:
    if re.search(r"^ {0,3}(?:#{1,6}\s|=+\s*$|-+\s*$)", body, re.M):
        return False
    lines = [line for line in body.split("\n") if line.strip()]
    return sum(line.startswith("|") for line in lines) * 2 < len(lines)


def _twins(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
    same: defaultdict[str, list[str]] = defaultdict(list)
    for doc_id, body in bodies.items():
        words = " ".join(re.findall(r"\w+", body.lower()))
        if words:
            same[words].append(doc_id)
    equal = [group for group in same.values() if len(group) > 1]
    single = {group[0]: bodies[group[0]] for group in same.values()}
    near = _near(single)
    if equal:
        message = f"{sum(map(len, equal)) - len(equal)} say word for word what another one says ({len(equal)} groups)"
        fix = "keep one of each, or label the others as distractors; per_document can't tell them apart"
        yield DocumentFinding("duplicates", "warn", message, fix, equal)
    versions = [group for group in near + equal if _series(group)]
    if versions:
        yield _versions(versions)
    others = [group for group in near if not _series(group)]
    if others:
        message = f"{len(others)} groups of nearly the same text, {sum(map(len, others))} documents"
        yield DocumentFinding(
            "near-duplicates", "warn", message, "keep the current one of each, or mark it by a field", others
        )


def _series(group: Iterable[str]) -> dict[str, str]:
    """Return the version of each document where the group is one page in several versions; else nothing.

    >>> _series(["v3.5/op/a.md", "v3.6/op/a.md"]), _series(["a/x.md", "b/x.md"])
    ({'v3.5/op/a.md': 'v3.5', 'v3.6/op/a.md': 'v3.6'}, {})
    """
    found: dict[str, str] = {}
    pages = set()
    for doc_id in group:
        parts = PurePosixPath(doc_id).with_suffix("").parts
        at = [number for number, part in enumerate(parts) if _VERSION.match(part)]
        if not at:
            return {}
        found[doc_id] = parts[at[0]]
        pages.add((*parts[: at[0]], *parts[at[0] + 1 :]))
    return found if len(pages) == 1 and len(set(found.values())) > 1 else {}


def _versions(groups: list[list[str]]) -> DocumentFinding:
    names = sorted({version for group in groups for version in _series(group).values()}, key=_version_key)
    newest = names[-1]
    example = PurePosixPath(groups[0][0]).name
    message = f"{len(groups)} pages exist in several versions: {', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
    fix = (
        f"give each a `series` (the page, such as {example}) and a `version`, both filterable keywords;"
        f' then filter {{"version": ["{newest}"]}} or boost {{"version": {{"{newest}": 2}}}}'
    )
    return DocumentFinding("versions", "warn", message, fix, groups)


def _version_key(name: str) -> tuple[int, list[int]]:
    return (0 if any(sign.isdigit() for sign in name) else 1, [int(number) for number in re.findall(r"\d+", name)])


def _near(bodies: Mapping[str, str]) -> list[list[str]]:
    """Return groups of documents that share at least `ALIKE` of their word sequences, by sketches of them."""
    numbers: dict[str, int] = {}
    names = list(bodies)
    sketches = [_sketch(bodies[name], numbers) for name in names]
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for number, sketch in enumerate(sketches):
        for value in sketch[: _SKETCH // 4].tolist():
            holders[value].append(number)
    home = list(range(len(names)))

    def find(number: int) -> int:
        while home[number] != number:
            home[number] = home[home[number]]
            number = home[number]
        return number

    checked = set()
    for documents in holders.values():
        for a in documents[:_COMMON]:
            for b in documents[:_COMMON]:
                if a < b and (a, b) not in checked:
                    checked.add((a, b))
                    if _alike(sketches[a], sketches[b]) >= ALIKE:
                        home[find(a)] = find(b)
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for number, name in enumerate(names):
        groups[find(number)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _sketch(body: str, numbers: dict[str, int]) -> NDArray[np.uint64]:
    """Return the smallest hashes of the text's word sequences, ascending: the same sequences, the same sketch."""
    words = re.findall(r"\w+", body.lower())
    if len(words) < 4 * _SHINGLE:
        return np.zeros(0, np.uint64)
    ids = np.array([numbers.setdefault(word, len(numbers) + 1) for word in words], np.uint64)
    mixed = np.zeros(len(ids) - _SHINGLE + 1, np.uint64)
    for offset in range(_SHINGLE):
        mixed = (mixed ^ ids[offset : offset + len(mixed)]) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed)[:_SKETCH]


def _alike(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    """Return the estimated share of word sequences that two texts have in common."""
    both = np.union1d(a, b)[:_SKETCH]
    return len(np.intersect1d(np.intersect1d(a, b), both)) / max(len(both), 1)


def _boilerplate(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
    """Yield paragraphs that stand in more than a fifth of the documents."""
    if len(bodies) < LEAST_SHARING:
        return
    counted: Counter[str] = Counter()
    example: dict[str, list[str]] = {}
    for doc_id, body in bodies.items():
        for paragraph in {" ".join(part.split()) for part in body.split("\n\n")}:
            if len(paragraph.split()) >= LEAST_WORDS:
                counted[paragraph] += 1
                example.setdefault(paragraph, []).append(doc_id)
    most = max(LEAST_SHARING, len(bodies) * SHARED)
    common = [(paragraph, number) for paragraph, number in counted.most_common(50) if number > most]
    if common:
        paragraph, number = common[0]
        message = (
            f'{len(common)} paragraphs stand in over a fifth of the documents, one in {number}: "{paragraph[:80]}"'
        )
        fix = "lines that so many share count less (`boilerplate` in a config); better, take them out of the source"
        yield DocumentFinding("boilerplate", "warn", message, fix, [example[one] for one, _ in common])


def _stale(workspace: Workspace) -> Iterator[DocumentFinding]:
    """Yield documents whose file changed, or went, since it was imported."""
    if not workspace.database.exists():
        return
    behind = []
    with connected(workspace.database) as connection:
        records = Records(connection)
        for source in records.sources():
            if source.rev is not None:
                continue
            try:
                there = {str(found.file): found.shown for found in list_files(source.path, source.pattern).found}
            except ImportFailure:
                there = {}
            synced = dt.datetime.fromisoformat(source.at).timestamp()
            for record in records.of(source).values():
                if record.doc_id is None:
                    continue
                table = str(PurePosixPath(record.file).parent)  # where it is a row
                shown = there.get(record.file) or there.get(table)
                changed = shown is None
                with suppress(OSError):
                    changed = changed or (shown is not None and os.stat(shown).st_mtime > synced + 1)
                if changed:
                    behind.append(record.doc_id)
    if behind:
        message = f"{len(behind)} are behind the files that they were imported from"
        yield DocumentFinding("stale", "warn", message, "run `hive import`", [sorted(behind)])


def _includes(workspace: Workspace) -> Iterator[DocumentFinding]:
    """Calls for lines of other files that an import had to drop."""
    if not workspace.database.exists():
        return
    dropped: dict[str, int] = {}
    with connected(workspace.database) as connection:
        records = Records(connection)
        for source in records.sources():
            try:
                files = {found.file: found for found in list_files(source.path, source.pattern, source.rev).found}
            except ImportFailure:
                continue
            for record in records.of(source).values():
                found = files.get(PurePosixPath(record.file))
                if record.doc_id is None or found is None:
                    continue
                with suppress(ImportFailure):
                    number = with_includes(found.read(), found.file, files)[1]
                    if number:
                        dropped[record.doc_id] = number
    if dropped:
        message = (
            f"{sum(dropped.values())} includes in {len(dropped)} documents were dropped: what they name isn't in the "
            "folder that was imported, or can't be read"
        )
        fix = "import the folder around them: one that holds the included files as well"
        yield DocumentFinding("includes", "warn", message, fix, [sorted(dropped)])
