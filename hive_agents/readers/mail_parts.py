"""The parts of a mail as Markdown: its texts in their order, forwarded mails, and a count of what is no text."""

from __future__ import annotations

import binascii
import codecs
import quopri
import re
from collections import Counter
from collections.abc import Iterator, Set
from email.errors import MessageError
from email.message import Message
from typing import Any

from hive_agents.readers.decoding import decode
from hive_agents.readers.from_text import text_as_markdown
from hive_agents.readers.imported import ImportFailure
from hive_agents.readers.mail_wrapped import SIGNED, TNEF, UUENCODED, packed_files, wrapped_mail
from hive_agents.readers.markdown import escape
from hive_agents.readers.registry import kind_of

HEADERS = ("From", "To", "Cc", "Date")
BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError, MessageError)
"""What Python's parsers of headers raise for broken ones."""
_LEAST_SHARE = 0.5
_ADDRESS = re.compile(r"(?<!\w)\w{1,16}://\S*")
_WORD = re.compile(r"\w+")
_YENCODED = re.compile(r"^=ybegin [^\n]*name=([^\n]*)\n(?:(?!=yend )[^\n]*\n)*+(?:=yend [^\n]*$)?", re.M)
_ENCODED = re.compile(r"=\?([^?\s]*)\?([BbQq])\?([^?]*)\?=(?:\s+(?==\?))?")
"""A word of a header in another encoding, and the space before a next one, which isn't shown."""
_DEPTH = re.compile(r">*")
_ENRICHED = re.compile(r"<param>[^<]*</param>|</?\w[\w-]*>", re.I)
_FOLDED = re.compile(r"\r?\n[ \t]")
_EVENT = {
    "SUMMARY": "",
    "DTSTART": "From",
    "DTEND": "Until",
    "DUE": "Due",
    "RRULE": "Repeated",
    "LOCATION": "Where",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "STATUS": "Status",
    "DESCRIPTION": "",
    "COMMENT": "",
}
"""What is shown of an appointment, and how it is called."""
_APPOINTMENTS = frozenset({"VEVENT", "VTODO", "VJOURNAL"})
_PROPERTY = re.compile(r"(?P<name>[A-Z-]+)(?P<how>(?:;[^:\"]*(?:\"[^\"]*\"[^:\"]*)*)?):(?P<value>.*)", re.S)
_CALLED = re.compile(r";CN=(?:\"([^\"]*)\"|([^;:]*))")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_SIGNATURES = frozenset(
    f"application/{name}" for name in ("pgp-signature", "pkcs7-signature", "x-pkcs7-signature", "pgp-keys")
)
_ENCRYPTED = SIGNED | {"application/pgp-encrypted"}
_DEEPEST = 5
"""Signed mails within signed mails."""


def header(message: Message, name: str) -> Any:
    """Return the value of a header as Python parses it, else its text; None where the message has none."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), None)
    if raw is None:
        return None
    text = _text_of(raw)
    text = _ENCODED.sub(lambda word: word[0] if _is_regular(word) else _decoded_word(word), " ".join(text.split()))
    try:
        return message.policy.header_factory(name, text)  # type: ignore[attr-defined]
    except BROKEN:
        return text


def _text_of(raw: str) -> str:
    data = raw.encode("utf-8", "surrogateescape")
    try:
        return decode(data)
    except ImportFailure:
        return data.decode("utf-8", "replace")


def _is_regular(word: re.Match[str]) -> bool:
    """Return whether Python's parser of headers decodes a word."""
    try:
        return word[0].isascii() and codecs.lookup(word[1].partition("*")[0]) is not None
    except LookupError:
        return False


def _decoded_word(word: re.Match[str]) -> str:
    """Return the text of an encoded word; as it stands where it can't be decoded."""
    charset = word[1].partition("*")[0]
    data = _bytes_of(word[3], charset)
    for declared in (charset, None):
        try:
            plain = binascii.a2b_base64(data + b"==") if word[2] in "bB" else quopri.decodestring(data, header=True)
            return decode(plain, declared)
        except (ImportFailure, binascii.Error):
            continue
    return word[0]


def _bytes_of(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except (LookupError, UnicodeEncodeError):
        return text.encode()


def _who(message: Message, name: str) -> str:
    """Return a header of addresses as it is shown: as parsed, or as it stands where its parser leaves out words.

    These may be comments that say who somebody is, as in `ada at site.example (Ada Berg)`.
    """
    value = " ".join(str(header(message, name) or "").split())
    stands = next((str(text) for key, text in message.raw_items() if key.lower() == name.lower()), "")
    stands = " ".join(_ENCODED.sub(_decoded_word, " ".join(_text_of(stands).split())).split())
    lost = Counter(_WORD.findall(stands.lower())) - Counter(_WORD.findall(value.lower()))
    return stands if lost and "\ufffd" not in stands else value


def name_of(part: Message) -> str:
    """Return the name of an attachment, "" for none, or for a mail that isn't a file."""
    try:
        name = " ".join(str(part.get_filename() or "").split())
    except BROKEN:
        return ""
    return "" if part.get_content_maintype() == "message" and kind_of(name) != "mail" else name


def content_of(part: Message) -> bytes:
    """Return a part's decoded content, b"" for one that has none."""
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


class MailTexts:
    """What the parts of a mail say: blocks of Markdown, names of what is attached, and what was left out by kind."""

    def __init__(self, settings: Set[str] = frozenset(), level: int = 1) -> None:
        self.blocks: list[str] = []
        self.attached: list[str] = []
        self.left_out: Counter[str] = Counter()
        self._settings, self._level = settings, level
        self._depth = 0

    def add(self, part: Message) -> None:
        kind, name = part.get_content_type(), name_of(part)
        held = part.get_payload() if part.is_multipart() else None
        if isinstance(held, list) and part.get_content_maintype() == "message" and not name:
            inner = wrapped_mail(part)
            self._message(kind, held if inner is None else [inner])
        elif isinstance(held, list) and part.get_content_maintype() != "message":
            self._several(kind, held)
        elif (inner := wrapped_mail(part)) is not None and self._depth < _DEEPEST:
            self._depth += 1
            self.add(inner)
            self._depth -= 1
        elif kind in _ENCRYPTED:
            signed = str(part.get_param("smime-type") or "").lower() == "signed-data"
            self.left_out["signed texts that can't be read" if signed else "encrypted texts"] += 1
        elif kind in TNEF or name.lower() == "winmail.dat":
            files = packed_files(content_of(part))
            for packed, _ in files:
                self._file("", packed)
            if not files:
                self._file(kind, name)
        elif self._is_text(part, name):
            self._text(part, kind)
        else:
            self._file(kind, name)

    def _message(self, kind: str, held: list[Any]) -> None:
        """Add a message within a mail: a report's lines, or a mail that was forwarded."""
        if kind == "message/external-body":
            self.left_out["texts kept elsewhere"] += 1
        elif kind in ("message/delivery-status", "message/disposition-notification"):
            lines = [
                f"- {name}: {escape(' '.join(str(value).split()))}" for each in held for name, value in each.items()
            ]
            self.blocks += ["\n".join(lines)] if lines else []
            for each in held:  # some servers write a text for people there
                self._text(each, "text/plain")
        else:
            self._level += 1
            for message in held:
                subject = str(header(message, "Subject") or "")
                self.blocks += [f"{'#' * min(self._level, 6)} {escape(subject)}"] if subject else []
                self.blocks += [who] if (who := heads(message)) else []
                self.add(message)
            self._level -= 1

    def _several(self, kind: str, held: list[Any]) -> None:
        if kind == "multipart/alternative":
            self._alternatives(held)
        elif kind == "multipart/related":
            for number, part in enumerate(held):
                if number == 0 or part.get_content_maintype() != "image":  # the text says what it shows of pictures
                    self.add(part)
        else:
            for part in held:
                if kind != "multipart/encrypted" or part.get_content_type() in _ENCRYPTED:
                    self.add(part)

    def _alternatives(self, held: list[Any]) -> None:
        """Add the first of several writings of a text, unless a later one says more than twice as much."""
        chosen: MailTexts | None = None
        beside: list[MailTexts] = []
        for part in held:
            of_part = MailTexts(self._settings, self._level)
            of_part.add(part)
            if part.get_content_type() == "text/calendar":
                beside.append(of_part)
            elif chosen is None or chosen.words() < of_part.words() * _LEAST_SHARE:
                chosen = of_part
        for each in [*([chosen] if chosen is not None else []), *beside]:
            self._take(each)

    def words(self) -> int:
        return len(_WORD.findall(_ADDRESS.sub("", "\n".join(self.blocks))))

    def _take(self, other: MailTexts) -> None:
        known = set(self.blocks)
        self.blocks += [block for block in other.blocks if block not in known]
        self.attached += other.attached
        self.left_out += other.left_out

    def _is_text(self, part: Message, name: str) -> bool:
        """Return whether a part is a text that is shown in its mail, and no document of its own."""
        if part.get_content_maintype() == "multipart":  # without the boundaries that it should have
            return True
        if part.get_content_maintype() != "text" or part.get_content_subtype() == "rtf":
            return False
        return not name or (part.get_content_disposition() != "attachment" and (not self.blocks or not kind_of(name)))

    def _file(self, kind: str, name: str) -> None:
        self.attached += [name] if name else []
        if kind in _SIGNATURES or (name and kind_of(name)):
            return
        image = kind.startswith("image/")
        self.left_out["pictures without text" if image else "attachments that can't be read"] += 1

    def _text(self, part: Message, kind: str) -> None:
        data = part.get_payload(decode=True)
        if not isinstance(data, bytes):
            data = str(part.get_payload()).encode("utf-8", "surrogateescape")
        text = self._decoded(data, part.get_content_charset())
        if kind == "text/html":
            from hive_agents.readers.from_html import from_html, from_markup

            try:
                page = from_markup(text) if part.get_content_charset() else from_html(data)
                self.blocks += [page.markdown.strip()] if page.markdown.strip() else []
                self.left_out += Counter(page.left_out)
                return
            except ImportFailure:  # no HTML, whatever it is called
                pass
        elif kind == "text/calendar":
            self.blocks += list(_appointments(text))
            return
        elif kind in ("text/enriched", "text/richtext"):
            text = _ENRICHED.sub("", text).replace("<<", "<")
        if str(part.get_param("format") or "").lower() == "flowed":
            text = unflowed(text, joined=str(part.get_param("delsp") or "").lower() == "yes")
        for packed in UUENCODED.finditer(text):
            self._file("", packed["name"].strip())
        for packed in _YENCODED.finditer(text):
            self.attached.append(packed[1].strip())
            self.left_out["attachments that can't be read"] += 1
        text = _YENCODED.sub("", UUENCODED.sub("", text))
        if "unquoted" in self._settings and not self.blocks:
            text = without_quote(text)
        shown = text_as_markdown(text)
        self.blocks += [shown] if shown.strip() else []

    def _decoded(self, data: bytes, charset: str | None) -> str:
        for declared in (charset, None):
            try:
                return decode(data, declared)
            except ImportFailure:
                continue
        self.left_out["signs in an unknown encoding"] += len(re.findall(rb"[\x80-\xff]+", data))
        return re.sub(r"[\x00-\x08\x0e-\x1f]", "", data.decode("utf-8", "replace"))


def heads(message: Message) -> str:
    """Return the lines of who wrote to whom, and when."""
    values = [(name, _who(message, name)) for name in HEADERS[:-1]]
    values.append((HEADERS[-1], " ".join(str(header(message, HEADERS[-1]) or "").split())))
    return "\n".join(f"- {name}: {escape(value)}" for name, value in values if value)


def unflowed(text: str, *, joined: bool) -> str:
    r"""Return a text of `format=flowed` with each paragraph on one line; `joined` where the spaces are not its own.

    >>> unflowed("one \ntwo\n> three \n> four\n-- \nme", joined=False)
    'one two\n> three four\n-- \nme'
    """
    lines: list[tuple[str, list[str]]] = []
    flows = False
    for line in text.split("\n"):
        mark = _DEPTH.match(line)
        depth = mark[0] if mark else ""
        words = line[len(depth) :].removeprefix(" ")
        if flows and lines[-1][0] == depth and words != "-- ":
            lines[-1][1].append(words)
        else:
            lines.append((depth, [words]))
        flows = words.endswith(" ") and words != "-- "
        if flows and joined:
            lines[-1][1][-1] = words[:-1]
    return "\n".join(f"{depth} {''.join(words)}" if depth else "".join(words) for depth, words in lines)


def without_quote(text: str) -> str:
    """Return a mail's text without the quote that it ends with, and the line that introduces that."""
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and (lines[end - 1].startswith(">") or not lines[end - 1].strip()):
        end -= 1
    if end == len(lines):
        return text
    while end and lines[end - 1].rstrip().endswith(":") and len(lines) > end:
        end -= 1
        if end and lines[end - 1].strip() and lines[end - 1].lstrip().lower().startswith(("on ", "am ", "le ")):
            end -= 1
        break
    return "\n".join(lines[:end])


def _appointments(text: str) -> Iterator[str]:
    """Yield what a calendar says of each appointment: what, when, where, who."""
    lines: list[str] = []
    within: list[str] = []
    for line in map(str.strip, _FOLDED.sub("", text).split("\n")):
        mark, _, what = line.upper().partition(":")
        if mark == "BEGIN":
            within.append(what)
        elif mark == "END":
            del within[-1:]
            if what in _APPOINTMENTS and lines:
                yield "\n\n".join(lines)
                lines = []
        elif within and within[-1] in _APPOINTMENTS:
            found = _PROPERTY.match(line)
            lines += [_shown(found)] if found is not None and found["name"] in _EVENT else []


def _shown(found: re.Match[str]) -> str:
    label = _EVENT[found["name"]]
    value = re.sub(r"\\([nN;,\\])", lambda sign: "\n" if sign[1] in "nN" else sign[1], found["value"]).strip()
    called = _CALLED.search(found["how"])
    if called is not None and found["name"] in ("ORGANIZER", "ATTENDEE"):
        value = f"{called[1] or called[2]} <{value.removeprefix('mailto:').removeprefix('MAILTO:')}>"
    time = _TIME.fullmatch(value)
    if time is not None:
        value = f"{time[1]}-{time[2]}-{time[3]}" + (
            f" {time[4]}:{time[5]}{' UTC' if time[6] else ''}" if time[4] else ""
        )
    return f"{label}: {escape(value)}" if label else text_as_markdown(value)
