"""Stores that obstore reaches: Azure and Google Cloud Storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

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

_SECONDS, _AT_ONCE = 120.0, 100
"""Seconds of what is asked for at once: so many objects of a listing, or one object."""
T = TypeVar("T")


class ObstoreOptions(SourceOptions):
    """`config` are settings of the store as obstore names them, such as `account_name`; the secret becomes the one
    called `secret_key`. Without `tls` an address may begin with http://."""

    config: dict[str, str] = {}
    secret_key: str = ""
    tls: bool = True


class ObstoreSource(DocumentSource[ObstoreOptions]):
    """The url is `az://container/path` or `gs://bucket/path`."""

    def __init__(self, place: SourcePlace, options: ObstoreOptions) -> None:
        super().__init__(place, options)
        import obstore
        from obstore.store import AzureStore, GCSStore

        self._obstore: Any = obstore
        self._runner = asyncio.Runner()
        client: dict[str, Any] = {"allow_http": not options.tls, "timeout": "60s"}
        retries = {"max_retries": 2}
        config: dict[str, Any] = dict(options.config)
        if place.secret is not None:
            config[options.secret_key or "access_key"] = place.secret.reveal()
        made: Any = AzureStore if place.settings.kind == "azure" else GCSStore
        try:
            self._store: Any = made.from_url(
                place.settings.url, config=config, client_options=client, retry_config=retries
            )
        except Exception as error:  # of each store another class
            raise SourceFailure(f"{type(error).__name__}: {error}") from None

    def discover(self, seen: SeenItems) -> Iterator[SourceItem | MissedItem]:
        stream: Any = self._obstore.list(self._store, chunk_size=_AT_ONCE)
        listed: set[str] = set()

        async def more() -> Any:
            return await anext(aiter(stream), None)

        while (batch := self._asked(more)) is not None:
            for found in batch:
                if found["path"] in listed:  # the same page again, perhaps without an end
                    raise SourceFailure(f"its listing names {found['path']} twice")
                listed.add(found["path"])
                changed = found["last_modified"].isoformat()
                yield SourceItem(found["path"], f"{found['e_tag'] or ''} {changed} {found['size']}", found["size"])

    def fetch(self, item: SourceItem) -> bytes:
        async def read() -> bytes:
            content = bytearray()
            async for part in (await self._obstore.get_async(self._store, item.key)).stream():
                content += part
                if len(content) > MAX_BYTES:
                    raise SourceFailure(f"larger than {MAX_BYTES // 1_000_000} MB")
            return bytes(content)

        return bytes(self._asked(read))

    def close(self) -> None:
        self._runner.close()

    def _asked(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        async def within() -> T:
            async with asyncio.timeout(_SECONDS):
                return await ask()

        try:
            return self._runner.run(within())
        except TimeoutError:
            raise SourceFailure(f"its answer has no end within {_SECONDS:g} s") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise Denied(str(error)) from None
        except (BaseError, OSError) as error:
            raise SourceFailure(f"{type(error).__name__}: {error}") from None
