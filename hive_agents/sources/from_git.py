"""A revision of a git repository: on this disk, or fetched over ssh or https into a copy of our own."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from hive_agents.base import HiveError
from hive_agents.readers import MAX_BYTES, ImportFailure
from hive_agents.sources.contract import DocumentSource, MissedItem, SeenItems, SourceFailure, SourceItem, SourceOptions
from hive_agents.sync import git_output, list_files

_SECONDS = 600
_REMOTE = re.compile(r"(?:https?|ssh)://[^-]|[\w.-]+@[\w.-]+:")


class GitOptions(SourceOptions):
    """`rev` is a branch, tag or commit; `path` a folder of the repository."""

    rev: str = "HEAD"
    path: str = ""


class GitSource(DocumentSource[GitOptions]):
    local = True

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        url, rev = self.place.settings.url, self.options.rev
        if rev.startswith("-"):
            raise SourceFailure("a revision can't begin with -")
        if _REMOTE.match(url):
            repository, rev = self._fetched(url, rev), "FETCH_HEAD"
        else:
            repository = Path(os.path.abspath(self.place.workspace.root / os.path.expanduser(url)))
            if not repository.is_dir():
                raise SourceFailure("there is no such folder")
        below = PurePosixPath(self.options.path)
        if ".." in below.parts or below.is_absolute():
            raise SourceFailure("the path leaves the repository")
        try:
            listing = list_files(repository / below, rev=rev)
        except ImportFailure as failure:
            raise SourceFailure(str(failure)) from None
        self.ignored = listing.ignored
        for file, why in listing.refused.items():
            yield MissedItem(file, why, alone=True)
        for found in listing.found:
            yield SourceItem(str(found.file), file=found)

    def _fetched(self, url: str, rev: str) -> Path:
        """Fetch a revision into a bare repository of our own, and return that."""
        repository = self.place.folder / "repository"
        if not (repository / "HEAD").exists():
            self._git({}, "init", "--bare", "--quiet", str(repository))
        config = {}
        if self.place.secret is not None:
            secret = self.place.secret.reveal()
            login = secret if ":" in secret else f"x-access-token:{secret}"
            config["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(login.encode()).decode()}"
        self._git(config, "-C", str(repository), "fetch", "--depth=1", "--no-tags", "--force", "--", url, rev)
        return repository

    def _git(self, config: Mapping[str, str], *arguments: str) -> None:
        """Run git without prompts, hooks and other ways than ssh and http(s); `config` isn't seen in its arguments."""
        env = {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "https:http:ssh",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes",
            "GIT_CONFIG_COUNT": str(len(config)),
        }
        for number, (key, value) in enumerate(config.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        command = ["-c", "core.hooksPath=/dev/null", "-c", "http.followRedirects=false", *arguments]
        try:
            git_output(command, seconds=_SECONDS, most=MAX_BYTES, env=env)
        except FileNotFoundError:
            message = "a source of the kind git needs git, which isn't installed"
            raise HiveError.of("HIVE-411", message, fix="install git") from None
        except ImportFailure as failure:
            raise SourceFailure(str(failure)) from None
