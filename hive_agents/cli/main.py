"""`hive`: registers the commands, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from hive_agents.base import HiveError
from hive_agents.cli.surface import show_failure
from hive_agents.cli.terminal import forget_written, has_result, log_plainly

INTERRUPTED = 130

# Typer has its own copy of click, under a private name.
_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

PANELS = {
    "Import documents": {
        "init": "init:command",
        "import": "import_:command",
        "sources": "sources:app",
        "index": "index:command",
        "fields": "fields:command",
        "stale": "stale:command",
    },
    "Search and ask": {
        "query": "query:command",
        "chat": "chat:command",
        "why": "why:command",
        "export": "export:command",
    },
    "Measure and improve": {
        "label": "label:command",
        "evaluate": "evaluate:command",
        "compare": "compare:command",
        "validate": "validate:command",
        "optimize": "optimize:command",
        "gate": "gate:command",
        "feedback": "feedback:app",
    },
    "Deploy": {
        "deploy": "deploy:deploy",
        "rollback": "deploy:rollback",
        "history": "deploy:history",
        "canary": "deploy:canary",
        "receipt": "receipt:app",
        "verify": "receipt:verify",
    },
    "Run agents, and answer their requests": {
        "run": "run:command",
        "runs": "runs:app",
        "agents": "agents:app",
        "approvals": "approvals:app",
        "judge": "judge:app",
        "trigger": "trigger:app",
        "queen": "queen:command",
    },
    "Serve and maintain a workspace": {
        "serve": "serve:command",
        "open": "serve:open_",
        "status": "status:command",
        "mcp": "serve:mcp",
        "doctor": "doctor:command",
        "models": "models:app",
        "tools": "tools:app",
        "credentials": "credentials:app",
        "token": "token:app",
        "people": "people:app",
        "trust": "trust:command",
        "storage": "storage:app",
        "backup": "storage:backup",
    },
    "Learn": {
        "demo": "demo:command",
        "help": "help:app",
        "explain": "reference:explain",
        "schema": "reference:schema",
    },
}
"""The commands by the panel of the help page that lists them, each with its module of `cli` and the name in there."""


@cache
def command_line(only: str = "") -> typer.Typer:
    """Return `hive` with all its commands, or with the one named `only`, which alone is imported then."""
    app = typer.Typer(
        name="hive",
        help="Search, measure, verify and deploy: agents that know when they don't know.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for panel, commands in PANELS.items():
        for name, place in commands.items():
            if only in ("", name):
                module, _, attribute = place.partition(":")
                command = getattr(import_module(f"hive_agents.cli.{module}"), attribute)
                if isinstance(command, typer.Typer):
                    app.add_typer(command, name=name, rich_help_panel=panel)
                else:
                    app.command(name, rich_help_panel=panel)(command)
    return app


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(version("hive-agents"))
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what a user can cause is shown without a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"] and words[1:2] not in (["ask"], ["--help"], ["-h"]):
        words = [*words[1:], "--help"]
    as_json = "--json" in words
    forget_written()
    code = _exit_code(words, as_json)
    if code == INTERRUPTED and as_json and not has_result():
        why, fix = "interrupted before there was a result", "run the command again"
        show_failure(HiveError.of("HIVE-435", why, fix=fix), as_json)
    return code


def _exit_code(words: list[str], as_json: bool) -> int:
    """Run a command, show its error if it fails, and return its exit code."""
    known = words[0] if words and any(words[0] in commands for commands in PANELS.values()) else ""
    try:
        return int(command_line(known)(args=words, prog_name="hive", standalone_mode=False) or 0)
    except HiveError as error:
        show_failure(error, as_json)
        return error.exit_code
    except _UsageError as error:
        if not words:  # the error of a bare `hive` is its help page
            error.show()
        else:
            message = error.format_message()
            command = error.ctx.command_path if error.ctx else "hive COMMAND"
            show_failure(HiveError.of("HIVE-409", message, fix=f"see `{command} --help`"), as_json)
        return 2
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "hive_agents", "graphs"):
            raise  # a bug of ours
        message = f"{package}, which this command needs, isn't installed"
        missing = HiveError.of("HIVE-411", message, fix="pip install hive-agents, with all that it depends on")
        show_failure(missing, as_json)
        return missing.exit_code
    except BrokenPipeError:
        # The reader of the output is gone; without stdout the interpreter doesn't complain at exit.
        sys.stdout = None
        return 0
    except UnicodeError as error:
        show_failure(
            HiveError.of("HIVE-112", f"text that is not UTF-8: {error}", fix="give it as UTF-8", exit_code=2), as_json
        )
        return 2
    except OSError as error:
        name = str(error.filename or "the output")
        message = f"cannot read or write {name}: {error.strerror or error}"
        fix = "check permissions and free space"
        try:
            show_failure(HiveError.of("HIVE-403", message, fix=fix), as_json and error.filename is not None)
        except OSError:
            sys.stdout = None
        return 3


def run() -> None:
    log_plainly()
    # A shell can close each of the three streams; only a closed stdout is an error.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - for the life of the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        show_failure(HiveError.of("HIVE-403", "the output is closed", fix="give it a place: > FILE"), as_json=False)
        sys.exit(3)
    streams: list[Any] = [sys.stdout, sys.stderr]
    for stream in streams:
        # A character that the output's encoding lacks becomes a question mark, not an error.
        stream.reconfigure(errors="replace")
    code = main()
    try:
        sys.stdout.flush()
    except (OSError, AttributeError):
        sys.stdout, code = None, code or 3
    if code == INTERRUPTED:
        # Threads may still compute; the interpreter would abort when it ends them in the middle of a native call.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
