"""What is small to send and large to read: each is refused before it costs time or memory."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.approvals import PatchError, patched
from hive_agents.base.errors import HiveError
from hive_agents.base.files import Exceeded, frontmatter, read_bytes
from hive_agents.base.files.guarded import load_arrays, require_archive, require_bounded
from hive_agents.base.files.sandbox import JobFailed, Sandbox
from hive_agents.memory import DataFiles, Spillover, ToolResult
from hive_agents.readers import ImportFailure, conversion
from hive_agents.readers.conversion import convert
from hive_agents.readers.from_markdown import from_markdown, from_mdx
from hive_agents.sync import list_files
from tests.conftest import write_document
from tests.sample import hive

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "[{a: ", "!!seq ["])
def test_front_matter_that_nests_is_refused_at_a_small_depth(opening: str, text_workspace: Workspace) -> None:
    block = "a: " + opening * (60_000 // len(opening)) if opening[0] in "[{!" else opening * (60_000 // len(opening))
    with pytest.raises(HiveError) as raised:
        frontmatter.parse(block, "documents/x.md")
    assert raised.value.diagnostics[0].code == "HIVE-108"
    assert "nested too deeply" in raised.value.diagnostics[0].message
    write_document(text_workspace, "deep.md", f"---\n{block}\n---\ntext\n")
    told = hive("index", "-w", text_workspace.root, "--json")
    assert [one["file"] for one in told.json["skipped"]] == ["documents/deep.md"]


def test_front_matter_of_ordinary_depth_is_read() -> None:
    assert frontmatter.parse("a: " + "[" * 18 + "1" + "]" * 18, "f")["a"]


def test_a_value_is_measured_without_recursion() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Exceeded, match="levels deep"):
        require_bounded(deep, size=10**9)
    with pytest.raises(Exceeded, match="characters"):
        require_bounded(["x" * 100, "y" * 100], size=150)
    assert require_bounded({"ab": ["c", 1]}, size=100) == 1 + 2 + 1 + 2 + 1


DOUBLING = [{"op": "copy", "from": "/a", "path": "/a/-"}]


@pytest.mark.parametrize(
    "patch",
    [
        DOUBLING * 64,
        [{"op": "copy", "from": "", "path": f"/k{number}"} for number in range(64)],
        [
            {"op": "add", "path": "/t", "value": "x" * 1000},
            *[{"op": "copy", "from": "/t", "path": f"/t{n}"} for n in range(9999)],
        ],
        [{"op": "copy", "from": "/a", "path": "/a/0"}] * 500,
        {"k": {"k" * 3_000_000: 1}},
    ],
)
def test_a_patch_that_doubles_what_it_patches_is_refused(patch: Any) -> None:
    with pytest.raises(PatchError, match="makes too much"):
        patched({"a": ["0123456789" * 100]}, patch)


def test_a_patch_that_copies_a_little_is_applied() -> None:
    assert patched(
        {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "move", "from": "/a", "path": "/c"}]
    ) == {
        "b": [1],
        "c": [1],
    }


def npz(shape: str, *, size: int | None = None) -> io.BytesIO:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"\0" * 64
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vectors.npy", data)
        if size is not None:
            archive.infolist()[0].file_size = size
    file.seek(0)
    return file


@pytest.mark.parametrize("shape", ["(1000000000000, 384)", "(4096, 4096)", "(17,)", "(2, 3, 4)"])
def test_an_array_is_no_larger_than_what_is_there(shape: str) -> None:
    with pytest.raises(ValueError, match=r"larger than it is|expected"):
        load_arrays(npz(shape))
    assert load_arrays(npz("(4, 4)"))["vectors"].shape == (4, 4)


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    file = io.BytesIO()
    np.savez_compressed(file, vectors=np.zeros(20_000_000, np.float32))
    with pytest.raises(Exceeded):
        load_arrays(file)
    with pytest.raises(Exceeded):
        load_arrays(npz("(1000000000000,)", size=1 << 42))


def test_a_seed_with_a_forged_shape_costs_an_embedding_and_no_memory(workspace: Workspace) -> None:
    hive("index", "-w", workspace.root, "--write-seed")
    (seed,) = (workspace.root / "embeddings").glob("*.npz")
    whole = np.load(seed)
    arrays = {name: whole[name] for name in whole.files}
    with zipfile.ZipFile(seed, "w") as archive:
        for name, value in arrays.items():
            data = io.BytesIO()
            np.save(data, value)
            raw = data.getvalue()
            archive.writestr(f"{name}.npy", npz_member() if name == "vectors" else raw)
    for path in (workspace.state / "embeddings").glob("*"):
        path.unlink()
    write_document(workspace, "welcome.md", "# Welcome\n\nChanged.\n")
    assert hive("index", "-w", workspace.root, "--json").code == 0


def npz_member() -> bytes:
    with zipfile.ZipFile(npz("(1000000000000, 384)")) as archive:
        return archive.read("vectors.npy")


def office(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {"[Content_Types].xml": b"<Types/>", **parts}.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("suffix", ["docx", "pptx"])
def test_an_archive_of_zeros_is_no_office_file(tmp_path: Path, suffix: str) -> None:
    bomb = office(tmp_path / f"a.{suffix}", {"word/media/x.bin": b"\0" * 60_000_000})
    with pytest.raises(ImportFailure, match="times its size"):
        convert(bomb)


def test_markup_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    """However well it is packed: a reader takes ten times of it."""
    with zipfile.ZipFile(office(tmp_path / "a.docx", {"word/document.XML": b"<a/>"})) as archive:
        member = archive.getinfo("word/document.XML")
        member.compress_size, member.file_size = 50_000_000, 201_000_000
        with pytest.raises(Exceeded, match="unpacks to"):
            require_archive(archive)


def test_a_reader_that_takes_too_long_or_too_much_is_ended_and_the_next_file_is_read(tmp_path: Path) -> None:
    sandbox = Sandbox(seconds=1.0, memory=600_000_000)
    try:
        with pytest.raises(Exceeded, match="longer than 1 s"):
            sandbox.call("time", "sleep", 60)
        sandbox.seconds = 60.0
        with pytest.raises(Exceeded, match="memory"):
            sandbox.call("builtins", "bytearray", 3_000_000_000)
        with pytest.raises(Exceeded, match="broke down"):
            sandbox.call("os", "abort")
        with pytest.raises(JobFailed, match="division") as raised:
            sandbox.call("operator", "truediv", 1, 0)
        assert raised.value.kind == "ZeroDivisionError"
        assert sandbox.call("operator", "add", 1, 2) == 3
    finally:
        sandbox.close()


def test_a_host_with_a_thousand_open_files_reads_documents_too() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("no process may open so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    sandbox, kept = Sandbox(seconds=60.0, memory=600_000_000), [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert sandbox.call("operator", "add", 1, 2) == 3
    finally:
        sandbox.close()
        for one in kept:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_reader_that_kept_most_of_its_memory_is_ended_so_that_the_next_file_is_read() -> None:
    """What is left of one job is never the reason why another fails: a library that doesn't load any more."""
    sandbox = Sandbox(seconds=60.0, memory=600_000_000)
    try:
        first = sandbox.call("os", "getpid")
        assert sandbox.call("os", "getpid") == first
        with pytest.raises(Exceeded, match="memory"):
            sandbox.call("builtins", "bytearray", 3_000_000_000)
        second = sandbox.call("os", "getpid")
        assert second != first
        with pytest.raises(JobFailed, match="failed to map segment"):
            sandbox.call("builtins", "exec", HOARD)
        assert sandbox.call("os", "getpid") != second
    finally:
        sandbox.close()


HOARD = "import sys; sys.kept = bytearray(400_000_000); raise OSError('failed to map segment')"
FAR = "XFD1048576"
MERGED = f'<mergeCell ref="A1:{FAR}"/>'


def workbook(path: Path, sheet: str, *, after: str = "") -> Path:
    """A workbook whose only sheet has these rows in its data."""
    namespace = "http://schemas.openxmlformats.org"
    return office(
        path,
        {
            "_rels/.rels": f'<Relationships xmlns="{namespace}/package/2006/relationships"><Relationship Id="r1" '
            f'Type="{namespace}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/>'
            "</Relationships>".encode(),
            "xl/workbook.xml": f'<workbook xmlns="{namespace}/spreadsheetml/2006/main" xmlns:r="{namespace}'
            f'/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>'
            "".encode(),
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{namespace}/package/2006/relationships"><Relationship'
            f' Id="r1" Type="{namespace}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/>'
            "</Relationships>".encode(),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{namespace}/spreadsheetml/2006/main"><sheetData>{sheet}'
            f"</sheetData>{after}</worksheet>".encode(),
            "[Content_Types].xml": f'<Types xmlns="{namespace}/package/2006/content-types"><Override '
            'PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'
            '.main+xml"/></Types>'.encode(),
        },
    )


def cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def cells(*texts: str, row: int) -> str:
    found = "".join(cell(f"{column}{row}", text) for column, text in zip("ABC", texts, strict=False))
    return f'<row r="{row}">{found}</row>'


@pytest.mark.parametrize(
    ("sheet", "after"),
    [
        (f'<row r="1048576">{cell(FAR, "words")}</row>', ""),
        ("", f"<mergeCells>{MERGED * 200}</mergeCells>"),
        ("", f'<hyperlinks><hyperlink ref="A1:{FAR}" location="S!A1"/></hyperlinks>'),
        ('<row r="1048575" spans="1:16384" ht="10"/>', '<cols><col min="1" max="16384" width="9"/></cols>'),
    ],
)
def test_a_workbook_costs_no_more_than_its_cells(tmp_path: Path, sheet: str, after: str) -> None:
    """In the process of its reader, whose memory would end it long before it has made cells for all places."""
    rows = cells("name", "note", row=1) + cells("rotor", "red", row=2) + sheet
    path = workbook(tmp_path / "a.xlsx", rows, after=after)
    sandbox = Sandbox(seconds=20.0, memory=400_000_000)
    try:
        markdown = sandbox.call(conversion.__name__, "converted", path.read_bytes(), "xlsx", [])[0]
    finally:
        sandbox.close()
    assert "red" in markdown
    assert ("words" in markdown) == ("words" in sheet)


def test_cells_far_apart_are_a_data_set(tmp_path: Path) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    pairs = [first + second for first in letters for second in letters]
    places = pairs + [f"A{pair}" for pair in pairs]
    rows = "".join(f'<row r="{at}">{cell(f"{place}{at}", "x")}</row>' for at, place in enumerate(places, 1))
    with pytest.raises(ImportFailure, match="data set"):
        convert(workbook(tmp_path / "a.xlsx", rows))


def test_a_reader_answers_with_plain_values_alone() -> None:
    sandbox = Sandbox(seconds=60.0, memory=600_000_000)
    try:
        with pytest.raises(Exceeded, match="broke down"):
            sandbox.call("pathlib", "Path", "x")
    finally:
        sandbox.close()


SMALL_AND_SLOW: dict[str, tuple[str, str]] = {
    "comments that never end": ("md", "<!-- " * 30_000),
    "calls that never end": ("md", "{{< {{% {% {/* " * 10_000),
    "calls of another kind": ("md", "{{< " * 30_000 + "%}}"),
    "code spans that never end": ("md", " ".join("`" * run for run in range(1, 600))),
    "code spans of one length": ("md", "`` a ` " * 20_000),
    "a tag that never ends": ("mdx", "<A" + " " * 20_000 + "a" * 20_000),
    "a tag of braces": ("mdx", "<A " + "{" * 20_000),
    "a tag of quotes": ("mdx", "<A " + "a='b' " * 20_000),
}


@pytest.mark.parametrize("name", SMALL_AND_SLOW)
def test_marks_of_markdown_cost_no_more_than_their_length(name: str) -> None:
    """Whoever breaks this waits: 200 kB of comments that never end took more than three minutes."""
    suffix, text = SMALL_AND_SLOW[name]
    assert {"md": from_markdown, "mdx": from_mdx}[suffix](f"# Words\n\n{text}\n".encode()).markdown


def test_front_matter_of_other_kinds_that_nests_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("+++\na = " + "[" * 50_000 + "\n+++\ntext\n")
    with pytest.raises(ImportFailure, match="nested too deeply"):
        convert(tmp_path / "a.md")
    (tmp_path / "a.md").write_text('{ "a": ' + "[" * 100_000)
    assert "[[[" in convert(tmp_path / "a.md").markdown, "a text that begins with a brace"


def test_a_module_beside_the_user_is_never_imported_by_a_reader(tmp_path: Path) -> None:
    """A stranger's folder holds a `zipfile.py`, and the user stands in it."""
    (tmp_path / "zipfile.py").write_text("open('owned', 'w')")
    (tmp_path / "bs4.py").write_text("open('owned', 'w')")
    (tmp_path / "a.html").write_text("<html><body><p>text</p></body></html>")
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; sys.path.remove('')\n"
        "from pathlib import Path\nfrom hive_agents.readers.conversion import convert\n"
        "print(convert(Path('a.html')).markdown)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "text"
    assert not (tmp_path / "owned").exists()


def test_a_file_of_a_workspace_that_is_endless_is_not_read(text_workspace: Workspace) -> None:
    path = text_workspace.root / "goals" / "big.json"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(HiveError) as raised:
        read_bytes(path)
    assert raised.value.diagnostics[0].code == "HIVE-115"
    big = text_workspace.documents / "big.md"
    with big.open("wb") as file:
        file.truncate(10_000_000_000)
    told = hive("index", "-w", text_workspace.root, "--json")
    assert [one["file"] for one in told.json["skipped"]] == ["documents/big.md"]


def test_a_file_that_uses_the_numbers_up_wedges_no_run(tmp_path: Path) -> None:
    files = DataFiles(tmp_path / "r1")
    for name in ("x_999999999.txt", "x_1.txt"):
        files.save(name, "mine")
    spill = Spillover(files, limit=3)
    found = [spill.deliver("x", ToolResult(text)).file for text in ("first result", "second result", "third")]
    assert found == ["x_2.txt", "x_3.txt", "x_4.txt"]
    assert spill.deliver("y", ToolResult("another result")).file == "y_5.txt"
    assert (files.read("x_999999999.txt"), files.read("x_1.txt")) == ("mine", "mine")
    assert json.loads(json.dumps(files.read("x_2.txt"))) == "first result"


@pytest.mark.slow
def test_a_job_computes_no_longer_than_it_may_and_the_next_one_has_its_own_time() -> None:
    sandbox = Sandbox(seconds=600.0, memory=2_000_000_000)
    try:
        for _ in range(2):
            with pytest.raises(Exceeded, match="longer than 1 s of computing"):
                sandbox.call("builtins", "sum", range(10**15), work=1)
            assert sandbox.call("builtins", "sum", range(10**6), work=1) == sum(range(10**6))
        assert sandbox.call("time", "sleep", 0.0) is None
    finally:
        sandbox.close()


def test_a_small_file_may_compute_for_less_time_than_a_large_one() -> None:
    for kind, seconds in (("asciidoc", [10, 15, 60]), ("pdf", [10, 15, 60]), ("docx", [None] * 3)):
        assert [conversion._work(b"x" * size, kind) for size in (10, 100_000, 1_000_000)] == seconds


def test_a_revision_of_ten_thousand_million_files_is_refused_before_they_are_listed(tmp_path: Path) -> None:
    """Ten trees of three hundred bytes, each ten times in the next one: its list filled 200 MB of memory a second."""
    folder = tmp_path / "bomb"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)

    def git(*arguments: str, said: str = "") -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=dana", "-c", "user.email=dana@example.org", *arguments]
        return subprocess.run(command, input=said, capture_output=True, text=True, check=True).stdout.strip()

    kind, made = "100644 blob", git("hash-object", "-w", "--stdin", said="# A\n")
    for _ in range(10):
        kind, made = "040000 tree", git("mktree", said="".join(f"{kind} {made}\td{n}.md\n" for n in range(10)))
    git("update-ref", "HEAD", git("commit-tree", made, "-m", "a bomb"))
    with pytest.raises(ImportFailure, match="name a folder"):
        list_files(folder, rev="HEAD")
    part = folder.joinpath(*["d1.md"] * 8)
    assert len(list_files(part, rev="HEAD").found) == 100
