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
    from hive_agents.workspace import Workspace

ListOption = list[str] | None


@with_surface(as_user=WHO_READS)
def command(
    surface: Surface,
    query: Annotated[str | None, typer.Argument(help="The question, in a reader's words.")] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="Label many: one question a line.")
    ] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Label the questions that were asked in chats.")] = False,
    suggest: Annotated[
        int | None,
        typer.Option(
            "--suggest",
            metavar="N",
            min=1,
            help="Write N questions for training only: a model's, else made from headings.",
        ),
    ] = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Don't stop when more labels would change little.")
    ] = False,
    relevant: Annotated[ListOption, typer.Option("--relevant", "-r", metavar="DOC", help="Answers it.")] = None,
    distractor: Annotated[ListOption, typer.Option("--distractor", "-d", metavar="DOC", help="Misleads.")] = None,
    irrelevant: Annotated[ListOption, typer.Option("--irrelevant", "-i", metavar="DOC", help="Neither.")] = None,
    tag: Annotated[ListOption, typer.Option("--tag", help="A tag of the query.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="train, validation or holdout.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="Default: the only one.")] = None,
    golden: GoldenOption = None,
) -> None:
    """Label questions: shows what both lanes find, a page at a time, asks about it, and writes the golden set."""
    from hive_agents.cli.configs import named_collection
    from hive_agents.cli.labelling import LabelledQuestion
    from hive_agents.errors import HiveError
    from hive_agents.retrieval import require_words

    place = surface.workspace
    if sum([query is not None, questions is not None, chat, suggest is not None]) != 1:
        fix = 'hive label "how do I …", or --questions FILE, --chat, --suggest N'
        raise HiveError.of("HIVE-409", "what is to be labelled?", fix=fix)
    if query is not None:
        require_words(query)
    schema = named_collection(place, collection)
    viewer = surface.asker.operating_viewer("label questions")
    operator = None if viewer is None else surface.asker.requester()
    if viewer is not None and suggest is not None:
        why = f"{operator} may not have questions made of documents that their gate doesn't show them"
        raise HiveError.of("HIVE-415", why, fix="the workspace's owner may, without a token or --as")
    surface.refresh_index()
    session = _Session(surface, schema.name, golden, tag or [], split, reader=viewer, by=operator)
    if suggest is not None:
        session.suggest(suggest)
    elif query is None:
        session.ask_all(_read(questions) if questions is not None else _asked_in_chats(surface, viewer), all_of_them)
    else:
        given = LabelledQuestion(
            list(relevant or []), list(distractor or []), list(irrelevant or []), irrelevant is not None
        )
        named = given.relevant or given.distractors or given.irrelevant
        session.show_one(query, given if named else session.ask(query))


class _Session:
    """Labels go into one golden set, each question's as soon as it is answered.

    `reader` is shown the documents that they may view, and `by` labels; None is the workspace's owner.
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
    ) -> None:
        from hive_agents.access import ViewGate, permissions_of
        from hive_agents.copilot import open_scope

        self._surface = surface
        self._place: Workspace = surface.workspace
        self._engine = self._place.engine()
        self._collection = collection
        self._golden = golden
        self._tags = tags
        self._split = split
        self._by = by
        self._gate = ViewGate(permissions_of(self._place), reader) if reader is not None else None
        self._within = open_scope(self._place, self._engine, reader, collection) if reader is not None else None

    def _may(self, doc_ids: Sequence[str]) -> Collection[str]:
        """Return those of the documents that who labels may view."""
        return doc_ids if self._gate is None else self._gate.allowed(list(doc_ids))

    def ask(self, query: str) -> LabelledQuestion:
        from hive_agents.cli.labelling import LabelPages
        from hive_agents.evaluation import pool
        from hive_agents.files import read_bytes

        def text_of(doc_id: str) -> str:
            return read_bytes(self._place.documents / doc_id).decode("utf-8", "replace")

        hits = pool(self._engine, query, self._collection, within=self._within)
        may = self._may([hit.doc_id for hit in hits])
        return LabelPages(query, [hit for hit in hits if hit.doc_id in may], text_of).ask()

    def show_one(self, query: str, judged: LabelledQuestion) -> None:
        value = self._saved(query, judged)
        if value is None:
            labels: dict[str, list[str]] = {"relevant": [], "distractors": [], "irrelevant": []}
            self._surface.show({"query_id": None, **labels}, "nothing was marked, so nothing was written")
            return
        counts = ", ".join(f"{len(value[name])} {name}" for name in ("relevant", "distractors", "irrelevant"))
        partly = "" if judged.complete else "; not fully judged, so what is irrelevant isn't kept"
        self._surface.show(value, f"{value['query_id']}: {counts}{partly}")

    def ask_all(self, questions: list[str], all_of_them: bool) -> None:
        """Ask question after question; what they can show together is told on the way."""
        from hive_agents.evaluation import LabelYield, open_questions

        worth = LabelYield(self._engine, self._collection, within=self._within)
        labelled = self._labelled(worth)
        left = open_questions(questions, labelled)
        written, why = [], "every question is labelled"
        for number, question in enumerate(left, start=1):
            self._surface.say(f"\nquestion {number} of {len(left)}")
            judged = self.ask(question)
            value = self._saved(question, judged)
            if value is not None:
                written.append(value)
                self._count(worth, value["query_id"])
                self._surface.say(worth.told())
            if judged.stop:
                why = "you stopped; labelled questions are kept, and the same command goes on with the others"
                break
            enough = None if all_of_them else worth.enough()
            if enough is not None and number < len(left):
                why = f"{enough} (--all goes on)"
                break
        else:
            if passed := len(left) - len(written):
                why = f"{count(passed, 'question')} passed over; the same command asks them again"
        value = {"queries": written, "open": len(left) - len(written), "stopped": why}
        self._surface.show(value, f"{count(len(written), 'question')} labelled: {why}")

    def suggest(self, most: int) -> None:
        """Write questions that nobody asked: split train, marked as generated, with the document they come from."""
        from hive_agents.cli.labelling import LabelledQuestion
        from hive_agents.evaluation import GENERATED, suggest
        from hive_agents.llm import open_chain
        from hive_agents.telemetry import tracing

        if self._split not in (None, "train"):
            from hive_agents.errors import HiveError

            message = f"generated questions are for training, not for {self._split}"
            raise HiveError.of("HIVE-409", message, fix="leave --split out; label real questions for the other splits")
        self._split = "train"
        settings = self._place.settings
        names = settings.models.of("chat")
        model = open_chain(names, settings, workspace=self._place) if names else None
        with tracing(self._place), self._surface.progress("nothing was written; run the command again") as progress:
            made = suggest(self._engine, self._collection, most, self._labelled(None), model=model, progress=progress)
        written = [
            self._saved(one.question, LabelledQuestion(relevant=[one.doc_id]), [GENERATED, one.writer])
            for one in made.found
        ]
        lines = [f"  {one.question}  {one.doc_id}" for one in made.found[:20]]
        more = [f"  … and {len(made.found) - 20} more"] if len(made.found) > 20 else []
        by_model = sum(one.writer == "by-model" for one in made.found)
        writers = [f"{by_model} by {model.name}"] if model is not None and by_model else []
        writers += [f"{len(made.found) - by_model} from headings"] if by_model < len(made.found) else []
        told = (
            f"{count(len(made.found), 'question')} written, {' and '.join(writers)}" if made.found else "none written"
        )
        failed = [styled(f"the model wrote no more: {made.failure}", "yellow")] if made.failure else []
        value = {"queries": written, "split": "train", "tag": GENERATED, "by_model": by_model, "failure": made.failure}
        self._surface.show(value, f"{told}: for training only (tag {GENERATED})", *failed, *lines, *more)

    def _labelled(self, worth: LabelYield | None) -> list[str]:
        """Return the questions that the golden set has, and count those of people into what they can show."""
        from hive_agents.evaluation import FILE, GENERATED, load_golden

        if not (self._golden or self._place.root / FILE).exists():
            return []
        known = load_golden(self._place, self._golden)
        for query in known if worth is not None else ():
            if (
                worth is not None
                and GENERATED not in query.tags
                and set(query.relevant) <= set(self._may(query.relevant))
            ):
                worth.add(query)
        return known.texts

    def _count(self, worth: LabelYield, query_id: str) -> None:
        from hive_agents.evaluation import load_golden

        worth.add(next(query for query in load_golden(self._place, self._golden) if query.id == query_id))

    def _saved(self, query: str, judged: LabelledQuestion, tags: Sequence[str] = ()) -> dict[str, Any] | None:
        """Write a question's labels; None where nothing was marked."""
        from hive_agents.access import local_user
        from hive_agents.evaluation import FILE, load_golden, save_label
        from hive_agents.verification import accept, is_accepted

        if not (judged.relevant or judged.distractors or judged.irrelevant):
            return None
        path = self._golden or self._place.root / FILE
        trusted = not path.exists() or is_accepted(self._place, load_golden(self._place, self._golden))
        entry = save_label(
            self._place,
            query,
            self._collection,
            relevant=judged.relevant,
            distractors=judged.distractors,
            irrelevant=judged.irrelevant if judged.complete else None,
            tags=[*self._tags, *tags],
            split=self._split,
            path=self._golden,
        )
        if trusted:
            accept(self._place, load_golden(self._place, self._golden), self._by or local_user(), "hive label")
        labels = {name: entry.get(name, []) for name in ("relevant", "distractors", "irrelevant")}
        return {"query_id": entry["id"], **labels}


def _read(file: Path) -> list[str]:
    """Return the questions of a file, one a line. Raises: HIVE-409 where there is no such file."""
    from hive_agents.errors import HiveError

    try:
        lines = file.expanduser().read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise HiveError.of("HIVE-409", f"there is no {file}", fix="name a file with one question a line") from None
    return [line for line in map(str.strip, lines) if line and not line.startswith("#")]


def _asked_in_chats(surface: Surface, viewer: Principal | None) -> list[str]:
    """Return what was asked in chats, oldest first: of everybody for the owner, else by who is named."""
    from hive_agents.copilot import asked_questions

    return asked_questions(surface.workspace, viewer)
