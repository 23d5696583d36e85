"""Level 2 of an agent: every name leads somewhere, every input has a source, nothing secret stands in a prompt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from hive_agents.agents.deployed import find_sub_agent, known_agents
from hive_agents.agents.judges import judge_names
from hive_agents.agents.prompt_texts import UnreadPrompt, prompt_texts, secrets_in, undeclared
from hive_agents.agents.spec import (
    AgentSpec,
    EdgeSpec,
    NodeSpec,
    keys_written_twice,
    parallel_edges,
    producers_before,
    reachable,
    read_agent,
    sub_agent_nodes,
)
from hive_agents.agents.tool import unusable
from hive_agents.agents.tools import ToolRegistry
from hive_agents.base import Diagnostic, HiveError, closest, did_you_mean, has_errors
from hive_agents.base.files import jsontext
from hive_agents.goals import goal_ids, load_goal
from hive_agents.workspace import Workspace

FILE_TOOLS = ("load_data", "save_data", "edit_data", "list_data_files")
"""Every node has them, whether it names them or not."""
_GLOB = frozenset("*?[")


def check_agent(
    agent: AgentSpec,
    workspace: Workspace | None = None,
    *,
    tools: ToolRegistry | Collection[str] | None = None,
    file: str | None = None,
    text: str | None = None,
) -> list[Diagnostic]:
    """Return what level 2 says of an agent.

    `tools` may be used, None for those of the workspace. `text`, the file's, gives lines. Without a workspace goals and
    agents of files aren't looked up, and prompts are the bundled ones.
    """
    only: frozenset[str] = frozenset()
    if tools is None and workspace is not None:
        from hive_agents.agents.own_tools import workspace_tools

        tools = workspace_tools(workspace)
    elif tools is None:
        from hive_agents.agents.bundled import NAMES, ONLY_SUB_AGENTS

        tools, only = NAMES, ONLY_SUB_AGENTS
    why_left_out: Callable[[str], Diagnostic | None] = lambda _: None  # noqa: E731
    code: Collection[str] | None = None
    if isinstance(tools, ToolRegistry):
        code, only, why_left_out, tools = tools.code, tools.sub_agents_only, tools.why_left_out, tools.all_names
    checks = _Checks(agent, workspace, {*tools, *FILE_TOOLS}, only, why_left_out, code, file, text)
    # One part that isn't trusted may be why many tools aren't here.
    return list(dict.fromkeys(checks.run()))


def sound_agent(workspace: Workspace, id: str, *, tools: ToolRegistry | Collection[str] | None = None) -> AgentSpec:
    """Return the agent in `agents/<id>.json`. Raises: every diagnostic of levels 1 and 2, if one of them is an
    error."""
    agent, text = read_agent(workspace, id)
    file = f"agents/{id}.json"
    found = check_agent(agent, workspace, tools=tools, file=file, text=text)
    if has_errors(found):
        raise HiveError(found, exit_code=1)
    return agent


class _Checks:
    def __init__(
        self,
        agent: AgentSpec,
        workspace: Workspace | None,
        tools: set[str],
        for_sub_agents: frozenset[str],
        why_left_out: Callable[[str], Diagnostic | None],
        code: Collection[str] | None,
        file: str | None,
        text: str | None,
    ) -> None:
        self._agent, self._workspace = agent, workspace
        self._tools, self._for_sub_agents, self._why_left_out = tools, for_sub_agents, why_left_out
        self._code = code
        self._file, self._text = file or f"agents/{agent.id}.json", text

    def run(self) -> Iterator[Diagnostic]:
        yield from self._ids()
        yield from self._names()
        for number, node in enumerate(self._agent.nodes):
            yield from self._node(number, node)
        yield from self._edges()
        yield from self._inputs()
        yield from self._schemas()
        yield from self._policy()
        yield from self._prompts()

    @cached_property
    def _nodes(self) -> list[str]:
        return [node.id for node in self._agent.nodes]

    def _ids(self) -> Iterator[Diagnostic]:
        for number, name in enumerate(self._nodes):
            if name in self._nodes[:number]:
                yield self._fault("HIVE-111", f'two nodes are called "{name}"', "nodes", number, "id", fix="rename one")
        for number, edge in enumerate(self._agent.edges):
            if edge in self._agent.edges[:number]:
                message = f'the edge from "{edge.source}" to "{edge.target}" stands twice'
                yield self._fault("HIVE-111", message, "edges", number, fix="keep one of them")

    def _names(self) -> Iterator[Diagnostic]:
        yield from self._known(self._agent.entry, self._nodes, "node", "entry")
        yield from self._each(self._agent.pause_nodes, self._nodes, "node", "pause_nodes")
        for number, edge in enumerate(self._agent.edges):
            for key in ("source", "target"):
                yield from self._known(getattr(edge, key), self._nodes, "node", "edges", number, key)
        if self._workspace is None:
            return
        missing = list(self._known(self._agent.goal, goal_ids(self._workspace), "goal", "goal"))
        yield from missing
        if not missing:
            try:
                goal = load_goal(self._workspace, self._agent.goal)
            except HiveError as error:
                yield from error.diagnostics
                return
            for one in goal.success_criteria:
                if one.metric == "call_succeeded":
                    yield from self._known(one.target, self._tools, "tool", "goal")

    def _node(self, number: int, node: NodeSpec) -> Iterator[Diagnostic]:
        where = ("nodes", number)
        yield from self._each(node.nullable_output_keys, node.output_keys, "output key", *where, "nullable_output_keys")
        yield from self._each(node.tools, self._tools, "tool", *where, "tools")
        if isinstance(node.judge, str):
            yield from self._known(node.judge, judge_names(), "judge", *where, "judge")
        if isinstance(node.code, str) and self._code is not None:
            yield from self._known(node.code, self._code, "flow", *where, "code")
        delegated_to = node.id in sub_agent_nodes(self._agent)
        for place, tool in enumerate(node.tools):
            if tool in self._for_sub_agents and not delegated_to:
                message = f'only sub-agents may use "{tool}", and "{node.id}" is none'
                fix = f'give "{tool}" to a node that stands in the "sub_agents" of this one'
                yield self._fault("HIVE-218", message, *where, "tools", place, fix=fix)
        yield from self._delegation(node, delegated_to, where)
        yield from self._lent(node, where)

    def _schemas(self) -> Iterator[Diagnostic]:
        agent = self._agent
        held = [(agent.input_schema, ("input_schema",)), (agent.output_schema, ("output_schema",))]
        nodes = [(node.output_schema, ("nodes", n, "output_schema")) for n, node in enumerate(agent.nodes)]
        for schema, where in (*held, *nodes):
            if schema is None:
                continue
            for wrong in unusable(schema):
                fix = 'write a JSON schema: {"type": "object", "properties": {…}, "required": […]}'
                yield self._fault("HIVE-105", f"it can't be used: {wrong}", *where, fix=fix)

    def _delegation(self, node: NodeSpec, delegated_to: bool, where: tuple[str | int, ...]) -> Iterator[Diagnostic]:
        fix = "let one agent do all the delegating: a sub-agent has no sub_agents"
        if node.sub_agents and delegated_to:
            message = f'"{node.id}" is a sub-agent, and delegates itself'
            yield self._fault("HIVE-218", message, *where, "sub_agents", fix=fix)
        for place, name in enumerate(node.sub_agents):
            if name in self._nodes:
                continue
            at = (*where, "sub_agents", place)
            elsewhere = known_agents(self._workspace) if self._workspace is not None else []
            if name == self._agent.id:
                yield self._fault("HIVE-218", f'"{node.id}" delegates to its own agent', *at, fix=fix)
            elif name not in elsewhere:
                yield from self._known(name, [*self._nodes, *elsewhere], "sub-agent", *at)
            else:
                yield from self._other_agent(name, at, fix)

    def _lent(self, node: NodeSpec, where: tuple[str | int, ...]) -> Iterator[Diagnostic]:
        """Warnings: tools of sub-agents that they won't have, because the node that delegates to them has them not."""
        for place, name in enumerate(node.sub_agents):
            with suppress(HiveError):  # told of elsewhere
                for part in find_sub_agent(self._workspace, self._agent, name).nodes:
                    for tool in part.tools:
                        if tool in node.tools or tool in FILE_TOOLS or tool in self._for_sub_agents:
                            continue
                        message = f'the sub-agent "{name}" won\'t have "{tool}", for "{node.id}" hasn\'t'
                        fix = f'add "{tool}" to the tools of "{node.id}", or take it from the sub-agent\'s'
                        told = self._fault("HIVE-218", message, *where, "sub_agents", place, fix=fix)
                        yield replace(told, severity="warning")

    def _other_agent(self, name: str, at: tuple[str | int, ...], fix: str) -> Iterator[Diagnostic]:
        try:
            other = find_sub_agent(self._workspace, self._agent, name)
        except HiveError:
            message = f'the sub-agent "{name}" has faults of its own'
            yield self._fault("HIVE-107", message, *at, fix=f"mend agents/{name}.json first")
            return
        if any(node.sub_agents for node in other.nodes):
            yield self._fault("HIVE-218", f'the sub-agent "{name}" delegates itself', *at, fix=fix)

    def _edges(self) -> Iterator[Diagnostic]:
        agent = self._agent
        delegated_to = sub_agent_nodes(agent)
        reached = reachable(agent, [agent.entry])
        for number, node in enumerate(agent.nodes):
            if node.id in delegated_to and node.id in reached:
                message = f'"{node.id}" is a sub-agent, and a step of the way as well'
                yield self._fault("HIVE-218", message, "nodes", number, "id", fix="make two nodes of it")
            elif node.id not in reached | delegated_to and agent.entry in self._nodes:
                fix = "add an edge to it, name it in sub_agents, or remove it"
                yield self._fault("HIVE-215", f'no way leads to "{node.id}"', "nodes", number, "id", fix=fix)
        for one, other in parallel_edges(agent):
            for key in keys_written_twice(agent, one, other):
                message = (
                    f'"{one.target}" and "{other.target}" may run at once after "{one.source}", both write "{key}"'
                )
                fix = "rename one of the keys, or give the edges different priorities: then only the highest is taken"
                yield self._fault("HIVE-217", message, "edges", agent.edges.index(other), fix=fix)

    def _inputs(self) -> Iterator[Diagnostic]:
        agent = self._agent
        delegated_to = sub_agent_nodes(agent)
        given = {key for node in agent.nodes if node.id == agent.entry for key in node.input_keys}
        for number, node in enumerate(agent.nodes):
            if node.id == agent.entry or node.id in delegated_to:
                continue  # a run, or whoever delegates, brings these
            before = producers_before(agent, node.id)
            made = given | {key for one in agent.nodes if one.id in before for key in one.output_keys}
            for place, key in enumerate(node.input_keys):
                if key not in made:
                    fix = did_you_mean(key, made, f'let an earlier node set it, or "{agent.entry}" take it')
                    message = f'"{node.id}" needs "{key}", which no node before it makes'
                    yield self._fault("HIVE-216", message, "nodes", number, "input_keys", place, fix=fix)

    def _policy(self) -> Iterator[Diagnostic]:
        for number, rule in enumerate(self._agent.tool_policy):
            where = ("tool_policy", number, "match")
            if not rule.match.strip() or rule.match.count("[") != rule.match.count("]"):
                message = f'"{rule.match}" is no pattern for the name of a tool'
                yield self._fault("HIVE-105", message, *where, fix="use a name with *, ? and […]")
            elif not _GLOB & set(rule.match):
                yield from self._known(rule.match, self._tools, "tool", *where)

    def _prompts(self) -> Iterator[Diagnostic]:
        for number, node in enumerate(self._agent.nodes):
            path = ("nodes", number, "success_criteria")
            yield from self._secrets(node.success_criteria or "", None, path)
        for prompt in prompt_texts(self._agent, self._workspace):
            if isinstance(prompt, UnreadPrompt):
                for fault in prompt.error.diagnostics:
                    placed = self._fault(fault.code, fault.message, *prompt.path, fix=fault.fix or "")
                    yield placed if fault.file is None else fault
                continue
            yield from self._secrets(prompt.text, prompt.file, prompt.path)
            for name in undeclared(prompt):
                known = ", ".join(f"${key}" for key in sorted(prompt.variables))
                if name == "$":
                    found = self._fault("HIVE-105", "a $ stands before no variable", *prompt.path, fix="write $$")
                else:
                    message = f"the prompt asks for ${name}, which is not given"
                    guess = closest(name, prompt.variables)
                    fix = f"did you mean ${guess}?" if guess else f"add it to input_keys, or use one of {known}"
                    found = self._fault("HIVE-106", message, *prompt.path, fix=fix)
                yield _in_prompt(found, prompt.file, None)

    def _secrets(self, text: str, file: str | None, path: Iterable[str | int]) -> Iterator[Diagnostic]:
        for what, line in secrets_in(text):
            fix = "store it with `hive credentials set`, and let a tool be registered with its reference"
            yield _in_prompt(self._fault("HIVE-220", f"the prompt holds {what}", *path, fix=fix), file, line)

    def _each(self, names: Iterable[str], known: Collection[str], what: str, *path: str | int) -> Iterator[Diagnostic]:
        """As `_known` for each of the list that stands at `path`."""
        for number, name in enumerate(names):
            yield from self._known(name, known, what, *path, number)

    def _known(self, name: str, known: Collection[str], what: str, *path: str | int) -> Iterator[Diagnostic]:
        """HIVE-107 where `name`, which stands at `path`, is none of `known`."""
        if name not in known:
            if what == "tool" and (left_out := self._why_left_out(name)) is not None:
                yield left_out
                return
            fix = did_you_mean(name, known, f"use one of: {', '.join(sorted(known)) or 'none yet'}")
            if what == "tool":
                fix += "; `hive tools list` says why others aren't here"
            yield self._fault("HIVE-107", f'there is no {what} "{name}"', *path, fix=fix)

    def _fault(self, code: str, message: str, *path: str | int, fix: str) -> Diagnostic:
        line = jsontext.line_of(self._text, path) if self._text is not None else None
        return Diagnostic(code, message, self._file, jsontext.show_path(path), fix, line)


def _in_prompt(found: Diagnostic, file: str | None, line: int | None) -> Diagnostic:
    """Return the same fault at its place in the prompt's file."""
    if file is None:
        return found
    return Diagnostic(found.code, found.message, file, "$", found.fix, line)


def flowchart(agent: AgentSpec) -> str:
    """Return the drawing: nodes with their tools and outputs, edges with their conditions, delegation dotted.

    >>> one = NodeSpec(id="hello", system_prompt="Say hello.", output_keys=["greeting"], tools=["look_up"])
    >>> print(flowchart(AgentSpec(id="greeter", goal="greet", entry="hello", nodes=[one])))
    flowchart TD
        START(("greeter")) --> hello
        hello["hello<br/>uses look_up<br/>makes greeting"]
        hello --> GOAL{{"greet"}}
    """
    aside = sub_agent_nodes(agent)
    lines = ["flowchart TD", f"    START(({_text(agent.id)})) --> {_id(agent.entry)}"]
    lines += [f"    {_id(node.id)}{_shape(node, agent, node.id in aside)}" for node in agent.nodes]
    ends = []
    for node in agent.nodes:
        edges = agent.edges_from(node.id)
        lines += [f"    {_id(node.id)} {_arrow(edge)} {_id(edge.target)}" for edge in edges]
        lines += [f"    {_id(node.id)} -. delegates .-> {_id(name)}" for name in node.sub_agents]
        if node.id not in aside and not any(edge.on in ("always", "success", "model") for edge in edges):
            ends.append(node.id)
    lines += [f"    {_id(end)} --> GOAL{{{{{_text(agent.goal)}}}}}" for end in ends]
    return "\n".join(lines)


def _shape(node: NodeSpec, agent: AgentSpec, aside: bool) -> str:
    parts = [node.id]
    parts += [f"uses {', '.join(node.tools)}"] if node.tools else []
    parts += [f"makes {', '.join(node.output_keys)}"] if node.output_keys else []
    asks = node.requires_approval or node.pause_before or node.id in agent.pause_nodes
    parts += ["asks before it begins"] if asks else []
    text = _text("<br/>".join(parts))
    return f"([{text}])" if aside else f"[{text}]"


def _arrow(edge: EdgeSpec) -> str:
    label = f"if {edge.condition}" if edge.condition else edge.on
    return "-->" if edge.on == "success" else f"-->|{_text(label)}|"


def _id(name: str) -> str:
    """Return a name as an identifier of Mermaid, which reserves some words, such as "end"."""
    plain = "".join(sign if sign.isalnum() else "_" for sign in name)
    return (
        f"{plain}_"
        if plain in ("end", "graph", "flowchart", "subgraph", "style", "class", "click", "o", "x")
        else plain
    )


def _text(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
