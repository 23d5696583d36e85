"""The gate's finding as JUnit XML for a CI server and as Markdown for a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from hive_agents.base import count, one_line, safe_line

if TYPE_CHECKING:
    from hive_agents.gate import anybody

CHECKS = {
    "HIVE-301": "neither the mean nUDCG nor what readers get falls",
    "HIVE-302": "no more distractors",
    "HIVE-303": "no tag is shown to lose",
    "HIVE-304": "no slower",
    "HIVE-305": "what is returned was judged",
    "HIVE-312": "every metric keeps its budget",
}
PROOF = "the gain is proved"
_SIGNS = {"passed": "✅", "blocked": "⛔", "inconclusive": "❔"}
_METRICS = {"nudcg": "nUDCG", "ndcg": "nDCG", "recall": "recall", "mrr": "MRR", "distractors": "distractors"}


def junit_text(finding: anybody.RankingsFinding) -> str:
    """Return a JUnit report: a test case for each check that can block, and one for the proof."""
    reasons: dict[str, list[str]] = {}
    for reason in finding.reasons:
        reasons.setdefault(CHECKS.get(reason.code, PROOF), []).append(f"{reason.code}: {reason.message}")
    cases = [*CHECKS.values(), PROOF]
    skipped = finding.decision == "blocked"  # then the proof was not tried
    attributes = {
        "name": safe_line(f"hive gate: {finding.candidate.config}"),
        "tests": str(len(cases)),
        "failures": str(len(reasons)),
        "skipped": str(int(skipped)),
    }
    suite = ElementTree.Element("testsuite", attributes)
    for name in cases:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "hive gate", "name": name})
        if name in reasons:
            failure = ElementTree.SubElement(case, "failure", {"message": safe_line(reasons[name][0])})
            failure.text = "\n".join(map(safe_line, reasons[name]))
        elif name == PROOF and skipped:
            ElementTree.SubElement(case, "skipped")
    out = ElementTree.SubElement(suite, "system-out")
    out.text = "\n".join(
        [f"{finding.decision}: {_evidence(finding)}", *(f"watch: {safe_line(change)}" for change in finding.watch)]
    )
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def markdown_text(finding: anybody.RankingsFinding, reason: str | None = None) -> str:
    """Return a summary for a pull request; markup in names and queries is escaped."""
    assert finding.active is not None
    old, new = finding.active, finding.candidate
    lines = [
        f"### {_SIGNS[finding.decision]} Search gate: {finding.decision}",
        "",
        _evidence(finding),
        "",
        f"| | {_cell(old.config)} | {_cell(new.config)} | difference |",
        "| --- | ---: | ---: | ---: |",
    ]
    for key, name in _METRICS.items():
        before, after = old.metrics[key], new.metrics[key]
        if before is not None and after is not None:
            lines.append(f"| {name} | {before:.3f} | {after:.3f} | {after - before:+.3f} |")
    readers = finding.readers.to_json() if finding.readers else {}
    for key, pair in readers.items():
        if isinstance(pair, list):
            lines.append(f"| readers: {key} | {pair[0]:.3f} | {pair[1]:.3f} | {pair[1] - pair[0]:+.3f} |")
    lines.append("")
    lines += [f"- **{block.code}** {_cell(block.message)}" for block in finding.reasons]
    lines += [f"- watch: {_cell(str(change))}; not shown, so it stops nobody" for change in finding.watch]
    accepted = [*map(str, finding.accepted_tags), *finding.accepted]
    lines += [f"- accepted: {_cell(loss)}: {_cell(reason or '')}" for loss in accepted]
    changed = most_changed(finding, 10)
    if changed:
        lines += ["", "<details><summary>Queries that change most</summary>", ""]
        lines += ["| query | before | after | difference |", "| --- | ---: | ---: | ---: |"]
        for query_id, text, before, after in changed:
            name = query_id if text == query_id else f"{query_id}: {text}"
            lines.append(f"| {_cell(name)} | {before:.3f} | {after:.3f} | {after - before:+.3f} |")
        lines += ["", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def _evidence(finding: anybody.RankingsFinding) -> str:
    difference = finding.difference
    assert difference is not None
    low, high = difference.ci95
    evidence = (
        f"nUDCG {difference.difference:+.3f} (95 %: {low:+.3f} to {high:+.3f}), p = {difference.p_value:.4f} against"
        f" {finding.alpha:.4f}; n = {difference.n}, {difference.wins} won, {difference.losses} lost,"
        f" {difference.ties} tied."
    )
    if finding.powered is not None:
        cheap, (low, high) = finding.powered, finding.powered.ci95
        evidence += (
            f" With {cheap.n_cheap} cheap labels of weight {cheap.weight:.2f}, which decides: {cheap.difference:+.3f}"
            f" (95 %: {low:+.3f} to {high:+.3f}), p = {cheap.p_value:.4f}."
        )
    if finding.use:
        left = count(finding.uses_left or 0, "look")
        return f"{evidence} Holdout, look {finding.use.j} at it, {left} left."
    return f"{evidence} Holdout, and no look at it: both rank alike."


def _cell(text: str) -> str:
    """Return a text with Markdown, HTML and @ escaped."""
    plain = one_line(text, 160).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return re.sub(r"([\\`*_{}\[\]|~#!])", r"\\\1", plain)


def most_changed(finding: anybody.RankingsFinding, most: int = 8) -> list[tuple[str, str, float, float]]:
    """Return (id, text, nUDCG before, nUDCG after) of the `most` queries that change most, most changed first."""
    assert finding.active is not None
    pairs = [
        (a, b) for a, b in zip(finding.active.queries, finding.candidate.queries, strict=True) if a.nudcg != b.nudcg
    ]
    pairs.sort(key=lambda pair: (-abs(pair[1].nudcg - pair[0].nudcg), pair[0].query.id))
    return [(a.query.id, a.query.query, a.nudcg, b.nudcg) for a, b in pairs[:most]]
