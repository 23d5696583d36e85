"""The gallery of components as a page of its own: what the browser tests look at, and what one develops with.

    python -m tests.pages.gallery FILE.html
"""

from __future__ import annotations

import sys
from pathlib import Path

from hive_agents.server.pages.view import environment

STYLE = "style.css"
ADDRESS = "http://gallery.test/"


def drawn() -> str:
    """The page; its style sheet is `/style.css`."""
    return environment().from_string(Path(__file__).with_name("gallery.html").read_text(encoding="utf-8")).render()


def style() -> str:
    from importlib.resources import files

    return (files("hive_agents.server.pages") / "static" / STYLE).read_text(encoding="utf-8")


if __name__ == "__main__":
    inlined = f"<style>{style()}</style>"
    Path(sys.argv[1]).write_text(drawn().replace(f'<link rel="stylesheet" href="/{STYLE}">', inlined), encoding="utf-8")
