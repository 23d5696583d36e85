"""Agents as data: nodes with prompts, tools and outputs, the edges between them, and questions about the graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_serializer, model_validator

from hive_agents.approvals import ToolRule
from hive_agents.base import NotFound, did_you_mean
from hive_agents.base.files import AnyCase, FileFormat, Format, Name, jsontext, load_value
from hive_agents.goals import CapabilityLevel
from hive_agents.goals.expressions import parse
from hive_agents.runs import Limits
from hive_agents.workspace.settings import keys

if TYPE_CHECKING:
    from pathlib import Path

    from hive_agents.workspace import Workspace


On = Literal["always", "success", "failure", "replan", "condition", "model"]


def _is_key(key: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", key):
        raise ValueError('a key has letters, digits and "_", at most 64, and no digit first')
    return key


BufferKey = Annotated[str, AfterValidator(_is_key)]
"""The key of a value of the data buffer; also a `$variable` of prompts."""


def _level(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    levels = {level.value: level for level in CapabilityLevel}
    if value.strip().lower() not in levels:
        raise ValueError(f"use one of: {', '.join(levels)}")
    return levels[value.strip().lower()]


class NodeSpec(Format):
    """One event loop: a model with a prompt and tools that works until its outputs are judged good.

    `system_prompt` is the name of a file, `prompts/collect.md`, or the text itself; `input_keys` are read from the
    data buffer, `output_keys` set by the node, of which `nullable_output_keys` may stay unset. `sub_agents` are nodes
    of the same agent, or agents of the workspace. By `success_criteria` a model judges the node's work; `judge` is the
    name of a registered judge, in Python also the judge itself. `output_schema`, a JSON schema, is that of the outputs.

    A node may be `code` in the place of a prompt: the name of a flow, agent or LangGraph graph in the modules of
    [tools] python, in Python also such an object, or a function of the inputs that returns the outputs.

    >>> node = NodeSpec(id="collect", system_prompt="Collect what is new.", output_keys=["items", "note"],
    ...                 nullable_output_keys=["note"], tools=["search_documents"])
    >>> node.required_output_keys
    ['items']
    """

    id: Name
    system_prompt: str
    input_keys: list[BufferKey] = []
    output_keys: list[BufferKey] = []
    nullable_output_keys: list[BufferKey] = []
    tools: list[str] = []
    sub_agents: list[Name] = []
    output_schema: dict[str, Any] | None = None
    success_criteria: str | None = None
    judge: Any = None
    code: Any = None
    max_iterations: Annotated[int, Field(ge=1, le=1_000)] = 50
    max_tool_calls: Annotated[int, Field(ge=1, le=10_000)] = 100
    requires_approval: bool = False
    pause_before: bool = False
    client_facing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _code_has_no_prompt(cls, value: Any) -> Any:
        return {"system_prompt": "", **value} if isinstance(value, dict) and value.get("code") is not None else value

    @model_serializer(mode="wrap")
    def _without_unset(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Fields that were added later are left out where they are unset: hashes of agents stay."""
        later = ("output_schema", "code")
        return {name: value for name, value in dump(self).items() if value is not None or name not in later}

    @field_validator("judge")
    @classmethod
    def _judge_is_named(cls, judge: Any) -> Any:
        if isinstance(judge, bool | int | float | list | dict):
            raise ValueError("a judge is the name of a registered one")
        return judge

    @field_validator("code")
    @classmethod
    def _code_runs(cls, code: Any) -> Any:
        if not (code is None or isinstance(code, str) or callable(code) or hasattr(code, "ainvoke")):
            fix = "compile the graph first" if hasattr(code, "compile") else "it is a function, flow, agent or graph"
            raise ValueError(f"{type(code).__name__} is no code of a node: {fix}")
        return code

    @property
    def required_output_keys(self) -> list[str]:
        return [key for key in self.output_keys if key not in self.nullable_output_keys]


class EdgeSpec(Format):
    """An edge that is taken when its source ends.

    `on` is the kind of end: `success` (accepted), `failure`, `always` (either of these), `replan`, `condition`
    (accepted, and `condition` is true), `model` (accepted, and the model chooses among these edges). Of the edges
    that fit, those with the highest `priority` are taken, all at once.

    >>> EdgeSpec(source="a", target="b", on="condition", condition="result['score'] >= 0.8").on
    'condition'
    """

    source: Name
    target: Name
    on: Annotated[On, AnyCase] = "always"
    condition: str | None = None
    priority: int = 0

    @field_validator("condition")
    @classmethod
    def _parses(cls, condition: str | None) -> str | None:
        if condition is not None:
            parse(condition)
        return condition

    @model_validator(mode="after")
    def _condition_fits(self) -> Self:
        if self.on == "condition" and self.condition is None:
            raise ValueError('an edge with on "condition" needs a "condition"')
        if self.on != "condition" and self.condition is not None:
            raise ValueError(f'a "condition" needs on "condition"; on "{self.on}" it would never be asked')
        return self

    def together_with(self, other: EdgeSpec) -> bool:
        """Return whether two edges of one source may both be taken after the same end."""
        if self.priority != other.priority or self.on == other.on == "model":
            return False
        ends = [_ENDS[edge.on] for edge in (self, other)]
        return bool(ends[0] & ends[1])


_ENDS: dict[str, frozenset[str]] = {
    "always": frozenset({"success", "failure"}),
    "success": frozenset({"success"}),
    "failure": frozenset({"failure"}),
    "replan": frozenset({"replan"}),
    "condition": frozenset({"success"}),
    "model": frozenset({"success"}),
}


class MemorySpec(Format):
    """Whose accepted notes an agent's notes (adapt.md) begin with.

    With `run` they begin empty in each run; with `thread` and `user` with what was accepted for that thread or user.
    No run reads the unaccepted notes of another one.
    """

    adapt: Annotated[Literal["run", "thread", "user"], AnyCase]


class AgentSpec(FileFormat):
    """An agent: its nodes, the edges between them, and what it may do.

    `identity` is part of every prompt: a text, or a file as `NodeSpec.system_prompt`. `goal` is the id of a goal; with
    the `mode` continuous all nodes share a conversation; `model` replaces that of the settings. Before a node of
    `pause_nodes` the run pauses. A tool that no rule of `tool_policy` matches has its own policy, "ask" by default.
    Without `memory` it keeps no notes. `budget` limits one run of the agent, or one task that is delegated to it.
    `loop_repeats` equal turns are a loop; it and `health`, thresholds of the health judge, replace those of the
    settings.

    >>> agent = AgentSpec(id="greeter", goal="greet", entry="hello",
    ...                   nodes=[NodeSpec(id="hello", system_prompt="Say hello.", output_keys=["greeting"])])
    >>> agent.mode, agent.node("hello").max_iterations
    ('continuous', 50)
    """

    id: Name
    version: Annotated[int, Field(ge=1, le=100_000_000)] = 1
    mode: Annotated[Literal["continuous", "isolated"], AnyCase] = "continuous"
    identity: str = ""
    goal: Name
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    entry: Name
    nodes: Annotated[list[NodeSpec], Field(min_length=1, max_length=100)]
    edges: Annotated[list[EdgeSpec], Field(max_length=1_000)] = []
    pause_nodes: list[Name] = []
    tool_policy: list[ToolRule] = []
    model: str | None = None
    memory: MemorySpec | None = None
    budget: Limits | None = None
    loop_repeats: Annotated[int, Field(ge=2, le=100)] | None = None
    health: keys.Health | None = None
    capability: Annotated[CapabilityLevel, BeforeValidator(_level)] = CapabilityLevel.CAN_HANDLE

    def node(self, id: str) -> NodeSpec:
        """Return the node of an id. Raises: KeyError."""
        return {node.id: node for node in self.nodes}[id]

    def edges_from(self, id: str) -> list[EdgeSpec]:
        """Return the edges of a node, by priority, highest first."""
        return sorted((edge for edge in self.edges if edge.source == id), key=lambda edge: -edge.priority)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of `agents/<id>.json`. Raises: TypeError where a node's judge is an object."""
        for node in self.nodes:
            for what, value in (("judge", node.judge), ("code", node.code)):
                if not isinstance(value, str | None):
                    raise TypeError(f'the {what} of "{node.id}" is an object: name a registered one')
        return self.model_dump(mode="json")


def load_agent(workspace: Workspace, id: str) -> AgentSpec:
    """Return the agent in `agents/<id>.json`, checked by level 1; `verify.check_agent` is level 2.

    Raises: HIVE-107 without such a file, else every fault of it (HIVE-101 to HIVE-113).
    """
    return read_agent(workspace, id)[0]


def read_agent(workspace: Workspace, id: str) -> tuple[AgentSpec, str]:
    """Return the agent as `load_agent` does, and the file's text."""
    path = _path(workspace, id)
    file = workspace.relative(path)
    text = jsontext.load_text(path, file)
    agent = load_value(AgentSpec, jsontext.parse(text, file), file, text)
    jsontext.require_own_name("agent", agent.id, id, file, text)
    return agent, text


def agent_ids(workspace: Workspace) -> list[str]:
    return sorted(path.stem for path in (workspace.root / "agents").glob("*.json"))


def _path(workspace: Workspace, id: str) -> Path:
    ids = agent_ids(workspace)
    if id not in ids:
        fix = did_you_mean(id, ids, f"write agents/{id}.json")
        raise NotFound.of("HIVE-107", f'there is no agent "{id}"', file=f"agents/{id}.json", path="$", fix=fix)
    return workspace.root / "agents" / f"{id}.json"


def reachable(agent: AgentSpec, start: Iterable[str], *, without: str | None = None) -> set[str]:
    """Return `start` and all nodes that can be reached from it, without passing through `without`."""
    reached: set[str] = set()
    waiting = [name for name in start if name != without]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [edge.target for edge in agent.edges if edge.source == name and edge.target != without]
    return reached


def sub_agent_nodes(agent: AgentSpec) -> set[str]:
    """Return the nodes that others delegate to; no edge leads to them."""
    ids = {node.id for node in agent.nodes}
    return {name for node in agent.nodes for name in node.sub_agents if name in ids}


def producers_before(agent: AgentSpec, id: str) -> set[str]:
    """Return the nodes that may have ended before `id` starts; also itself where it is in a cycle."""
    return {
        node.id
        for node in agent.nodes
        if any(id in reachable(agent, [edge.target]) for edge in agent.edges if edge.source == node.id)
    }


def parallel_edges(agent: AgentSpec) -> Iterator[tuple[EdgeSpec, EdgeSpec]]:
    """Yield the pairs of edges that may be taken at once."""
    for node in agent.nodes:
        for pair in combinations(agent.edges_from(node.id), 2):
            if pair[0].target != pair[1].target and pair[0].together_with(pair[1]):
                yield pair


def keys_written_twice(agent: AgentSpec, first: EdgeSpec, second: EdgeSpec) -> list[str]:
    """Return the output keys that nodes of both branches write before these meet."""
    reached = [reachable(agent, [edge.target], without=first.source) for edge in (first, second)]
    common = reached[0] & reached[1]
    written = []
    for edge, nodes in zip((first, second), reached, strict=True):
        branch = (nodes - common) | {edge.target}
        written.append({key for node in agent.nodes if node.id in branch for key in node.output_keys})
    return sorted(written[0] & written[1])


def ways_on(agent: AgentSpec) -> dict[str, list[str]]:
    """Return the targets of each node's edges, except replan edges."""
    return {
        node.id: list(dict.fromkeys(edge.target for edge in agent.edges_from(node.id) if edge.on != "replan"))
        for node in agent.nodes
    }


def before_each(entry: str, ways: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return the nodes from which each node is reached, ignoring edges that close a cycle.

    >>> before_each("a", {"a": ["b", "c"], "b": ["c"], "c": ["a"]})["c"] == {"a", "b"}
    True
    """
    before: dict[str, frozenset[str]] = dict.fromkeys(ways, frozenset())
    forward: dict[str, list[str]] = {}
    ended: list[str] = []

    def walk(id: str, path: frozenset[str]) -> None:
        forward[id] = [target for target in ways[id] if target not in path]
        for target in forward[id]:
            if target not in forward:
                walk(target, path | {target})
        ended.append(id)

    for start in (entry, *ways):  # then nodes that only replan edges lead to
        if start not in forward:
            walk(start, frozenset({start}))
    for id in reversed(ended):
        for target in forward[id]:
            before[target] |= before[id] | {id}
    return before
