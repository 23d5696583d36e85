"""A stream tells what other hosts do that share the records."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from tests.real_engines import postgres
from tests.server.serving import asked, bearer, followed, sample, served

pytestmark = [pytest.mark.slow, pytest.mark.sqlite_file]


async def test_a_stream_that_is_open_ends_with_a_run_that_another_host_works_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres() as server:
        monkeypatch.setenv("HIVE_STORAGE__URL", server.url)
        monkeypatch.setenv("HIVE_STORAGE__NAMESPACE", f"t{uuid.uuid4().hex[:12]}")
        places = [sample(tmp_path / name) for name in "ab"]
        async with served(places[0], roles=("http",)) as client:
            dana = bearer(places[0])
            run = await asked(client, dana, "How long does an API token last?")
            follows = asyncio.create_task(followed(client, run["events"], dana))
            await asyncio.sleep(1)  # it is open, and nobody works on the run
            async with served(places[1], roles=("runs",)):
                told = await asyncio.wait_for(follows, 60)
        assert told[-1].type == "RUN_FINISHED"
