from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main

from hive_agents.base.errors import HiveError
from hive_agents.cli.main import command_line
from hive_agents.cli.surface import Surface, with_surface
from tests.sample import hive


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it, those of a group that acts by itself among them."""

    def below(words: tuple[str, ...], group: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, found in group.commands.items():
            if not hasattr(found, "commands") or found.invoke_without_command:
                yield (*words, name), found
            if hasattr(found, "commands"):
                yield from below((*words, name), found)

    return below((), typer.main.get_command(command_line()))


def options(command: Any) -> list[str]:
    return [option for param in command.params for option in param.opts]


@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands()])
def test_every_command_takes_the_shared_options_last(words: tuple[str, ...], command: Any) -> None:
    elsewhere = words in (("demo",), ("help", "ask"))  # each makes a workspace of its own
    shared = ["--json", "--quiet"] if elsewhere else ["--workspace", "-w", "--json", "--quiet"]
    assert options(command)[-len(shared) :] == shared


def called(*arguments: str, **settings: Any) -> Surface:
    """What a command with `settings` is given for `arguments`."""
    seen: list[Surface] = []
    own = typer.Typer()

    @own.command()
    @with_surface(**settings)
    def command(
        surface: Surface,
        name: str,
        limit: Annotated[int, typer.Option("--limit")] = 3,
        reason: Annotated[str, typer.Option("--reason")] = "",
    ) -> None:
        """What it does."""
        seen.append(surface)

    page = typer.main.get_command(own)
    assert page.help == "What it does."
    page(list(arguments), standalone_mode=False)
    return seen[0]


def test_the_shared_options_are_read_before_and_after_the_commands_own() -> None:
    plain, told = called("bees"), called("--json", "bees", "--limit", "4", "--quiet")
    assert (plain.as_json, plain.quiet, plain.as_user) == (False, False, None)
    assert (told.as_json, told.quiet) == (True, True)


def test_who_asks_is_an_option_of_the_commands_that_name_it() -> None:
    assert called("bees", "--as", "dana", as_user="Who asks.").as_user == "dana"
    assert hive("history", "--as", "dana").code == 2


def test_a_workspace_is_opened_when_it_is_first_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    surface = called("bees")
    with pytest.raises(HiveError, match="HIVE-410"):
        assert surface.workspace
    assert hive("init", tmp_path / "place").code == 0
    named = called("bees", "-w", str(tmp_path / "place"))
    assert named.workspace.root == tmp_path / "place"
    assert named.workspace is named.workspace


def test_the_page_about_workspaces_names_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "workspace.md").read_text(encoding="utf-8")
    table = page.partition("## Commands")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = [re.findall(r"`([^`]+)`", row) for row in rows]
    for first, *rest in {words[:2] for words, _ in commands()}:
        found = [one for row in named if first in {one.split()[0] for one in row} for one in row]
        assert found, first
        assert not rest or any(rest[0] in one.split()[:2] for one in found), (first, *rest)


def test_ctrl_c_while_the_command_is_being_imported_shows_no_traceback() -> None:
    script = """
import sys
import hive_agents.__main__ as entry

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "hive_agents.cli.main":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
entry.main()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
