"""Mailboxes of an IMAP server: a mail never changes, and is known by its folder, UIDVALIDITY and UID."""

from __future__ import annotations

import imaplib
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from hive_agents.readers import MAX_BYTES
from hive_agents.sources.contract import (
    Denied,
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceFailure,
    SourceItem,
    SourceOptions,
    SourcePlace,
)

_SECONDS, _WHOLE = 60, 600.0
"""Of a piece of an answer, and of all of it, however slowly it comes."""
_MOST_LISTED, _LINE, _LINE_COSTS = 20_000_000, 10_000_000, 64
"""Bytes of an answer that is no mail, and of a line; what a line costs beside its bytes."""
_UID, _SIZE = (re.compile(rb"\b%s (\d{1,18})\b" % name) for name in (b"UID", rb"RFC822\.SIZE"))
_NUMBER = re.compile(rb"\d{1,18}")
_BATCH = 500


class ImapOptions(SourceOptions):
    """`folders` are mailboxes as the server names them. Without `tls` the password is sent as it is: for a server on
    this machine."""

    folders: list[str] = ["INBOX"]
    tls: bool = True


class _Bounded(imaplib.IMAP4):
    """An answer has an end: of its bytes, and of its time."""

    def open(self, *arguments: Any, **options: Any) -> None:
        self._came, self._at = bytearray(), 0
        self.allow(_MOST_LISTED)
        super().open(*arguments, **options)

    def allow(self, most: int) -> None:
        """Let the next answer have so many bytes."""
        self._left, self._until = most, time.monotonic() + _WHOLE

    def read(self, size: int) -> bytes:
        self._take(size)
        while len(self._came) - self._at < size and self._more():
            pass
        return self._taken(size)

    def readline(self) -> bytes:
        end = self._came.find(b"\n", self._at) + 1
        while not end:
            seen = len(self._came) - self._at
            if seen > _LINE:
                raise self.error("a line of its answer has no end")
            if not self._more():
                break
            end = self._came.find(b"\n", self._at + seen) + 1
        line = self._taken((end or len(self._came)) - self._at)
        self._take(len(line) + _LINE_COSTS)
        return line

    def _more(self) -> bool:
        if time.monotonic() > self._until:
            raise self.error(f"its answer has no end within {_WHOLE:g} s")
        del self._came[: self._at]
        self._at = 0
        part = self.sock.recv(1 << 16)
        self._came += part
        return bool(part)

    def _taken(self, size: int) -> bytes:
        self._at += size
        return bytes(self._came[self._at - size : self._at])

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self.error("its answer is too large")


class _BoundedSecure(_Bounded, imaplib.IMAP4_SSL):
    """The same over TLS."""


class ImapSource(DocumentSource[ImapOptions]):
    """The url is `imap://host:port`, the secret `user:password`."""

    def __init__(self, place: SourcePlace, options: ImapOptions) -> None:
        super().__init__(place, options)
        parts = urlsplit(place.settings.url)
        if parts.scheme not in ("imap", "imaps") or not parts.hostname:
            raise SourceFailure("write its url as imap://host or imap://host:port")
        user, password = place.user_and_password()
        try:
            if options.tls:
                secure = ssl.create_default_context()
                self._server: _Bounded = _BoundedSecure(
                    parts.hostname, parts.port or 993, timeout=_SECONDS, ssl_context=secure
                )
            else:
                self._server = _Bounded(parts.hostname, parts.port or 143, timeout=_SECONDS)
            self._server.login(unquote(user), password)
        except (imaplib.IMAP4.error, OSError) as error:
            self.close()
            raise SourceFailure(str(error)) from None
        except Exception:
            self.close()
            raise

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        for folder in self.options.folders:
            try:
                yield from self._mails(folder)
            except Denied as denied:
                yield MissedItem(folder, str(denied), denied=True, alone=True)

    def _mails(self, folder: str) -> Iterator[SourceItem]:
        status, _ = self._asked("select", _quoted(folder), True)
        if status != "OK":
            raise Denied(f"the server has no mailbox {folder} for this user")
        told: Any = self._server.untagged_responses.get("UIDVALIDITY", [b"0"])
        validity = told[-1].decode() if _NUMBER.fullmatch(told[-1]) else "0"
        _, found = self._asked("uid", "SEARCH", None, "ALL")
        uids = [int(uid) for line in found if line for uid in line.split() if _NUMBER.fullmatch(uid)]
        for start in range(0, len(uids), _BATCH):
            batch = uids[start : start + _BATCH]
            _, lines = self._asked("uid", "FETCH", ",".join(map(str, batch)), "(UID RFC822.SIZE)")
            sizes = {}
            for line in lines:
                told_of = line if isinstance(line, bytes) else b""
                if (number := _UID.search(told_of)) and (size := _SIZE.search(told_of)):
                    sizes[int(number[1])] = int(size[1])
            for uid in batch:
                yield SourceItem(f"{folder}/{validity}-{uid}.eml", "whole", sizes.get(uid, 0))

    def fetch(self, item: SourceItem) -> bytes:
        folder, _, name = item.key.rpartition("/")
        uid = name.removesuffix(".eml").rpartition("-")[2]
        self._asked("select", _quoted(folder), True)
        _, answer = self._asked("uid", "FETCH", uid, "(BODY.PEEK[])", most=MAX_BYTES + _MOST_LISTED)
        body = next((part[1] for part in answer if isinstance(part, tuple)), None)
        if not isinstance(body, bytes) or len(body) > MAX_BYTES:
            raise SourceFailure("the server gave no such mail" if body is None else "the mail is too large")
        return body

    def close(self) -> None:
        server = getattr(self, "_server", None)  # there is none where it couldn't be reached
        if server is None:
            return
        with suppress(Exception):  # it may have broken off before
            server.allow(_LINE_COSTS * 100)
            server.logout()
        with suppress(OSError):
            server.shutdown()

    def _asked(self, command: str, *arguments: Any, most: int = _MOST_LISTED) -> tuple[str, list[Any]]:
        self._server.allow(most)
        try:
            status, answer = getattr(self._server, command)(*arguments)
        except (imaplib.IMAP4.error, OSError) as error:
            raise SourceFailure(str(error)) from None
        if status != "OK" and command != "select":
            raise SourceFailure(f"the server refused: {answer[-1]!r}"[:200])
        return status, answer


def _quoted(folder: str) -> str:
    r"""Return a mailbox's name as an IMAP string, in modified UTF-7.

    >>> _quoted('Sent "x"'), _quoted("Entwürfe & mehr")
    ('"Sent \\"x\\""', '"Entw&APw-rfe &- mehr"')
    """
    import base64

    def encoded(run: re.Match[str]) -> str:
        text = base64.b64encode(run[0].encode("utf-16-be")).decode().rstrip("=").replace("/", ",")
        return f"&{text}-"

    named = re.sub(r"[^\x20-\x7e]+", encoded, folder.replace("&", "&-"))
    return '"' + named.replace("\\", "\\\\").replace('"', '\\"') + '"'
