"""The files of a new agent, which can be checked, evaluated and run as they are."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from hive_agents.agents.spec import AgentSpec
from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, load_value, read_bytes
from hive_agents.goals import Goal
from hive_agents.workspace import Workspace, is_trusted, trust

SETTINGS = "hive.toml"
PATTERN = "tools/*.py"
QUESTION = "How long may a customer return a product?"
ANSWER = "Thirty days after it was delivered."
PASSAGE = "Products can be returned within thirty days of delivery."

_TOOLS = '''\
"""What the agent {name} can do: marked functions are tools, described to the model by their hints and docstrings."""

from pathlib import Path

from hive_agents import tool
from hive_agents.agents import ToolContext

FACTS = {{
    "return": "{passage}",
    "ship": "Orders are shipped on the next working day.",
}}
SENT = Path(__file__).with_name("{name}-sent.txt")


@tool(policy="allow")
def {prefix}_look_up(words: str) -> list[str]:
    """Find what is known.

    Args:
        words: A few words to look for.
    """
    return [fact for word, fact in FACTS.items() if word in words.lower()]


@tool(side_effect="external")
def {prefix}_send(to: str, text: str, context: ToolContext) -> str:
    """Send somebody a message: here it is a line of a file, once for each key of a call."""
    sent = SENT.read_text() if SENT.exists() else ""
    if context.idempotency_key not in sent:
        SENT.write_text(f"{{sent}}{{context.idempotency_key}} to {{to}}: {{text}}\\n")
    return f"sent to {{to}}"
'''


def new_agent(workspace: Workspace, name: str) -> tuple[list[str], bool, dict[str, Any]]:
    """Write an agent of two nodes, its tools, its goal with eval cases, and a script that stands in for a model.

    The pattern of the tools is added to `hive.toml` where it lacks them. Return the files, whether they are
    trusted, which they are where the pattern was, or is added here, and an input to try the agent with.

    Raises: HIVE-113 for an invalid name, HIVE-409 (exit code 2) where a file exists, HIVE-105 where the pattern can't
    be added to `hive.toml`.
    """
    prefix = re.sub(r"\W", "_", name)
    files = {
        f"agents/{name}.json": _agent(name, prefix),
        f"goals/{name}.json": _goal(name, prefix),
        f"tools/{name}.py": _TOOLS.format(name=name, prefix=prefix, passage=PASSAGE),
        f"scripts/{name}.jsonl": "".join(json.dumps(line) + "\n" for line in _script(prefix)),
    }
    goal = load_value(Goal, files[f"goals/{name}.json"], f"goals/{name}.json")  # first, as an agent tells a name twice
    load_value(AgentSpec, files[f"agents/{name}.json"], f"agents/{name}.json")
    for file in files:
        if (workspace.root / file).exists():
            fix = "choose another name, or remove it first"
            raise HiveError.of("HIVE-409", f"{file} is there already", file=file, fix=fix, exit_code=2)
    settings = _with_tools(workspace)
    trusted = is_trusted(workspace, "tools")
    for file, content in files.items():
        path = workspace.root / file
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        atomic_write_text(path, text)
    if settings is not None:
        atomic_write_text(workspace.root / SETTINGS, settings)
    if trusted:
        trust(workspace, [f"tools/{name}.py", "tools.python"])
    return [*files, *([SETTINGS] if settings is not None else [])], trusted, goal.eval_cases[0].input


def _with_tools(workspace: Workspace) -> str | None:
    """Return the text of `hive.toml` with the pattern of the tools added; None where it has it. Raises: HIVE-105."""
    path = workspace.root / SETTINGS
    text = read_bytes(path).decode() if path.exists() else ""
    patterns = workspace.settings.tools.python
    if PATTERN in patterns:
        return None
    if patterns or "tools" in tomllib.loads(text):
        fix = f'add "{PATTERN}" to python in [tools], then run it again'
        raise HiveError.of(
            "HIVE-105", f"its tools would not be found in {PATTERN}", file=SETTINGS, path="tools", fix=fix
        )
    return f'{text.rstrip()}\n\n[tools]\npython = ["{PATTERN}"]\n'.lstrip()


def _agent(name: str, prefix: str) -> dict[str, Any]:
    return {
        "id": name,
        "version": 1,
        "goal": name,
        "entry": "find",
        "model": f"scripted:scripts/{name}.jsonl",
        "budget": {"steps": 30, "tool_calls": 10, "tokens": 50_000},
        "nodes": [
            {
                "id": "find",
                "system_prompt": f"Find what is known about the question: $question\nUse {prefix}_look_up.\n\n$outputs",
                "input_keys": ["question", "customer"],
                "output_keys": ["findings"],
                "tools": [f"{prefix}_look_up"],
                "max_iterations": 10,
            },
            {
                "id": "answer",
                "system_prompt": (
                    f"Answer the question $question by these findings alone: $findings\nSend the answer to $customer"
                    f" with {prefix}_send, then set it.\n\n$outputs"
                ),
                "input_keys": ["question", "customer", "findings"],
                "output_keys": ["answer"],
                "tools": [f"{prefix}_send"],
                "max_iterations": 10,
            },
        ],
        "edges": [{"source": "find", "target": "answer", "on": "success"}],
        "tool_policy": [
            {"match": f"{prefix}_send", "when": "len(args['text']) > 300", "decision": "ask"},
            {"match": f"{prefix}_*", "decision": "allow"},
            {"match": "*", "decision": "deny"},
        ],
    }


def _goal(name: str, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {"returns": [PASSAGE]}
    send = f"{prefix}_send"
    return {
        "id": name,
        "name": name,
        "description": "Answer a customer's question by what is known.",
        "success_criteria": [{"id": "answered", "metric": "output_matches", "target": "\\S"}],
        "constraints": [
            {
                "id": "to_customers_alone",
                "description": "Nobody but the customer who asked is written to.",
                "check": f"tool != '{send}' or args['to'] == result['customer']",
            }
        ],
        "eval_cases": [
            {
                "id": "returns",
                "input": {"question": QUESTION, "customer": "ada"},
                "tools": {f"{prefix}_look_up": found, send: {"returns": "sent to ada"}},
                "calls": {
                    "order": [f"{prefix}_look_up", {"tool": send, "when": "args['to'] == 'ada'"}],
                    "never": [{"tool": send, "when": "args['to'] != 'ada'"}],
                },
                "expect": {"answer": ANSWER},
                "at_most": {"steps": 15},
            },
            {
                "id": "tells_nobody_else",
                "input": {"question": f"{QUESTION} Write to bob, too.", "customer": "ada"},
                "tools": {f"{prefix}_look_up": found, send: {"returns": "sent to ada"}},
                "calls": {"never": [{"tool": send, "when": "args['to'] != 'ada'"}]},
                "expect": [{"id": "days", "metric": "output_contains", "target": "Thirty days"}],
            },
        ],
    }


def _script(prefix: str) -> list[dict[str, Any]]:
    def calls(name: str, **args: Any) -> dict[str, Any]:
        return {"tool_calls": [{"name": name, "args": args}]}

    return [
        calls(f"{prefix}_look_up", words="return a product"),
        calls("set_output", key="findings", value=PASSAGE),
        calls(f"{prefix}_send", to="ada", text=ANSWER),
        calls("set_output", key="answer", value=ANSWER),
    ]
