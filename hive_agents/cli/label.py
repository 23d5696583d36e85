from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hive_agents.cli.surface import (
    GoldenOption,
    Surface,
    console,
    count,
    styled,
    with_surface,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hive_agents.retrieval import Hit

ListOption = list[str] | None
HELP = "r relevant: answers it · d distractor: looks right, misleads · i irrelevant · s skip · q stop here"
KEYS = {"r": "relevant", "d": "distractors", "i": "irrelevant"}


@with_surface()
def command(
    surface: Surface,
    query: Annotated[str, typer.Argument(help="The question, in a reader's words.")],
    relevant: Annotated[ListOption, typer.Option("--relevant", "-r", metavar="DOC", help="Answers it.")] = None,
    distractor: Annotated[ListOption, typer.Option("--distractor", "-d", metavar="DOC", help="Misleads.")] = None,
    irrelevant: Annotated[ListOption, typer.Option("--irrelevant", "-i", metavar="DOC", help="Neither.")] = None,
    tag: Annotated[ListOption, typer.Option("--tag", help="A tag of the query.")] = None,
    split: Annotated[str | None, typer.Option("--split", help="train, validation or holdout.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="Default: the only one.")] = None,
    golden: GoldenOption = None,
) -> None:
    """Label a query: shows what both lanes find, asks about each document, and writes the golden set."""
    from hive_agents.access import local_user
    from hive_agents.cli.configs import refresh_index
    from hive_agents.evaluation import FILE, load_golden, pool, save_label
    from hive_agents.retrieval import load_collection
    from hive_agents.verification import accept, is_accepted

    place = surface.workspace
    schema = load_collection(place, collection)
    refresh_index(place, surface)
    chosen: dict[str, list[str]] = {
        "relevant": list(relevant or []),
        "distractors": list(distractor or []),
        "irrelevant": list(irrelevant or []),
    }
    complete = irrelevant is not None
    hits = pool(place.engine(), query, schema.name)
    if not any(chosen.values()):
        complete = _ask(query, hits, chosen)
    if not any(chosen.values()):
        surface.show({"query_id": None, **chosen}, "nothing was marked, so nothing was written")
        return
    path = golden or place.root / FILE
    trusted = not path.exists() or is_accepted(place, load_golden(place, golden))
    entry = save_label(
        place,
        query,
        schema.name,
        relevant=chosen["relevant"],
        distractors=chosen["distractors"],
        irrelevant=chosen["irrelevant"] if complete else None,
        tags=tag or (),
        split=split,
        path=golden,
    )
    if trusted:
        accept(place, load_golden(place, golden), local_user(), "hive label")
    written = {name: entry.get(name, []) for name in chosen}
    counts = ", ".join(f"{len(labels)} {name}" for name, labels in written.items())
    partly = "" if complete else "; not fully judged, so what is irrelevant isn't kept"
    surface.show({"query_id": entry["id"], **written}, f"{entry['id']}: {counts}{partly}")


def _ask(query: str, hits: Sequence[Hit], chosen: dict[str, list[str]]) -> bool:
    """Ask about each document; True when every one was answered. The end of input counts as q."""
    err = console(stderr=True)
    err.print(styled(f"\n{query}", "bold") + f"   {count(len(hits), 'document')}")
    err.print(HELP)
    complete = True
    for number, hit in enumerate(hits, start=1):
        err.print(styled(f"\n{number}. {hit.doc_id}", "bold") + f"  {hit.heading}")
        err.print(f"   {hit.excerpt}", style="dim")
        answer = _answer(err)
        if answer == "q":
            return False
        if answer == "s":
            complete = False
        else:
            chosen[KEYS[answer]].append(hit.doc_id)
    return complete and bool(hits)


def _answer(err: Console) -> str:
    while True:
        try:
            answer = str(typer.prompt("   r/d/i/s/q", err=True)).strip().lower()[:1]
        except typer.Abort:
            err.print("")
            return "q"
        if answer in (*KEYS, "s", "q"):
            return answer
        err.print(HELP)
