"""The resources of an MCP server of the settings: their uri is what they are known by."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hive_agents.agents import mcp_servers
from hive_agents.base import HiveError
from hive_agents.readers import KINDS
from hive_agents.sources.contract import DocumentSource, MissedItem, SeenItems, SourceFailure, SourceItem, SourceOptions


class McpResourceOptions(SourceOptions):
    """The url is the name of a server of `[mcp.servers]`."""


class McpResourceSource(DocumentSource[McpResourceOptions]):
    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        self._uris: dict[str, str] = {}
        try:
            resources = mcp_servers.server_resources(self.place.workspace, self.place.settings.url)
        except HiveError as error:
            raise SourceFailure(error.diagnostics[0].message) from None
        for found in resources:
            key = _key(found.uri, found.mime_type)
            self._uris.setdefault(key, found.uri)
            revision = f"{found.modified}-{found.size}" if found.modified else ""
            yield SourceItem(key, revision, found.size)

    def fetch(self, item: SourceItem) -> bytes:
        try:
            return mcp_servers.read_resource(self.place.workspace, self.place.settings.url, self._uris[item.key])
        except HiveError as error:
            raise SourceFailure(error.diagnostics[0].message) from None


def _key(uri: str, mime_type: str) -> str:
    """Return a path for a resource, with a suffix of its type where it has none that is known.

    >>> _key("notes://team/plan", "text/markdown"), _key("file:///srv/a.txt", "text/plain")
    ('team/plan.md', 'srv/a.txt')
    """
    path = "/".join(part for part in re.sub(r"^[\w+.-]+:/*", "", uri).split("/") if part not in ("", ".", ".."))
    path = path or "resource"
    if PurePosixPath(path).suffix.lower() in KINDS:
        return path
    suffix = {"text/markdown": ".md", "text/html": ".html"}.get(mime_type) or mimetypes.guess_extension(mime_type)
    return path + (suffix or ".txt")
