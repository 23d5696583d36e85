"""A session of the packages `openai` and `langchain-openai`: `openai_client.py URL READER OPERATOR`; the last line of
stdout is what it saw."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import httpx
import openai
from langchain_openai import ChatOpenAI

url, reader, operator = sys.argv[1:]
QUESTION: Any = [{"role": "user", "content": "what returns a fresh token?"}]
ORDER: Any = [{"role": "user", "content": "{}"}]
client = openai.OpenAI(base_url=f"{url}/v1", api_key=reader)
worker = openai.OpenAI(base_url=f"{url}/v1", api_key=operator)
seen: dict[str, Any] = {"models": [one.id for one in worker.models.list()]}

# A question, and the same one streamed, with its citation.
whole = client.chat.completions.create(model="copilot", messages=QUESTION).choices[0]
seen["text"], seen["finish"] = whole.message.content, whole.finish_reason
cited = (whole.message.annotations or [])[0].url_citation
seen["citation"] = {"mark": seen["text"][cited.start_index : cited.end_index], "title": cited.title}
pieces, usage = [], None
options: Any = {"include_usage": True}
for chunk in client.chat.completions.create(model="copilot", messages=QUESTION, stream=True, stream_options=options):
    pieces += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    usage = chunk.usage or usage
seen["pieces"], seen["usage"] = pieces, usage.total_tokens if usage else None

# An approval, and the run that goes on with it: the same request under the same key is the same run.
again = {"extra_headers": {"Idempotency-Key": "one"}}
waits = worker.chat.completions.create(model="agent/writer", messages=ORDER, **again).choices[0].message.content or ""
asked = re.search(r"\((\w+)\)$", waits.strip())
assert asked, waits
answer = {"verb": "respond", "message": "the second"}
headers = {"Authorization": f"Bearer {operator}"}
decided = httpx.post(f"{url}/api/approvals/{asked[1]}/decide", json=answer, headers=headers)
seen["waits"], seen["decided"] = waits, decided.status_code
resumed = worker.chat.completions.create(model="agent/writer", messages=ORDER, **again)
seen["resumed"] = {"text": resumed.choices[0].message.content, "run": resumed.model_extra["hive"]["run_id"]}
run = httpx.get(f"{url}/api/runs/{seen['resumed']['run']}", headers=headers).json()
seen["outputs"] = run["result"]["outputs"]

# A client that goes away cancels: the protocol has no way back into a stream. What there is of one is above: a request
# that is sent again under its key finds its run.
with worker.chat.completions.create(model="agent/sleeper", messages=ORDER, stream=True) as left:
    next(iter(left))
seen["left"] = httpx.get(f"{url}/api/runs?graph=event_loop&limit=1", headers=headers).json()["runs"][0]["run_id"]

# What is refused is an error of its own.
for name, made in (("forged", openai.OpenAI(base_url=f"{url}/v1", api_key="x.y.z")), ("reader", client)):
    try:
        made.chat.completions.create(model="agent/writer", messages=ORDER)
    except openai.APIStatusError as error:
        seen[name] = [type(error).__name__, error.code, (error.body or {})["message"]]  # type: ignore[index]

# LangChain, whole and streamed, in one conversation.
model = ChatOpenAI(model="copilot", base_url=f"{url}/v1", api_key=reader)
first = model.invoke(QUESTION)
seen["langchain"] = first.content
more = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": "and who may do that?"}]
seen["langchain_pieces"] = [str(one.content) for one in model.stream(more)]


def agent(name: str, key: str) -> ChatOpenAI:
    again = {"Idempotency-Key": key}
    return ChatOpenAI(model=f"agent/{name}", base_url=f"{url}/v1", api_key=operator, default_headers=again)


# An approval, and the run that goes on; a stream that is left.
seen["langchain_waits"] = str(agent("writer", "two").invoke(ORDER).content)
asked = re.search(r"\((\w+)\)$", seen["langchain_waits"].strip())
assert asked, seen["langchain_waits"]
httpx.post(f"{url}/api/approvals/{asked[1]}/decide", json=answer, headers=headers).raise_for_status()
seen["langchain_resumed"] = str(agent("writer", "two").invoke(ORDER).content)
stream = agent("sleeper", "three").stream(ORDER)
next(stream)
stream.close()
seen["langchain_left"] = httpx.get(f"{url}/api/runs?graph=event_loop&limit=1", headers=headers).json()["runs"][0][
    "run_id"
]
print(json.dumps(seen))
