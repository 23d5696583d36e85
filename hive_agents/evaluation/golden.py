"""The golden set: queries with their relevant documents and their distractors."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from hive_agents.access import LOCAL_TENANT, AccessRules, Principal, ViewGate
from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean
from hive_agents.base.files import AnyCase, FileFormat, Format, QuestionText, formats, jsontext, read_bytes
from hive_agents.documents import (
    collection_names,
    document_files,
    load_collection,
    move_labels,
    no_such_collection,
    words,
)
from hive_agents.workspace import Workspace

_LOST = "run `hive index` if its file was renamed, so that labels follow; else remove the label"
_SUGGESTED = 20
"""Lost documents whose most similar name is looked for: of a folder that is gone, that would take minutes."""
_UNSEEN = re.compile("[\u115f\u1160\u17b4\u17b5\u3164\uffa0]")
"""Invisible letters; other invisible characters are recognised by category or name."""
_NO_WORD = re.compile(r"[^\w\s]")
_ADDED = re.compile("(?:COMBINING|VARIATION|MONGOLIAN|HEBREW|ARABIC)")
"""Name prefixes of marks that don't change the meaning; other marks are vowels."""


def question_key(text: str) -> str:
    """Return a question without case, punctuation and invisible characters, to compare questions by.

    >>> question_key("How do I rotate a key?"), question_key("How do I ro\\u200btate\\u00a0a \\uff4bey")
    ('how do i rotate a key', 'how do i rotate a key')
    >>> question_key("\u0e14\u0e35") == question_key("\u0e14\u0e34")
    False
    """
    plain = _UNSEEN.sub("", unicodedata.normalize("NFKC", text)).lower()
    return " ".join(_NO_WORD.sub(_read_as, plain).split())


def _read_as(found: re.Match[str]) -> str:
    """Return what a reader takes a character for that is no letter: a space, a vowel's mark, or nothing."""
    sign = found[0]
    # Marks that compose with their letter are gone after NFKC.
    category = unicodedata.category(sign)
    if category in ("Me", "Cf") or (category == "Mn" and _ADDED.match(unicodedata.name(sign, ""))):
        return ""
    return sign if category[0] == "M" else " "


GENERATED = "generated"
"""The tag of a generated question: it is for training, not for proof."""
Split = Literal["train", "validation", "holdout"]
OpenSplit = Literal["train", "validation"]
"""The splits that optimizers, agents and clients may measure on."""
FILE = "evals/golden.json"


def _searchable(query: str) -> str:
    if not words(query):
        raise PydanticCustomError("query_value_error", "a query needs at least one letter or digit")
    return query


class GoldenQuery(Format):
    """A query with the key `irrelevant` is fully judged: a returned document in no list counts as unjudged."""

    id: Annotated[str, Field(min_length=1)]
    query: Annotated[QuestionText, AfterValidator(_searchable)]
    relevant: list[str] = []
    distractors: list[str] = []
    irrelevant: list[str] | None = None
    tags: list[str] = []
    split: Annotated[Split, AnyCase] | None = None
    principal: str | None = None
    seen: dict[str, str] = {}
    """The words of labelled documents as they were labelled: doc_id → `labelling.words_now`."""

    @property
    def fully_judged(self) -> bool:
        """Whether every returned document was meant to be judged, so that one in no list was overlooked."""
        return self.irrelevant is not None

    @property
    def qrels(self) -> dict[str, int]:
        """doc_id → 1 relevant, 0 irrelevant, -1 distractor."""
        irrelevant = dict.fromkeys(self.irrelevant or [], 0)
        return irrelevant | dict.fromkeys(self.distractors, -1) | dict.fromkeys(self.relevant, 1)

    @property
    def lists(self) -> dict[str, list[str] | None]:
        """The labels by the name of their list."""
        return {"relevant": self.relevant, "distractors": self.distractors, "irrelevant": self.irrelevant}

    @property
    def labelled(self) -> list[str]:
        """The doc_ids that have a label."""
        return [doc_id for labels in self.lists.values() for doc_id in labels or ()]

    def label(self, doc_id: str) -> str:
        return {1: "relevant", -1: "distractor", 0: "irrelevant", None: "unjudged"}[self.qrels.get(doc_id)]


class GoldenFile(FileFormat):
    collection: str
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    queries: list[GoldenQuery]


@dataclass(frozen=True)
class GoldenSet:
    """A golden set; `hash` covers its whole content."""

    collection: str
    k: int
    queries: tuple[GoldenQuery, ...]
    file: str
    hash: str

    @property
    def has_holdout(self) -> bool:
        return any(query.split == "holdout" for query in self.queries)

    def split(self, name: Split) -> GoldenSet:
        """Return the queries of one split, with the identity of the whole set."""
        return self.only(query.id for query in self.queries if query.split == name)

    @property
    def asked(self) -> GoldenSet:
        """The queries that aren't generated, with the identity of the whole set."""
        if not any(GENERATED in query.tags for query in self.queries):
            return self
        return self.only(query.id for query in self.queries if GENERATED not in query.tags)

    def only(self, ids: Iterable[str]) -> GoldenSet:
        wanted = set(ids)
        chosen = tuple(query for query in self.queries if query.id in wanted)
        return GoldenSet(self.collection, self.k, chosen, self.file, self.hash)

    def joined(self, other: GoldenSet) -> GoldenSet:
        return GoldenSet(self.collection, self.k, (*self.queries, *other.queries), self.file, self.hash)

    def require_queries(self) -> None:
        """Raise HIVE-105 when there are no queries to measure with."""
        if not self.queries:
            raise HiveError.of(
                "HIVE-105",
                "the golden set has no queries that somebody asked",
                file=self.file,
                path="queries",
                fix="add queries with `hive label QUERY`",
            )

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[GoldenQuery]:
        return iter(self.queries)

    @cached_property
    def texts(self) -> list[str]:
        return [query.query for query in self.queries]


def load_golden(workspace: Workspace, path: Path | None = None) -> GoldenSet:
    """Return the golden set of a workspace, or of the file `path`.

    Raises: level 1 with every fault (107 unknown principal, 109 label without document, 110 label in two lists,
    111 id twice) and the faults of `access/*.json` where a query names a principal,
    HIVE-211 when its collection doesn't exist, HIVE-107 (exit code 2) when there is no such file.
    """
    text, file = _read(workspace, path)
    return parse_golden(workspace, text, file)


def viewable_golden(workspace: Workspace, viewer: Principal | None, path: Path | None = None) -> GoldenSet:
    """Return the golden set as `viewer` may know it; None is the workspace's owner, who knows all of it.

    Whatever is listed, labelled or measured for somebody goes through here. It is the set as it would be without the
    documents that the viewer may not view: their labels are missing, as those of missing documents, and so is a query
    that has no others, or that asks as somebody of another tenant. `hash` is that of what is left.

    Raises: as `load_golden`; for a viewer a fault of the file says nothing of its queries.
    """
    if viewer is None:
        return load_golden(workspace, path)
    text, file = _read(workspace, path)
    try:
        golden = formats.load_value(GoldenFile, jsontext.parse(text, file), file, text)
        return _checked(workspace, _viewable_part(workspace, golden, viewer), text, file, None)
    except HiveError as error:
        raise concealed(error) from None


def concealed(error: HiveError) -> HiveError:
    """Return an error about a golden set as told to somebody who may not know all of its queries."""
    if not any(diagnostic.path and diagnostic.path.startswith("queries") for diagnostic in error.diagnostics):
        return error
    first = error.diagnostics[0]
    fix = "the workspace's owner sees the fault: hive evaluate"
    return HiveError.of(first.code, f"{first.file} has a fault", file=first.file, fix=fix, exit_code=error.exit_code)


def _viewable_part(workspace: Workspace, golden: GoldenFile, viewer: Principal) -> GoldenFile:
    known = AccessRules.load(workspace).principals
    gate = ViewGate.of(workspace, viewer)
    may = gate.allowed([doc_id for query in golden.queries for doc_id in query.labelled])
    left = []
    for query in golden.queries:
        asker = known.get(query.principal or "")
        if asker is not None and viewer.tenant not in (asker.tenant, LOCAL_TENANT):
            continue
        if query.labelled and may.isdisjoint(query.labelled):
            continue
        lists = query.lists.items()
        kept = {name: labels and [doc_id for doc_id in labels if doc_id in may] for name, labels in lists}
        seen = {doc_id: said for doc_id, said in query.seen.items() if doc_id in may}
        left.append(query.model_copy(update=kept | {"seen": seen}))
    return golden.model_copy(update={"queries": left})


def _read(workspace: Workspace, path: Path | None) -> tuple[str, str]:
    """Return the text of a golden set and its name."""
    source = path or workspace.root / FILE
    if not source.is_file() and path is not None and (workspace.root / path).is_file():
        source = workspace.root / path
    file = workspace.relative(source)
    if not source.is_file():
        raise NotFound.of(
            "HIVE-107",
            f"there is no golden set {file}",
            file=file,
            path="$",
            fix="write one with `hive label QUERY`, or name one with --golden FILE",
            exit_code=2,
        )
    return jsontext.decode(read_bytes(source), file), file


def parse_golden(workspace: Workspace, text: str, file: str) -> GoldenSet:
    """Return the golden set in the text of `file`, which need not be written yet. Raises: as `load_golden`."""
    golden = formats.load_value(GoldenFile, jsontext.parse(text, file), file, text)
    return _checked(workspace, golden, text, file, {doc_id for doc_id, _ in document_files(workspace.documents)})


def _checked(workspace: Workspace, golden: GoldenFile, text: str, file: str, doc_ids: set[str] | None) -> GoldenSet:
    """Return the golden set of a file's content; `doc_ids` as for `label_faults`."""
    faults = list(label_faults(golden, file, text, doc_ids))
    faults += _unknown_principals(workspace, golden, file, text)
    if faults:
        raise HiveError(faults)
    try:
        load_collection(workspace, golden.collection)
    except NotFound:
        line = jsontext.line_of(text, ["collection"])
        raise no_such_collection(golden.collection, collection_names(workspace), file, line) from None
    return GoldenSet(golden.collection, golden.k, tuple(golden.queries), file, _digest(golden))


def _digest(golden: GoldenFile) -> str:
    unseen = golden.model_dump_json(exclude={"queries": {"__all__": {"seen"}}})
    seen = {query.id: query.seen for query in golden.queries if query.seen}
    return hashlib.sha256(f"{unseen}{json.dumps(seen) if seen else ''}".encode()).hexdigest()


def hash_before(workspace: Workspace, golden: GoldenSet, moves: Sequence[Mapping[str, str]]) -> str | None:
    """Return the hash that a whole golden set had before its labels followed `moves`; None for a part of one.

    Raises: as `load_golden`, save for the labels.
    """
    text, file = _read(workspace, Path(golden.file))
    value = jsontext.parse(text, file)
    if _digest(formats.load_value(GoldenFile, value, file, text)) != golden.hash:
        return None
    for one in reversed(moves):
        move_labels(value, {new: old for old, new in one.items()})
    return _digest(formats.load_value(GoldenFile, value, file, text))


def _unknown_principals(workspace: Workspace, golden: GoldenFile, file: str, text: str) -> Iterator[Diagnostic]:
    named = {number: query.principal for number, query in enumerate(golden.queries) if query.principal is not None}
    if not named:
        return
    rules = AccessRules.load(workspace)
    yield from rules.faults
    for number, user in named.items():
        if not rules.faults and rules.principal(user) is None:
            path = ("queries", number, "principal")
            fix = did_you_mean(user, rules.principals, "name a principal of access/*.json, or remove the key")
            message = f'there is no principal "{user}"'
            yield Diagnostic("HIVE-107", message, file, jsontext.show_path(path), fix, jsontext.line_of(text, path))


def label_faults(golden: GoldenFile, file: str, text: str, doc_ids: set[str] | None) -> Iterator[Diagnostic]:
    """Yield faults of ids and labels; with None for `doc_ids` a label may name any document."""

    def fault(code: str, message: str, *path: str | int, fix: str) -> Diagnostic:
        return Diagnostic(code, message, file, jsontext.show_path(path), fix, jsontext.line_of(text, path))

    fixes: dict[str, str] = {}
    seen: set[str] = set()
    for number, query in enumerate(golden.queries):
        if query.id in seen:
            yield fault(
                "HIVE-111",
                f'the id "{query.id}" is used twice',
                "queries",
                number,
                "id",
                fix="give each query its own id",
            )
        seen.add(query.id)
        for place, tag in enumerate(query.tags):
            if not tag.strip() or tag != tag.strip():
                fix = f'write "{tag.strip()}"' if tag.strip() else "remove it"
                message = f'query "{query.id}": "{tag}" is {"padded" if tag.strip() else "blank"}, and no tag'
                yield fault("HIVE-105", message, "queries", number, "tags", place, fix=fix)
        placed: dict[str, str] = {}
        for name, labels in query.lists.items():
            for place, doc_id in enumerate(labels or ()):
                where = ("queries", number, name, place)
                if doc_ids is not None and doc_id not in doc_ids:
                    if doc_id not in fixes:
                        fixes[doc_id] = did_you_mean(doc_id, doc_ids, _LOST) if len(fixes) < _SUGGESTED else _LOST
                    message = f'query "{query.id}": there is no document "{doc_id}"'
                    yield fault("HIVE-109", message, *where, fix=fixes[doc_id])
                if doc_id in placed:
                    both = "twice in " + name if placed[doc_id] == name else f"in {placed[doc_id]} and in {name}"
                    message = f'query "{query.id}": "{doc_id}" stands {both}'
                    yield fault("HIVE-110", message, *where, fix="keep it in one list")
                placed[doc_id] = name
