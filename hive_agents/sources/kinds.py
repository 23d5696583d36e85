"""The kinds of sources: where each is implemented, and which package it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import Any

from hive_agents.access import AccessLabels
from hive_agents.base import HiveError, NotFound, did_you_mean
from hive_agents.base.files import load_value
from hive_agents.sources.contract import OpenedSource, SourceFailure, SourcePlace, failure_of
from hive_agents.workspace import Workspace, require_trust
from hive_agents.workspace.credentials import resolve
from hive_agents.workspace.settings import SourceSettings

KINDS = {
    "folder": "from_folder:Folder",
    "git": "from_git:Git",
    "s3": "from_s3:S3",
    "azure": "from_obstore:Obstore",
    "gcs": "from_obstore:Obstore",
    "webdav": "from_webdav:WebDav",
    "sftp": "from_sftp:Sftp",
    "imap": "from_imap:Imap",
    "web": "from_web:Web",
    "loader": "from_loader:Loader",
    "mcp": "from_mcp:McpResource",
}
"""The module of each kind, and what the names of its source and options begin with."""


def source_settings(workspace: Workspace, name: str) -> SourceSettings:
    """Return the settings of a source. Raises: HIVE-409 where they name none."""
    named = workspace.settings.sources
    if name not in named:
        fix = did_you_mean(name, named, f"use one of: {', '.join(named)}" if named else "add it: hive sources add")
        raise NotFound.of("HIVE-409", f'the settings name no source "{name}"', file="hive.toml", fix=fix, exit_code=2)
    return with_readers(name, named[name])


def with_readers(name: str, settings: SourceSettings) -> SourceSettings:
    """Return the settings of a source. Raises: HIVE-105 where its readers are none."""
    fault = AccessLabels.of({"tenant": settings.tenant or [], "view": [*settings.view, *_one(settings.owner)]}).fault
    if fault:
        fix = "a reader is user:ID, group:ID or tenant"
        raise HiveError.of("HIVE-105", fault, file="hive.toml", path=f"sources.{name}", fix=fix)
    return settings


def _one(text: str) -> list[str]:
    return [text] if text else []


def options_of(name: str, settings: SourceSettings) -> Any:
    """Return the options of a source. Raises: level 1's faults."""
    try:
        return load_value(_class(settings.kind, "Options"), settings.options, "hive.toml")
    except HiveError as error:
        from dataclasses import replace

        told = [replace(each, path=f"sources.{name}.options.{each.path}") for each in error.diagnostics]
        raise HiveError(told) from None


def _class(kind: str, what: str) -> Any:
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(f"hive_agents.sources.{module}"), name + what)


@contextmanager
def opened(workspace: Workspace, name: str) -> Iterator[OpenedSource]:
    """Yield a source of the settings, connected.

    Raises: HIVE-409, HIVE-431 where it isn't trusted, HIVE-421, HIVE-411 without the package that it needs;
    SourceFailure.
    """
    settings = source_settings(workspace, name)
    require_trust(workspace, f"sources.{name}")
    options = options_of(name, settings)
    secret = resolve(workspace, settings.secret_ref) if settings.secret_ref else None
    place = SourcePlace(workspace, name, settings, workspace.state_folder(f"sources/{name}"), secret)
    try:
        source = _class(settings.kind, "Source")(place, options)
    except ModuleNotFoundError as error:
        message = f"a source of the kind {settings.kind} needs the package {error.name}, which isn't installed"
        raise HiveError.of("HIVE-411", message, fix="pip install 'hive-agents[sources]'") from None
    except HiveError:
        raise
    except Exception as error:
        raise SourceFailure(place.safe(failure_of(error))) from None
    with closing(source):
        yield source
