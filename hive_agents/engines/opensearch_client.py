"""The connection to an OpenSearch cluster; its failures are HIVE-434."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hive_agents.base import EngineFault, HiveError
from hive_agents.base.files import Exceeded
from hive_agents.engines.breaker import TimedOut, Unreachable, breakers_of
from hive_agents.workspace import Workspace, require_trust
from hive_agents.workspace.credentials import resolve

if TYPE_CHECKING:
    import opensearchpy

OLDEST = (2, 17)
"""The first release with bitmap filters."""

MOST_BYTES = 256_000_000
"""Limit of an answer; a list of all chunks has about 40 bytes a chunk."""

_TLS_FIX = "let the variable SSL_CERT_FILE name the authority that signed the cluster's certificate"
_TLS_FIXES = {
    "expired": "renew the cluster's certificate",
    "not valid for": "name the cluster in search.url as its certificate does, or give it one for that name",
    "WRONG_VERSION_NUMBER": "write opensearch:// in search.url, or switch TLS on at the cluster",
    "record layer failure": "write opensearch:// in search.url, or switch TLS on at the cluster",
}
"""The fix for each part of a TLS error's message."""

_PART = 1 << 20
_CONNECTIONS = 16
_AWAY = (502, 503, 504)
"""Statuses of a proxy without a server behind it, or of a cluster that can't work."""


class MissingCopy(EngineFault):
    """The cluster has no complete copy of a generation."""


class ClusterConnection:
    """The cluster of a workspace's settings; nothing is sent before the first call. Safe to share between threads.

    Raises: HIVE-431 without trust, HIVE-411 without opensearch-py, HIVE-421 for a login that can't be resolved.
    """

    def __init__(self, workspace: Workspace) -> None:
        require_trust(workspace, "search")
        self.settings = workspace.settings.search
        parts = urlsplit(self.settings.url)
        self.prefix = parts.path.strip("/")
        self.name = f"OpenSearch at {parts.netloc}"
        login = resolve(workspace, self.settings.login_ref) if self.settings.login_ref else None
        try:
            import opensearchpy
        except ImportError:
            fix = "pip install 'hive-agents[opensearch]', or take search.url out of hive.toml"
            raise HiveError.of("HIVE-411", "opensearch-py is not installed", fix=fix) from None
        # Its log would appear in a command's output; diagnostics report its errors.
        logging.getLogger("opensearch").addHandler(logging.NullHandler())
        self._breaker = breakers_of(workspace)["opensearch"]
        encrypted = parts.scheme == "opensearchs"
        self._client = opensearchpy.OpenSearch(
            connection_class=_bounded_connection(),
            hosts=[{"host": parts.hostname, "port": parts.port or 9200}],
            http_auth=tuple(login.reveal().partition(":")[::2]) if login else None,
            use_ssl=encrypted,
            verify_certs=encrypted,
            timeout=self.settings.timeout_seconds,
            max_retries=0,
            pool_maxsize=_CONNECTIONS,
        )

    @contextmanager
    def asking(self, what: str, *, heavy: bool = False) -> Iterator[opensearchpy.OpenSearch]:
        """Yield the client, unless the breaker is open; a `heavy` request may take longer than the timeout.

        Raises: HIVE-434 that names the request `what`, such as "a search".
        """

        def away(why: str) -> EngineFault:
            return self.fault(what, f"unreachable: {why}", "see what keeps the cluster busy")

        with self._breaker.attempt(away, heavy=heavy), self.reading(what):
            yield self._client

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Raise failures inside as HIVE-434: MissingCopy where there is no such index, TimedOut after the timeout,
        Unreachable without a connection."""
        import opensearchpy
        from urllib3.exceptions import ConnectTimeoutError

        try:
            yield
        except opensearchpy.NotFoundError as error:
            raise self.missing() from error
        except opensearchpy.ConnectionTimeout as error:
            why = f"timeout: no answer within {self.settings.timeout_seconds:g} s"
            fix = "see what keeps the cluster busy, or raise search.timeout_seconds"
            raise self.fault(what, why, fix, TimedOut) from error
        except opensearchpy.SSLError as error:
            reason = _reason(error)
            fix = next((fix for words, fix in _TLS_FIXES.items() if words in reason), _TLS_FIX)
            raise self.fault(what, f"untrusted: {reason}", fix) from error
        except opensearchpy.ConnectionError as error:
            if isinstance(error.info, Exceeded):
                why = f"failed: {error.info}"
                raise self.fault(what, why, "see whether search.url leads to an OpenSearch") from error
            why, fix = f"unreachable: {_reason(error)}", "start the cluster, or correct search.url in hive.toml"
            kind = TimedOut if isinstance(error.info, ConnectTimeoutError) else Unreachable
            raise self.fault(what, why, fix, kind) from error
        except (opensearchpy.AuthenticationException, opensearchpy.AuthorizationException) as error:
            why = f"refused: status {error.status_code}"
            raise self.fault(what, why, "let search.login_ref lead to a user who may search and write") from error
        except opensearchpy.TransportError as error:
            reason = f"{error.error}"[:80] if isinstance(error.error, str) else "unknown"
            word = "busy" if error.status_code in (429, 503) else "failed"
            why = f"{word}: status {error.status_code}, {reason}"
            away = error.status_code in _AWAY
            raise self.fault(what, why, "see the cluster's log", Unreachable if away else EngineFault) from error
        except opensearchpy.OpenSearchException as error:
            raise self.fault(what, f"failed: {type(error).__name__}", "see the cluster's log") from error
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            why = "failed: its answer has another form than an OpenSearch's"
            raise self.fault(what, why, "see whether search.url leads to an OpenSearch, and to no proxy") from error

    def fault(self, what: str, why: str, fix: str, kind: type[EngineFault] = EngineFault) -> EngineFault:
        message = f"{self.name} gave no answer to {what}; {why}"
        return kind.of("HIVE-434", message, file="hive.toml", path="search.url", fix=fix, exit_code=3)

    def missing(self) -> MissingCopy:
        message = f"missing: {self.name} has no complete copy of this state of the index"
        fix = "run `hive index`, which sends it"
        return MissingCopy.of("HIVE-434", message, file="hive.toml", path="search.url", fix=fix, exit_code=3)

    def require_able(self) -> None:
        """Raise HIVE-434 where the server isn't OpenSearch, or is too old."""
        distribution, version = self._server
        release = tuple(int(part) if part.isdecimal() else 0 for part in version.split(".")[:2])
        if distribution != "opensearch" or release < OLDEST:
            why = f"unsupported: it is {distribution} {version}"
            oldest = ".".join(map(str, OLDEST))
            raise self.fault("what it is", why, f"use OpenSearch {oldest} or later")

    @property
    def version(self) -> str:
        return self._server[1]

    @cached_property
    def _server(self) -> tuple[str, str]:
        with self.asking("what it is") as client:
            release = client.info().get("version", {})
            return str(release.get("distribution", "another server")), str(release.get("number", "0.0"))

    @cached_property
    def plugins(self) -> frozenset[str]:
        """The names of the plugins that all nodes have."""
        with self.asking("what plugins it has") as client:
            rows: list[dict[str, Any]] = client.cat.plugins(format="json", h="name,component")
            by_node: dict[str, set[str]] = {}
            for row in rows:
                by_node.setdefault(row["name"], set()).add(row["component"])
        return frozenset(set.intersection(*by_node.values())) if by_node else frozenset()


@cache
def _bounded_connection() -> type[opensearchpy.Connection]:
    """Return a subclass of the driver's connection that limits an answer's size, and the time to read all of it."""
    import opensearchpy
    from urllib3 import Timeout
    from urllib3.exceptions import ReadTimeoutError

    @dataclass(frozen=True)
    class Answer:
        status: int
        headers: Any
        data: bytes

    class BoundedConnection(opensearchpy.Urllib3HttpConnection):
        def _create_urllib3_pool(self) -> None:
            super()._create_urllib3_pool()
            pool: Any = self.pool
            ask = pool.urlopen

            def answered(method: str, url: str, body: Any, *, timeout: float = self.timeout, **more: Any) -> Answer:
                until = time.monotonic() + timeout
                # In whole: a number alone would hold for the connection and again for each part of the answer.
                answer = ask(method, url, body, timeout=Timeout(total=timeout), preload_content=False, **more)
                try:
                    data = bytearray()
                    while part := answer.read1(_PART):
                        data += part
                        if len(data) > MOST_BYTES:
                            raise Exceeded(f"its answer has more than {MOST_BYTES // 1_000_000} MB")
                        if time.monotonic() > until:
                            raise ReadTimeoutError(pool, url, "its answer has no end")
                except BaseException:
                    answer.close()
                    raise
                answer.release_conn()
                return Answer(answer.status, answer.headers, bytes(data))

            pool.urlopen = answered

    return BoundedConnection


def _reason(error: opensearchpy.ConnectionError) -> str:
    """Return the system's message, without addresses of objects."""
    reason = str(error.info).rpartition(": ")[2] if error.info else str(error.error)
    return reason[:120].strip("()\"'") or "no connection"
