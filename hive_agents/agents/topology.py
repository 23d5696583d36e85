"""What follows from an agent's edges: which nodes can be reached, what comes before, which branches run together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from hive_agents.agents.spec import AgentSpec, EdgeSpec


def reachable(agent: AgentSpec, start: Iterable[str], *, without: str | None = None) -> set[str]:
    """The nodes that work can get to from `start`, which belongs to them; no way leads through `without`."""
    found: set[str] = set()
    waiting = [name for name in start if name != without]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [edge.target for edge in agent.edges if edge.source == name and edge.target != without]
    return found


def sub_agent_nodes(agent: AgentSpec) -> set[str]:
    """The nodes that others delegate to; the work itself gets to none of them."""
    own = {node.id for node in agent.nodes}
    return {name for node in agent.nodes for name in node.sub_agents if name in own}


def producers_before(agent: AgentSpec, id: str) -> set[str]:
    """The nodes that may have ended before `id` starts; itself where a loop leads back."""
    return {
        node.id
        for node in agent.nodes
        if any(id in reachable(agent, [edge.target]) for edge in agent.edges if edge.source == node.id)
    }


def parallel_edges(agent: AgentSpec) -> Iterator[tuple[EdgeSpec, EdgeSpec]]:
    """Pairs of edges that may be taken at once."""
    for node in agent.nodes:
        for pair in combinations(agent.edges_from(node.id), 2):
            if pair[0].target != pair[1].target and pair[0].together_with(pair[1]):
                yield pair


def keys_written_twice(agent: AgentSpec, one: EdgeSpec, other: EdgeSpec) -> list[str]:
    """Output keys of nodes in both branches, up to where these meet."""
    ways = [reachable(agent, [edge.target], without=one.source) for edge in (one, other)]
    written = []
    for edge, mine, others in ((one, ways[0], ways[1]), (other, ways[1], ways[0])):
        branch = (mine - others) | {edge.target}
        written.append({key for node in agent.nodes if node.id in branch for key in node.output_keys})
    return sorted(written[0] & written[1])
