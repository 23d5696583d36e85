"""Every part of a mail is in its document, or counted as left out, whatever program wrote it."""

from __future__ import annotations

import base64

import pytest

from hive_agents.readers import Imported, attachments_of, convert_bytes

HEAD = "From: Ines <ines@example.org>\nSubject: Boiler\nDate: Mon, 1 Jan 2024 10:00:00 +0000\nMIME-Version: 1.0\n"


def mail(body: str | bytes) -> Imported:
    return convert_bytes("a.eml", HEAD.encode() + (body.encode() if isinstance(body, str) else body))


def several(kind: str, *parts: str) -> str:
    inner = "".join(f"--B\n{part}\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary=B\n\n{inner}--B--\n"


def text(words: str, kind: str = "plain", **heads: str) -> str:
    return f"Content-Type: text/{kind}\n" + "".join(f"{n}: {v}\n" for n, v in heads.items()) + f"\n{words}"


def base64_of(data: bytes, kind: str) -> str:
    return f"Content-Type: {kind}\nContent-Transfer-Encoding: base64\n\n{base64.encodebytes(data).decode()}"


FORWARDED = "Content-Type: message/rfc822\n\nSubject: Old\nTo: b@example.org\n\nTwo."
STATUS = "Content-Type: message/delivery-status\n\nAction: failed\n\nStatus: 5.1.1"
PICTURE = '<p>Words.</p><img src="cid:1">'
LONG = " ".join(f"valve{number}" for number in range(30))
EVENT = """BEGIN:VCALENDAR
BEGIN:VTIMEZONE
DTSTART:19700101T000000
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Inspection of the
  boiler
DTSTART;TZID="Europe/Berlin":20240102T103000
LOCATION:Cellar\\, left
ORGANIZER;CN="Ines F":mailto:ines@example.org
DESCRIPTION:Bring the key.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR"""


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (several("mixed", text("First words."), text("Last words.")), "First words.\n\nLast words."),
        (several("mixed", text("First words."), text("<p>Last words.</p>", "html")), "First words.\n\nLast words."),
        (several("alternative", text("All words."), text("<p>All <b>words</b>.</p>", "html")), "All words."),
        (several("alternative", text(" "), text("<p>All words.</p>", "html")), "All words."),
        (several("alternative", text("Needs a browser."), text(f"<p>{LONG}</p>", "html")), LONG),
        (text("No tags here.", "html"), "No tags here."),
        (text("<bold>Loud</bold> words.", "enriched"), "Loud words."),
        ("Content-Type: multipart/mixed\n\nNo boundary is said.\n", "No boundary is said."),
        (
            several(
                "mixed", text("See below."), "Content-Type: message/rfc822\n\nSubject: Old\nTo: b@example.org\n\nTwo."
            ),
            "See below.\n\n## Old\n\n- To: b@example.org\n\nTwo.",
        ),
        (
            several("digest", "\nSubject: One\n\nfirst", "\nSubject: Two\n\nsecond"),
            "## One\n\nfirst\n\n## Two\n\nsecond",
        ),
        (
            several(
                "report", text("Not sent."), "Content-Type: message/delivery-status\n\nAction: failed\n\nStatus: 5.1.1"
            ),
            "Not sent.\n\n- Action: failed\n- Status: 5.1.1",
        ),
        (
            several("alternative", text("You are invited."), text(EVENT, "calendar")),
            "You are invited.\n\nInspection of the boiler\n\nFrom: 2024-01-02 10:30\n\nWhere: Cellar, left\n\n"
            "Organizer: Ines F \\<ines@example.org>\n\nBring the key.",
        ),
        (
            text("one \ntwo\n from\n> said \n> so\n-- \nme", "plain; format=flowed"),
            "one two\nfrom\n\\> said so\n\\--\nme",
        ),
        (text("一 \n二", "plain; format=flowed; delsp=yes; charset=utf-8"), "一二"),
    ],
)
def test_every_text_of_a_mail_is_there(body: str, shown: str) -> None:
    markdown = mail(body).markdown
    assert markdown.partition("10:00:00 +0000\n\n")[2] == shown + "\n"


@pytest.mark.parametrize(
    ("declared", "encoded"),
    [
        ("", "utf-8"),
        ("; charset=us-ascii", "utf-8"),
        ("; charset=us-ascii", "cp1252"),
        ("; charset=iso-8859-1", "utf-8"),
        ("; charset=iso-8859-1", "cp1252"),
        ("; charset=utf-8", "cp1252"),
        ("; charset=x-unheard-of", "utf-8"),
        ("; charset=koi8-r", "koi8-r"),
    ],
)
def test_a_text_is_read_also_where_its_encoding_is_said_wrongly(declared: str, encoded: str) -> None:
    words = "Ключ от котла" if encoded == "koi8-r" else "The key – of the boiler – is in Jörg's drawer"
    body = f"Content-Type: text/plain{declared}\nContent-Transfer-Encoding: 8bit\n\n".encode() + words.encode(encoded)
    assert words in mail(body).markdown


def test_a_head_of_unencoded_letters_is_read() -> None:
    imported = convert_bytes("a.eml", "From: Jörg <j@example.org>\nSubject: Schlüssel\n\nin der Schublade\n".encode())
    assert imported.title == "Schlüssel"
    assert "- From: Jörg \\<j@example.org>" in imported.markdown


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        ("Content-Type: application/pkcs7-mime; name=smime.p7m\n\nAAAA\n", {"encrypted texts": 1}),
        (
            several("encrypted", "Content-Type: application/pgp-encrypted\n\nVersion: 1", base64_of(b"x", "a/b")),
            {"encrypted texts": 1},
        ),
        (
            several("signed", text("Signed words."), "Content-Type: application/pkcs7-signature; name=smime.p7s\n\nAA"),
            {},
        ),
        (
            several("mixed", text("Words."), base64_of(b"x", "application/ms-tnef; name=winmail.dat")),
            {"attachments that can't be read": 1},
        ),
        (several("mixed", text("Words."), base64_of(b"x", "image/png")), {"pictures without text": 1}),
        (several("mixed", text("Words."), base64_of(b"x", "application/pdf; name=plan.pdf")), {}),
        (
            several("related", text(PICTURE, "html"), base64_of(b"x", "image/png; name=a.png")),
            {"pictures without text": 1},
        ),
        (
            several("mixed", "Content-Type: message/external-body; access-type=URL\n\nContent-Type: text/plain\n"),
            {"texts kept elsewhere": 1},
        ),
        (text("<p>Words.</p><footer>Our address</footer>", "html"), {"footers of pages": 1}),
        (text("Words.\n\nbegin 644 a.bin\n#0V%T\n`\nend\n"), {"attachments that can't be read": 1}),
    ],
)
def test_what_is_no_text_of_a_mail_is_counted(body: str, left_out: dict[str, int]) -> None:
    imported = mail(body)
    assert imported.left_out == left_out
    assert "#0V%T" not in imported.markdown


def test_a_mail_attached_as_a_file_is_a_document_of_its_own() -> None:
    body = several("mixed", text("See it."), "Content-Type: message/rfc822; name=old.eml\n\nSubject: Old\n\nTwo.")
    assert attachments_of((HEAD + body).encode()) == [("old.eml", b"Subject: Old\n\nTwo.")]
    assert "Two." not in mail(body).markdown
    assert mail(body).metadata["attachments"] == ["old.eml"]


def test_an_attached_mail_whose_headers_cannot_be_written_is_one_without_content() -> None:
    bad = b"Content-Type: multipart/mixed; boundary=\xff\nSubject: =?bad?q?=ff\xff?=\n\nhi \xff"
    attachment = b"Content-Type: message/rfc822; name=old.eml\nContent-Disposition: attachment; filename=old.eml\n\n"
    data = HEAD.encode() + b"Content-Type: multipart/mixed; boundary=B\n\n--B\n" + attachment + bad + b"\n--B--\n"
    assert attachments_of(data) == [("old.eml", None)]
