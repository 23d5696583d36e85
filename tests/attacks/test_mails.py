"""Mails whose heads are made to cost, or to end, an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from hive_agents.base.files.sandbox import Sandbox
from hive_agents.readers import ImportFailure, conversion
from hive_agents.readers.conversion import attachments_of
from hive_agents.sync import splitting
from hive_agents.sync.importing import import_documents
from hive_agents.workspace.workspace import Workspace

HEAD = "From: a@example.org\nSubject: Words\nMIME-Version: 1.0\n"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    (tmp_path / "workspace" / "collections").mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


def mail(*names: str, subject: str = "Words") -> str:
    parts = "".join(
        f'--B\nContent-Type: text/plain\nContent-Disposition: attachment; filename="{name}"\n\nwords of {number}\n'
        for number, name in enumerate(names)
    )
    head = HEAD.replace("Words", subject)
    return f'{head}Content-Type: multipart/mixed; boundary="B"\n\n--B\n\nordinary words\n{parts}--B--\n'


@pytest.mark.parametrize("text", [mail("a\0b.md"), mail("a.md", subject="=?utf-8?q?a=00b?=")])
@pytest.mark.parametrize("suffix", ["eml", "mbox"])
def test_a_sign_that_no_path_may_hold_ends_no_import(text: str, suffix: str, place: Workspace, tmp_path: Path) -> None:
    folder = tmp_path / "from"
    folder.mkdir()
    between = "From a@example.org Mon Jan  1 10:00:00 2024\n" if suffix == "mbox" else ""
    (folder / f"a.{suffix}").write_text(between + text)
    (folder / "b.md").write_text("# B\n\nwords\n")
    assert "documents/b.md" in {f"documents/{one}" for one in import_documents(place, folder).added}


def test_the_heads_of_a_mail_are_read_by_a_process_with_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(seconds=60.0, memory=2_000_000_000)
    monkeypatch.setattr(conversion, "_SANDBOX", sandbox)
    try:
        assert attachments_of(mail("a.md").encode()) == [("a.md", b"words of 0")]
        sandbox.seconds = 0.5
        pieces = "; ".join(f"name*{number}*=a" for number in range(32_000))  # minutes
        with pytest.raises(ImportFailure, match="longer than"):
            attachments_of(f"{HEAD}Content-Type: text/plain; {pieces}\n\nwords\n".encode())
    finally:
        sandbox.close()


def test_a_mail_that_takes_too_long_is_the_reason_for_no_other_of_its_mailbox(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between = "From a@example.org Mon Jan  1 10:00:00 2024\n"
    mails = [mail("a.md", subject=subject) for subject in ("First", "Second", "Third")]
    (tmp_path / "box.mbox").write_text(between + f"\n{between}".join(mails))

    def named(data: bytes) -> list[tuple[str, bytes | None]]:
        if b"Second" in data:
            raise ImportFailure("it takes longer than 10 s of computing; split it")
        return attachments_of(data)

    monkeypatch.setattr(splitting.conversion, "attachments_of", named)
    report = import_documents(place, tmp_path / "box.mbox")
    assert sorted(report.added) == ["box/first.md", "box/first/a.md", "box/second.md", "box/third.md", "box/third/a.md"]
    assert [refused for refused in report.skipped if "longer than" in str(refused)]


def test_a_mail_is_read_once_for_all_that_is_attached_to_it(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.eml").write_text(mail(*(f"{number}.md" for number in range(40))))
    asked = []

    def counted(data: bytes) -> list[tuple[str, bytes | None]]:
        asked.append(len(data))
        return attachments_of(data)

    monkeypatch.setattr(splitting.conversion, "attachments_of", counted)
    assert len(import_documents(place, tmp_path / "a.eml").added) == 41
    assert len(asked) == 2, "once for the names, once for what they hold"


@pytest.mark.parametrize("suffix", ["eml", "mbox"])
def test_a_mail_of_a_thousand_files_and_more_holds_no_import(suffix: str, place: Workspace, tmp_path: Path) -> None:
    """Each was a document, and of one name the square of their number was tried: 350 kB held an import for minutes."""
    folder = tmp_path / "from"
    folder.mkdir()
    between = "From a@example.org Mon Jan  1 10:00:00 2024\n" if suffix == "mbox" else ""
    (folder / f"a.{suffix}").write_text(between + mail(*["same.md"] * 1_001))
    (folder / "b.md").write_text("# B\n\nwords\n")
    report = import_documents(place, folder)
    assert "b.md" in report.added
    assert not [one for one in report.added if "same" in one]
    assert [one["message"] for one in report.skipped if "more than 1,000 files are attached" in one["message"]]
