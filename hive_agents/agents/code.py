"""Agents in code: typed agents, and flows, that is, functions whose steps are recorded.

What runs them is the engine of all agents: a flow is an agent with one node that is code, see `code_steps`.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_type_hints, overload

from hive_agents.agents.judges import NodeContext, NodeVerdict
from hive_agents.agents.spec import AgentSpec, NodeSpec
from hive_agents.agents.tool import HERE, Call, Steps, Tool, ToolContext
from hive_agents.approvals import ToolRule
from hive_agents.base import Diagnostic, HiveError, RefusedInput
from hive_agents.goals import Goal
from hive_agents.runs import Limits

if TYPE_CHECKING:
    from pydantic import BaseModel

R = TypeVar("R")
In = TypeVar("In")
Out = TypeVar("Out")

MOST_CALLS = 10_000
_COMPREHENSION = re.compile(r"\.<locals>\.<(?:list|dict|set)comp>|\.<locals>\.<genexpr>")


class Budget(Limits):
    """Limits of a run of a flow, or of each call of an agent; 0 means no limit.

    >>> Budget(usd=0.10, steps=20)
    Budget(steps=20, tool_calls=0, tokens=0, usd=0.1, seconds=0.0)
    """


class Typed(Generic[R]):
    """A Python type as keys of a data buffer: the fields of a Pydantic model, or one key for any other type."""

    def __init__(self, of: Any, key: str) -> None:
        from pydantic import BaseModel, RootModel, create_model

        self._key = key
        self._whole = inspect.isclass(of) and issubclass(of, BaseModel) and not issubclass(of, RootModel)
        fields: dict[str, Any] = {key: (of, ...)}
        self.model: type[BaseModel] = of if self._whole else create_model(key, **fields)

    @cached_property
    def schema(self) -> dict[str, Any]:
        from pydantic.json_schema import GenerateJsonSchema

        class Untitled(GenerateJsonSchema):
            """Without the titles that repeat the names of fields, which each call of a model would be sent."""

            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

        made = self.model.model_json_schema(by_alias=False, schema_generator=Untitled)
        # A model that contains itself is a reference to one of its definitions.
        return made | made["$defs"][made.pop("$ref").rpartition("/")[2]] if "$ref" in made else made

    @cached_property
    def keys(self) -> list[str]:
        return list(self.model.model_fields)

    @cached_property
    def nullable(self) -> list[str]:
        """The keys that may stay unset, or be null."""
        fields = self.schema.get("properties", {})
        required = self.schema.get("required", ())
        return [key for key in self.keys if key not in required or _may_be_null(fields.get(key, {}))]

    def load_outputs(self, values: Mapping[str, Any]) -> R:
        """Return the value of a node's outputs, of which nullable ones may be unset. Raises: as `load`."""
        required = self.schema.get("required", ())
        return self.load({key: None for key in self.nullable if key in required} | dict(values))

    def is_by_key(self, value: Any) -> bool:
        """Return whether a value is JSON by key; a mapping may be the value of another type itself."""
        return isinstance(value, Mapping) and (self._whole or value.keys() == {self._key})

    def dump(self, value: R) -> dict[str, Any]:
        """Return a value as JSON by key. Raises: pydantic.ValidationError for one of another type."""
        made = self.model.model_validate(value if self._whole else {self._key: value})
        return made.model_dump(mode="json", include=set(self.keys))

    def load(self, values: Mapping[str, Any]) -> R:
        """Return the value of JSON by key. Raises: pydantic.ValidationError for what doesn't fit."""
        fields, required = self.schema.get("properties", {}), self.schema.get("required", ())
        # A run stores null for an input that was not given, too, and has no default in the schema: the field has one.
        unset = {key for key in self.nullable if key not in required and "default" not in fields[key]}
        unset |= {key for key in self.nullable if not _may_be_null(fields[key])}
        present = {key: value for key, value in values.items() if value is not None or key not in unset}
        made = self.model.model_validate(present, by_name=True)
        found: Any = made if self._whole else getattr(made, self._key)
        return found  # type: ignore[no-any-return]  # R is what the model was made of


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null" or any(_may_be_null(one) for one in schema.get("anyOf", ()))


@dataclass(frozen=True)
class _Fits:
    """The judge of a typed agent: what it set has to make a value of its output type."""

    gives: Typed[Any]

    def evaluate(self, context: NodeContext) -> NodeVerdict:
        from pydantic import ValidationError

        try:
            self.gives.load_outputs(context.accumulator)
        except ValidationError as error:
            return NodeVerdict(action="retry", feedback="; ".join(faults_of(error))[:2_000])
        return NodeVerdict(action="accept")


def faults_of(error: Any) -> list[str]:
    """Return what is wrong by a ValidationError of Pydantic, each with its place."""
    return [f"{'.'.join(map(str, one['loc'])) or '$'}: {one['msg']}" for one in error.errors(include_url=False)]


def raised_at(code: Any, error: Exception) -> str:
    """Return " (FILE, line N)": where in its own file code was when it raised an error; "" for a graph."""
    file = getattr(getattr(getattr(code, "function", code), "__code__", None), "co_filename", "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({Path(file).name}, line {lines[-1]})" if lines else ""


class TypedCode(Generic[In, Out]):
    """Typed code that can be run as an agent: an `Agent` or a `Flow`."""

    takes: Typed[In]
    gives: Typed[Out]
    name: str
    _goal: Goal | None = None
    _budget: Budget | None = None

    @property
    def goal(self) -> Goal:
        return self._goal or Goal(id=self.name, name=self.name)

    @cached_property
    def spec(self) -> AgentSpec:
        """The agent that a run of it has: one node, which is this code."""
        node = NodeSpec(
            id=self.name,
            system_prompt="",
            code=self,
            input_keys=self.takes.keys,
            output_keys=self.gives.keys,
            nullable_output_keys=self.gives.nullable,
            max_tool_calls=MOST_CALLS,
        )
        return AgentSpec(
            id=self.name,
            mode="isolated",
            goal=self.goal.id,
            entry=self.name,
            nodes=[node],
            tool_policy=[],
            budget=self._budget,
            input_schema=self.takes.schema,
            output_schema=self.gives.schema,
        )

    def accepted(self, input: Any) -> dict[str, Any]:
        """Return an input, of its type or as JSON, as JSON by key.

        Raises: RefusedInput (HIVE-105, exit code 2) where it doesn't fit, and where.
        """
        from pydantic import ValidationError

        try:
            return self.takes.dump(self.takes.load(input) if self.takes.is_by_key(input) else input)
        except ValidationError as error:
            fix = f"the inputs of {self.name} are: {', '.join(self.takes.keys) or 'none'}"
            raise RefusedInput(
                [
                    Diagnostic("HIVE-105", fault["msg"], "input", ".".join(map(str, fault["loc"])) or "$", fix)
                    for fault in error.errors(include_url=False)
                ],
                exit_code=2,
            ) from None

    def output(self, outputs: Mapping[str, Any]) -> Out:
        """Return the outputs of a run as a value of its output type. Raises: pydantic.ValidationError."""
        return self.gives.load_outputs(outputs)


class Agent(TypedCode[In, Out]):
    """A typed agent: a model with a prompt and tools that makes an output of an input.

    In a flow it is called like a function, and each call is a recorded step. `tools` are functions marked with `tool`
    or `effect`, or names of the workspace's; those that only read are allowed unless a file's policy says otherwise.
    Its name is that of the variable that holds it, unless `name` gives one.

    >>> from pydantic import BaseModel
    >>> class Ticket(BaseModel):
    ...     order: str
    >>> class Verdict(BaseModel):
    ...     trusted: bool
    ...     why: str
    >>> Agent(Ticket, Verdict, prompt="A pattern of refunds?", name="checker").spec.node("checker").output_keys
    ['trusted', 'why']
    """

    def __init__(
        self,
        takes: type[In],
        gives: type[Out],
        *,
        prompt: str,
        tools: Sequence[Tool | str] = (),
        name: str | None = None,
        model: str | None = None,
        budget: Budget | None = None,
        max_iterations: int = 50,
    ) -> None:
        """Raises: HIVE-409 for a tool that is neither marked nor a name."""
        if (other := next((one for one in tools if not isinstance(one, Tool | str)), None)) is not None:
            fix = "mark a function with @tool or @effect; a flow calls agents, a tool doesn't"
            raise HiveError.of("HIVE-409", f"{getattr(other, '__name__', type(other).__name__)} is no tool", fix=fix)
        self.takes, self.gives, self.tools = Typed[In](takes, "input"), Typed[Out](gives, "output"), tuple(tools)
        self._prompt, self._model, self._budget, self._iterations = prompt, model, budget, max_iterations
        self._given, self._where = name, sys._getframe(1).f_globals
        self._output = getattr(gives, "__name__", "agent")

    def __call__(self, input: In, *, note: str = "") -> Coroutine[Any, Any, Out]:
        """Return its output for an input, as a step of the flow that calls it; `note` is shown beside the input.

        Raises: HIVE-409 outside of a flow; HIVE-422 where it doesn't succeed.
        """
        return _steps(self.name, "the step of a flow").ask(self, input, note)

    @cached_property
    def name(self) -> str:  # type: ignore[override]
        names = (key for key, value in self._where.items() if value is self)
        return (self._given or next(names, "") or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self._output)).lower().strip("_")

    @cached_property
    def asked(self) -> AgentSpec:
        """The agent with a model that each call of it is delegated to."""
        read = [one.name for one in self.tools if isinstance(one, Tool) and one.side_effect == "read"]
        node = NodeSpec(
            id=self.name,
            system_prompt=self._prompt,
            input_keys=self.takes.keys,
            output_keys=self.gives.keys,
            nullable_output_keys=self.gives.nullable,
            output_schema=self.gives.schema,
            tools=[one if isinstance(one, str) else one.name for one in self.tools],
            judge=_Fits(self.gives),
            max_iterations=self._iterations,
        )
        return AgentSpec(
            id=self.name,
            mode="isolated",
            goal=self.name,
            entry=self.name,
            nodes=[node],
            tool_policy=[ToolRule(match=name, decision="allow") for name in read],
            model=self._model,
            budget=self._budget,
            input_schema=self.takes.schema,
            output_schema=self.gives.schema,
        )


class Flow(TypedCode[In, Out]):
    """A function of one input whose steps are recorded, see `flow`."""

    def __init__(
        self,
        function: Callable[[In], Coroutine[Any, Any, Out]],
        *,
        never: Callable[[Call], bool] | None,
        goal: Goal | None,
        budget: Budget | None,
        name: str | None,
        frame: FrameType,
    ) -> None:
        self.function, self.never, self._goal, self._budget = function, never, goal, budget
        self.name = name or getattr(function, "__name__", "flow").lower().strip("_")
        self.__doc__ = function.__doc__
        if not inspect.iscoroutinefunction(function) or len(inspect.signature(function).parameters) != 1:
            fix = "write `async def` with one parameter, such as a Pydantic model"
            raise HiveError.of("HIVE-409", f'"{self.name}" cannot be a flow', fix=fix)
        self._names = frame.f_locals if frame.f_locals is not frame.f_globals else None

    @cached_property
    def _hints(self) -> list[Any]:
        hints = get_type_hints(self.function, localns=self._names)
        (parameter,) = inspect.signature(self.function).parameters
        return [hints.get(parameter, Any), hints.get("return", Any)]

    @cached_property
    def takes(self) -> Typed[In]:  # type: ignore[override]
        return Typed(self._hints[0], "input")

    @cached_property
    def gives(self) -> Typed[Out]:  # type: ignore[override]
        return Typed(self._hints[1], "output")

    async def __call__(self, input: In) -> Out:
        """Do what the function does, as a part of the flow that calls it. Raises: HIVE-409 outside of a flow."""
        return await _steps(self.name, "a flow, which runs in a workspace").within(self, input)


class _Flows(Protocol):
    def __call__(self, function: Callable[[In], Coroutine[Any, Any, Out]], /) -> Flow[In, Out]: ...


@overload
def flow(function: Callable[[In], Coroutine[Any, Any, Out]], /) -> Flow[In, Out]: ...
@overload
def flow(
    *,
    never: Callable[[Call], bool] | None = None,
    goal: Goal | None = None,
    budget: Budget | None = None,
    name: str | None = None,
) -> _Flows: ...
def flow(
    function: Any = None,
    /,
    *,
    never: Callable[[Call], bool] | None = None,
    goal: Goal | None = None,
    budget: Budget | None = None,
    name: str | None = None,
) -> Any:
    """Return an async function as a flow: its calls of agents, effects and tools are recorded steps of a run.

    After a crash, or a person's answer, the function is run again, and finished steps give their recorded results; so
    between its steps it has to do the same each time. `never` forbids calls, whoever approves them. `goal` judges the
    output; `budget` limits the run.

    >>> @flow(budget=Budget(usd=0.10))
    ... async def shout(text: str) -> str:
    ...     return text.upper()
    >>> shout.spec.nodes[0].input_keys, shout.accepted("hi")
    (['input'], {'input': 'hi'})

    Raises: HIVE-409 for what isn't an async function of one parameter.
    """
    frame = sys._getframe(1)

    def mark(marked: Any) -> Flow[Any, Any]:
        return Flow(marked, never=never, goal=goal, budget=budget, name=name, frame=frame)

    return mark if function is None else mark(function)


class FlowSteps(Steps, Protocol):
    def ask(self, agent: Agent[In, Out], input: In, note: str) -> Coroutine[Any, Any, Out]: ...

    async def within(self, flow: Flow[In, Out], input: In) -> Out: ...


def _steps(name: str, what: str) -> FlowSteps:
    steps = HERE.get()
    if steps is None or isinstance(steps, ToolContext):
        fix = f"start it with AgentRun.start(workspace, {name}, …), or in a test with Trial"
        raise HiveError.of("HIVE-409", f"{name} is {what}", fix=fix)
    return steps  # type: ignore[return-value]


def caller(depth: int) -> str:
    """Return the name of the function that is `depth` calls up: where a step is called from."""
    name = _COMPREHENSION.sub("", sys._getframe(depth + 1).f_code.co_qualname)
    return name.rpartition("<locals>.")[2]
