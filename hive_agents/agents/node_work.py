"""One visit of one node: its conversation, values and files, and its system prompt."""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hive_agents.agents.models import RunModels
from hive_agents.agents.node_end import End, GoalVerdict, led_here, visits
from hive_agents.agents.prompt_texts import VARIABLES, filled
from hive_agents.agents.session import AgentSession
from hive_agents.agents.spec import AgentSpec, NodeSpec, parallel_edges, reachable
from hive_agents.agents.tools import Tools
from hive_agents.agents.verify import FILE_TOOLS
from hive_agents.agents.viewing import RunView
from hive_agents.base import cached_property, cut, encodable, fenced, sha256
from hive_agents.memory import (
    AgentMemory,
    DataBuffer,
    DataFiles,
    OutputAccumulator,
    Spillover,
    folder_name,
    onion,
    pretty,
)
from hive_agents.models import Chain
from hive_agents.runs import RunStore
from hive_agents.store import undone_by

_PLAIN = (bool, int, float, type(None))
"""What a prompt quotes where it stands: no text can be made of it."""


@dataclass
class NodeWork:
    """`key` is the visit's key in the ledger; that of a sub-agent begins with the key of its delegation."""

    session: AgentSession
    agent: AgentSpec
    node: NodeSpec
    key: str
    visit: int
    ends: Sequence[End] = ()
    verdicts: Sequence[GoalVerdict] = ()
    delegated: bool = False
    own_buffer: DataBuffer | None = None
    task: str | None = None
    policies: Tools | None = None
    in_code: bool = False
    """Whether code calls it like a function: then its prompt is what the code says, and its inputs are its first
    message."""

    @classmethod
    def of(
        cls, session: AgentSession, node: NodeSpec, ends: Sequence[End], verdicts: Sequence[GoalVerdict] = ()
    ) -> NodeWork:
        visit = visits(ends, node.id) + 1
        return cls(session, session.agent, node, f"{node.id}#{visit}", visit, ends, verdicts)

    @property
    def buffer(self) -> DataBuffer:
        """The run's values; a sub-agent's are a copy of them."""
        return self.own_buffer or self.session.buffer

    @cached_property
    def shared(self) -> bool:
        """Whether the node continues the agent's conversation; parallel nodes don't, their messages would mix."""
        return self.agent.mode == "continuous" and not self.delegated and self.node.id not in _parallel(self.agent)

    @cached_property
    def conversation(self) -> str:
        return self.session.conversation if self.shared else self._own

    @cached_property
    def _own(self) -> str:
        undone_by(self._forget)
        key = f"node:{self.key}"
        return self.session.store.create(self.agent.id, self.session.run_id, node_id=self.node.id, key=key)

    def _forget(self) -> None:
        for name in ("_own", "conversation", "outputs"):
            vars(self).pop(name, None)

    @cached_property
    def outputs(self) -> OutputAccumulator:
        # Not in the shared conversation: each visit has to set its outputs again.
        return OutputAccumulator(self.session.store, self._own, self.node.output_keys)

    @cached_property
    def memory(self) -> AgentMemory | None:
        return None if self.delegated else self.session.memory

    @property
    def notes(self) -> str:
        """The agent's notes; "" where the model may not see them now."""
        return self.memory.read() if self.memory is not None and not self.view().hidden else ""

    @cached_property
    def files(self) -> DataFiles:
        if self.delegated:  # a sub-agent doesn't see its parent's files
            return DataFiles(self.session.folder / "agents" / folder_name(self.key))
        return DataFiles(self.session.folder, {"adapt.md": self.memory} if self.memory is not None else {})

    @cached_property
    def spill(self) -> Spillover:
        return Spillover(self.files, limit=self.session.workspace.settings.agents.spillover_chars)

    @property
    def needs_files(self) -> bool:
        """Whether some file isn't in its conversation in full, or may not stay there."""
        sizes = [file.size for file in self.files.list()]
        return any(size > self.spill.limit for size in sizes) or sum(sizes) > self.input_texts.limit

    @cached_property
    def input_texts(self) -> InputTexts:
        settings = self.session.workspace.settings.agents
        # The limit of a tool's result, and about a quarter of the context: a token has about four characters.
        return InputTexts(lambda: self.files, min(settings.spillover_chars, settings.context_tokens))

    @property
    def chain(self) -> Chain:
        """The models that it asks: its agent's own where it is a sub-agent, else the run's."""
        models = self.session.models
        return models.of(self.agent, in_code=self.in_code) if isinstance(models, RunModels) else models("chat")

    @cached_property
    def tools(self) -> Tools:
        """The registry's tools that this node may call; the strictest policy of the chain of delegations decides.

        A sub-agent has no tool that the delegating node lacks.
        """
        names = [name for name in self.node.tools if name not in FILE_TOOLS]
        reach = self.policies if self.policies is not None else self.session.tools
        if self.delegated:
            names = [name for name in names if name in reach]
        return reach.view(names, policy=self.agent.tool_policy, sub_agent=self.delegated)

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of the outputs that it sets: the node's own, or what its agent's says of them."""
        if self.node.output_schema is not None or self.agent.output_schema is None:
            return self.node.output_schema
        known = self.agent.output_schema.get("properties") or {}
        return self.agent.output_schema if any(key in known for key in self.node.output_keys) else None

    def key_of(self, end: End) -> str:
        """Return the key in the ledger of another visit of the same agent."""
        return f"{self.key.removesuffix(f'{self.node.id}#{self.visit}')}{end['node']}#{end['visit']}"

    @property
    def led_here(self) -> list[End]:
        return led_here(self.ends, self.node.id)

    def view(self) -> RunView:
        """Return the run's view as its principal may see it now."""
        session = self.session
        read = session.documents_read
        return RunView(session.workspace, session.run_id, session.tenant, session.principal if read else None, read)

    def viewed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the buffer, without those that the model may not see now."""
        view = self.view()
        if not view.hidden:
            return dict(values)
        return view.values(values, RunStore(self.session.workspace).get(self.session.run_id).value["input"])

    @property
    def inputs(self) -> dict[str, Any]:
        keys = self.node.input_keys
        known = self.buffer.for_node(keys, self.node.output_keys).read_all() if keys else {}
        return self.viewed({key: known.get(key) for key in keys})

    @property
    def identity(self) -> str:
        text = self.agent.identity or ("" if self.in_code else f"You are {self.agent.id}.")
        return filled(text, self.session.workspace, **self._variables({}))

    def prompt(self) -> str:
        """Return the current system prompt. Raises: HIVE-105, HIVE-106, HIVE-107 for a faulty prompt."""
        inputs = self.inputs
        shown = {key: self.input_texts.cut(as_text(value)) for key, value in inputs.items()}
        # Inputs are data, short ones too: they are appended, and the prompt refers to them by "[input KEY]".
        below = {key: text for key, text in shown.items() if not isinstance(inputs[key], _PLAIN)}
        values = shown | {key: f"[input {key}]" for key in below}
        focus = filled(self.node.system_prompt, self.session.workspace, **(values | self._variables(inputs)))
        for key, text in below.items():  # each in its own fence, so that one can't imitate another
            if f"[input {key}]" in focus:
                references = self.input_texts.references({key: inputs[key]})
                focus += "\n\n" + "\n".join([fenced(f"[input {key}]: {text}"), *references])
        if self.task is not None:
            focus += f"\n\n# Task\n{self.task}"
        if self.in_code:  # the same in each call, so that a provider's cache of prompts holds it
            listed = "\n".join(f"- {file.name}" for file in self.files.list()) if self.needs_files else ""
            return "\n\n".join(filter(None, [self.identity, focus, listed and f"DATA FILES:\n{listed}"]))
        path = [onion.Phase(end["node"], end["status"], tuple(end["outputs"])) for end in self.ends]
        return onion.build_prompt(
            self.session.workspace,
            identity=self.identity,
            narrative=onion.narrative(path, self.viewed(self.buffer.read_all("execution"))),
            focus=focus,
            memory=self.notes,
            files=self.files.list(),
        )

    def _variables(self, inputs: dict[str, Any]) -> dict[str, str]:
        goal = self.session.goal
        lines = {key: self.input_texts.cut(as_text(value)) for key, value in inputs.items()}
        quoted = {key: json.dumps(text, ensure_ascii=False) for key, text in lines.items() if not _is_line(text)}
        listing = "\n".join(f"- {key}: {text.strip()}" for key, text in (lines | quoted).items()) or "(none)"
        values = {
            "agent": self.agent.id,
            "goal": f"{goal.name}: {goal.description}" if goal.description else goal.name,
            "inputs": "\n".join([fenced(listing), *self.input_texts.references(inputs)]) if inputs else listing,
            "outputs": self._output_instructions(),
            "today": dt.datetime.now(dt.UTC).date().isoformat(),
            "fence": f"-----{secrets.token_hex(8)}-----",
        }
        assert values.keys() == VARIABLES
        return values

    def _output_instructions(self) -> str:
        if not self.node.output_keys:
            return "This node sets no outputs: it ends with your answer."
        optional = ", ".join(self.node.nullable_output_keys)
        text = f"Set each with set_output: {', '.join(self.node.output_keys)}."
        return text + (f" May be null: {optional}." if optional else "")


def _is_line(text: str) -> bool:
    return len(text.splitlines()) < 2


def _parallel(agent: AgentSpec) -> set[str]:
    """Return the nodes that may run in parallel with others."""
    nodes: set[str] = set()
    for first, second in parallel_edges(agent):
        branches = [reachable(agent, [edge.target], without=first.source) for edge in (first, second)]
        nodes |= (branches[0] ^ branches[1]) | {first.target, second.target}
    return nodes


@dataclass(frozen=True)
class InputTexts:
    """Inputs as texts of at most `limit` characters; longer ones are kept whole in what `files` returns.

    The files are asked for only where an input is long: a run without one needs no folder.
    """

    files: Callable[[], DataFiles]
    limit: int

    def as_data(self, values: Mapping[str, Any]) -> str:
        """Return the inputs as fenced JSON, with references to the files of long ones; "" without inputs."""
        if not values:
            return ""
        lines = [f"- {key}: {self.cut(json.dumps(value, ensure_ascii=False))}" for key, value in values.items()]
        return "\n".join([f"Inputs:\n{fenced(chr(10).join(lines))}", *self.references(values)])

    def references(self, values: Mapping[str, Any]) -> list[str]:
        """Return a line for each input that is too long to be shown in full: its file, and how to read it."""
        return [self._reference(key, value) for key, value in values.items() if self._is_long(value)]

    def cut(self, text: str) -> str:
        """Return a text up to `limit`."""
        return cut(text, self.limit)

    def _is_long(self, value: Any) -> bool:
        return len(json.dumps(value, ensure_ascii=False)) > self.limit

    def _reference(self, key: str, value: Any) -> str:
        text = as_text(value)
        # A later visit may have another value, so each has its own file, under a name that agents can't write to.
        file = f"input-{key}-{sha256(text)[:8]}.txt"
        files = self.files()
        with files.lock():
            if file not in {stored.name for stored in files.list()}:
                files.seal(file, text if isinstance(value, str) else pretty(text))
        saved = f"[Input {key}: {len(text):,} chars — too large for context, saved to '{file}'."
        return f"{saved} Use load_data(filename='{file}') to read all of it.]"


def as_text(value: Any) -> str:
    """Return a text as it is, with its lines, and anything else as JSON."""
    return encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
