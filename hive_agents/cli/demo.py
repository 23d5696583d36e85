def command() -> None:
    """Demo."""
