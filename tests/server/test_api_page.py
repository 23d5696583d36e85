"""docs/api.md: every example runs against a server, and every route is there with one."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from hive_agents.server.meta import OPERATIONS
from tests.server.serving import sample, served, token

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)


def test_every_route_has_an_example() -> None:
    text = "\n".join(EXAMPLES).replace("\\\n", " ")
    calls = [line for line in text.splitlines() if "curl" in line]
    for operation in OPERATIONS:
        path = re.sub(r"\\{\w+:path\\}", '[^ ?"]+', re.escape(operation.path))
        path = re.sub(r"\\{\w+\\}", '[^/ ?"]+', path)
        mine = [line for line in calls if re.search(rf"\$URL{path}[ ?\"]", line)]
        if operation.method in ("PATCH", "DELETE"):
            mine = [line for line in mine if f"-X {operation.method}" in line]
        assert mine, f"{operation.method} {operation.path}"


@pytest.mark.slow
async def test_the_examples_run(tmp_path: Path) -> None:
    place = sample(tmp_path / "ws")
    script = "set -e\n" + "\necho; echo ----\n".join(EXAMPLES)
    async with served(place) as client:
        names = {"URL": str(client.base_url).rstrip("/"), "TOKEN": token(place), "ADMIN": token(place, "root")}
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, env=os.environ | names, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, errors = await process.communicate()
    assert process.returncode == 0, out.decode()[-2000:] + errors.decode()
    assert '"status":500' not in out.decode()
