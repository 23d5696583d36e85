"""Slow clients in a process of their own: `python -m tests.server.slow_clients PORT NUMBER` goes on until it ends."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

HEAD = b"POST /webhooks/ring HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
PART = b"POST /webhooks/ring HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"


async def attack(port: int, number: int) -> None:
    """A client that sends a byte a second, or nothing, and comes back whenever it is cut off."""
    begun = [HEAD, PART, b""][number % 3]
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(begun)
                while not reader.at_eof():
                    await asyncio.sleep(1)
                    writer.write(b"x" if begun else b"")
                    await writer.drain()
            finally:
                writer.close()
        await asyncio.sleep(1)


async def main(port: int, clients: int) -> None:
    await asyncio.gather(*(attack(port, number) for number in range(clients)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
