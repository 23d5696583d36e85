"""What a tool gives back, and what the conversation gets of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer in full, or what went wrong.

    >>> ToolResult("3 pages found").is_error
    False
    """

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """The text for the conversation; `pointer` is the line that may stand for it later, `file` what it points to."""

    content: str
    is_error: bool = False
    pointer: str | None = None
    file: str | None = None
