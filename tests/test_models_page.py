"""Every snippet of docs/models.md, with the addresses of servers on loopback in place of the real ones."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.models import ModelError, is_outage, open_chain, price_of
from hive_agents.models.breaker import forget_breakers
from hive_agents.models.model import OUTAGES, PASSING
from hive_agents.models.probing import configured_chat, probed, tried_embedding, tried_reranker
from hive_agents.workspace.credentials import CredentialStore
from hive_agents.workspace.settings import Settings
from tests.models.bedrock_server import bedrock_server
from tests.models.environment import point_aws_at
from tests.models.openai_server import KEY, ModelServer, model_server
from tests.models.trusting import workspace_with

PAGE = (Path(__file__).parent.parent / "docs" / "models.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
WITH_MODELS = [snippet for snippet in SNIPPETS if "[models]" in snippet]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    forget_breakers()
    with model_server() as server:
        server.structured = {"colour": "blue"}
        yield server


def placed(root: Path, snippet: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    place = workspace_with(root, re.sub(r'base_url = ".*?"', f'base_url = "{server.url}"', snippet), monkeypatch)
    CredentialStore(place).set("gateway", KEY)
    return place


@pytest.mark.parametrize("snippet", WITH_MODELS, ids=[re.findall(r'chat = \["(.*?)"', one)[0] for one in WITH_MODELS])
def test_every_model_of_a_snippet_answers(
    snippet: str, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bedrock_server() as bedrock:
        point_aws_at(bedrock.url, monkeypatch)
        bedrock.answer = {"colour": "blue"}
        place = placed(tmp_path / "ws", snippet, server, monkeypatch)
        found = probed(place, list(configured_chat(place)))
        assert [(one.ok, one.structured, one.error) for one in found] == [(True, "tool", "")] * len(found)
        assert tried_embedding(place).ok
        reranker = tried_reranker(place)
        assert reranker is None or reranker.ok
    if "api_key_ref" in snippet:
        assert {request.authorization for request in server.requests} == {f"Bearer {KEY}"}


def test_the_price_of_a_model_of_openai_is_known_by_the_address() -> None:
    snippet = next(one for one in WITH_MODELS if "api.openai.com" in one)
    settings = Settings.model_validate(tomllib.loads(snippet), strict=False)
    assert price_of(settings, settings.models.of("chat")[0]) is not None


def test_every_other_snippet_is_a_sound_hive_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [snippet for snippet in SNIPPETS if snippet not in WITH_MODELS]
    assert len(others) == 2
    for number, snippet in enumerate(others):
        settings = workspace_with(tmp_path / str(number), snippet, monkeypatch).settings
        assert settings.telemetry.otlp_endpoint or settings.mcp.servers


def test_every_named_fault_is_one(tmp_path: Path) -> None:
    listed = PAGE.split("**Faults have names**: ")[1].split(". 429")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == (PASSING | OUTAGES | {"refusal"})


def test_a_snippet_that_is_not_trusted_is_not_used(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = placed(tmp_path / "ws", WITH_MODELS[0], server, monkeypatch)
    (place.root / "hive.toml").write_text((place.root / "hive.toml").read_text().replace("lab", "lob"))
    changed = Workspace(place.root)

    def opened() -> Any:
        return open_chain(changed.settings.models.of("chat"), changed.settings, workspace=changed)

    with pytest.raises(Exception, match="not trusted") as caught:
        asyncio.run(opened().complete([]))
    assert is_outage(caught.value)
    assert not isinstance(caught.value, ModelError)
    assert server.requests == []
