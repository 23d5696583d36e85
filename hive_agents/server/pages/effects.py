"""What the settings in which two configs differ do to a reader's lists, in sentences of a language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hive_agents.server.pages.language import decimal, texts, told

HALF_LIFE = "half_life_days"
SWITCHES = (
    "dynamic_k.enabled", "lift.enabled", "abstain.enabled", "abstain.unless_all_words",
    "distraction_detection.enabled", "rerank.enabled",
)  # fmt: skip
COUNTED = ("retrieval.weights.keyword", "retrieval.weights.vector", "bm25.title_boost")
"""What something counts: so many times as much as before."""
MOVED = (
    "retrieval.rrf_k", "bm25.k1", "bm25.b", "dynamic_k.gap_threshold_factor", "boilerplate.weight",
    "abstain.min_cosine", "distraction_detection.disagreement_threshold", "rerank.floor",
)  # fmt: skip
"""What has no unit that a reader knows: only where it moved is told."""
NAMED = (
    "collection", "retrieval.top_k", "retrieval.candidates", "dynamic_k.min_results", "dynamic_k.max_results",
    "rerank.candidates",
)  # fmt: skip


def effects(language: str, changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences for changes `{path, a, b}` of `evaluation.changed`, in their order.

    A setting that no sentence is made for is told by its path and its values.

    >>> effects("en", [{"path": "retrieval.weights.keyword", "a": 1.0, "b": 2.0}])
    ["the question's words count twice as much"]
    >>> effects("de", [{"path": "boosts.status", "a": None, "b": {"retired": 0.3}}])
    ['Dokumente mit status retired kommen später']
    """

    def tell(key: str, **values: Any) -> str:
        return told(language, f"effect.{key}", **values)

    return [line for change in changes for line in _told(language, tell, change["path"], change["a"], change["b"])]


def _told(language: str, tell: Callable[..., str], path: str, a: Any, b: Any) -> Iterator[str]:
    block, _, field = path.partition(".")
    if block == "boosts":
        yield from _boost(tell, field, a or {}, b or {})
    elif block == "filters":
        yield _filter(tell, field, b)
    elif path in SWITCHES and isinstance(b, bool):
        yield tell(f"{path}.{'on' if b else 'off'}")
    elif path in COUNTED and a and b:
        yield tell(path, times=_times(language, tell, b / a))
    elif path in COUNTED:
        yield tell(f"{path}.{'on' if b else 'off'}")
    elif path == "lift.weight" and b is not None:
        yield tell("lift.enabled.off") if b == 0 else tell(path, times=_times(language, tell, b))
    elif path in MOVED:
        yield tell(f"{path}.{_direction(a, b)}")
    elif f"effect.{path}.{b}" in texts():  # one of few values
        yield tell(f"{path}.{b}", a=_shown(a))
    elif path in NAMED and b is not None:
        yield tell(path, a=_shown(a), b=b)
    elif path == "retrieval.per_document":
        yield tell(path, n=b)
    else:
        yield tell("other", path=path, a=_shown(a), b=_shown(b))


def _direction(a: Any, b: Any) -> str:
    """Return whether a limit came up or down; none at all is below each."""
    return "up" if a is None or (b is not None and b > a) else "down"


def _boost(tell: Callable[..., str], field: str, a: Mapping[str, float], b: Mapping[str, float]) -> Iterator[str]:
    if HALF_LIFE in b:
        yield tell("boosts.older", field=field, days=f"{b[HALF_LIFE]:g}")
        return
    if not b:
        yield tell("boosts.none", field=field)
    for value in sorted({*a, *b} - {HALF_LIFE} if b else ()):
        before, after = a.get(value, 1.0), b.get(value, 1.0)
        if before != after:
            yield tell("boosts.later" if after < before else "boosts.earlier", field=field, value=value)


def _filter(tell: Callable[..., str], field: str, b: Any) -> str:
    hidden = b.get("not") if isinstance(b, dict) else None
    if b is None:
        return tell("filters.none", field=field)
    if hidden:
        return tell("filters.hidden", field=field, values=", ".join(map(str, hidden)))
    if isinstance(b, str | list):
        return tell("filters.only", field=field, values=", ".join(map(str, b)) if isinstance(b, list) else b)
    return tell("filters.other", field=field)


def _times(language: str, tell: Callable[..., str], ratio: float) -> str:
    """Return how much something counts that counted 1.

    >>> [_times("en", lambda key, **values: f"{key} {values}", one) for one in (2.0, 0.5, 1.5, 0.4, 1.0)]
    ['times.twice {}', 'times.half {}', "times.more {'n': '1.5'}", "times.less {'n': 40}", 'times.same {}']
    """
    named = {2.0: "twice", 0.5: "half", 1.0: "same"}.get(ratio)
    if named:
        return tell(f"times.{named}")
    if ratio < 1:
        return tell("times.less", n=round(100 * ratio))
    return tell("times.more", n=decimal(language, ratio, 0 if ratio == round(ratio) else 1))


def _shown(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
