"""The words that begin a node's visit: what is given, what went before, or what is to be different."""

from __future__ import annotations

import json

from hive_agents.agents.ends import End
from hive_agents.agents.synthetic import synthetic_tools
from hive_agents.agents.telling import summariser
from hive_agents.agents.work import NodeWork
from hive_agents.approvals import WITHHELD
from hive_agents.memory import ContextHandoff, transition_marker
from hive_agents.text import cut, fenced


async def why_here(work: NodeWork) -> str:
    """After a judge's feedback that, after other nodes what they leave, else the inputs."""
    session = work.session
    before = work.led_here
    again = next((one for one in reversed(work.verdicts) if work.node.id in one["targets"]), None)
    if again is not None and again["n"] == len(work.verdicts) and not before:
        whole = session.effects.find(again["key"])
        earlier = [end for end in work.ends if end["node"] == work.node.id][-1:]
        told = [] if work.shared else [await _handed(work, end) for end in earlier]
        if again["action"] == "replan":
            return "\n\n".join([*told, f"[Replan feedback]: {json.dumps(whole['context'], ensure_ascii=False)}"])
        return "\n\n".join([*told, f"[Judge feedback]: {whole['feedback'] or whole['reasoning']}"])
    if not before:
        given = [f"- {key}: {cut(json.dumps(value, ensure_ascii=False), 2_000)}" for key, value in work.inputs.items()]
        begin = work.task or f"Begin with {work.node.id}."
        return f"{begin}\n\nInputs:\n{fenced(chr(10).join(given))}" if given else begin
    if work.view().hidden:
        return f"Completed: {', '.join(end['node'] for end in before)}. Now it is {work.node.id}'s turn.\n\n{WITHHELD}"
    values = work.buffer.read_all("execution")
    files = [file.name for file in work.files.list()]
    done = {key: values.get(key) for end in before for key in end["outputs"]}
    if work.shared:
        return transition_marker(
            session.workspace,
            completed=", ".join(end["node"] for end in before),
            following=work.node.id,
            outputs=done,
            files=files,
            memory=work.notes,
            tools=[*work.tools.names, *(tool.name for tool in synthetic_tools(work))],
        )
    return "\n\n".join([await _handed(work, end) for end in before])


async def _handed(work: NodeWork, end: End) -> str:
    values = work.buffer.read_all("execution")
    handoff = await ContextHandoff.build(
        work.session.store,
        end["conversation"],
        source=end["node"],
        target=work.node.id,
        outputs={key: values.get(key) for key in end["outputs"]},
        files=[file.name for file in work.files.list()],
        summarise=summariser(work, f"{work.key_of(end)}/handoff") if work.agent.mode == "isolated" else None,
    )
    return handoff.to_text()
