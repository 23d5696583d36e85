from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import WHO_READS, GoldenOption, Surface, count, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.access import Principal
    from hive_agents.cli.labelling import LabelledQuestion
    from hive_agents.evaluation import LabelYield
    from hive_agents.ranking import RetrievalConfig
    from hive_agents.workspace import Workspace

ListOption = list[str] | None


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    query: Annotated[str | None, typer.Argument(help="The question, as readers ask it.")] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="Label the questions of a file, one a line.")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Label the questions that were asked in chats.")] = False,
    suggest: Annotated[
        int | None,
        typer.Option(
            "--suggest",
            metavar="N",
            min=1,
            help="Generate N questions for training only: by a model, else from headings.",
        ),
    ] = None,
    between: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--between", metavar="CONFIG CONFIG", help="Label what these two find, first where they differ most."
        ),
    ] = None,
    all_of_them: Annotated[bool, typer.Option("--all", help="Continue when more labels would change little.")] = False,
    relevant: Annotated[
        ListOption, typer.Option("--relevant", "-r", metavar="DOC", help="DOC answers the question.")
    ] = None,
    distractor: Annotated[ListOption, typer.Option("--distractor", "-d", metavar="DOC", help="DOC misleads.")] = None,
    irrelevant: Annotated[
        ListOption, typer.Option("--irrelevant", "-i", metavar="DOC", help="DOC does neither.")
    ] = None,
    tag: Annotated[ListOption, typer.Option("--tag", help="A tag of the query.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="train, validation or holdout.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="Default: the only one.")] = None,
    judgements: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Take judgements: TREC qrels, Quepid's CSV, OpenSearch's JSON."),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option("--queries", metavar="FILE", help="The texts of the queries of TREC qrels.")
    ] = None,
    relevant_from: Annotated[float, typer.Option("--relevant-from", help="The least rating that is relevant.")] = 1,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Write all labels: .csv, .json, or TREC qrels.")
    ] = None,
    golden: GoldenOption = None,
) -> None:
    """Label questions: shows the documents that both lanes return, asks about each, and writes the golden set."""
    from hive_agents.base import HiveError
    from hive_agents.cli.configs import named_collection
    from hive_agents.cli.labelling import LabelledQuestion
    from hive_agents.copilot import asked_questions
    from hive_agents.ranking import stages

    place = surface.workspace
    sources = (query, questions, chat or None, suggest, judgements, export)
    if sum(source is not None for source in sources) != 1:
        fix = 'hive label "how do I …", or --questions FILE, --chat, --suggest N, --import FILE, --export FILE'
        raise HiveError.of("HIVE-409", "exactly one source of questions is needed", fix=fix)
    if between is not None and (judgements, export, suggest) != (None, None, None):
        fix = "give the questions by --questions FILE or --chat, or ask one"
        raise HiveError.of("HIVE-409", "--between shows documents of questions that are asked", fix=fix, exit_code=2)
    if query is not None:
        stages.require_words(query)
    schema = named_collection(place, collection)
    viewer = surface.asker.operating_viewer("label questions")
    operator = None if viewer is None else surface.asker.requester()
    if viewer is not None and suggest is not None:
        why = f"{operator} may not have questions made of documents that their gate doesn't show them"
        raise HiveError.of("HIVE-415", why, fix="the workspace's owner may, without a token or --as")
    if viewer is not None and export is not None:
        why = f"{operator} may not write out labels that are held out"
        raise HiveError.of("HIVE-415", why, fix="the workspace's owner may, without a token or --as")
    surface.refresh_index()
    pooled = [_config_of(place, name, schema.name) for name in between or ()]
    session = _Session(surface, schema.name, golden, tag or [], split, reader=viewer, by=operator, between=pooled)
    if export is not None:
        session.write_out(export)
    elif judgements is not None:
        session.take(judgements, texts, relevant_from)
    elif suggest is not None:
        session.suggest(suggest)
    elif query is None:
        session.ask_all(_read(questions) if questions is not None else asked_questions(place, viewer), all_of_them)
    else:
        labels = LabelledQuestion(
            list(relevant or []), list(distractor or []), list(irrelevant or []), irrelevant is not None
        )
        has_labels = labels.relevant or labels.distractors or labels.irrelevant
        session.save_one(query, labels if has_labels else session.ask(query))


class _Session:
    """Writes labels into one golden set, each question's as soon as it is answered.

    Only documents that `reader` may view are shown; `by` is the labels' author. None is the workspace's owner.
    """

    def __init__(
        self,
        surface: Surface,
        collection: str,
        golden: Path | None,
        tags: list[str],
        split: str | None,
        *,
        reader: Principal | None,
        by: str | None,
        between: Sequence[RetrievalConfig],
    ) -> None:
        from hive_agents.access import ViewGate
        from hive_agents.copilot import open_scope
        from hive_agents.evaluation import labelling

        self._surface = surface
        self._place: Workspace = surface.workspace
        self._engine = self._place.engine()
        self._collection = collection
        self._golden = golden
        self._tags = tags
        self._split = split
        self._by, self._reader = by, reader
        self._gate = ViewGate.of(self._place, reader) if reader is not None else None
        within = open_scope(self._place, self._engine, reader, collection) if reader is not None else None
        self._pool = labelling.LabelPool(self._engine, collection, within, between)

    def _viewable(self, doc_ids: Sequence[str]) -> Collection[str]:
        """Return those of the documents that the reader may view."""
        return doc_ids if self._gate is None else self._gate.allowed(list(doc_ids))

    def ask(self, query: str) -> LabelledQuestion:
        """Ask the person for the labels of what both lanes, or the two configs, return for a question."""
        from hive_agents.base.files import read_bytes
        from hive_agents.cli.labelling import LabelPages

        def text_of(doc_id: str) -> str:
            return read_bytes(self._place.documents / doc_id).decode("utf-8", "replace")

        hits = self._pool.documents(query)
        viewable = self._viewable([hit.doc_id for hit in hits])
        return LabelPages(query, [hit for hit in hits if hit.doc_id in viewable], text_of).ask()

    def save_one(self, query: str, judged: LabelledQuestion) -> None:
        """Write the labels of one question, and show them."""
        value = self._save(query, judged)
        if value is None:
            labels: dict[str, list[str]] = {"relevant": [], "distractors": [], "irrelevant": []}
            self._surface.show({"query_id": None, **labels}, "nothing was marked, so nothing was written")
            return
        counts = ", ".join(f"{len(value[name])} {name}" for name in ("relevant", "distractors", "irrelevant"))
        partly = "" if judged.complete else "; not fully judged, so what is irrelevant isn't kept"
        self._surface.show(value, f"{value['query_id']}: {counts}{partly}")

    def ask_all(self, questions: list[str], all_of_them: bool) -> None:
        """Ask for the labels of each open question, and say after each which gains they can prove together."""
        from hive_agents.evaluation import LabelYield, open_questions

        label_yield = LabelYield(self._pool)
        unlabelled = label_yield.telling_first(open_questions(questions, self._labelled(label_yield)))
        self._surface.say(label_yield.told())
        written, why = [], "every question is labelled"
        for number, question in enumerate(unlabelled, start=1):
            self._surface.say(f"\nquestion {number} of {len(unlabelled)}")
            judged = self.ask(question)
            value = self._save(question, judged)
            if value is not None:
                written.append(value)
                self._add(label_yield, value["query_id"])
                self._surface.say(label_yield.told())
            if judged.stop:
                why = "you stopped; labelled questions are kept, and the same command goes on with the others"
                break
            enough = None if all_of_them else label_yield.enough()
            if enough is not None and number < len(unlabelled):
                why = f"{enough} (--all goes on)"
                break
        else:
            if skipped := len(unlabelled) - len(written):
                why = f"{count(skipped, 'question')} passed over; the same command asks them again"
        value = {"queries": written, "open": len(unlabelled) - len(written), "stopped": why}
        self._surface.show(value, f"{count(len(written), 'question')} labelled: {why}")

    def take(self, file: Path, texts: Path | None, relevant_from: float) -> None:
        """Write the judgements of another tool's file; documents that aren't there are counted."""
        from hive_agents.cli.labelling import LabelledQuestion
        from hive_agents.evaluation import interchange, outside

        judged = interchange.read_judgements(file, outside.load_asked(texts) if texts else {}, relevant_from)
        known = {*self._engine.index(self._collection).doc_ids()}
        written, unknown = [], 0
        for one in judged:
            lists = [one.relevant, one.distractors, one.irrelevant]
            named = [[self._found(doc_id, known) for doc_id in labels] for labels in lists]
            unknown += sum(doc_id is None for labels in named for doc_id in labels)
            relevant, distractors, irrelevant = ([name for name in labels if name] for labels in named)
            value = self._save(one.query, LabelledQuestion(relevant, distractors, irrelevant, False))
            written += [] if value is None else [value]
        left = f"; {count(unknown, 'judgement')} of documents that aren't here left out" if unknown else ""
        value = {"queries": written, "unknown": unknown}
        self._surface.show(value, f"{count(len(written), 'question')} of {len(judged)} labelled by {file.name}{left}")

    def _found(self, doc_id: str, known: Collection[str]) -> str | None:
        """Return a document of this collection by another tool's id, which may have no ending."""
        return next((name for name in (doc_id, f"{doc_id}.md") if name in known), None)

    def write_out(self, file: Path) -> None:
        """Write all labels into a file of another tool."""
        from hive_agents.base.files import atomic_write_text
        from hive_agents.evaluation import interchange, load_golden

        golden = load_golden(self._place, self._golden)
        written = interchange.written_judgements(golden, file.name)
        files = [file.parent / name for name in written]
        for path, text in zip(files, written.values(), strict=True):
            atomic_write_text(path, text)
        value = {"files": list(map(str, files)), "queries": len(golden)}
        self._surface.show(value, f"{len(golden)} queries in {', '.join(path.name for path in files)}")

    def suggest(self, most: int) -> None:
        """Write generated questions, each relevant to the document that it comes from, into the split train."""
        from hive_agents.cli.labelling import LabelledQuestion
        from hive_agents.evaluation import GENERATED, suggest
        from hive_agents.models import open_chain, tracing

        if self._split not in (None, "train"):
            from hive_agents.base import HiveError

            message = f"generated questions are for training, not for {self._split}"
            raise HiveError.of("HIVE-409", message, fix="leave --split out; label real questions for the other splits")
        self._split = "train"
        settings = self._place.settings
        names = settings.models.of("chat")
        model = open_chain(names, settings, workspace=self._place) if names else None
        with tracing(self._place), self._surface.progress("nothing was written; run the command again") as progress:
            result = suggest(self._engine, self._collection, most, self._labelled(None), model=model, progress=progress)
        written = []
        for suggestion in result.found:
            labels = LabelledQuestion(relevant=[suggestion.doc_id])
            written.append(self._save(suggestion.question, labels, [GENERATED, suggestion.writer]))
        lines = [f"  {suggestion.question}  {suggestion.doc_id}" for suggestion in result.found[:20]]
        total = len(result.found)
        more = [f"  … and {total - 20} more"] if total > 20 else []
        by_model = sum(suggestion.writer == "by-model" for suggestion in result.found)
        writers = [f"{by_model} by {model.name}"] if model is not None and by_model else []
        writers += [f"{total - by_model} from headings"] if by_model < total else []
        summary = f"{count(total, 'question')} written, {' and '.join(writers)}" if total else "none written"
        failed = [styled(f"the model wrote no more: {result.failure}", "yellow")] if result.failure else []
        value = {
            "queries": written,
            "split": "train",
            "tag": GENERATED,
            "by_model": by_model,
            "failure": result.failure,
        }
        self._surface.show(value, f"{summary}: for training only (tag {GENERATED})", *failed, *lines, *more)

    def _labelled(self, label_yield: LabelYield | None) -> list[str]:
        """Return the golden set's questions; add those of people to `label_yield`."""
        from hive_agents.evaluation import FILE, GENERATED, viewable_golden

        if not (self._golden or self._place.root / FILE).exists():
            return []
        golden = viewable_golden(self._place, self._reader, self._golden)
        if label_yield is not None:
            for query in golden:
                if GENERATED not in query.tags:
                    label_yield.add(query)
        return golden.texts

    def _add(self, label_yield: LabelYield, query_id: str) -> None:
        from hive_agents.evaluation import viewable_golden

        labelled = viewable_golden(self._place, self._reader, self._golden)
        label_yield.add(next(query for query in labelled if query.id == query_id))

    def _save(self, query: str, judged: LabelledQuestion, tags: Sequence[str] = ()) -> dict[str, Any] | None:
        """Write a question's labels and return them; None if there are none."""
        from hive_agents.access import local_user
        from hive_agents.gate import label

        if not (judged.relevant or judged.distractors or judged.irrelevant):
            return None
        entry = label(
            self._place,
            query,
            self._collection,
            relevant=judged.relevant,
            distractors=judged.distractors,
            irrelevant=judged.irrelevant if judged.complete else None,
            tags=[*self._tags, *tags],
            split=self._split,
            path=self._golden,
            by=self._by or local_user(),
            reason="hive label",
            viewer=self._reader,
        )
        labels = {name: entry.get(name, []) for name in ("relevant", "distractors", "irrelevant")}
        return {"query_id": entry["id"], **labels}


def _config_of(place: Workspace, name: str, collection: str) -> RetrievalConfig:
    """Return a config by its name. Raises: HIVE-213 for one of another collection."""
    from hive_agents.base import HiveError
    from hive_agents.ranking import named_config

    config = named_config(place, name).config
    if config.collection != collection:
        message = f'{name} searches "{config.collection}", and labels are asked for of "{collection}"'
        raise HiveError.of("HIVE-213", message, fix=f"hive label --collection {config.collection} …")
    return config


def _read(file: Path) -> list[str]:
    """Return the questions of a file, one a line. Raises: HIVE-409 where there is no such file."""
    from hive_agents.base import HiveError

    try:
        lines = file.expanduser().read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise HiveError.of("HIVE-409", f"there is no {file}", fix="name a file with one question a line") from None
    return [line for line in map(str.strip, lines) if line and not line.startswith("#")]
