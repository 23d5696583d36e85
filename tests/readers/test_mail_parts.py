"""Every part of a mail is in its document, or counted as left out, whatever program wrote it."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import io
import struct
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID

from hive_agents.readers import Imported, ImportFailure
from hive_agents.readers.conversion import attachments_of, convert_bytes
from hive_agents.readers.from_mail import mails_of

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


FILE = 'attachment; filename="t.csv"'
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


def _opaquely_signed(inner: bytes) -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Ines")])
    day = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(day).not_valid_after(day + dt.timedelta(1))
    builder = pkcs7.PKCS7SignatureBuilder().set_data(inner)
    builder = builder.add_signer(made.sign(key, hashes.SHA256()), key, hashes.SHA256())
    return builder.sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary])


def _without_lengths(data: bytes) -> bytes:
    """Return the outermost element with an open end, as programs write it that sign a stream."""
    size = data[1] & 0x7F
    return data[:1] + b"\x80" + data[2 + size :] + b"\0\0"


@pytest.mark.parametrize("changed", [bytes, _without_lengths])
def test_a_mail_that_is_signed_in_one_block_is_read_with_its_files(changed: Callable[[bytes], bytes]) -> None:
    inner = several("mixed", text("Signed words."), text("a,b\n1,2", "csv", **{"Content-Disposition": FILE}))
    signed = changed(_opaquely_signed(inner.encode()))
    body = base64_of(signed, "application/pkcs7-mime; smime-type=signed-data; name=smime.p7m")
    imported = mail(body)
    assert "Signed words." in imported.markdown
    assert imported.left_out == {}
    assert [(name, content) for name, content in attachments_of((HEAD + body).encode())] == [("t.csv", b"a,b\n1,2")]


@pytest.mark.parametrize("data", [b"", b"0\x80", b"0\x80" * 5000, bytes.fromhex("300b06092a864886f70d010702")])
def test_a_signed_block_that_is_broken_is_counted(data: bytes) -> None:
    body = several("mixed", text("Words."), base64_of(data, "application/pkcs7-mime; smime-type=signed-data"))
    assert mail(body).left_out == {"signed texts that can't be read": 1}


def _attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("<BII", 2, kind, len(content)) + content + b"\0\0"


def test_the_files_in_outlooks_winmail_dat_are_attachments() -> None:
    name = "Prüfung der Kessel.csv".encode("utf-16-le") + b"\0\0"
    properties = b"\x01\0\0\0\x1f\0\x07\x37\x01\0\0\0" + struct.pack("<I", len(name)) + name
    data = b"\x78\x9f\x3e\x22\x01\x00" + b"".join(
        _attribute(kind, content)
        for kind, content in [
            (0x00069002, b"\0" * 14), (0x00018010, b"PRUEFU~1.CSV\0"), (0x0006800F, b"a,b"), (0x00069005, properties),
            (0x00069002, b"\0" * 14), (0x00018010, b"boiler.bin\0"), (0x0006800F, b"\0\1"),
        ]
    )  # fmt: skip
    body = several("mixed", text("Words."), base64_of(data, 'application/ms-tnef; name="winmail.dat"'))
    imported = mail(body)
    assert imported.metadata["attachments"] == ["Prüfung der Kessel.csv", "boiler.bin"]
    assert imported.left_out == {"attachments that can't be read": 1}
    assert attachments_of((HEAD + body).encode()) == [("Prüfung der Kessel.csv", b"a,b"), ("boiler.bin", b"\0\1")]


def test_a_broken_winmail_dat_is_one_attachment_that_cannot_be_read() -> None:
    body = several("mixed", text("Words."), base64_of(b"no", "application/ms-tnef; name=winmail.dat"))
    assert mail(body).left_out == {"attachments that can't be read": 1}


def test_a_mailbox_may_begin_with_blank_lines_and_with_nothing_else() -> None:
    begun = b"From ines@example.org Mon Jan  1 10:00:00 2024\nSubject: A\n\nOne.\n"
    for before in (b"", b"\n", b"\r\n\n"):
        assert list(mails_of(io.BytesIO(before + begun))) == [(len(before) + 47, len(begun) - 47)]
    assert list(mails_of(io.BytesIO(b"\n\n"))) == []
    with pytest.raises(ImportFailure, match="holds no mailbox"):
        list(mails_of(io.BytesIO(b"Subject: A\n\n" + begun)))


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ("From: ada at site.example (Ada Berg)", "- From: ada at site.example (Ada Berg)"),
        ("From: ada@site.example (=?utf-8?Q?Zo=C3=AB?= Berg)", "- From: ada@site.example (Zoë Berg)"),
        ("Cc: old@site.example <new@site.example>", "- Cc: old@site.example \\<new@site.example>"),
        ("To: <Undisclosed:@lists.example;>", "- To: \\<Undisclosed:@lists.example;>"),
        ("To: Ben, x>2017-08-20T10 left < of <a", "x>2017-08-20T10 left < of \\<a"),
        ("To: =?utf-8?Q?Zo=C3=AB?= =?utf-8?Q?_Berg?= <z@site.example>", "- To: Zoë Berg \\<z@site.example>"),
    ],
)
def test_a_header_of_addresses_keeps_its_words_also_where_it_cannot_be_parsed(head: str, shown: str) -> None:
    assert shown in convert_bytes("a.eml", f"Subject: Boiler\n{head}\n\nWords.\n".encode()).markdown


@pytest.mark.parametrize("charset", ["iso-8859-1", "unknown-1", ""])
def test_encoded_words_are_decoded_with_raw_signs_in_them_and_of_an_unknown_encoding(charset: str) -> None:
    raw = f"Subject: =?{charset}?Q?Die_Hasen_und_die_Frösche_am=20Teich?=\nFrom: a@b.example\n\nWords.\n"
    assert convert_bytes("a.eml", raw.encode("latin-1")).title == "Die Hasen und die Frösche am Teich"


def uuencoded(name: str, data: bytes) -> str:
    rows = [binascii.b2a_uu(data[at : at + 45]).decode() for at in range(0, len(data), 45)]
    return f"begin 644{name}\n{''.join(rows)}`\nend\n"


def test_a_uuencoded_file_in_a_text_is_an_attachment() -> None:
    words = f"See this.\n\n{uuencoded(' list.txt', b'The red valve. ' * 9)}\nThat was it."
    imported = mail(text(words))
    assert "See this.\n\nThat was it.\n\nAttached: list.txt" in imported.markdown
    assert attachments_of((HEAD + text(words)).encode()) == [("list.txt", b"The red valve. " * 9)]
    assert not imported.left_out


@pytest.mark.parametrize(
    "block",
    [
        uuencoded("", b"GIF89a"),
        uuencoded(" x.gif", b"GIF89a"),
        "=ybegin line=9 size=4 name=x.gif\n)=J*:\n=yend size=4\n",
    ],
)
def test_an_encoded_file_in_a_text_that_cannot_be_read_is_counted_and_not_shown_as_text(block: str) -> None:
    imported = mail(text(f"See this.\n\n{block}\nThat was it."))
    assert "See this.\n\nThat was it." in imported.markdown
    assert imported.left_out == {"attachments that can't be read": 1}


def test_a_forwarded_mail_that_is_encoded_as_a_whole_is_read() -> None:
    inner = (
        b"Subject: Old\nFrom: b@example.org\n"
        + several("mixed", text("Two."), text("a,b", **{"Content-Disposition": FILE})).encode()
    )
    body = several("mixed", text("See below."), base64_of(inner, "message/rfc822"))
    assert "## Old\n\n- From: b@example.org\n\nTwo." in mail(body).markdown
    assert attachments_of((HEAD + body).encode()) == [("t.csv", b"a,b")]


def test_a_report_of_delivery_that_is_prose_is_kept() -> None:
    status = "Content-Type: message/delivery-status\n\nThis could not be delivered:\n\nthe box is full."
    assert "This could not be delivered:\n\nthe box is full." in mail(several("report", status)).markdown
