"""Checks of documents: duplicates, versions, boilerplate, empty, huge, without headings, stale, dropped includes."""

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

from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter, jsontext, read_bytes
from hive_agents.documents import content, document_files
from hive_agents.readers import ImportFailure
from hive_agents.store import connected
from hive_agents.sync.records import Records
from hive_agents.sync.sources import list_files
from hive_agents.sync.syncing import SyncProgress
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
    """`documents` are doc_ids in one list, or one for each group of duplicates or versions."""

    name: str
    status: str
    message: str
    fix: str | None = None
    documents: list[list[str]] = field(default_factory=list)


def examine_documents(workspace: Workspace, progress: SyncProgress | None = None) -> list[DocumentFinding]:
    """Return the findings about the documents; a single "ok" where there are none."""
    bodies, unreadable = _bodies(workspace, progress)
    findings = [
        *_unreadable(unreadable),
        *_sizes(bodies),
        *_without_headings(bodies),
        *_duplicates(bodies),
        *_boilerplate(bodies),
        *_stale(workspace),
        *_left_out(workspace),
    ]
    return findings or [DocumentFinding("documents", "ok", f"nothing odd about {len(bodies)} documents")]


def _bodies(workspace: Workspace, progress: SyncProgress | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the body of each document, and the reasons why the others can't be read, by doc_id."""
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
    huge = sorted(
        (doc_id for doc_id, body in bodies.items() if len(body) > HUGE), key=lambda doc_id: -len(bodies[doc_id])
    )
    if huge:
        message = f"{len(huge)} are over {HUGE // 1000},000 characters, the largest {len(bodies[huge[0]]):,}"
        fix = "split them at their chapters; a log or a data set is better left out"
        yield DocumentFinding("huge", "warn", message, fix, [huge])


def _without_headings(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
    """Yield a finding of long texts without headings, whose passages have no section; tables need none."""
    plain = [doc_id for doc_id, body in bodies.items() if len(body) > LONG and _lacks_headings(body)]
    if plain:
        message = f"{len(plain)} are long and have no heading, so that their passages have no section"
        fix = "give the source headings: in a text processor by its styles (Heading 1, …), in Markdown by `## …`"
        yield DocumentFinding("no-headings", "warn", message, fix, [plain])


def _lacks_headings(body: str) -> bool:
    if re.search(r"^ {0,3}(?:#{1,6}\s|=+\s*$|-+\s*$)", body, re.M):
        return False
    lines = [line for line in body.split("\n") if line.strip()]
    return sum(line.startswith("|") for line in lines) * 2 < len(lines)


def _duplicates(bodies: Mapping[str, str]) -> Iterator[DocumentFinding]:
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
    """Return the version of each document if the group is one page in several versions, else {}.

    >>> _series(["v3.5/op/a.md", "v3.6/op/a.md"]), _series(["a/x.md", "b/x.md"])
    ({'v3.5/op/a.md': 'v3.5', 'v3.6/op/a.md': 'v3.6'}, {})
    """
    versions: dict[str, str] = {}
    pages = set()
    for doc_id in group:
        parts = PurePosixPath(doc_id).with_suffix("").parts
        positions = [number for number, part in enumerate(parts) if _VERSION.match(part)]
        if not positions:
            return {}
        versions[doc_id] = parts[positions[0]]
        pages.add((*parts[: positions[0]], *parts[positions[0] + 1 :]))
    return versions if len(pages) == 1 and len(set(versions.values())) > 1 else {}


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
    """Return groups of documents that share at least `ALIKE` of their word sequences, estimated by sketches."""
    numbers: dict[str, int] = {}
    names = list(bodies)
    sketches = [_sketch(bodies[name], numbers) for name in names]
    sharing: defaultdict[int, list[int]] = defaultdict(list)
    for number, sketch in enumerate(sketches):
        for value in sketch[: _SKETCH // 4].tolist():
            sharing[value].append(number)
    parents = list(range(len(names)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    checked = set()
    for documents in sharing.values():
        for a in documents[:_COMMON]:
            for b in documents[:_COMMON]:
                if a < b and (a, b) not in checked:
                    checked.add((a, b))
                    if _alike(sketches[a], sketches[b]) >= ALIKE:
                        parents[root(a)] = root(b)
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for number, name in enumerate(names):
        groups[root(number)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _sketch(body: str, numbers: dict[str, int]) -> NDArray[np.uint64]:
    """Return the smallest hashes of the text's word sequences, ascending, as a bottom-k sketch."""
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
    """Yield a finding of paragraphs that more than a fifth of the documents have."""
    if len(bodies) < content.BOILERPLATE_DOCUMENTS:
        return
    counted: Counter[str] = Counter()
    holders: dict[str, list[str]] = {}
    for doc_id, body in bodies.items():
        for paragraph in {" ".join(part.split()) for part in body.split("\n\n")}:
            if len(paragraph.split()) >= content.BOILERPLATE_WORDS:
                counted[paragraph] += 1
                holders.setdefault(paragraph, []).append(doc_id)
    most = max(content.BOILERPLATE_DOCUMENTS, len(bodies) * content.BOILERPLATE_SHARE)
    common = [(paragraph, number) for paragraph, number in counted.most_common(50) if number > most]
    if common:
        paragraph, number = common[0]
        message = (
            f'{len(common)} paragraphs stand in over a fifth of the documents, one in {number}: "{paragraph[:80]}"'
        )
        fix = "lines that so many share count less (`boilerplate` in a config); better, take them out of the source"
        yield DocumentFinding("boilerplate", "warn", message, fix, [holders[shared] for shared, _ in common])


def _stale(workspace: Workspace) -> Iterator[DocumentFinding]:
    """Yield a finding of documents whose file changed, or was deleted, since the import."""
    if not workspace.database.exists():
        return
    behind = []
    with connected(workspace.database) as connection:
        records = Records(connection)
        for source in records.sources():
            if source.rev is not None:
                continue
            try:
                shown_by_file = {str(file.file): file.shown for file in list_files(source.path, source.pattern).found}
            except ImportFailure:
                shown_by_file = {}
            synced = dt.datetime.fromisoformat(source.at).timestamp()
            for record in records.of(source).values():
                if record.doc_id is None:
                    continue
                above = map(str, PurePosixPath(record.file).parents)  # the table of a row, the mailbox of a mail
                names = [record.file, *above]
                shown = next((shown_by_file[name] for name in names if name in shown_by_file), None)
                changed = shown is None
                with suppress(OSError):
                    changed = changed or (shown is not None and os.stat(shown).st_mtime > synced + 1)
                if changed:
                    behind.append(record.doc_id)
    if behind:
        message = f"{len(behind)} are behind the files that they were imported from"
        yield DocumentFinding("stale", "warn", message, "run `hive import`", [sorted(behind)])


def _left_out(workspace: Workspace) -> Iterator[DocumentFinding]:
    """Yield a finding of what readers didn't bring over, by kind."""
    if not workspace.database.exists():
        return
    documents: defaultdict[str, list[str]] = defaultdict(list)
    counted: Counter[str] = Counter()
    with connected(workspace.database) as connection:
        records = Records(connection)
        for record in (record for source in records.sources() for record in records.of(source).values()):
            for kind, number in record.left_out.items() if record.doc_id is not None else ():
                documents[kind].append(record.doc_id or "")
                counted[kind] += number
    includes = documents.pop("includes", [])
    if includes:
        message = (
            f"{counted.pop('includes')} includes in {len(includes)} documents were dropped: what they name isn't in "
            "the folder that was imported, or can't be read"
        )
        fix = "import the folder around them: one that holds the included files as well"
        yield DocumentFinding("includes", "warn", message, fix, [sorted(includes)])
    if counted:
        shown = ", ".join(f"{number} {kind}" for kind, number in counted.most_common())
        fix = "`hive import --with comments,deleted,hidden` brings more over; docs/import.md says what of which kind"
        groups = [sorted(each) for each in documents.values()]
        yield DocumentFinding("left-out", "ok", f"readers left out {shown}", fix, groups)
