"""The tools that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from hive_agents.agents.tools import ToolRegistry

if TYPE_CHECKING:
    from hive_agents.workspace import Workspace

ONLY_SUB_AGENTS = frozenset({"browser"})
NAMES = frozenset(
    "search_documents open_document validate_config evaluate_config compare_configs propose_config deploy_config"
    " web_search web_scrape browser".split()
)

SearchProvider = Callable[[str, int], Any]
"""(query, number of results) -> a list of {title, url, snippet}, or an awaitable of one."""


def bundled_tools(
    workspace: Workspace,
    *,
    web_search: SearchProvider | None = None,
    private_hosts: Collection[str] = (),
    only: Sequence[str] | None = None,
) -> ToolRegistry:
    """Return a registry with the bundled tools, or `only` some; more can be registered in it.

    Without `web_search` that tool reports that there is no provider. `private_hosts` are hosts, or `host:port`, that
    the web tools may reach although their addresses are private.
    """
    from hive_agents.agents import config_tools, web_tools
    from hive_agents.agents.searching import DocumentSearch

    registry = ToolRegistry()

    def add(function: Callable[..., Any], **options: Any) -> None:
        name = options.pop("name", None) or function.__name__
        if only is None or name in only:
            registry.register(function, name=name, **options)

    documents = DocumentSearch(workspace)
    add(documents.search_documents)
    add(documents.open_document)
    add(config_tools.validate_config)
    add(config_tools.evaluate_config)
    add(config_tools.compare_configs)
    add(config_tools.propose_config, side_effect="write")
    add(config_tools.deploy_config, side_effect="write")
    web = web_tools.Web(frozenset(private_hosts), web_search)
    add(web.web_search, side_effect="external")
    add(web.web_scrape, side_effect="external")
    add(web.browser, side_effect="external", sub_agents_only=True)
    return registry
