from tests.judging.conftest import cautious

__all__ = ["cautious"]
