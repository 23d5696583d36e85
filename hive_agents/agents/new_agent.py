"""The files that an agent of one's own begins with: they can be checked, evaluated and run as they are."""

from __future__ import annotations

import json
from typing import Any

from hive_agents.agents.spec import AgentSpec
from hive_agents.errors import HiveError
from hive_agents.files import atomic_write_text, load_value
from hive_agents.goals import Goal
from hive_agents.workspace import Workspace

QUESTION = "How long may a customer return a product?"
ANSWER = "Thirty days after it was delivered."
PASSAGE = {"results": [{"doc_id": "returns.md", "text": "Products can be returned within thirty days."}]}


def new_agent(workspace: Workspace, name: str) -> list[str]:
    """Write an agent of two nodes, its goal with an eval case, and a script that stands in for a model.

    Returns the files. Raises: HIVE-113 for a name that none can have, HIVE-409 (exit code 2) where a file is there.
    """
    files = {
        f"agents/{name}.json": _agent(name),
        f"goals/{name}.json": _goal(name),
        f"scripts/{name}.jsonl": "".join(json.dumps(line) + "\n" for line in _script()),
    }
    load_value(AgentSpec, files[f"agents/{name}.json"], f"agents/{name}.json")
    load_value(Goal, files[f"goals/{name}.json"], f"goals/{name}.json")
    for file in files:
        if (workspace.root / file).exists():
            fix = "choose another name, or remove it first"
            raise HiveError.of("HIVE-409", f"{file} is there already", file=file, fix=fix, exit_code=2)
    for file, content in files.items():
        path = workspace.root / file
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        atomic_write_text(path, text)
    return list(files)


def _agent(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "version": 1,
        "goal": name,
        "entry": "find",
        "model": f"scripted:scripts/{name}.jsonl",
        "budget": {"steps": 20, "tool_calls": 10},
        "nodes": [
            {
                "id": "find",
                "system_prompt": "Find what is known about the question: $question\nUse search_documents.\n\n$outputs",
                "input_keys": ["question"],
                "output_keys": ["findings"],
                "tools": ["search_documents"],
                "max_iterations": 10,
            },
            {
                "id": "answer",
                "system_prompt": "Answer the question $question by these findings alone: $findings\n\n$outputs",
                "input_keys": ["question", "findings"],
                "output_keys": ["answer"],
                "max_iterations": 5,
            },
        ],
        "edges": [{"source": "find", "target": "answer", "on": "success"}],
        "tool_policy": [{"match": "search_documents", "decision": "allow"}, {"match": "*", "decision": "ask"}],
    }


def _goal(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "description": "Answer a question by what the documents say.",
        "success_criteria": [{"id": "answered", "metric": "output_matches", "target": "\\S"}],
        "constraints": [{"id": "short", "description": "no essay", "check": "len(result.get('answer', '')) <= 1000"}],
        "eval_cases": [
            {
                "id": "returns",
                "input": {"question": QUESTION},
                "tools": {"search_documents": {"returns": PASSAGE}},
                "calls": {"order": [{"tool": "search_documents", "when": "'return' in args['query']"}]},
                "expect": {"answer": ANSWER},
                "at_most": {"steps": 10},
            }
        ],
    }


def _script() -> list[dict[str, Any]]:
    def calls(name: str, **args: Any) -> dict[str, Any]:
        return {"tool_calls": [{"name": name, "args": args}]}

    return [
        calls("search_documents", query="return a product"),
        calls("set_output", key="findings", value="Returns are possible for thirty days."),
        calls("set_output", key="answer", value=ANSWER),
    ]
