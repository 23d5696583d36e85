"""`report.html`: a run's trials, result and refused configs in one file that opens offline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hive_agents.base.files import atomic_write, read_bytes
from hive_agents.evaluation import readers_lines
from hive_agents.gate import TagChange
from hive_agents.optimizer.report import declarable, ending, for_readers, missing, proposed_by, reranking
from hive_agents.optimizer.session import OptimizerSession
from hive_agents.optimizer.space import in_words
from hive_agents.ranking import RetrievalConfig

_STYLE = """
:root{--ink:#1c2430;--dim:#5b6675;--line:#d8dee6;--page:#fff;--good:#0a7d43;--bad:#b3261e;--bar:#2f6fdb;--soft:#f3f6fa}
@media (prefers-color-scheme:dark){
  :root{--ink:#e6eaf0;--dim:#9aa5b4;--line:#343c48;--page:#14181f}
  :root{--good:#4cc38a;--bad:#ff7b72;--bar:#6ea2ff;--soft:#1c222c}
}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page)}
body{margin:0 auto;max-width:64rem;padding:1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
.dim{color:var(--dim)}.good{color:var(--good)}.bad{color:var(--bad)}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.cards{display:flex;flex-wrap:wrap;gap:.8rem}
.card{background:var(--soft);border-radius:.5rem;padding:.6rem 1rem;flex:1 1 9rem}
.card b{display:block;font-size:1.4rem}
svg text{fill:var(--dim);font-size:12px}code{background:var(--soft);padding:.1em .3em}
"""

_HEADER = r"<header>.*?</header>"


def page(result: Mapping[str, Any], session: OptimizerSession) -> str:
    """Return the report as HTML. It lists training and validation queries, but only means of the holdout."""
    best = result["best"]
    before, after = session.baseline, _config_of(session, best["config"])
    sections = [
        _head(result),
        _certificate(result["certificate"]),
        _rejected(result["rejected"]),
        "<h2>Progress</h2>" + _chart(result),
        "".join(f"<p>{escape(line)}.</p>" for line in declarable(result)),
        "<h2>What changes</h2>" + _changes(best["changes"]),
        "<h2>Diagnosis of the starting point</h2><p>" + escape(result["first_diagnosis"] or "–") + "</p>",
        "<h2>Queries, before and after</h2>" + _queries(session, before, after),
        "<h2>Map of distractors</h2>" + _distractors(session, before, after),
        "<h2>What was tried</h2>" + _tried(result["iterations"]),
    ]
    title = escape(f"Optimizer run {result['run_id']}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style><body>{''.join(sections)}</body></html>\n"
    )


def restate(path: Path, result: Mapping[str, Any]) -> None:
    """Update the status in a written report; a deleted report isn't written again."""
    if path.is_file():
        head, text = _status(result), read_bytes(path).decode()
        atomic_write(path, re.sub(_HEADER, lambda _: head, text, count=1, flags=re.S).encode(), mode=0o600)


def _status(result: Mapping[str, Any]) -> str:
    stopped = f" (stopped by {escape(result['stopped_by'])})" if result["stopped_by"] else ""
    sentences = [missing(result), ending(result) if result.get("decision") else None]
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences if sentence)
    return f"<header><h1>{escape(result['status']).replace('_', ' ')}{stopped}</h1>{paragraphs}</header>"


def _config_of(session: OptimizerSession, name: str) -> RetrievalConfig:
    return session.baseline if name == session.baseline.name else session.stored(name).config


def _head(result: Mapping[str, Any]) -> str:
    best, base = result["best"], result["baseline"]
    cards = [
        ("starting point", escape(base["config"])),
        ("best", escape(best["config"])),
        ("nUDCG, training queries", f"{_number(base['train'])} → {_number(best['train'])}"),
        ("nUDCG, validation queries", f"{_number(base['validation'])} → {_number(best['validation'])}"),
        ("configs measured", f"{result['evaluations']}"),
    ]
    boxes = "".join(f'<div class="card"><span class="dim">{name}</span><b>{value}</b></div>' for name, value in cards)
    run = escape(result["run_id"])
    told = "".join(f"<li>{escape(line)}</li>" for line in for_readers(result))
    changes = f"<h2>What changes for a reader</h2><ul>{told}</ul>" if told else ""
    return (
        f'{_status(result)}<p class="dim">Run {run}; seen again with <code>hive optimize --resume {run}</code></p>'
        f'<div class="cards">{boxes}</div><p>{escape("; ".join(proposed_by(result)))}</p>{changes}'
    )


def _certificate(certificate: Mapping[str, Any] | None) -> str:
    if certificate is None:
        return "<h2>Certificate</h2><p>None: nothing went to the gate.</p>"
    low, high = certificate["ci95"] or (None, None)
    style = "good" if certificate["decision"] == "passed" else "bad"
    rows = [
        ("decision", f'<b class="{style}">{escape(certificate["decision"])}</b>'),
        ("holdout queries", str(certificate["n"])),
        ("nUDCG on the holdout", f"{_number(certificate['before'])} → {_number(certificate['after'])}"),
        ("difference, 95 % interval", f"{_signed(certificate['difference'])} ({_signed(low)} to {_signed(high)})"),
        (
            "distractors a query",
            f"{_number(certificate['distractors_before'])} → {_number(certificate['distractors_after'])}",
        ),
        (
            "p-value, level",
            f"{_number(certificate['p_value'], 4)}, {_number(certificate['alpha'], 4)} (use {certificate['j']})",
        ),
        ("smallest gain that would show", _number(certificate["mde"] or None)),
    ]
    if certificate.get("recall_after") is not None:  # runs of earlier releases didn't keep it
        rows.insert(5, ("recall", f"{_number(certificate['recall_before'])} → {_number(certificate['recall_after'])}"))
    rows += [("readers", escape(line)) for line in readers_lines(certificate.get("readers"))]
    findings = [*certificate["reasons"], *certificate.get("warnings", ())]
    rows += [(escape(one["code"]), escape(one["message"])) for one in findings]
    rows += [("reranking", escape(line)) for line in reranking(certificate)]
    rows += [("watch", escape(str(TagChange(**change, blocks=False)))) for change in certificate["watch"]]
    return "<h2>Certificate</h2>" + _table(["", ""], rows, raw=True)


def _rejected(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    head = ["config", "change", "train", "validation", "distractors", "why, and the command that accepts it"]
    intro = "<p>Better on the open queries than what is kept.</p>"
    return f"<h2>The best that was refused</h2>{intro}" + _table(
        head,
        [
            [
                row["config"],
                in_words(row["changes"]),
                _number(row["train"]),
                _number(row["validation"]),
                _number(row["distractors"], 2),
                row["why"],
            ]
            for row in rows
        ],
        numbers={2, 3, 4},
    )


def _chart(result: Mapping[str, Any]) -> str:
    """Return the training and validation nUDCG after each step that was taken as a chart."""
    train = [result["baseline"]["train"]]
    validation = [result["baseline"]["validation"]]
    last = max((row["n"] for row in result["iterations"]), default=0)
    for n in range(1, last + 1):
        new = [row for row in result["iterations"] if row["n"] == n and row["config"]]
        train.append(new[-1]["train"] if new else train[-1])
        validation.append(new[-1]["validation"] if new else validation[-1])
    values = [value for value in (*train, *validation) if value is not None]
    low, high = min(0.0, *values), max(1.0, *values)

    def x(n: int) -> float:
        return 50 + 640 * n / max(last, 1)

    def y(value: float) -> float:
        return float(20 + 220 * (high - value) / (high - low))

    def line(series: Sequence[float | None], color: str, dash: str = "") -> str:
        points = " ".join(f"{x(n):.1f},{y(value):.1f}" for n, value in enumerate(series) if value is not None)
        return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>'

    marks = [tick / 4 for tick in range(int(low * 4) - 1, int(high * 4) + 1) if low <= tick / 4 <= high]
    grid = "".join(
        f'<line x1="50" x2="690" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="var(--line)"/>'
        f'<text x="42" y="{y(v) + 4:.1f}" text-anchor="end">{v:.2f}</text>'
        for v in marks
    )
    axis = "".join(f'<text x="{x(n):.1f}" y="258" text-anchor="middle">{n}</text>' for n in range(last + 1))
    taken = max((row["n"] for row in result["iterations"] if row["config"]), default=0)
    name = escape(result["best"]["config"] if taken else result["baseline"]["config"])
    axis += (
        f'<circle cx="{x(taken):.1f}" cy="{y(train[taken]):.1f}" r="5" fill="var(--bar)"/>'
        f'<text x="{min(x(taken), 620):.1f}" y="{y(train[taken]) - 10:.1f}">{name}</text>'
        '<text x="690" y="258" text-anchor="end">iteration</text>'
    )
    return (
        '<div class="wide"><svg viewBox="0 0 700 270" width="700" role="img" aria-label="nUDCG by iteration">'
        f"{grid}{axis}{line(train, 'var(--bar)')}{line(validation, 'var(--good)', '6 4')}</svg></div>"
        '<p class="dim">nUDCG, the steps that were taken. Solid: training queries. Dashed: validation queries.</p>'
    )


def _changes(changes: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (c["path"], json.dumps(c["a"], ensure_ascii=False), json.dumps(c["b"], ensure_ascii=False)) for c in changes
    ]
    return _table(["path", "before", "after"], rows) if rows else "<p>Nothing.</p>"


def _queries(session: OptimizerSession, before: RetrievalConfig, after: RetrievalConfig) -> str:
    a, b = session.remeasure(before), session.remeasure(after)
    rows = []
    for row, query in enumerate(session.tuning.queries):
        split = "train" if row < len(session.tuning.train) else "validation"
        x, y = float(a.nudcg[row]), float(b.nudcg[row])
        counts = f"{int(a.scores.distractors[row])} → {int(b.scores.distractors[row])}"
        rows.append((y - x, [query.id, split, query.query, _number(x), _number(y), _signed(y - x), counts]))
    rows.sort(key=lambda entry: entry[0])
    head = ["id", "split", "query", "before", "after", "change", "distractors"]
    return _table(head, [row for _, row in rows], numbers={3, 4, 5, 6})


def _distractors(session: OptimizerSession, before: RetrievalConfig, after: RetrievalConfig) -> str:
    """Return a table of the returned distractors, with how often, before and after."""
    counts: dict[str, list[int]] = {}
    for column, config in enumerate((before, after)):
        for doc_id in session.open.distractors_returned(config):
            counts.setdefault(doc_id, [0, 0])[column] += 1
    rows = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    if not rows:
        return "<p>No distractor was returned, before or after.</p>"
    return _table(["document", "returned before", "after"], [[d, str(a), str(b)] for d, (a, b) in rows], numbers={1, 2})


def _tried(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["n", "config", "change", "why", "by", "train", "validation", "distractors", "verdict"]
    return _table(
        head,
        [
            [
                str(row["n"]),
                row["config"] or "",
                row["step"] or in_words(row["changes"]),
                row["reason"],
                row["proposer"],
                _number(row["train"]),
                _number(row["validation"]),
                _number(row["distractors"], 2),
                f"{row['verdict']}: {row['feedback']}",
            ]
            for row in rows
        ],
        numbers={5, 6, 7},
    )


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: set[int] | None = None, raw: bool = False
) -> str:
    marked = numbers or set()

    def cell(tag: str, column: int, text: str) -> str:
        style = ' class="n"' if column in marked else ""
        return f"<{tag}{style}>{text if raw else escape(text)}</{tag}>"

    top = "".join(cell("th", column, name) for column, name in enumerate(head))
    body = "".join(
        "<tr>" + "".join(cell("td", column, text) for column, text in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{top}</tr>{body}</table></div>'


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"
