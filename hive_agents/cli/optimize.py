def command() -> None:
    """Improve."""
