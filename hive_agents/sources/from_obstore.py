"""Stores that obstore reaches: Azure and Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
        stream = self._asked(lambda: iter(self._obstore.list(self._store)))
        while (batch := self._asked(lambda: next(stream, None))) is not None:
            for found in batch:
                changed = found["last_modified"].isoformat()
                yield SourceItem(found["path"], f"{found['e_tag'] or ''} {changed} {found['size']}", found["size"])

    def fetch(self, item: SourceItem) -> bytes:
        def read() -> bytes:
            content = bytearray()
            for part in self._obstore.get(self._store, item.key).stream():
                content += part
                if len(content) > MAX_BYTES:
                    raise SourceFailure(f"larger than {MAX_BYTES // 1_000_000} MB")
            return bytes(content)

        return bytes(self._asked(read))

    def _asked(self, ask: Any) -> Any:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            return ask()
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise Denied(str(error)) from None
        except (BaseError, OSError) as error:
            raise SourceFailure(f"{type(error).__name__}: {error}") from None
