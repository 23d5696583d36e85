"""Mails are documents with fields, and so is what is attached to them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hive_agents.readers import ImportFailure
from hive_agents.sync import ImportReport
from hive_agents.sync.importing import import_documents
from hive_agents.sync.sources import SourceFile, list_files
from hive_agents.sync.splitting import with_parts
from hive_agents.workspace.workspace import Workspace

FIRST = """\
From: Dana <Dana@example.org>
To: Mei <mei@example.org>
Subject: Leave
Message-ID: <1@example.org>
Date: Mon, 1 Jan 2024 10:00:00 +0000
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain; charset=utf-8

How many days are there?
--x
Content-Type: text/csv
Content-Disposition: attachment; filename="days.csv"

Year,Days
2024,29
--x--
"""
ANSWER = """\
From: Mei <mei@example.org>
To: Dana <dana@example.org>
Subject: Re: Leave
Message-ID: <2@example.org>
In-Reply-To: <1@example.org>
References: <1@example.org>
Date: yesterday

Twenty-nine.

On Mon, Dana wrote:
> How many days are there?
"""


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "collections").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


def sync(place: Workspace, source: Path, *, delete: bool = False) -> ImportReport:
    return import_documents(place, source, may_delete=lambda gone, everything: delete)


def mbox(*mails: str) -> str:
    return "".join(f"From x@example.org Mon Jan  1 10:00:00 2024\n{mail}\n" for mail in mails)


def test_each_mail_of_a_mailbox_is_a_document_with_fields(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "office.mbox").write_text(mbox(FIRST, ANSWER))
    report = sync(place, tmp_path / "office.mbox")
    assert sorted(report.added) == ["office/leave.md", "office/leave/days.md", "office/re-leave.md"]
    first, answer = ((place.documents / f"office/{name}.md").read_text() for name in ("leave", "re-leave"))
    assert (
        "from: dana@example.org\nto:\n- mei@example.org\ndate: '2024-01-01'\nthread: 1@example.org\n"
        "attachments:\n- days.csv\n" in first
    )
    assert "thread: 1@example.org\n" in answer
    assert "date:" not in answer  # nobody knows when that was
    assert "Twenty-nine." in answer
    assert "How many days" not in answer  # the first mail says it
    assert "| 2024 | 29 |" in (place.documents / "office/leave/days.md").read_text()
    assert sync(place, tmp_path / "office.mbox").unchanged == 3


def test_mails_that_come_and_go_cost_only_themselves(place: Workspace, tmp_path: Path) -> None:
    box = tmp_path / "office.mbox"
    box.write_text(mbox(FIRST))
    sync(place, box)
    box.write_text(mbox(FIRST, ANSWER, "no headers at all\n"))
    report = sync(place, box)
    assert (report.added, len(report.skipped), report.unchanged) == (["office/re-leave.md"], 1, 2)
    box.write_text(mbox(ANSWER))
    assert sorted(sync(place, box, delete=True).deleted) == ["office/leave.md", "office/leave/days.md"]


def test_a_mailbox_that_is_gone_is_refused_as_any_file(tmp_path: Path) -> None:
    (tmp_path / "office.mbox").write_text(mbox(FIRST))
    listing = list_files(tmp_path)
    read = [file.read for file in with_parts(listing, frozenset()).found]
    (tmp_path / "office.mbox").unlink()
    gone = with_parts(listing, frozenset())
    assert (gone.found, gone.refused) == ([], {"office.mbox": "no such file"})
    for mail_or_attachment in read:
        with pytest.raises(ImportFailure, match=r"^no such file$"):
            mail_or_attachment()


def test_a_mailbox_of_a_revision_is_read_once_for_all_of_its_mails(tmp_path: Path) -> None:
    mails = [FIRST.replace("<1@", f"<{number}@") for number in range(3)]
    (tmp_path / "office.mbox").write_text(mbox(*mails))
    (tmp_path / "second.mbox").write_text(mbox(ANSWER))
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "mails"]):
        subprocess.run([*command, *arguments], check=True)
    listing, read = list_files(tmp_path, rev="HEAD"), list[str]()

    def counted(file: SourceFile) -> SourceFile:
        return replace(file, read=lambda: (read.append(file.file.name), file.read())[1])

    found = with_parts(replace(listing, found=[counted(file) for file in listing.found]), frozenset()).found
    listed = len(read)
    texts = [file.read() for file in found]
    assert [text for text in texts if text.startswith(b"Year")] == [b"Year,Days\n2024,29"] * 3
    assert [text[:10] for text in texts if not text.startswith(b"Year")] == [b"From: Dana"] * 3 + [b"From: Mei "]
    assert (listed, len(read)) == (2, 4)


def test_who_may_view_a_mailbox_may_view_its_mails_and_attachments(place: Workspace, tmp_path: Path) -> None:
    (tmp_path / "office.mbox").write_text(mbox(FIRST.replace("Subject", "View: tenant\nTenant: acme\nSubject")))
    import_documents(place, tmp_path / "office.mbox", metadata={"tenant": ["acme"], "view": ["group:hr"]})
    for path in place.documents.rglob("*.md"):
        assert "\ntenant:\n- acme\nview:\n- group:hr\n" in path.read_text()


def test_a_mail_of_a_maildir_stays_the_same_document_when_it_is_read(place: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "mail"
    for name in ("cur", "new", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "new" / "1700000000.M1P2.host").write_text(FIRST)
    assert len(sync(place, folder).added) == 2
    (folder / "new" / "1700000000.M1P2.host").rename(folder / "cur" / "1700000000.M1P2.host:2,S")
    report = sync(place, folder)
    assert (report.unchanged, report.gone) == (2, [])
