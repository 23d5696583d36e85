"""What all commands share: options, the workspace and its index, output, progress and error messages."""

from __future__ import annotations

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

from hive_agents.base import Busy, Diagnostic, EngineFault, HiveError, count as count, spelled_json
from hive_agents.cli.terminal import console as console, duration, progress_lines, safe_lines, write as write

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from hive_agents import Workspace
    from hive_agents.access import Asker
    from hive_agents.index import indexing

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
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="FIGURE",
        help="Accept what readers lose by answered, recall, first, reach or hidden; repeatable, needs --reason.",
    ),
]
HistoryReasonOption = Annotated[str | None, typer.Option("--reason", help="The reason, kept in the history.")]
ConfigArgument = Annotated[str, typer.Argument(help="Config: a name, a file name or a path.")]

WHO_ASKS = "Act as USER (default: the local user)."
WHO_READS = "Read as USER of access/*.json."
INTERRUPTED = "embeddings so far are kept, and searches use the old index; run the command again to go on"
ANNOUNCED_FROM = 3.0
"""Seconds of indexing from which an estimate is shown before it begins."""
WAIT_WITH_INDEX = 1.0
"""Seconds that a search waits for another process that writes, when it can use the index as it is."""
WAIT_WITHOUT_INDEX = 30.0
"""Seconds that it waits when there is no index yet."""
PROGRESS_AFTER = 1.0
PROGRESS_EVERY = 10.0


class Surface:
    """The first argument of every command: its workspace, the user of `--as`, and its output.

    The result goes to stdout, as one JSON document or as text; everything else goes to stderr.
    """

    def __init__(self, as_json: bool, quiet: bool, *, folder: Path | None = None, as_user: str | None = None) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.as_user = as_user
        self._folder = folder
        self._bars_shown: Console | None = None

    @cached_property
    def workspace(self) -> Workspace:
        """The workspace of `--workspace`, else the nearest upwards; warns on stderr about parts that aren't trusted.

        Raises: HIVE-410 where there is none.
        """
        from hive_agents.workspace import trusted

        notice = trusted.untrusted_notice(self.unwarned_workspace)
        if notice is not None and not self.quiet:
            self.warn([notice])
        return self.unwarned_workspace

    @cached_property
    def unwarned_workspace(self) -> Workspace:
        """The same workspace without that warning, for `hive trust`."""
        from hive_agents import Workspace

        place = Workspace(self._folder) if self._folder is not None else Workspace.find()
        place.waiting = lambda holder: self.say(f"waiting: {holder}")
        return place

    def say(self, line: str) -> None:
        """Print a line on stderr, unless `--quiet`."""
        if not self.quiet:
            (self._bars_shown or console(stderr=True)).print(line)

    def require_whole_view(self, what: str) -> None:
        """Raise HIVE-415 for the holder of a token: `what` shows documents, or figures of them, to whoever asks."""
        if self.asker.token_holder() is not None:
            why = f"who has a token may not {what}: it tells of documents that their gate may not show them"
            raise HiveError.of("HIVE-415", why, fix="the workspace's owner may, without a token", exit_code=1)

    @cached_property
    def asker(self) -> Asker:
        """The asker, by `--as` and the environment."""
        from hive_agents.access import Asker

        return Asker(self.workspace, self.as_user)

    def show(self, value: dict[str, Any], *parts: RenderableType) -> None:
        """Print `value` with `--json`, else `parts`, which say the same to a person."""
        if self.as_json:
            _write_json(value)
        elif not self.quiet:
            out = console()
            for part in parts:
                out.print(part)

    def warn(self, diagnostics: Iterable[Diagnostic]) -> None:
        err = console(stderr=True)
        for diagnostic in diagnostics:
            style = {"error": "red", "warning": "yellow"}.get(diagnostic.severity, "cyan")
            err.print(safe_lines(str(diagnostic)), style=style, soft_wrap=True)

    @contextmanager
    def progress(self, kept: str | None = None) -> Iterator[Callable[[str, int, int], None]]:
        """Yield a callback (step, done, total) that shows progress on stderr when the work takes over a second.

        A terminal shows a bar, anything else a line every ten seconds. `kept` is the message of an interruption: what
        is kept, and how to go on.
        """
        try:
            if self.quiet:
                yield lambda step, done, total: None
            elif sys.stderr.isatty() and not self.as_json:
                with self._bars() as report:
                    yield report
            else:
                with progress_lines(self.say, first=PROGRESS_AFTER, every=PROGRESS_EVERY) as report:
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

        def report(step: str, done: int, total: int) -> None:
            if time.monotonic() - started < PROGRESS_AFTER:
                return
            if not tasks:
                bars.start()
                self._bars_shown = err  # rich prints other lines above the bars of this console
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        try:
            yield report
        finally:
            self._bars_shown = None
            if tasks:
                bars.stop()

    def keep_fresh(self, *, warnings: bool = True) -> None:
        """Update the index before a search; with `index.auto_refresh` off only warn that documents changed.

        `warnings` about documents are shown to the workspace's owner only, never to a token's holder: a reader may not
        know that these documents exist. Everybody is warned that a damaged database was set aside, and conversations
        with it. While a search engine is unavailable or another process writes, the search uses the index as it was.

        Raises: HIVE-402 when there is no index yet and another process writes.
        """
        from hive_agents.index import indexing

        warnings = warnings and self.asker.authn == "local"
        if self.workspace.settings.index.auto_refresh:
            try:
                searchable = indexing.is_indexed(self.workspace)
            except HiveError:  # a damaged database: the refresh sets it aside
                searchable = False
            try:
                self.refresh_index(warnings=warnings, wait=WAIT_WITH_INDEX if searchable else WAIT_WITHOUT_INDEX)
            except Busy as error:
                if not searchable:
                    why = f"there is no index yet, and nothing can be asked before: {error.diagnostics[0].message}"
                    fix = "try again when it is built; the process that builds it shows its progress"
                    raise Busy.of("HIVE-402", why, file=error.diagnostics[0].file, fix=fix) from None
                if warnings:
                    message = f"{error.diagnostics[0].message}: this is the index as it was before"
                    fix = "search again when that is done"
                    self.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix=fix, severity="warning")])
            except EngineFault as error:
                if warnings:
                    self.warn(replace(diagnostic, severity="warning") for diagnostic in error.diagnostics)
        elif warnings and self.workspace.database.exists() and indexing.index_is_stale(self.workspace):
            message = "documents changed since they were indexed"
            self.warn([Diagnostic("HIVE-406", message, ".hive/hive.db", fix="run `hive index`", severity="warning")])

    def refresh_index(self, *, warnings: bool = True, wait: float = WAIT_WITHOUT_INDEX) -> None:
        """Update the index; `warnings` as for `keep_fresh`. Raises: HIVE-402 when it is locked for `wait` seconds."""
        from hive_agents.ranking import build_index

        if not (warnings and self.asker.authn == "local"):
            with progress_lines(lambda line: self.say("the index is brought up to date …")) as progress:
                report = build_index(self.workspace, progress, quick=True, wait=wait)
            self.warn(warning for warning in report.warnings if warning.code == "HIVE-407")
            return

        def plan(work: indexing.PendingWork) -> None:
            if work.seconds > ANNOUNCED_FROM:
                state = "isn't built yet" if work.first else "isn't up to date"
                estimate = f"about {duration(work.seconds)} on one core, less where embeddings are kept"
                self.say(f"the index {state}: {count(work.documents, 'document')} to read, {estimate}")

        with self.progress(INTERRUPTED) as progress:
            report = build_index(self.workspace, progress, quick=True, plan=plan, wait=wait)
        if not report.documents:
            self.say("no documents are indexed yet: add some with `hive import PATH`")
        changed = report.added or report.updated or report.deleted
        # The warning that there is no embedding model is for whoever builds an index, not for each search.
        self.warn(warning for warning in report.warnings if changed or warning.code != "HIVE-401")
        for name in report.waiting:
            what = f'collection "{name}", or how this release reads it, changed'
            message = f"{what}; searches use the index as it was until the new one is proved"
            fix = 'run `hive index` to prove it, or `hive index --accept --reason "…"` to switch now'
            self.warn([Diagnostic("HIVE-406", message, f"collections/{name}.json", fix=fix, severity="warning")])
        for skipped in report.skipped:
            message, file, line = skipped["message"], skipped["file"], skipped["line"]
            fix = "mend the file; until then it isn't searched"
            self.warn([Diagnostic("HIVE-108", message, file, fix=fix, line=line, severity="warning")])


def with_surface(
    *, as_user: str | None = None, before: str | None = None, workspace: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of all commands after the command's own; their values become its first argument, a `Surface`.

    `as_user` is the help text of `--as`; None leaves that option out. `--as` comes before the command's parameter
    `before`, else after the command's own. `workspace=False` leaves `--workspace` out.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(**arguments: Any) -> None:
            surface = Surface(
                arguments.pop("json"),
                arguments.pop("quiet"),
                folder=arguments.pop("workspace", None),
                as_user=arguments.pop("as_user", None),
            )
            function(surface, **arguments)

        parameters = list(signature(function, eval_str=True).parameters.values())[1:]
        if as_user is not None:
            option = Annotated[str | None, typer.Option("--as", metavar="USER", help=as_user)]
            at = len(parameters) if before is None else [parameter.name for parameter in parameters].index(before)
            parameters.insert(at, _option("as_user", option, None))
        if workspace:
            parameters.append(_option("workspace", _WorkspaceOption, None))
        parameters += [_option("json", _JsonOption, False), _option("quiet", _QuietOption, False)]
        # Typer reads a command's parameters from both.
        setattr(command, "__signature__", Signature(parameters))  # noqa: B010 - a function has no such attribute
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _option(name: str, annotation: Any, default: object) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


def styled(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style)


def json_text(value: object) -> str:
    r"""Return the value as indented JSON with signs that can't be seen, such as those of text direction, escaped.

    >>> print(json_text({"é": "a\u202eb"}))
    {
      "é": "a\u202eb"
    }
    """
    return spelled_json(value, indent=2)


def input_object(text: str) -> dict[str, Any]:
    """Return the JSON object of `--input`. Raises: HIVE-101, HIVE-104 (exit code 2)."""
    from hive_agents.base.files import jsontext

    text.encode()  # HIVE-112: a shell passes on any bytes
    try:
        value = jsontext.parse(text, "--input")
    except HiveError as error:
        raise HiveError(error.diagnostics, exit_code=2) from None
    if not isinstance(value, dict):
        fix = """write --input '{"topic": "bees"}'"""
        raise HiveError.of("HIVE-104", "the input is not a JSON object", file="--input", path="$", fix=fix, exit_code=2)
    return value


def _write_json(value: dict[str, Any]) -> None:
    write(json_text(value))


def show_failure(error: HiveError, as_json: bool) -> None:
    if as_json:
        _write_json({"ok": False, "diagnostics": [diagnostic.to_json() for diagnostic in error.diagnostics]})
    else:
        Surface(as_json=False, quiet=False).warn(error.diagnostics)


def figure(value: float | None, digits: int = 3, signed: bool = False) -> str:
    """Return a number for a table; a missing one is a dash, never a zero."""
    if value is None:
        return "–"
    return f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
