"""The figures that the project promises about security, each with how often it was tried.

    python -m benchmarks.security [--only TEXT] [--timing-tries N] [--json FILE]

A row runs the tests that keep its promise, the long ones too, and counts tries and failures; the last rows are what the
time of an answer tells (see `timing.py`). All of it takes about half an hour on one core; `--only` takes the rows whose
title holds a text.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import timing

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Promise:
    """`each` is how many tries one test makes; `least` is how many tries were promised; `options` are pytest's."""

    title: str
    least: int
    tests: tuple[str, ...]
    each: int = 1
    slow: bool = False
    options: tuple[str, ...] = ()


PROMISES = (
    Promise("readers, grants and questions: a canary in no channel", 5_000,
            ("tests/leaks/test_leaks.py::test_no_document_leaks_in_any_channel_at_length",), each=250, slow=True),
    Promise("0 against 500 forbidden documents: the same bytes", 2,
            ("tests/leaks/test_identity.py::test_five_hundred_forbidden_documents_change_no_byte",), slow=True),
    Promise("injected documents, obeying copilot (3 places)", 240,
            ("tests/leaks/test_injections.py::test_obeying_models_do_no_harm",), each=80, slow=True),
    Promise("injected documents, obeying agent (3 channels)", 240,
            ("tests/attacks/test_obeying_agents.py",), each=80, slow=True),
    Promise("poisoned results of tools", 60,
            ("tests/attacks/test_lying_tools.py::test_a_poisoned_result_is_the_words_of_one_result",), each=60),
    Promise("expressions: escapes and exhaustions", 200,
            ("tests/goals/test_expressions.py::test_an_escape_or_exhaustion_is_refused",)),
    Promise("canaries of secrets, in each form", 12,
            ("tests/test_credentials.py::test_redaction_finds_every_form",)),
    Promise("tokens: forged, expired, for others", 40,
            ("tests/access/test_tokens.py::test_a_forged_token_is_refused",
             "tests/access/test_tokens.py::test_a_token_with_wrong_claims_is_refused")),
    Promise("names that lead out of their folder", 30,
            ("tests/memory/test_data_files.py::test_a_name_that_leaves_the_folder_or_its_system_is_refused",
             "tests/agents/test_bundled.py::test_a_proposal_writes_a_new_file_of_configs_only",
             "tests/agents/test_bundled.py::test_a_config_is_named_and_not_reached_by_a_path",
             "tests/attacks/test_links.py")),
    Promise("attempts to game the deploy gate", 30,
            ("tests/gate/test_gaming.py::test_the_attempt_fails",
             "tests/gate/test_gaming.py::test_a_trick_of_one_line_does_not_pass_on_the_sample")),
    Promise("attempts to game the deploy gate, records on a server", 30,
            ("tests/gate/test_gaming.py::test_the_attempt_fails",
             "tests/gate/test_gaming.py::test_a_trick_of_one_line_does_not_pass_on_the_sample"),
            options=("--storage", "postgres")),
    Promise("a schema or server that a stranger made", 30,
            ("tests/store/test_own_schema.py",), slow=True),
    Promise("decisions that race, between threads", 100,
            ("tests/approvals/test_races.py::test_races_between_threads_have_one_winner",), each=100),
    Promise("decisions that race, between processes", 100,
            ("tests/approvals/test_races.py::test_races_between_processes_have_one_winner",), each=50, slow=True),
    Promise("addresses inside, redirects, a page's requests", 80,
            ("tests/agents/test_web.py::test_nothing_inside_can_be_reached",
             "tests/agents/test_web.py::test_what_should_not_be_read_is_not",
             "tests/agents/test_web.py::test_addresses_that_are_no_public_ones",
             "tests/agents/test_web.py::test_a_page_in_the_browser_reads_from_its_own_host_alone")),
    Promise("keys of hive.toml that act, before trust", 40,
            ("tests/attacks/test_settings_trust.py::test_a_key_that_needs_trust_is_named_and_does_not_act",)),
    Promise("routes, tools, commands: an operator who may not view", 180,
            ("tests/leaks/test_every_view.py",), each=90),
    Promise("streams, by each way to lose a right", 30,
            ("tests/server/test_rights_end.py::test_a_stream_ends_with_its_callers_rights",), each=5),
    Promise("rights taken away, proofs that were ended", 20,
            ("tests/access/test_standing.py", "tests/access/test_revocations.py")),
    Promise("one person who decides as two", 20, ("tests/approvals/test_makers.py",)),
    Promise("tool servers that lie", 25, ("tests/attacks/test_outsiders.py",)),
    Promise("files under the name of vectors and seeds", 28,
            ("tests/attacks/test_damage.py::test_a_hostile_file_under_the_name_of_vectors_is_a_diagnostic_and_made_anew",
             "tests/attacks/test_damage.py::test_a_hostile_file_under_the_name_of_a_seed_costs_an_embedding")),
    Promise("requests that end at two places", 15,
            ("tests/server/test_connections.py::test_a_request_that_ends_at_two_places_is_refused_and_nothing_after_it_is_read",)),
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    title: str
    tries: int
    failed: int
    least: int
    seconds: float
    auc: float | None = None

    @property
    def kept(self) -> bool:
        return not self.failed and self.tries >= self.least and (self.auc is None or self.auc <= timing.TARGET)


def tried(promise: Promise) -> Figure:
    """Run the tests of a promise; a test that fails counts as all of its tries."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        marks = ["-m", "slow" if promise.slow else "not slow"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *marks]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        subprocess.run(
            [*command, *promise.options, *promise.tests],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    seconds = time.monotonic() - began
    return Figure(promise.title, promise.each * len(cases), promise.each * failed, promise.least, seconds)


def told_by_time(tries: int) -> Iterator[Figure]:
    began = time.monotonic()
    for name, row in timing.measured(tries).items():
        yield Figure(f"time: {name}", row["tries"], 0, 0, time.monotonic() - began, row["auc"])


def show(figures: Sequence[Figure]) -> None:
    """Print what is left to say of all of them."""
    kept = sum(figure.kept for figure in figures)
    print(f"\n{kept} of {len(figures)} promises kept, {sum(figure.tries for figure in figures):,} tries")


def line(figure: Figure) -> str:
    least = f"AUC <= {timing.TARGET}" if figure.auc is not None else f"0 of {figure.least:,}"
    found = f"{figure.auc:.3f}" if figure.auc is not None else str(figure.failed)
    state = "kept" if figure.kept else "NOT KEPT"
    return f"{figure.title:<56} {figure.tries:>6,} {found:>7} {least:>11} {figure.seconds:>6.0f} s  {state}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the rows whose title holds this text")
    parser.add_argument("--timing-tries", type=int, default=2_000, help="of each kind, to open documents")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: list[Figure] = []
    print(f"{'promise':<56} {'tries':>6} {'failed':>7} {'to reach':>11}")
    for promise in PROMISES:
        if options.only in promise.title:
            figures.append(tried(promise))
            print(line(figures[-1]), flush=True)
    if options.only in "time: ":
        for figure in told_by_time(options.timing_tries):
            figures.append(figure)
            print(line(figure), flush=True)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps([asdict(figure) | {"kept": figure.kept} for figure in figures], indent=1))
    raise SystemExit(0 if all(figure.kept for figure in figures) else 1)


if __name__ == "__main__":
    main()
