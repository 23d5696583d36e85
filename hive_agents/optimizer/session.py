"""The session of an optimizer run: the tuning queries, cached lanes, the baseline, the budget.

The holdout's queries are dropped on loading, so that nothing here can read their labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from hive_agents.access import Principal
from hive_agents.base import HiveError, NoModel, has_errors
from hive_agents.base.files import atomic_write_text, read_bytes
from hive_agents.evaluation import PROVING, GoldenSet, Reach, load_golden, reach, split, viewable_golden
from hive_agents.gate import TagChange, distinct, falling_tags
from hive_agents.index import AnyIndex, scope_of
from hive_agents.models import Usage, estimated_usage, price_of, require_prices
from hive_agents.models.embedding import CachedReranker, providers
from hive_agents.optimizer.budget import SearchBudget
from hive_agents.optimizer.cached_lanes import MAX_DEPTH
from hive_agents.optimizer.diagnosis import Diagnosis, diagnose
from hive_agents.optimizer.lane_cache import LaneCache
from hive_agents.optimizer.model_answer import diagnostic_line
from hive_agents.optimizer.model_proposer import ModelProposer
from hive_agents.optimizer.proposal import HeuristicProposer, Proposed, Proposer, Situation
from hive_agents.optimizer.selection import EQUAL, Candidate, ConfigChange
from hive_agents.optimizer.space import Edit, apply, changes_from, identity, in_words, parsed
from hive_agents.optimizer.spending import Spending
from hive_agents.optimizer.trial import Measured, MeasuredTrial, Refusal, refusal
from hive_agents.ranking import (
    RetrievalConfig,
    SearchEngine,
    StoredConfig,
    active_config,
    check_config,
    find_config,
    parse_config,
    versions,
)
from hive_agents.workspace import Workspace
from hive_agents.workspace.settings import Optimizer

ConfigData = dict[str, Any]
UNNAMED = "candidate"
"""The name of a config that has no file yet."""


@dataclass(frozen=True)
class Tuning:
    """The open queries of a golden set, which the optimizer may learn from; `proving` tells whether enough others are
    held out to prove anything."""

    train: GoldenSet
    validation: GoldenSet
    proving: bool

    @property
    def queries(self) -> GoldenSet:
        return self.train.joined(self.validation)


def load_tuning(workspace: Workspace, path: Path | None, viewer: Principal | None = None) -> Tuning:
    """Return the queries that the optimizer may learn from, of those that `viewer` may know.

    Raises: HIVE-105 without any; HIVE-313 where all held-out queries repeat open ones; level 1 of the golden set.
    """
    golden = viewable_golden(workspace, viewer, path)
    golden.require_queries()
    # What a viewer learns from is open in the whole set, too: by itself a part of it is split in another way.
    splits = split(golden if viewer is None else load_golden(workspace, path))
    train, validation = (golden.only(query.id for query in part) for part in (splits.train, splits.validation))
    if not train:
        raise HiveError.of(
            "HIVE-105",
            "every query of the golden set is held out: none is left to learn from",
            file=golden.file,
            path="queries",
            fix="add queries with `hive label QUERY`, or take the split off some that nobody has looked at yet",
        )
    if splits.holdout is None:
        return Tuning(train, validation, proving=False)
    measured, _ = distinct(splits.holdout, splits.train.joined(splits.validation))
    return Tuning(train, validation, proving=len(measured) >= PROVING)


def require_text(workspace: Workspace, collection: str) -> None:
    """Raise HIVE-406 for an index without text."""
    if not SearchEngine(workspace).index(collection).n_chunks:
        message = f'collection "{collection}" has no text to search yet'
        raise HiveError.of("HIVE-406", message, file="documents", path="$", fix="add some with `hive import PATH`")


def require_priced(workspace: Workspace, settings: Optimizer) -> None:
    """Raise HIVE-409 for a limit of dollars where the price of a model that a run calls is unknown."""
    models = workspace.settings.models
    names = models.of("optimizer") if settings.llm_calls else []
    rerankers = [models.reranker] if models.reranker not in ("", "none") else []
    require_prices(workspace.settings, [*names, *rerankers], settings.max_usd)


class OptimizerSession:
    """The measurements and choices that the steps of a run are made of.

    The `proposer` defaults to a model where one is configured for the role `optimizer` and may be called, else to the
    heuristic. With a `viewer` everything is measured that they may view, and nothing else.
    """

    def __init__(
        self,
        workspace: Workspace,
        settings: Optimizer,
        *,
        golden: Path | None = None,
        baseline: ConfigData | None = None,
        evaluations: int = 0,
        seconds: float = 0.0,
        usage: Mapping[str, Any] | None = None,
        ledger: Path | None = None,
        proposer: Proposer | None = None,
        viewer: Principal | None = None,
    ) -> None:
        require_priced(workspace, settings)
        self.workspace, self.viewer = workspace, viewer
        self.settings = settings
        self.golden_path = golden
        self.tuning = load_tuning(workspace, golden, viewer)
        self.baseline = parsed(baseline) if baseline else active_config(workspace).stored.config
        self.spending = Spending(settings, usage, ledger)
        self.budget = SearchBudget(
            settings.evaluations, settings.seconds, evaluations, seconds, lambda: self.spending.overspent
        )
        self.unavailable = ""
        """Why the reranker was last unavailable; empty if it never was."""

        self.reranker = self._configured_reranker()
        self.engine = SearchEngine(workspace, self.reranker)
        self.proposer = proposer or self._configured_proposer()
        self._diagnoses: dict[str, Diagnosis] = {}

    @cached_property
    def open(self) -> LaneCache:
        """The open queries: train and validation together, training queries first."""
        return LaneCache(self.engine, self.tuning.queries, budget=self.budget, reader=self.viewer)

    @cached_property
    def searched(self) -> LaneCache:
        """The queries that ideas come from: all open ones, or the training queries for a model, which reads them."""
        if isinstance(self.proposer, ModelProposer):
            return LaneCache(self.engine, self.tuning.train, budget=self.budget, reader=self.viewer)
        return self.open

    def index(self, collection: str) -> AnyIndex:
        """Return the index, for a viewer what they may view of it."""
        whole = self.engine.index(collection)
        return whole if self.viewer is None else scope_of(self.workspace, whole, self.viewer)

    def measure(self, config: RetrievalConfig) -> Measured:
        """Return the scores on the open queries. Raises: `SearchBudgetExhausted`."""
        return Measured(self.open.evaluate(config), len(self.tuning.train))

    @cached_property
    def baseline_measured(self) -> Measured:
        """The baseline's scores, which cost no budget: every comparison needs them."""
        return self.remeasure(self.baseline)

    def remeasure(self, config: RetrievalConfig) -> Measured:
        """As `measure`; costs no budget."""
        budget, self.open.budget = self.open.budget, None
        try:
            return self.measure(config)
        finally:
            self.open.budget = budget

    def diagnose(self, config: RetrievalConfig) -> Diagnosis:
        """Return the diagnosis on the queries that ideas come from. Raises: `SearchBudgetExhausted`."""
        key = identity(config.model_dump(exclude_unset=True))
        self._diagnoses[key] = diagnose(self.searched, self.index(config.collection), config)
        return self._diagnoses[key]

    def diagnosed(self, config: RetrievalConfig) -> Diagnosis:
        """Return the diagnosis of a config diagnosed before; where another process did so, repeat it at no cost."""
        key = identity(config.model_dump(exclude_unset=True))
        if key not in self._diagnoses:
            budget, self.searched.budget = self.searched.budget, None
            try:
                self.diagnose(config)
            finally:
                self.searched.budget = budget
        return self._diagnoses[key]

    def _configured_reranker(self) -> CachedReranker | None:
        try:
            reranker = providers.open_reranker(self.workspace)
        except NoModel as error:
            self.unavailable = diagnostic_line(error.diagnostics[0])
            return None
        if reranker is None:
            return None

        def pay(query: str, texts: Sequence[str]) -> None:
            self.spending.pay(self.rerank_usage(len(query) * len(texts) + sum(map(len, texts))))

        return CachedReranker(self.workspace, reranker, pay)

    def rerank_usage(self, characters: int) -> Usage:
        """Return the usage of reranking so many characters, at the price of the settings' reranker."""
        settings = self.workspace.settings
        return estimated_usage(price_of(settings, settings.models.reranker), characters)

    def _configured_proposer(self) -> Proposer:
        names = self.workspace.settings.models.of("optimizer")
        if self.settings.llm_calls and names:
            return ModelProposer(self.workspace, self.settings, self.spending, self.faults_of)
        return HeuristicProposer()

    def propose(self, config: RetrievalConfig, diagnosis: Diagnosis, state: Mapping[str, Any]) -> Proposed:
        """Return the edits to try next."""
        situation = Situation(
            config=config,
            diagnosis=diagnosis,
            cache=self.searched,
            index=self.index(config.collection),
            tried=self.turned_down | frozenset(state.get("tried", [])),
            iteration=state["iteration"],
            history=tuple(state.get("rows", [])),
            reranker=self.reranker is not None,
            declared=not state.get("replanned", False),
        )
        # A model is asked for what may be tried, not for what could be declared.
        proposer = self.proposer if situation.declared else HeuristicProposer()
        return proposer.propose(situation)

    @cached_property
    def turned_down(self) -> frozenset[str]:
        """What was rolled back, by a person or the canary: readers had it, and no run brings it back."""
        history = versions(self.workspace)
        undone = (before for after, before in pairwise(history) if after.decision == "rollback")
        return frozenset(identity(one.stored.config.model_dump(exclude_unset=True)) for one in undone)

    def faults(self, data: ConfigData) -> list[str]:
        """Return what levels 1 and 2 find wrong with a proposed config; if empty, it may be measured."""
        try:
            stored = parse_config(json.dumps(data), "configs/proposal.json")
            findings = check_config(self.workspace, stored, index=self.index(stored.config.collection))
        except HiveError as error:
            findings = error.diagnostics
        if has_errors(findings):
            return [diagnostic_line(finding) for finding in findings]
        depth = stored.config.retrieval.candidates
        return [f"retrieval.candidates: {depth} are more than the {MAX_DEPTH} that a trial looks at"] * (
            depth > MAX_DEPTH
        )

    def faults_of(self, config: RetrievalConfig, edit: Edit) -> list[str]:
        return self.faults(next_data(config, edit))

    def changes(self, data: ConfigData) -> list[dict[str, Any]]:
        return changes_from(self.baseline, parsed(data))

    def measured(self, rows: Sequence[Mapping[str, Any]]) -> list[tuple[ConfigData, Measured]]:
        """Return each config that was measured in these rows of trials once, with its scores."""
        measured: dict[str, tuple[ConfigData, Measured]] = {}
        for row in rows:
            if row["train"] is not None and row["identity"] not in measured:
                data = self.restored(row["changes"])
                measured[row["identity"]] = (data, self.remeasure(parsed(data)))
        return list(measured.values())

    def restored(self, changes: Sequence[ConfigChange]) -> ConfigData:
        """Return the config of a trial: the baseline with its changes."""
        values = tuple((change["path"], change["b"]) for change in changes)
        return next_data(self.baseline, Edit(values, "selection", ""))

    def watched(self, config: RetrievalConfig) -> list[TagChange]:
        """Return the tags that fall on the open queries, as the holdout may have no query of them."""
        tags = [query.tags for query in self.tuning.queries]
        before, after = self.baseline_measured.nudcg.tolist(), self.remeasure(config).nudcg.tolist()
        return falling_tags(tags, before, after, self.workspace.settings.gate)

    def trial(self, data: ConfigData, *, taken: bool = False) -> MeasuredTrial:
        """Return a measured config with what readers lose by it, which is asked for only where it gains; costs no
        budget."""
        config = parsed(data)
        measured = self.remeasure(config)
        if measured.mean > self.baseline_measured.mean + EQUAL:
            measured = replace(measured, reached=self.reached(config))
        filtered = [field for field in config.filters if config.filters[field] != self.baseline.filters.get(field)]
        return MeasuredTrial(measured, ", ".join(filtered), taken)

    def reached(self, config: RetrievalConfig) -> Reach | None:
        """Return what those lose who know a document's title; None where it would take calls of a reranker."""
        if config.rerank.enabled or self.baseline.rerank.enabled:
            return None
        index, cache = self.index(config.collection), self.known
        old, new = cache.evaluate(self.baseline), cache.evaluate(config)
        left_out = reach.demoted(index, config)
        relevant = [set(query.relevant) for query in cache.golden]
        counted = [place for place, documents in enumerate(relevant) if not documents <= left_out]
        pair = (float(old.answered[counted].mean()), float(new.answered[counted].mean())) if counted else None
        silent = ((old.results > 0) & (new.results == 0)).nonzero()[0].tolist()
        hidden = reach.undeclared_hidden(index, self.baseline, config).union(*(relevant[place] for place in silent))
        return Reach(pair, len(hidden))

    @cached_property
    def known(self) -> LaneCache:
        """A question for each known title."""
        return LaneCache(self.engine, reach.known_items(self.index(self.baseline.collection)), reader=self.viewer)

    def candidate(self, data: ConfigData, measured: Measured) -> Candidate:
        changes = self.changes(data)
        gain = measured.nudcg - self.baseline_measured.nudcg
        return Candidate(changes, gain, measured.distractors, any(c["path"].startswith("boosts.") for c in changes))

    def refusal(self, trial: MeasuredTrial) -> Refusal | None:
        return refusal(trial, self.baseline_measured, self.tuning.queries, self.workspace.settings.gate)

    def write(self, data: ConfigData, changes: Sequence[dict[str, Any]], parent: str) -> str:
        """Write a config as the next `configs/v<n>.json`, unless it has a file already, and return its name.

        Its changes alone describe it: every operator reads it, and a model's reason may quote documents.
        """
        wanted = identity(data)
        taken: set[int] = set()
        for path in sorted(self.workspace.configs.glob("*.json")):
            if match := re.fullmatch(r"v(\d+)(?:[^0-9].*)?", path.stem):
                taken.add(int(match.group(1)))
            existing = _read(path) if path.name != "active.json" else None  # a link
            if existing is not None and identity(existing) == wanted:
                return str(existing.get("name", path.stem))
        name = f"v{max(taken, default=0) + 1}"
        ordered = {"name": name, "description": in_words(changes), "parent": parent}
        rest = {key: value for key, value in data.items() if key not in ordered}
        text = json.dumps(ordered | rest, indent=2, ensure_ascii=False) + "\n"
        atomic_write_text(self.workspace.configs / f"{name}.json", text)
        return name

    def stored(self, name: str) -> StoredConfig:
        return find_config(self.workspace, name)


def _read(path: Path) -> ConfigData | None:
    try:
        value = json.loads(read_bytes(path))
    except (HiveError, OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def next_data(config: RetrievalConfig, edit: Edit) -> ConfigData:
    """Return the config that an edit makes, named `UNNAMED`."""
    data = apply(config, edit.values)
    return {key: value for key, value in data.items() if key not in ("description", "parent")} | {"name": UNNAMED}
