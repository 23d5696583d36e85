"""A bucket of S3, or of a server that speaks its interface; the ETag of an object is its revision."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from hive_agents.base.files import AnyCase
from hive_agents.readers import MAX_BYTES, kind_of
from hive_agents.sources.contract import (
    Denied,
    DocumentSource,
    MissedItem,
    SeenItems,
    SourceAccess,
    SourceFailure,
    SourceItem,
    SourceOptions,
    SourcePlace,
)

_SECONDS, _MOST_PAGES = 600.0, 10_000
"""Seconds of a whole answer; pages of a listing, a thousand objects each."""
_DENIED = ("403", "AccessDenied", "AllAccessDisabled")
_EVERYBODY = "http://acs.amazonaws.com/groups/global/AllUsers"
_READING = ("READ", "FULL_CONTROL")


class S3Options(SourceOptions):
    """`endpoint` is the address of a server other than Amazon's. `access` says what tells who reads an object, at the
    cost of a request for each: "acl" its list, with `user:ID`, `group:URI`, and everyone for public ones; "tags" the
    words of its tag `readers_tag`."""

    endpoint: str = ""
    region: str = ""
    access: Annotated[Literal["", "acl", "tags"], AnyCase] = ""
    readers_tag: str = "readers"


class _Answers:
    """Sends what botocore asks by the client's own session, and ends answers that are longer, or take longer, than they
    may. Only the session has the client's proxies and certificates."""

    def __init__(self, client: Any) -> None:
        self._session = client._endpoint.http_session

    def __call__(self, request: Any, **_: Any) -> Any:
        as_it_comes, request.stream_output = request.stream_output, True
        answer = self._session.send(request)
        answer.raw = _BoundedBody(answer.raw)
        if not as_it_comes:
            answer.content  # noqa: B018  # it is read here
        return answer


class _BoundedBody:
    def __init__(self, raw: Any) -> None:
        self._raw, self._read = raw, getattr(raw, "read1", raw.read)
        self._left, self._until = MAX_BYTES + 1, time.monotonic() + _SECONDS

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        while part := self._read(1 << 16):
            self._left -= len(part)
            if self._left < 0 or time.monotonic() > self._until:
                self._raw.close()
                raise SourceFailure("its answer has no end")
            yield part

    def read(self, size: int | None = None) -> bytes:
        return b"".join(self.stream())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class S3Source(DocumentSource[S3Options]):
    """The secret is `key id:secret key`; without one boto3 looks where it always does."""

    def __init__(self, place: SourcePlace, options: S3Options) -> None:
        super().__init__(place, options)
        import boto3
        from botocore.config import Config

        scheme, _, rest = place.settings.url.partition("://")
        self._bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not self._bucket:
            raise SourceFailure("write its url as s3://bucket/prefix")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        login: dict[str, Any] = {}
        if place.secret is not None:
            login["aws_access_key_id"], login["aws_secret_access_key"] = place.user_and_password()
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=options.endpoint or None,
            region_name=options.region or ("us-east-1" if options.endpoint else None),
            config=Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 3, "mode": "standard"}),
            **login,
        )
        self._client.meta.events.register("before-send.s3", _Answers(self._client))

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        pages = self._client.get_paginator("list_objects_v2")
        for number, page in enumerate(self._answers(pages.paginate(Bucket=self._bucket, Prefix=self._prefix))):
            if number >= _MOST_PAGES:
                raise SourceFailure("its listing has no end")
            if "IsTruncated" not in page:  # an answer whose head was cut off reads as an empty bucket
                raise SourceFailure("the listing broke off")
            for found in page.get("Contents", []):
                name = found["Key"]
                if name.endswith("/"):
                    continue  # what consoles show as a folder
                access = self._access(name) if self.options.access and kind_of(name) else None
                yield SourceItem(name[len(self._prefix) :], found["ETag"], found["Size"], access)

    def fetch(self, item: SourceItem) -> bytes:
        def read() -> bytes:
            # The revision that was listed, or none: a later one comes with the next listing.
            got = self._client.get_object(Bucket=self._bucket, Key=self._prefix + item.key, IfMatch=item.revision)
            return bytes(got["Body"].read())

        content = bytes(self._asked(read))
        if len(content) != item.size:
            raise SourceFailure("the object broke off")
        return content

    def close(self) -> None:
        self._client.close()

    def _access(self, name: str) -> SourceAccess:
        """Return who may read an object; nobody where that may not be asked, or isn't told."""
        by_tags = self.options.access == "tags"
        ask = self._client.get_object_tagging if by_tags else self._client.get_object_acl
        try:
            answer = self._asked(lambda: ask(Bucket=self._bucket, Key=name))
        except Denied:
            return SourceAccess()
        if by_tags:
            tags = {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}
            return SourceAccess(frozenset(tags.get(self.options.readers_tag, "").split()))
        subjects = set()
        for grant in answer["Grants"]:
            who = grant["Grantee"]
            if grant["Permission"] in _READING:
                id, uri = who.get("ID"), who.get("URI")
                subjects.add(f"user:{id}" if id else "everyone" if uri == _EVERYBODY else f"group:{uri}")
        return SourceAccess(frozenset(subjects))

    def _answers(self, pages: Any) -> Iterator[Any]:
        iterator = iter(pages)
        while (page := self._asked(lambda: next(iterator, None))) is not None:
            yield page

    def _asked(self, ask: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return ask()
        except ClientError as error:
            told = error.response.get("Error", {})
            kind = Denied if str(told.get("Code")) in _DENIED else SourceFailure
            raise kind(f"{told.get('Code')}: {told.get('Message', '')}") from None
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise SourceFailure(f"{type(error).__name__}: {error}") from None
