"""A server of tools over stdio, made with the official SDK: `python mcp_server.py FOLDER`. What it did is in FOLDER."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp_types import ToolAnnotations


def make(folder: Path) -> Any:
    server = MCPServer("notes")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def read_note(name: str) -> str:
        """Read a note."""
        path = folder / name
        if not path.exists():
            raise ValueError(f"there is no note {name}")
        return path.read_text()

    @server.tool()
    def write_note(name: str, text: str) -> dict[str, int]:
        """Write a note."""
        (folder / name).write_text(text)
        with (folder / "calls").open("a") as file:
            file.write(name + "\n")
        return {"written": len(text)}

    @server.tool()
    def secret() -> str:
        """Tell a variable of the environment."""
        return f"the key is {os.environ.get('NOTES_KEY', 'none')}"

    @server.tool()
    def fingerprint(name: str) -> str:
        """Tell which value a variable of the environment has, and not the value."""
        value = os.environ.get(name)
        return hashlib.sha256(value.encode()).hexdigest() if value is not None else "none"

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    def keep_note(name: str) -> str:
        """Keep a note from being removed."""
        return name

    @server.tool()
    def pay(amount: int, idempotency_key: str) -> str:
        """Pay once for each key."""
        return f"{amount} under {idempotency_key}"

    @server.tool()
    def die() -> str:
        """End the process."""
        os._exit(3)

    @server.tool()
    async def wait() -> str:
        """Wait for a minute."""
        (folder / "waiting").write_text("")
        try:
            await asyncio.sleep(60)
        except BaseException:
            (folder / "cancelled").write_text("")
            raise
        return "late"

    return server


if __name__ == "__main__":
    make(Path(sys.argv[1])).run()
