"""What all commands share: options, a workspace whose index is fresh, output, progress, and how a failure is shown."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.terminal import console as console, duration, told_now_and_then, write as write
from hive_agents.errors import Busy, Diagnostic, EngineFault, HiveError
from hive_agents.text import count as count, safe_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from hive_agents import Workspace
    from hive_agents.access import Asker
    from hive_agents.retrieval import PendingWork

_WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", "-w", help="Workspace folder (default: the nearest upwards, else ./workspace)."),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
_QuietOption = Annotated[bool, typer.Option("--quiet", help="Print no progress and no tables.")]
GoldenOption = Annotated[Path | None, typer.Option("--golden", help="Golden set (default: evals/golden.json).")]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", "-f", help='field=value, field=a,b, field="a, b", field!=value, field>=value, field<value.'
    ),
]
ConfigArgument = Annotated[str, typer.Argument(help="Config: a name, a file name or a path.")]

WHO_ASKS = "Who asks (default: the local user)."
WHO_READS = "Read as USER of access/*.json."
INTERRUPTED = "what is embedded is kept, and searches use the index as it was; the same command goes on"
WORTH_TELLING = 3.0
WAITED = 1.0
"""Seconds that a search waits for another process that writes: it can use the index as it is."""
PATIENT = 30.0
"""Seconds that is waited where there is no index to use."""
PROGRESS_AFTER = 1.0
TOLD_EVERY = 10.0


class Surface:
    """What every command is given: the workspace, who is named with `--as`, and where the result is shown.

    The result goes to stdout, as JSON alone or as text; all else goes to stderr.
    """

    def __init__(self, as_json: bool, quiet: bool, *, folder: Path | None = None, as_user: str | None = None) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.as_user = as_user
        self._folder = folder
        self._bars_shown: Console | None = None

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace of `--workspace`, else the nearest upwards, with a line on stderr about what isn't trusted.

        Raises: HIVE-410 where there is none.
        """
        from hive_agents.trust import untrusted_notice

        notice = untrusted_notice(self.trusting)
        if notice is not None and not self.quiet:
            self.warn([notice])
        return self.trusting

    @cached_property
    def trusting(self) -> Workspace:
        """As `workspace`, for the command that is about trust itself."""
        from hive_agents import Workspace

        found = Workspace(self._folder) if self._folder is not None else Workspace.find()
        found.waiting = lambda holder: self.say(f"waiting: {holder}")
        return found

    def say(self, line: str) -> None:
        """Tell a person on stderr what is going on."""
        if not self.quiet:
            (self._bars_shown or console(stderr=True)).print(line)

    @cached_property
    def asker(self) -> Asker:
        """Who asks, by `--as` and the environment."""
        from hive_agents.access import Asker

        return Asker(self.workspace, self.as_user)

    def show(self, value: dict[str, Any], *parts: RenderableType) -> None:
        """The JSON value, or the renderables that tell the same to a person."""
        if self.as_json:
            _write_json(value)
        elif not self.quiet:
            out = console()
            for part in parts:
                out.print(part)

    def warn(self, diagnostics: Iterable[Diagnostic]) -> None:
        err = console(stderr=True)
        for diagnostic in diagnostics:
            style = (
                "yellow" if diagnostic.severity == "warning" else "red" if diagnostic.severity == "error" else "cyan"
            )
            told = "\n".join(map(safe_line, str(diagnostic).split("\n")))
            err.print(told, style=style, soft_wrap=True)

    @contextmanager
    def progress(self, kept: str | None = None) -> Iterator[Callable[[str, int, int], None]]:
        """A callback (what, done, total) that tells on stderr how far the work is, once it takes over a second.

        A terminal shows a bar, anything else a line every ten seconds. `kept` is what an interruption says: what is
        kept, and how to go on.
        """
        try:
            if self.quiet:
                yield lambda what, done, total: None
            elif sys.stderr.isatty() and not self.as_json:
                with self._bars() as report:
                    yield report
            else:
                with told_now_and_then(self.say, first=PROGRESS_AFTER, every=TOLD_EVERY) as report:
                    yield report
        except KeyboardInterrupt:
            if kept is not None:
                self.say(f"\ninterrupted: {kept}")
            raise

    @contextmanager
    def _bars(self) -> Iterator[Callable[[str, int, int], None]]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        err = console(stderr=True)
        bars = Progress(*columns, console=err, transient=True)
        tasks: dict[str, Any] = {}
        started = time.monotonic()

        def report(what: str, done: int, total: int) -> None:
            if time.monotonic() - started < PROGRESS_AFTER:
                return
            if not tasks:
                bars.start()
                self._bars_shown = err  # what is said meanwhile stands above them
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        try:
            yield report
        finally:
            self._bars_shown = None
            if tasks:
                bars.stop()

    def keep_fresh(self, *, told: bool = True) -> None:
        """Before a search: look for changed documents, or with `index.auto_refresh` off say that there are some.

        What is wrong with documents is `told` to the workspace's owner only, and to no token's holder: a reader may not
        know that they exist.
        That a damaged database was set aside, and conversations with it, everybody is told. Where an engine is away
        that would have to get the changes, or another process writes, the search is over the documents as they were.
        """
        from hive_agents.retrieval import index_is_stale, is_indexed

        told = told and self.asker.authn == "local"
        if self.workspace.settings.index.auto_refresh:
            try:
                searchable = is_indexed(self.workspace)
            except HiveError:  # a damaged database: the refresh sets it aside
                searchable = False
            try:
                self.refresh_index(told=told, wait=WAITED if searchable else PATIENT)
            except Busy as error:
                if not searchable:
                    why = f"there is no index yet, and nothing can be asked before: {error.diagnostics[0].message}"
                    fix = "ask again when it is built; who builds it says how far that is"
                    raise Busy.of("HIVE-402", why, file=error.diagnostics[0].file, fix=fix) from None
                if told:
                    message = f"{error.diagnostics[0].message}: this is the index as it was before"
                    fix = "search again when that is done"
                    self.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix=fix, severity="warning")])
            except EngineFault as error:
                if told:
                    self.warn([replace(found, severity="warning") for found in error.diagnostics])
        elif told and self.workspace.database.exists() and index_is_stale(self.workspace):
            message = "documents changed since they were indexed"
            self.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix="run `hive index`", severity="warning")])

    def refresh_index(self, *, told: bool = True, wait: float = PATIENT) -> None:
        """Bring the index up to date, for what is measured. Raises: HIVE-402 after `wait` seconds."""
        from hive_agents.retrieval import build_index

        if not (told and self.asker.authn == "local"):
            with told_now_and_then(lambda line: self.say("the index is brought up to date …")) as progress:
                report = build_index(self.workspace, progress, quick=True, wait=wait)
            self.warn(warning for warning in report.warnings if warning.code == "HIVE-407")
            return

        def plan(work: PendingWork) -> None:
            if work.seconds > WORTH_TELLING:
                which = "isn't built yet" if work.first else "isn't up to date"
                spent = f"about {duration(work.seconds)} on one core, less where embeddings are kept"
                self.say(f"the index {which}: {count(work.documents, 'document')} to read, {spent}")

        with self.progress(INTERRUPTED) as progress:
            report = build_index(self.workspace, progress, quick=True, plan=plan, wait=wait)
        if not report.documents:
            self.say("no documents are indexed yet: add some with `hive import PATH`")
        changed = report.added or report.updated or report.deleted
        # That there is no embedding model is told when an index is built, and not at each question to it.
        self.warn(warning for warning in report.warnings if changed or warning.code != "HIVE-401")
        for name in report.waiting:
            message = f'collection "{name}" changed; searches use the index as it was until the new one is proved'
            fix = 'run `hive index` to prove it, or `hive index --accept --reason "…"` to switch now'
            self.warn([Diagnostic("HIVE-406", message, f"collections/{name}.json", fix=fix, severity="warning")])
        for skipped in report.skipped:
            self.warn(
                [Diagnostic("HIVE-108", skipped["message"], skipped["file"], line=skipped["line"], severity="warning")]
            )


def with_surface(
    *, as_user: str | None = None, before: str | None = None, workspace: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that all commands take; the command gets their values as its first argument, a `Surface`.

    They stand after the command's own. `as_user` is the help text of `--as`, where the command has that option:
    it stands first of these, or before the command's parameter `before`. `workspace=False` leaves `--workspace` out.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(**given: Any) -> None:
            surface = Surface(
                given.pop("json"),
                given.pop("quiet"),
                folder=given.pop("workspace", None),
                as_user=given.pop("as_user", None),
            )
            function(surface, **given)

        parameters = list(signature(function, eval_str=True).parameters.values())[1:]
        if as_user is not None:
            option = Annotated[str | None, typer.Option("--as", metavar="USER", help=as_user)]
            at = len(parameters) if before is None else [one.name for one in parameters].index(before)
            parameters.insert(at, _option("as_user", option, None))
        if workspace:
            parameters.append(_option("workspace", _WorkspaceOption, None))
        parameters += [_option("json", _JsonOption, False), _option("quiet", _QuietOption, False)]
        # Typer reads a command's parameters from both.
        setattr(command, "__signature__", Signature(parameters))  # noqa: B010 - a function has no such attribute
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def _option(name: str, annotation: Any, default: object) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


def styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def json_text(value: object) -> str:
    r"""Return the value as JSON; signs that a terminal obeys, such as those that turn the direction, stand there
    escaped.

    >>> print(json_text({"é": "a\u202eb"}))
    {
      "é": "a\u202eb"
    }
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def input_object(text: str) -> dict[str, Any]:
    """Return what `--input` gives an agent. Raises: HIVE-101, HIVE-104 (exit code 2)."""
    from hive_agents.files import jsontext

    text.encode()  # HIVE-112: a shell hands on any byte
    try:
        value = jsontext.parse(text, "--input")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    if not isinstance(value, dict):
        fix = """write --input '{"topic": "bees"}'"""
        raise HiveError.of("HIVE-104", "the input is no JSON object", file="--input", path="$", fix=fix, exit_code=2)
    return value


def _write_json(value: dict[str, Any]) -> None:
    write(json_text(value))


def show_failure(error: HiveError, as_json: bool) -> None:
    if as_json:
        _write_json({"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in error.diagnostics]})
    else:
        Surface(as_json=False, quiet=False).warn(error.diagnostics)


def figure(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """Return a number as tables show it; what doesn't exist is a dash, never a zero."""
    if value is None:
        return "–"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
