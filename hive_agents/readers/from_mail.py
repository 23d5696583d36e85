"""EML and mbox to Markdown: subject, main headers, text, and names of attachments."""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from hive_agents.readers.from_text import text_as_markdown
from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.markdown import escape

_BETWEEN = re.compile(rb"(?:\A|(?<=\n\n))From \S[^\n]*\d\d:\d\d[^\n]*\n")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)
_HEADERS = ("From", "To", "Cc", "Date")


def from_mail(data: bytes) -> Imported:
    message = message_from_bytes(data, policy=policy.default)
    if not isinstance(message, EmailMessage) or not any(name in message for name in ("From", "Subject", "Date")):
        raise ImportFailure("holds no mail: it has neither From nor Subject nor Date")
    subject = " ".join(str(message.get("Subject", "")).split())
    headers = [f"- {name}: {escape(' '.join(str(message[name]).split()))}" for name in _HEADERS if message.get(name)]
    attachments = [part.get_filename() for part in message.iter_attachments() if part.get_filename()]
    parts = [f"# {escape(subject)}" if subject else "", "\n".join(headers), _body(message)]
    if attachments:
        parts.append("Attached: " + escape(", ".join(map(str, attachments))))
    metadata: dict[str, Any] = {}
    sent = getattr(message.get("Date"), "datetime", None)
    if sent is not None:
        metadata["date"] = sent.date().isoformat()
    return Imported("\n\n".join(part for part in parts if part) + "\n", subject or None, metadata)


def from_mailbox(data: bytes) -> Imported:
    """Return the mails of an mbox file, each under its subject, in their order. Raises: ImportFailure."""
    data = data.replace(b"\r\n", b"\n")
    starts = list(_BETWEEN.finditer(data))
    if not starts or starts[0].start():
        raise ImportFailure("holds no mailbox: its first line is not `From ADDRESS DATE`")
    mails: list[str] = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        mail = _QUOTED_FROM.sub(rb"\1", data[start.end() : following.start() if following else len(data)])
        try:
            imported = from_mail(mail)
            mails.append(imported.markdown if imported.title else f"# (no subject)\n\n{imported.markdown}")
        except (ImportFailure, ValueError, LookupError) as error:  # of a header or a charset
            mails.append(f"# (not readable)\n\nMail {len(mails) + 1}: {escape(str(error))}\n")
    return Imported("\n".join(mails))


def _body(message: EmailMessage) -> str:
    plain = message.get_body(("plain",))
    if plain is not None:
        return text_as_markdown(str(plain.get_content()))
    markup = message.get_body(("html",))
    if markup is None:
        return ""
    from hive_agents.readers.from_html import from_markup

    return from_markup(str(markup.get_content())).markdown.strip()
