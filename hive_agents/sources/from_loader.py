"""Any LangChain `BaseLoader`: what has `lazy_load()`, in a module or in a file of the workspace.

A loader tells neither revisions nor deletions: a document is known by the `source` of its metadata, its revision is the
hash of its text, and what a whole pass doesn't give is gone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

from hive_agents.agents import recorded_code
from hive_agents.base import HiveError
from hive_agents.base.files import frontmatter
from hive_agents.sources.contract import (
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceAccess,
    SourceFailure,
    SourceItem,
    SourceOptions,
)
from hive_agents.workspace import trusted_bytes

_RESERVED = ("tenant", "view", "source")


class LoaderOptions(SourceOptions):
    """`arguments` are those of the class or function that the url names; the secret becomes the one called
    `secret_argument`. `access_key` is the key of the metadata that lists who may read a document, `groups` the
    loader's method that returns the members of each group."""

    arguments: dict[str, Any] = {}
    secret_argument: str = ""
    access_key: str = ""
    groups: str = ""


class LoaderSource(DocumentSource[LoaderOptions]):
    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        taken: dict[str, int] = {}
        for source, pages in self._documents():
            key = _key(source)
            taken[key] = taken.get(key, 0) + 1
            if taken[key] > 1:
                key = f"{key}-{taken[key]}"
            content = _document(pages)
            revision = hashlib.sha256(content).hexdigest()
            yield SourceItem(f"{key}.md", revision, len(content), self._access(pages), content)

    def _documents(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield each source with its documents, which loaders give one after the other, such as pages."""
        with recorded_code(self.place.workspace):
            iterator = iter(self._called(lambda: self._loader().lazy_load()))
            at, pages = "", list[Any]()
            while (document := self._called(lambda: next(iterator, None))) is not None:
                source = str(document.metadata.get("source") or getattr(document, "id", None) or "document")
                if pages and source != at:
                    yield at, pages
                    pages = []
                at = source
                pages.append(document)
            if pages:
                yield at, pages

    def _loader(self) -> Any:
        module, _, name = self.place.settings.url.rpartition(":")
        if not module:
            raise SourceFailure("write its url as module:attribute, or as loaders/mine.py:attribute")
        given = dict(self.options.arguments)
        if self.options.secret_argument and self.place.secret is not None:
            given[self.options.secret_argument] = self.place.secret.reveal()
        found: Any = self._file(module) if module.endswith(".py") else import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found(**given) if callable(found) else found

    def _file(self, name: str) -> ModuleType:
        path = self.place.workspace.root / name
        source = trusted_bytes(self.place.workspace, path)
        module = ModuleType(f"hive_loader_{path.stem}")
        module.__file__ = str(path)
        exec(compile(source, str(path), "exec"), vars(module))
        return module

    def _called(self, call: Any) -> Any:
        """Return what code of others returns. Raises: SourceFailure for whatever it raises."""
        try:
            return call()
        except (HiveError, SourceFailure):
            raise
        except (Exception, SystemExit) as error:
            raise SourceFailure(f"the loader failed: {type(error).__name__}: {error}") from None

    def groups(self) -> Mapping[str, Collection[str]] | None:
        if not self.options.groups:
            return None
        with recorded_code(self.place.workspace):
            told = self._called(lambda: getattr(self._loader(), self.options.groups)())
        if not isinstance(told, Mapping):
            raise SourceFailure(f"the loader's {self.options.groups} returns no groups with their members")
        return {str(group): [str(each) for each in members] for group, members in told.items()}

    def _access(self, pages: list[Any]) -> SourceAccess | None:
        key = self.options.access_key
        if not key:
            return None
        told = [page.metadata.get(key) for page in pages]
        lists = [{str(each) for each in ([one] if isinstance(one, str) else one or [])} for one in told]
        return SourceAccess(frozenset(set.intersection(*lists)))


def _key(source: str) -> str:
    """Return a path for a source.

    >>> _key("https://a.example/b/c?d=1"), _key("/srv/docs/a.pdf")
    ('a.example/b/c?d=1', 'srv/docs/a.pdf')
    """
    parts = PurePosixPath(re.sub(r"^\w+://", "", source)).parts
    return "/".join(part for part in parts if part not in ("/", "..", ".")) or "document"


def _document(pages: list[Any]) -> bytes:
    first: Mapping[str, Any] = pages[0].metadata
    plain = (str, int, float, bool, dt.date)
    fields = {str(key): value for key, value in first.items() if isinstance(value, plain) and key not in _RESERVED}
    body = "\n\n".join(str(page.page_content) for page in pages)
    return frontmatter.render(fields, body).encode("utf-8", "replace")
