"""Plausible arguments, by name, for every route, MCP tool and command: whoever adds one adds its arguments here.

An argument of several values is tried with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.leaks.pairs import ASKED, HIDDEN, HIDDEN_QUESTION, MARK, MISSING, OPEN

NONE = object()
"""For an argument that is left out."""
SAID = [{"id": "m1", "role": "user", "content": ASKED}]
OPENAI_ONLY = """safety_identifier prompt_cache_key audio frequency_penalty function_call functions logit_bias
    logprobs max_completion_tokens max_tokens modalities n parallel_tool_calls prediction presence_penalty
    prompt_cache_retention reasoning_effort response_format seed service_tier stop store temperature
    tool_choice top_logprobs top_p verbosity web_search_options""".split()
"""Parameters of OpenAI's that aren't supported, or name nobody."""
ARGUMENTS: dict[str, Sequence[Any]] = {
    # what is asked, searched and labelled
    "query": [ASKED, HIDDEN_QUESTION],
    "question": [ASKED, HIDDEN_QUESTION],
    "text": [ASKED, HIDDEN_QUESTION],
    "search": [MARK],
    "unfold": [True],
    "filters": [[f"labels={MARK}"], ["labels=plain"], [f"labels={MARK[:-1]}"]],
    "pinned": [[{"field": "labels", "op": "eq", "value": MARK}]],
    "doc_id": [HIDDEN, MISSING, OPEN, f"{MARK}/roto.md"],
    "relevant": [[OPEN], [HIDDEN], [MISSING]],
    "distractors": [["open/pump.md"], [HIDDEN]],
    "irrelevant": [["open/lamp.md"], [HIDDEN]],
    "tags": [["places"], [MARK]],
    "split": ["train", "validation", "holdout", NONE],
    # configs
    "config": ["active", "words", "filtered", "boosted"],
    "a": ["active"],
    "b": ["words", "filtered"],
    "since": ["words"],
    "within": ["everything", "mine"],
    "name": ["v1", "filtered", "boosted", MARK],
    "kind": ["config"],
    "changes": [{"filters": {"labels": MARK}}, {"retrieval": {"top_k": 3}}],
    "parent": ["active"],
    "reason": ["so"],
    "accept_tags": [["places"], [MARK]],
    "accept": [["answered"], [MARK]],
    "allow_inconclusive": [NONE],
    "override": [NONE],
    "hash": [NONE],
    "of": [NONE],
}
ARGUMENTS |= {
    # runs, conversations and agents
    "run_id": ["RUN", "SEARCH", "r0000000000"],
    "thread_id": ["THREAD", "t0000000000"],
    "file_id": ["d0000000000"],
    "graph": ["worker"],
    "input": [{"text": ASKED}],
    "agent": [NONE],
    "node": [NONE],
    "status": ["done"],
    "order": ["due"],
    "limit": [5],
    "cursor": [NONE],
    "after": [0],
    "before": [3],
    "newest": [True],
    "title": ["mine"],
    "result": [1],
    "verdict": ["relevant"],
    "comment": ["so"],
    "passage": ["wrong"],
    "item_id": ["f0000000000"],
    "accept": [True],
    "trigger_id": ["t1"],
    # requests
    "request_id": ["a0000000000"],
    "verb": ["approve"],
    "batch": ["RUN:0"],
    "to": ["dana"],
    "version": [1],
    "message": ["so"],
    "patch": [NONE],
    "content_hash": [NONE],
    "for_run": [NONE],
    # documents; a file that isn't one is told of alike
    "file": [NONE],
    "folder": ["mine", MARK],
    "fields": [{"labels": "plain"}],
    "grants": [["tenant"]],
    "import_id": ["i0000000000"],
    "paused": [True],
    # accounts
    "user": ["dana"],
    "tenant": ["acme"],
    "roles": [["reader"]],
    "groups": [[]],
    "ttl": [60],
    "jti": ["j0"],
    # foreign protocols
    "messages": [SAID],
    "model": ["copilot", MARK],
    "stream": [True],
    "stream_options": [NONE],
    "metadata": [NONE],
    **{name: [NONE] for name in OPENAI_ONLY},
    "threadId": ["theirs"],
    "runId": ["r1"],
    "parentRunId": [NONE],
    "protocolVersion": [NONE],
    **{name: [NONE] for name in ("context", "forwardedProps", "resume", "state", "tools")},
    "Idempotency-Key": [NONE],
    "Last-Event-ID": [NONE],
    # of pages, and in paths
    "{before}": ["active"],
    "{after}": ["words", "filtered"],
    "{agent}": ["digest", MARK],
    "language": ["en"],
    "trigger": ["t1"],
}


class Missing(LookupError):
    """Arguments that the table has no value for."""


def calls(names: Mapping[str, bool]) -> Iterator[dict[str, Any]]:
    """Yield arguments: the required ones of `names`, and each further value of each name beside them."""
    if unknown := sorted(name for name in names if name not in ARGUMENTS):
        raise Missing(", ".join(unknown))
    first = {name: ARGUMENTS[name][0] for name, required in names.items() if required}
    yield first
    for name, required in names.items():
        for value in ARGUMENTS[name][1 if required else 0 :]:
            yield {**first, name: value}


def given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not NONE}


def named(value: Any, names: Mapping[str, str]) -> Any:
    """The value with the ids that a workspace has for `RUN`, `THREAD` and so on."""
    if not isinstance(value, str):
        return value
    for name, id in names.items():
        value = value.replace(name, id)
    return value


WORDS: dict[str, Sequence[Any]] = {
    # of commands; `command name` is looked up before `name`
    "text": [ASKED, HIDDEN_QUESTION],
    "query": [ASKED, HIDDEN_QUESTION],
    "label query": [ASKED],
    "export query": [ASKED],
    "doc": [HIDDEN, MISSING, OPEN],
    "chat doc": [HIDDEN, OPEN],
    "explain": [HIDDEN, OPEN],
    "filters": [[f"labels={MARK}"], ["labels=plain"]],
    "relevant": [[OPEN], [HIDDEN], [MISSING]],
    "distractor": [[HIDDEN]],
    "irrelevant": [[HIDDEN]],
    "tag": [[MARK]],
    "split": ["train", "validation"],
    "config": ["words", "filtered", "boosted"],
    "stale config": ["words"],
    "a": ["v1"],
    "b": ["words"],
    "behavioral": [True],
    "answer": [True],
    "accept_golden": [True],
    "only_config": [True],
    "most": [5],
    "before": ["v1"],
    "after": ["words"],
    "qrels": ["evals/golden.json"],
    "iterations": [1],
    "evaluations": [8],
    "no_deploy": [True],
    "to": ["OUT"],
    "export to": ["qdrant"],
    "approvals delegate to": ["dana"],
    "storage migrate to": ["here"],
    "storage setup url": ["postgresql://hive@127.0.0.1:9/hive"],
    "out": ["OUT"],
    "documents": [True],
    "threads": [True],
    "run": ["RUN"],
    "runs": [["RUN"]],
    "status": ["done"],
    "verdict": ["relevant"],
    "code": ["HIVE-203"],
    "kind": ["config"],
    "sources": [["INCOMING"]],
    "bring": ["comments,hidden"],
    "declare": [True],
    "fields declare": [["labels"], ["labels.may_hide"]],
    "between": [["words", "boosted"]],
    "judgements": [NONE],
    "certify": [True],
    "use": [True],
    "texts": [NONE],
    "label export": ["OUT"],
    "sources add name": ["desk"],
    "sources add kind": ["folder"],
    "sources add to": ["desk"],
    "sources add url": ["INCOMING"],
    "sources run name": ["desk"],
    "sources pause name": ["desk"],
    "sources remove name": ["desk"],
    "sources log name": ["desk"],
    "unfold": [True],
    "diff": [True],
    "agent": ["digest"],
    "input": ['{"topic": "rotor"}'],
    "name": ["search_documents"],
    "agents new name": ["mine"],
    "credentials set name": ["x"],
    "credentials delete name": ["x"],
    "tools call args": ['{"query": "rotor"}'],
    "args": [NONE],
    "reason": ["so"],
    "rule": ["r1"],
    "request": ["a0000000000"],
    "requests": [["a0000000000"]],
    "decision": ["d1"],
    "item_id": ["f0000000000"],
    "message": ["so"],
    "patch": ["{}"],
    "number": [1],
    "id": ["t1"],
    "cron": ["0 2 * * *"],
    "receipt": ["RECEIPT"],
    "jti": ["j0"],
    "thread": ["THREAD"],
    "user": ["dana"],
    "role": [NONE],
    "suggest": [2],
    "as_user": [NONE],
}
LEFT_OUT = frozenset(
    """accept action add all_of_them allow_env allow_inconclusive alpha batch budget case chat cheap collection
    comment corpus cursor delete delta disabled empty engine every export field file follow for_run forget
    golden groups headless holdout host input_from input_key junit k keep ledger limit llm_calls markdown
    max_usd missed model names node off browser open_ option override accept_tag patience port queries questions queue
    rebuild reject relevant_from rename repeats replace result resume rev revoke roles run_as seconds
    schedule secret_ref seed served since sse tenant theirs timezone trace ttl until value_stdin verb version view
    watch webhook write write_seed argument owner namespace password_ref password_stdin yes""".split()
)
"""Options of commands that choose nothing to be shown, or whose values another option gives."""


def words_of(command: str, name: str) -> Sequence[Any]:
    """Return the values of a command's argument. Raises: Missing."""
    found = WORDS.get(f"{command} {name}", WORDS.get(name))
    if found is None and name not in LEFT_OUT:
        raise Missing(name)
    return found or ()
