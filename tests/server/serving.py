"""A server with the sample workspace on a port of its own, in this process, and people who may sign in there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from hive_agents import Workspace
from hive_agents.access import Principal, known_principal
from hive_agents.host.host import Host
from hive_agents.ranking.config import point_active
from hive_agents.server import Listener
from hive_agents.workspace.trusted import parts, trust
from tests.agents.conftest import agent_json, node, write_json
from tests.people import token_of
from tests.sample import words_sample

PEOPLE = ("dana", "alice", "guest", "root", "hana")
SETTINGS = "[server]\nport = 0\nrate_per_minute = 10000\nconcurrent_runs = 50\n"


def sample(folder: Path, settings: str = SETTINGS, *, every: int = 3) -> Workspace:
    """The sample workspace with `v1` active, which looks for words alone; nothing is embedded."""
    place = words_sample(folder, every=every)
    toml = place.root / "hive.toml"
    toml.write_text(toml.read_text(encoding="utf-8") + settings, encoding="utf-8")
    place = Workspace(place.root)
    trust(place)
    point_active(place, place.configs / "v1.json")
    return place


def asking_writer(place: Workspace) -> None:
    """An agent that asks a person, and hands over "the second" as its text."""
    script = [
        {"content": "Let me ask.", "tool_calls": [{"name": "ask_user", "args": {"question": "Which one?"}}]},
        {"tool_calls": [{"name": "set_output", "args": {"key": "text", "value": "the second"}}]},
    ]
    write_json(place, "script.jsonl", "\n".join(map(json.dumps, script)))
    write_json(place, "goals/digest.json", {"id": "digest", "name": "Digest", "description": "d"})
    asks = node("write", output_keys=["text"], client_facing=True)
    write_json(place, "agents/writer.json", agent_json(asks, id="writer", model="scripted:script.jsonl"))


def token(place: Workspace, user: str = "dana", *roles: str, **changes: Any) -> str:
    """A token of somebody whom the sample's `access/*.json` names, with other roles where some are given."""
    known = known_principal(place, user)
    given = {"tenant": known.tenant, "groups": known.groups, "roles": frozenset(roles) or known.roles} | changes
    return token_of(place, Principal(user=user, **given), 3600)


def bearer(place: Workspace, user: str = "dana", *roles: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(place, user, *roles)}"}


@asynccontextmanager
async def served(place: Workspace, **how: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token, of a server that is ready; its own settings are trusted, whatever else is."""
    own = [part.name for part in parts(place) if part.name.startswith("hive.toml: server.")]
    if own:
        trust(place, own)
    listener = Listener(place)
    given: dict[str, Any] = {"roles": ("runs", "http"), **how}
    try:
        async with Host(place, serve=listener.serve, **given):
            # To read the certificates of authorities, which nothing here has, takes longer than many a test.
            async with httpx.AsyncClient(base_url=listener.url, timeout=60, verify=False) as client:
                while (await client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.02)
                yield client
    finally:
        listener.close()


class Frame:
    """One event of a stream."""

    def __init__(self, text: str) -> None:
        fields = dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(":"))
        self.id = fields.get("id")
        self.value: dict[str, Any] = json.loads(fields["data"])

    @property
    def type(self) -> str:
        return str(self.value["type"])


async def frames(response: httpx.Response) -> AsyncIterator[Frame]:
    """The events of a stream; heartbeats are left out."""
    text = ""
    async for piece in response.aiter_text():
        text += piece
        while "\n\n" in text:
            one, text = text.split("\n\n", 1)
            if "data: " in one:
                yield Frame(one)


async def followed(client: httpx.AsyncClient, path: str, headers: dict[str, str], **how: Any) -> list[Frame]:
    """A stream to its end."""
    async with client.stream("GET", path, headers=headers, **how) as response:
        assert response.status_code == 200, await response.aread()
        return [one async for one in frames(response)]


async def posted(client: httpx.AsyncClient, path: str, body: dict[str, Any], headers: dict[str, str]) -> list[Frame]:
    """The stream that answers a POST, to its end."""
    async with client.stream("POST", path, json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return [one async for one in frames(response)]


async def asked(client: httpx.AsyncClient, headers: dict[str, str], text: str, **body: Any) -> dict[str, Any]:
    """A question, left for the host."""
    sent = await client.post("/api/runs", json={"input": {"text": text}, **body}, headers=headers)
    assert sent.status_code == 202, sent.text
    found: dict[str, Any] = sent.json()
    return found


def value_of(result: Any) -> Any:
    """What an MCP tool gave."""
    assert not result.is_error, result.content
    return result.structured_content
