"""Vectors, seeds and checkpoints that were changed are noticed, and what can be made anew is."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hive_agents import Workspace
from hive_agents.base.errors import HiveError
from hive_agents.evaluation import load_golden, question_key
from tests.conftest import write_document
from tests.sample import hive


def vectors_file(place: Workspace) -> Path:
    (found,) = (place.state / "vectors").glob("*.npy")
    return found


def npy(header: str) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 64


def npz(**members: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return data.getvalue()


def saved(value: object, *, pickled: bool = False) -> bytes:
    data = io.BytesIO()
    np.save(data, np.asarray(value), allow_pickle=pickled)
    return data.getvalue()


class Told:
    """Whoever unpickles it makes a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("unpickled",)


def encrypted(archive: bytes) -> bytes:
    """The archive with a flag that says that its members need a password."""
    local, central = archive.index(b"PK\x03\x04") + 6, archive.index(b"PK\x01\x02") + 8
    return bytes(byte | 1 if at in (local, central) else byte for at, byte in enumerate(archive))


HOSTILE = {
    "an archive": npz(vectors=saved(np.ones((3, 4), np.float32))),
    "an encrypted archive": encrypted(npz(vectors=saved(1.0))),
    "an archive of nothing": npz(),
    "scalars": npz(model=saved("x"), hashes=saved(1), vectors=saved(2.0), checksum=saved(3)),
    "objects": saved(np.array([Told()], object), pickled=True),
    "objects in an archive": npz(vectors=saved(np.array([Told()], object), pickled=True)),
    "a bare pickle": pickle.dumps(Told()),
    "a header that nests": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "-" * 9000 + "1,)}\n"),
    "a negative shape": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -9223372036854775808)}\n"),
    "a shape beyond all numbers": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 99 + ", 4)}\n"),
    "a type of no size": npy("{'descr': '|V0', 'fortran_order': False, 'shape': (3, 4)}\n"),
    "other numbers": saved(np.ones((3, 4), np.complex128)),
    "text": b"no array at all",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_under_the_name_of_vectors_is_a_diagnostic_and_made_anew(
    indexed: Workspace, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HIVE_INDEX__AUTO_REFRESH", "false")
    path = vectors_file(indexed)
    path.write_bytes(HOSTILE[name])
    path.with_suffix(".json").unlink()
    told = hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-406"})
    assert hive("index", "-w", indexed.root).code == 0
    assert hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root).code == 0
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_under_the_name_of_a_seed_costs_an_embedding(
    indexed: Workspace, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (indexed.state / "embeddings").glob("*.npz"):
        path.write_bytes(HOSTILE[name])
    write_document(indexed, "more.md", "# More\n\nAnother text.\n")
    assert hive("index", "-w", indexed.root, "--json").code == 0
    assert not (tmp_path / "unpickled").exists()


def zero(path: Path, rows: slice = slice(None)) -> None:
    matrix = np.load(path)
    matrix[rows] = 0
    np.save(path, matrix)


@pytest.mark.parametrize("rows", [slice(None), slice(0, 1)])
def test_zeroed_vectors_are_not_served_and_are_made_anew(
    indexed: Workspace, rows: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIVE_INDEX__AUTO_REFRESH", "false")
    before = hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root, "--json").json
    zero(vectors_file(indexed), rows)
    told = hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root, "--json")
    assert (told.code, told.codes) == (3, {"HIVE-406"})
    assert "checksum" in told.json["diagnostics"][0]["message"]
    assert hive("index", "-w", indexed.root).code == 0
    after = hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root, "--json").json
    assert [hit["doc_id"] for hit in after["hits"]] == [hit["doc_id"] for hit in before["hits"]]


def test_a_change_that_leaves_size_and_time_is_found_by_the_next_index(indexed: Workspace) -> None:
    path = vectors_file(indexed)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(b"\0" * 64)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    hive("index", "-w", indexed.root)
    assert np.abs(np.linalg.norm(np.load(vectors_file(indexed)), axis=1) - 1).max() < 1e-3


def test_vectors_that_were_copied_are_hashed_once_and_served(indexed: Workspace, tmp_path: Path) -> None:
    copy = Workspace(shutil.copytree(indexed.root, tmp_path / "copy", symlinks=True))
    for _ in range(2):
        assert hive("query", "rotate the key", "--config", "meaning", "-w", copy.root).code == 0


def test_vectors_of_before_there_were_checksums_are_served(indexed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_INDEX__AUTO_REFRESH", "false")
    for path in (indexed.state / "vectors").glob("*.json"):
        path.unlink()
    assert hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root).code == 0
    zero(vectors_file(indexed))
    assert hive("query", "rotate the key", "--config", "meaning", "-w", indexed.root).code == 3


@pytest.mark.parametrize("forged", [True, False])
def test_zeroed_seeds_are_not_taken_over(workspace: Workspace, forged: bool) -> None:
    """Also with a checksum that fits, or none."""
    assert hive("index", "--write-seed", "-w", workspace.root).code == 0
    (seed,) = (workspace.root / "embeddings").glob("*.npz")
    whole = dict(np.load(seed))
    whole["vectors"] = np.zeros_like(whole["vectors"])
    if forged:
        del whole["checksum"]
    np.savez_compressed(seed, **whole)
    shutil.rmtree(workspace.state)
    told = hive("index", "-w", workspace.root, "--json")
    assert told.json["embedded"] == told.json["chunks"]


def test_a_seed_whose_vectors_changed_places_is_not_taken_over(workspace: Workspace) -> None:
    assert hive("index", "--write-seed", "-w", workspace.root).code == 0
    (seed,) = (workspace.root / "embeddings").glob("*.npz")
    whole = dict(np.load(seed))
    whole["vectors"] = whole["vectors"][::-1]
    np.savez_compressed(seed, **whole)
    shutil.rmtree(workspace.state)
    assert hive("index", "-w", workspace.root, "--json").json["embedded"] > 0


def test_a_sound_seed_is(workspace: Workspace) -> None:
    assert hive("index", "--write-seed", "-w", workspace.root).code == 0
    shutil.rmtree(workspace.state)
    assert hive("index", "-w", workspace.root, "--json").json["embedded"] == 0


INVISIBLE = ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u034f", "\ufe0f", "\u3164", "\U000e0041", "\u0332", "\u180e"]


@pytest.mark.parametrize("sign", INVISIBLE)
def test_a_question_with_a_sign_that_nobody_sees_is_the_same_question(sign: str) -> None:
    text = "How do I rotate the API key?"
    assert question_key(sign.join(text)) == question_key(text)
    assert question_key(text.replace(" ", "\u00a0\u2003 ").upper()) == question_key(text)
    assert question_key("".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)) == question_key(
        text
    )
    assert question_key("How do I rotate the APIs key?") != question_key(text)


def test_tags_that_are_blank_or_padded_are_diagnostics(text_workspace: Workspace) -> None:
    (text_workspace.root / "evals").mkdir()
    golden = text_workspace.root / "evals" / "golden.json"
    golden.write_text(
        '{"collection": "kb", "queries": [{"id": "q1", "query": "a key", "relevant": ["welcome.md"],\n'
        '"tags": ["auth", " auth", "", "\\t"]}]}'
    )
    with pytest.raises(HiveError) as raised:
        load_golden(text_workspace)
    found = [(one.code, one.path, one.line) for one in raised.value.diagnostics]
    assert found == [("HIVE-105", f"queries[0].tags[{place}]", 2) for place in (1, 2, 3)]
    assert [one.fix for one in raised.value.diagnostics] == ['write "auth"', "remove it", "remove it"]
