from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.bedrock_server import BedrockServer, bedrock_server
from tests.models.environment import point_aws_at


@pytest.fixture
def bedrock(monkeypatch: pytest.MonkeyPatch) -> Iterator[BedrockServer]:
    with bedrock_server() as server:
        point_aws_at(server.url, monkeypatch)
        yield server
