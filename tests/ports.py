"""Ports for servers that are ended and begin again at the address that they had."""

from __future__ import annotations

import random
import socket

RANGE = range(20_000, 32_768)
"""Below what systems give to whoever asks for any port: nobody takes one of these while its server is away."""


def lasting_port() -> int:
    """Return a port of loopback that is free, and stays so until somebody asks for it by its number."""
    while True:
        port = random.SystemRandom().choice(RANGE)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
