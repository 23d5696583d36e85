"""What tools and servers of a workspace import from it is what was trusted, and nothing that lies beside it."""

from __future__ import annotations

import json
import marshal
import sys
import sysconfig
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

from hive_agents import ToolResult, Workspace
from hive_agents.agents import ToolContext, workspace_tools
from hive_agents.workspace.trusted import parts, trust, untrusted_notice
from tests.models.trusting import workspace_with

SETTINGS = '[tools]\npython = ["tools/*.py"]\n'
EXTENSION = str(sysconfig.get_config_var("EXT_SUFFIX"))
TOOL = """
import sys
from pathlib import Path

from hive_agents import tool

sys.path.insert(0, str(Path(__file__).parent{above}))
{at_once}

@tool(policy="allow")
def said() -> str:
    "What the helper says."
    {later}
    return {module}.SAID
"""


@pytest.fixture(autouse=True)
def path_and_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


def tool_importing(module: str, *, above: str = "", later: bool = False) -> str:
    text = f"import {module}"
    return TOOL.format(module=module, above=above, at_once="" if later else text, later=text if later else "")


def place_with(
    root: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], settings: str = SETTINGS
) -> Workspace:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return workspace_with(root, settings, monkeypatch)


def bytecode(source: str) -> bytes:
    """That is never compared with a source."""
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(compile(source, "x", "exec"))


async def said(place: Workspace) -> ToolResult:
    return await workspace_tools(place).call("said", {}, ToolContext(place), approved=True)


async def test_bytecode_beside_a_helper_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"tools/t.py": tool_importing("helper_a"), "tools/helper_a.py": "SAID = 'read'\n"}
    place = place_with(tmp_path / "ws", monkeypatch, files)
    cached = Path(cache_from_source(str(place.root / "tools" / "helper_a.py")))
    cached.parent.mkdir()
    cached.write_bytes(bytecode("SAID = 'not read'"))
    assert untrusted_notice(place) is None
    assert await said(place) == ToolResult("read")


@pytest.mark.parametrize("name", [f"helper_b{EXTENSION}", "helper_b/__init__.py", "json.py"])
async def test_what_python_takes_before_a_helper_is_a_part_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    files = {"tools/t.py": tool_importing("helper_b", later=True), "tools/helper_b.py": "SAID = 'read'\n"}
    place = place_with(tmp_path / "ws", monkeypatch, files)
    registry = workspace_tools(place)
    (place.root / "tools" / name).parent.mkdir(exist_ok=True)
    (place.root / "tools" / name).write_bytes(b"\x7fELF\xff" if name.endswith(EXTENSION) else b"SAID = 'not read'\n")
    assert [part.name for part in parts(place) if part.status == "new"] == [f"tools/{name}"]
    result = await registry.call("said", {}, ToolContext(place), approved=True)
    if name == "json.py":
        assert result == ToolResult("read")
    else:
        assert (result.is_error, f"inert: tools/{name}" in result.content) == (True, True)


def test_a_library_is_shown_by_its_hash_and_a_change_of_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_with(tmp_path / "ws", monkeypatch, {"tools/t.py": tool_importing("helper_i", later=True)})
    library = place.root / "tools" / "helper_i.pyc"
    library.write_bytes(b"\xff")
    trust(place)
    for content in (rb"\xff", b"\xfe"):
        library.write_bytes(content)
        assert untrusted_notice(place) is not None
    (part,) = (part for part in parts(place) if part.status == "changed")
    assert part.text.startswith("1 bytes that are no text, SHA-256 ")


async def test_a_module_that_came_after_trust_is_refused_when_a_tool_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_with(tmp_path / "ws", monkeypatch, {"tools/t.py": tool_importing("helper_c", later=True)})
    registry = workspace_tools(place)
    (place.root / "tools" / "helper_c.py").write_text("SAID = 'not read'\n")
    result = await registry.call("said", {}, ToolContext(place), approved=True)
    assert (result.is_error, "not trusted on this machine, and inert: tools/helper_c.py" in result.content) == (
        True,
        True,
    )
    trust(place)
    assert await registry.call("said", {}, ToolContext(place), approved=True) == ToolResult("not read")


@pytest.mark.parametrize("folder", ["", "src/"])
async def test_what_tools_import_from_the_workspace_is_in_the_record_with_what_that_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    above = ".parent" + "".join(f" / {part!r}" for part in folder.split("/") if part)
    files = {
        "tools/t.py": tool_importing("shop_d", above=above),
        f"{folder}shop_d/__init__.py": "from .deep import said\nimport other_d as o  # comment\nSAID = said.SAID\n",
        f"{folder}shop_d/deep/said.py": "SAID = 'read'\n",
        f"{folder}other_d.py": "",
        "unrelated/x.py": "",
    }
    place = place_with(tmp_path / "ws", monkeypatch, files)
    named = {part.name for part in parts(place)}
    assert named == {"hive.toml: tools.python", *files} - {"unrelated/x.py"}
    assert await said(place) == ToolResult("read")
    for name in set(files) - {"unrelated/x.py"}:
        before = (place.root / name).read_text()
        (place.root / name).write_text(before + "# more\n")
        assert untrusted_notice(place) is not None
        (place.root / name).write_text(before)


async def test_a_module_that_the_record_cannot_know_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is put onto the path by the tool, and could be of any name."""
    files = {
        "tools/t.py": tool_importing("helper_e", above=".parent / 'lib'"),
        "lib/helper_e.py": "SAID = 'not read'\n",
    }
    place = place_with(tmp_path / "ws", monkeypatch, files)
    assert untrusted_notice(place) is None
    (missing,) = workspace_tools(place).missing
    assert "ImportError: not trusted on this machine, and inert: lib/helper_e.py" in missing.message


def test_a_module_that_the_settings_name_is_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = "from hive_agents import tool\n@tool\ndef said_f() -> str:\n  'Ok.'\n  return ''\n"
    files = {"shop_f/tools.py": tool, "shop_f/__init__.py": ""}
    place = place_with(tmp_path / "ws", monkeypatch, files, '[tools]\npython = ["shop_f.tools"]\n')
    monkeypatch.syspath_prepend(place.root)
    assert {part.name for part in parts(place)} == {"hive.toml: tools.python", *files}
    assert "said_f" in workspace_tools(place).all_names


async def test_a_program_in_the_folder_of_its_workspace_imports_its_own_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tools/t.py": tool_importing("json", later=True).replace("json.SAID", "program_g.later.SAID")}
    files["tools/t.py"] = files["tools/t.py"].replace("import json", "import program_g.later")
    place = place_with(tmp_path / "ws", monkeypatch, files)
    (place.root / "program_g").mkdir()
    (place.root / "program_g" / "__init__.py").write_text("")
    trust(place)
    monkeypatch.syspath_prepend(place.root)
    __import__("program_g")
    registry = workspace_tools(place)
    (place.root / "program_g" / "later.py").write_text("SAID = 'its own'\n")
    assert await registry.call("said", {}, ToolContext(place), approved=True) == ToolResult("its own")


def test_what_lies_beside_the_file_of_a_server_is_in_the_record(text_workspace: Workspace) -> None:
    """Python looks there first, for modules of its own library, too."""
    root = text_workspace.root
    (root / "selectors").mkdir(parents=True)
    for name in ("server.py", "json.py", "selectors/__init__.py"):
        (root / name).write_text("")
    for words in (["server.py"], [str(root / "server.py")], ["-m", "server"]):
        (root / "hive.toml").write_text(f"[mcp.servers.notes]\ncommand = {json.dumps(['python', *words])}\n")
        named = [part.name for part in parts(text_workspace)]
        assert named == ["hive.toml: mcp.servers.notes", "json.py", "selectors/__init__.py", "server.py"]


def test_a_server_runs_no_bytecode_that_lies_beside_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = json.dumps([sys.executable, "servers/server.py"])
    files = {
        "servers/server.py": "import helper_h\nfrom pathlib import Path\nPath('said').write_text(helper_h.SAID)\n",
        "servers/helper_h.py": "SAID = 'read'\n",
    }
    place = place_with(tmp_path / "ws", monkeypatch, files, f"[mcp.servers.notes]\ncommand = {command}\n")
    cached = Path(cache_from_source(str(place.root / "servers" / "helper_h.py")))
    cached.parent.mkdir()
    cached.write_bytes(bytecode("SAID = 'not read'"))
    assert [one.code for one in workspace_tools(place).missing] == ["HIVE-432"]  # it answers nothing
    assert (place.root / "said").read_text() == "read"
