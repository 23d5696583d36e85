from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.sample import hive
from tests.topics import make_topics, write_golden


def test_why_prints_the_ways_and_their_costs(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    write_golden(place)
    call = ("why", "autoclave calibration", "guides/autoclave.md", "-c", "naive", "-w", place.root)
    ran = hive(*call, "--json")
    assert (ran.code, ran.json["rank"], ran.json["first"], ran.json["measured_on"]) == (0, 2, "faqs/autoclave.md", 10)
    kinds = {way["kind"] for way in ran.json["ways"]}
    assert kinds == {"config", "words"}
    assert {"changes", "told", "size", "cost"} <= set(ran.json["ways"][0])
    told = hive(*call, "--only-config")
    assert (told.code, "guides/autoclave.md is at rank 2; faqs/autoclave.md is first" in told.out) == (0, True)
    edits = told.out[told.out.index("what would put it first") :].splitlines()[2:]
    assert edits
    assert not any(row.startswith(("document", "words")) for row in edits)


@pytest.mark.parametrize("disks", [1, 2])
def test_why_copies_nothing_from_elsewhere_and_waits_for_no_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disks: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if disks == 2:
        monkeypatch.setattr(os, "link", refuse)
    place = make_topics(tmp_path / "topics")
    hive("index", "-w", place.root)
    outside = tmp_path / "outside"
    outside.mkdir()
    os.mkfifo(outside / "pipe")  # whoever copies this folder fails
    for name in ("collections", "access", "embeddings", ".hive/vectors", "documents"):
        folder = place.root / name
        folder.mkdir(exist_ok=True)
        (folder / "outside").symlink_to(outside)
        os.mkfifo(folder / "pipe")
    call = ("why", "autoclave calibration", "guides/autoclave.md", "-c", "naive", "-w", place.root, "--json")
    ran = hive(*call)
    assert (ran.code, "words" in {way["kind"] for way in ran.json["ways"]}) == (0, True), ran.err


def test_what_is_first_needs_no_edit(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    ran = hive("why", "autoclave", "faqs/autoclave.md", "-c", "naive", "-w", place.root, "--json")
    assert (ran.code, ran.json["rank"], ran.json["ways"], ran.json["measured_on"]) == (0, 1, [], 0)


def test_wrong_usage_ends_with_2(tmp_path: Path) -> None:
    place = make_topics(tmp_path / "topics")
    for query, doc in (("autoclave", "guides/none.md"), ("?!", "guides/autoclave.md")):
        ran = hive("why", query, doc, "-c", "naive", "-w", place.root, "--json")
        assert (ran.code, ran.codes) == (2, {"HIVE-409"})
