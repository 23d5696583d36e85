"""An agent as a Mermaid flowchart."""

from __future__ import annotations

from hive_agents.agents.spec import AgentSpec, EdgeSpec, NodeSpec, sub_agent_nodes


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
