from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.judging.conftest import cautious
from tests.real_engines import Postgres, postgres

__all__ = ["cautious"]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A real PostgreSQL, which the tests of a module share."""
    with postgres() as running:
        yield running
