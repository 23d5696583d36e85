"""Retrieval programs: JSON files with the settings of a search, and `configs/active.json`, which names one of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, LiteralString

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError

from hive_agents.base import HiveError, NotFound, did_you_mean
from hive_agents.base.files import (
    AnyCase,
    FileFormat,
    Format,
    Name,
    atomic,
    atomic_write_text,
    disk_errors,
    formats,
    jsontext,
    read_bytes,
    remove,
)
from hive_agents.index import HALF_LIFE, BM25Params, Condition, ConditionValue, condition
from hive_agents.workspace import Workspace

LINK = "active.json"
"""A relative symlink to the active config, or `{"active": "v2.json"}` where symlinks can't be made.

The text of the config, which a copy that follows links leaves, and its file name, which a checkout without links
leaves, mean the same.
"""

Method = Literal["keyword", "vector", "hybrid"]
Depth = Annotated[int, Field(ge=1, le=10_000)]
Weight = Annotated[float, Field(ge=0)]

MOST_BOOST = 10.0


def _not_reserved(name: str) -> str:
    if name == "active":
        raise PydanticCustomError("reserved_name", '"active" is reserved for the deployed config')
    return name


def _checked(boost: dict[str, float]) -> dict[str, float]:
    if not boost:
        raise PydanticCustomError("boost_value_error", "an empty boost changes nothing: give values, or half_life_days")
    if HALF_LIFE in boost:
        if len(boost) > 1:
            message = "half_life_days stands alone: a date has an age and no values"
            raise PydanticCustomError("boost_value_error", message)
        if not boost[HALF_LIFE] > 0:
            raise _faulty({HALF_LIFE: boost[HALF_LIFE]}, "half_life_days must be more than 0")
        return boost
    outside = {value: factor for value, factor in boost.items() if not 0 <= factor <= MOST_BOOST}
    if outside:
        raise _faulty(outside, "a factor must be between 0 and 10")
    return boost


def _faulty(entries: Mapping[str, float], message: LiteralString) -> ValidationError:
    """Return an error with a location for each entry."""
    kind = PydanticCustomError("boost_value_error", message)
    faults = [InitErrorDetails(type=kind, loc=(key,), input=value) for key, value in entries.items()]
    return ValidationError.from_exception_data("Boost", faults)


_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {HALF_LIFE: {"type": "number", "exclusiveMinimum": 0}},
            "required": [HALF_LIFE],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "propertyNames": {"not": {"const": HALF_LIFE}},
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": MOST_BOOST},
            "minProperties": 1,
        },
    ]
}

Boost = Annotated[dict[str, float], AfterValidator(_checked), WithJsonSchema(_SCHEMA)]
"""`{value: factor from 0 to 10}`, or `{"half_life_days": days}` for a date field."""


class Weights(Format):
    keyword: Weight = 1.0
    vector: Weight = 1.0


class Retrieval(Format):
    method: Annotated[Method, AnyCase]
    top_k: Annotated[int, Field(ge=1, le=1000)]
    rrf_k: Annotated[int, Field(ge=1, le=1000)] = 60
    candidates: Depth = 100
    weights: Weights = Weights()
    per_document: Annotated[int, Field(ge=1, le=100)] | None = None

    @property
    def keyword(self) -> bool:
        return self.method != "vector"

    @property
    def vector(self) -> bool:
        return self.method != "keyword"

    @property
    def lane_weights(self) -> list[float]:
        """The weights of the lanes in use; a single lane has the weight 1."""
        return [self.weights.keyword, self.weights.vector] if self.method == "hybrid" else [1.0]


class BM25Settings(Format):
    k1: Annotated[float, Field(ge=0, le=10)] = 1.2
    b: Annotated[float, Field(ge=0, le=1)] = 0.75
    title_boost: Annotated[float, Field(ge=0, le=10)] = 1.0

    @property
    def params(self) -> BM25Params:
        return BM25Params(self.k1, self.b, self.title_boost)


class DynamicK(Format):
    enabled: bool = False
    gap_threshold_factor: Annotated[float, Field(gt=0)] = 3.0
    min_results: Annotated[int, Field(ge=0)] = 1
    max_results: Annotated[int, Field(ge=1)] | None = None


class DistractionDetection(Format):
    enabled: bool = False
    disagreement_threshold: Annotated[float, Field(ge=0, le=1)] = 0.5


class Rerank(Format):
    enabled: bool = False
    candidates: Depth = 50
    floor: float | None = None


class Abstain(Format):
    """Where it is `enabled`, nothing is returned if nothing is near by meaning or by words: see `ranking.silence`.

    Nothing is returned either where no cosine reaches `min_cosine`. With `unless_all_words` a list is returned all the
    same where one of the keyword lane's first chunks has every word of the query: what somebody typed word for word is
    there.
    """

    enabled: bool = False
    min_cosine: Annotated[float, Field(ge=-1, le=1)] | None = None
    unless_all_words: bool = False


class Lift(Format):
    """What the names of a query count in a hybrid ranking: see `ranking.lift`.

    Where neither is said, the weight is 1 for an index that has exact writings as terms, and 0 for an older one, whose
    rankings stay.
    """

    enabled: bool | None = None
    weight: Annotated[float, Field(ge=0, le=10)] | None = None


class BoilerplateSettings(Format):
    """`weight` is what a chunk counts that is nothing but lines which a fifth of the documents have; 1 is no matter."""

    weight: Annotated[float, Field(ge=0, le=1)] = 1.0


class RetrievalConfig(FileFormat):
    """A retrieval program: how to search a collection.

    >>> config = RetrievalConfig(name="v1", collection="kb", retrieval={"method": "keyword", "top_k": 5})
    >>> config.retrieval.top_k, config.max_results, config.dynamic_k.enabled
    (5, 5, False)
    """

    name: Annotated[Name, AfterValidator(_not_reserved)]
    collection: str
    description: str = ""
    parent: str | None = None
    retrieval: Retrieval
    dynamic_k: DynamicK = DynamicK()
    filters: dict[str, ConditionValue] = {}
    boosts: dict[str, Boost] = {}
    boilerplate: BoilerplateSettings = BoilerplateSettings()
    lift: Lift = Lift()
    distraction_detection: DistractionDetection = DistractionDetection()
    abstain: Abstain = Abstain()
    bm25: BM25Settings = BM25Settings()
    rerank: Rerank = Rerank()

    @property
    def conditions(self) -> dict[str, Condition]:
        """The filters as conditions; fields are and-ed."""
        return {field: condition(value) for field, value in self.filters.items()}

    @property
    def max_results(self) -> int:
        """The longest list that dynamic-k may return: `max_results`, else `top_k`."""
        return self.dynamic_k.max_results or self.retrieval.top_k


@dataclass(frozen=True)
class StoredConfig:
    """A config with the text it was read from; `file` is workspace-relative."""

    config: RetrievalConfig
    text: str
    file: str

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def hash(self) -> str:
        return config_hash(self.text)

    def line_of(self, path: jsontext.JsonPath) -> int | None:
        return jsontext.line_of(self.text, path)


def config_hash(text: str) -> str:
    """Return the hash of a config's JSON value: white space and the order of keys don't count."""
    return canonical_hash(json.loads(text))


def canonical_hash(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


@lru_cache(maxsize=64)  # each search parses the active config
def parse_config(text: str, file: str) -> StoredConfig:
    """Return a config from its text. Raises: `HiveError` with every diagnostic of level 1."""
    value = jsontext.parse(text, file)
    return StoredConfig(formats.load_value(RetrievalConfig, value, file, text), text, file)


def read_config(workspace: Workspace, path: Path) -> StoredConfig:
    file = workspace.relative(path)
    return parse_config(jsontext.decode(read_bytes(path), file), file)


def find_config(workspace: Workspace, reference: str) -> StoredConfig:
    """Return the config of a path, a file name or a name, tried in that order.

    Raises: HIVE-107 (exit code 2) when there is none, HIVE-111 when two files have that name.
    """
    path = find_config_file(workspace, reference)
    if workspace.relative(path) == f"configs/{LINK}":
        path = active_target(workspace) or path  # the link is read, not followed
    return read_config(workspace, path)


def config_files(workspace: Workspace) -> list[Path]:
    """Return the JSON files of configs/, sorted, without active.json."""
    if not workspace.configs.is_dir():
        return []
    # Not glob, which finds nothing in an unreadable folder, without an error.
    return sorted(path for path in workspace.configs.iterdir() if path.suffix == ".json" and path.stem != "active")


def find_config_file(workspace: Workspace, reference: str) -> Path:
    """Return the file of a config. Raises: as `find_config`."""
    if "/" in reference or reference.endswith(".json"):
        for path in (Path(reference), workspace.root / reference):
            if path.is_file():
                return path
    files = {path.stem: path for path in config_files(workspace)}
    stem = reference.removesuffix(".json")
    if stem in files:
        return files[stem]
    named = [path for path in files.values() if _name_in(path) == reference]
    if len(named) > 1:
        file = workspace.relative(named[1])
        raise HiveError.of(
            "HIVE-111",
            f'{" and ".join(workspace.relative(path) for path in named)} have the name "{reference}"',
            file=file,
            path="name",
            line=jsontext.line_of(jsontext.decode(read_bytes(named[1]), file), ["name"]),
            fix="rename one, or name the file",
        )
    if named:
        return named[0]
    known = sorted({*files, *(name for path in files.values() if (name := _name_in(path)))})
    raise NotFound.of(
        "HIVE-107",
        f'no config is named "{reference}"',
        file="configs",
        path="$",
        fix=did_you_mean(reference, known, f"use one of: {', '.join(known) or 'none yet'}"),
        exit_code=2,
    )


def _name_in(path: Path) -> str | None:
    """Return the name in a file, or None where it can't be read: a faulty config doesn't break the others."""
    try:
        name = json.loads(read_bytes(path))["name"]
    except (HiveError, OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def active_target(workspace: Workspace) -> Path | None:
    """Return the file that active.json names, whether it exists or not; None without active.json.

    Raises: HIVE-114 for a file outside configs/, HIVE-107 for an active.json of no known form.
    """
    link = workspace.configs / LINK
    if link.is_symlink():
        name = os.readlink(link)
    elif link.is_file():
        name = _pointer(workspace, link)
    else:
        return None
    if name == LINK:
        raise _unusable(f"{LINK} names itself")
    target = workspace.configs / name
    if Path(name).name != name or not is_inside(target, workspace.configs):
        raise HiveError.of(
            "HIVE-114",
            f"{LINK} leads to {name}, outside configs/",
            file=f"configs/{LINK}",
            path="$",
            fix="remove the link and run `hive deploy CONFIG`",
        )
    return target


def is_inside(file: Path, folder: Path) -> bool:
    """Return whether `file` with its links resolved is directly in `folder`, or doesn't exist."""
    # Not Path.resolve, which raises on a cycle of links.
    exists = file.is_symlink() or file.exists()
    return not exists or os.path.dirname(os.path.realpath(file)) == os.path.realpath(folder)


def _pointer(workspace: Workspace, link: Path) -> str:
    """Return the file name that an active.json without a symlink names. Raises: HIVE-107."""
    file = f"configs/{LINK}"
    text = jsontext.decode(read_bytes(link), file)
    copied = _copied(workspace, text)
    if copied is not None:
        return copied
    value = jsontext.parse(text, file)
    name = value.get("active") if isinstance(value, dict) else None
    if not isinstance(name, str) or set(value) - {"$schema"} != {"active"}:
        raise _unusable(f'{LINK} is neither a link nor {{"active": "<file>"}}')
    return name


def _copied(workspace: Workspace, text: str) -> str | None:
    """Return the file name of the config that a copy of the link has the text or the name of; None without one."""
    for path in config_files(workspace):
        if path.is_symlink():
            continue
        with suppress(HiveError, OSError):
            if text.strip() == path.name or text.encode() == read_bytes(path):
                return path.name
    return None


def _unusable(why: str) -> HiveError:
    fix = "remove it and run `hive deploy CONFIG`"
    return HiveError.of("HIVE-107", why, file=f"configs/{LINK}", path="active", fix=fix)


def point_active(workspace: Workspace, file: Path) -> None:
    """Make active.json name `file`, atomically."""
    path = workspace.configs / LINK
    with disk_errors(path):
        try:
            atomic.atomic_symlink(path, file.name)
        except (OSError, NotImplementedError):
            remove(path)
            atomic_write_text(path, json.dumps({"active": file.name}) + "\n")
