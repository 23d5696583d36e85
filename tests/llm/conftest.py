from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.llm.bedrock_server import BedrockServer, bedrock_server
from tests.llm.environment import point_aws_at


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch) -> Iterator[BedrockServer]:
    with bedrock_server() as server:
        point_aws_at(server.url, monkeypatch)
        yield server
