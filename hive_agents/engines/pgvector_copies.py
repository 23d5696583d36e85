"""Copies of generations' vectors in PostgreSQL: sent in parts, complete before they are searched, dropped afterwards.

In the schema `vectors.namespace` the table `copy` has a row for each copy, with the name of the table of its vectors.
The tables hold chunk numbers, vectors and their digests, and names of collections and models; no texts, titles or
paths of documents.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hive_agents.base import Busy, Diagnostic
from hive_agents.engines.postgres import Database, NoCopy
from hive_agents.index import VectorIndex
from hive_agents.store import Progress

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import SQL, Composed, Identifier

PART = 1000
"""Vectors sent in one transaction."""

_LEAST, _ITERATIVE = (0, 5), (0, 8)
"""Releases of pgvector: the oldest supported, and the first with iterative HNSW scans."""

_DIGEST = 16
_INLINE_BYTES = 7000  # rows of up to about 8 kB are stored in their page, where a scan is fastest
_PATIENCE = "30s"
_TABLES = """
CREATE TABLE IF NOT EXISTS {copies} (
  number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  collection text NOT NULL,
  index_hash text NOT NULL,
  embedding_model text NOT NULL,
  dimensions integer NOT NULL,
  chunks integer NOT NULL,
  complete boolean NOT NULL DEFAULT false,
  hnsw boolean NOT NULL DEFAULT false,
  current boolean NOT NULL DEFAULT false,
  begun_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (collection, index_hash)
);
"""


@dataclass(frozen=True)
class CopyOfState:
    """A complete copy of a generation's vectors; `release` is pgvector's."""

    table: Identifier
    chunks: int
    dimensions: int
    hnsw: bool
    release: tuple[int, ...]

    @property
    def iterative(self) -> bool:
        """Whether an HNSW scan continues until enough rows pass a filter."""
        return self.release >= _ITERATIVE

    @property
    def shown(self) -> str:
        return ".".join(map(str, self.release))


def find_copy(database: Database, collection: str, index_hash: str) -> CopyOfState:
    """Return the copy of this state of the index. Raises: HIVE-434 where there is no complete one."""
    from psycopg.sql import SQL

    rows = database.rows(
        SQL(
            "SELECT name, chunks, dimensions, hnsw, (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
            " FROM {copies} WHERE collection = %(collection)s AND index_hash = %(index_hash)s AND complete"
        ).format(copies=_copies(database)),
        {"collection": collection, "index_hash": index_hash},
    )
    if not rows:
        raise NoCopy.of_state(database)
    name, chunks, dimensions, hnsw, release = rows[0]
    return CopyOfState(_table(database, name), chunks, dimensions, hnsw, _release(release))


class Copies:
    """The copies of one namespace, locked for one host at a time; made by `open`."""

    def __init__(self, database: Database, connection: psycopg.Connection[Any]) -> None:
        self._database, self._connection = database, connection

    @classmethod
    @contextmanager
    def open(cls, database: Database) -> Iterator[Copies]:
        """Yield the copies, locked. Raises: HIVE-402 while another host changes them, HIVE-434."""
        import psycopg

        with database.attempt():
            connection = database.connect(hurried=False)
        try:
            connection.execute("SELECT set_config('lock_timeout', %s, false)", [_PATIENCE])
            try:
                connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [database.settings.namespace])
            except psycopg.errors.LockNotAvailable:
                why = f"another host is changing the vectors in PostgreSQL at {database.shown} (waited 30 s)"
                raise Busy([Diagnostic("HIVE-402", why, fix="run the command again when it is done")]) from None
            yield cls(database, connection)
        except psycopg.Error as error:
            raise database.fault(error) from error
        finally:
            connection.close()

    def complete(self, collection: str, index_hash: str, model: str, vectors: VectorIndex, progress: Progress) -> None:
        """Complete the copy of this state; of a partial one only missing vectors are sent."""
        from psycopg.sql import SQL

        self._prepare()
        name, complete = self._begun(collection, index_hash, model, vectors)
        table = _table(self._database, name)
        if not (complete and self._count(table) == len(vectors)):
            self._run(SQL("UPDATE {copies} SET complete = false WHERE name = %s"), name)
            self._make_table(table, vectors.dimensions)
            self._send(name, table, collection, model, vectors, progress)
            self._run(SQL("ANALYZE {table}").format(table=table))
        self._index(name, table, vectors, progress)
        self._run(SQL("UPDATE {copies} SET complete = true WHERE name = %s"), name)

    def switch(self, collection: str, index_hash: str, keep: Collection[str]) -> None:
        """Mark this copy as current; drop all others but those in `keep` (hashes) and the newest `vectors.keep`."""
        from psycopg.errors import LockNotAvailable
        from psycopg.sql import SQL

        if self._one("SELECT to_regclass(%s)", self._name("copy")) is None:
            return  # there was never an embedding model
        with self._connection.transaction():
            self._run(
                SQL("UPDATE {copies} SET current = (index_hash = %s) WHERE collection = %s"), index_hash, collection
            )
        rows = self._run(
            SQL("SELECT name, index_hash, complete FROM {copies} WHERE collection = %s ORDER BY number DESC"),
            collection,
        ).fetchall()
        former = [name for name, state, complete in rows if complete and state not in keep]
        retained = set(former[: self._database.settings.keep])
        for name, state, _ in rows:
            if state in keep or name in retained:
                continue
            with suppress(LockNotAvailable), self._connection.transaction():  # still in use: dropped by a later call
                self._run(SQL("DROP TABLE IF EXISTS {table}").format(table=_table(self._database, name)))
                self._run(SQL("DELETE FROM {copies} WHERE name = %s"), name)

    def _prepare(self) -> None:
        """Create extension and tables where they are missing. Raises: HIVE-434 for a pgvector that is too old."""
        from psycopg.sql import SQL, Identifier

        release = self._release()
        if release is None:
            grant = "let a superuser run in that database: CREATE EXTENSION vector;"
            with self._granted("it has no pgvector, and this user may not install it", grant):
                self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            release = self._release()
        if _release(release) < _LEAST:
            fix = "upgrade pgvector on the server, then ALTER EXTENSION vector UPDATE"
            least = ".".join(map(str, _LEAST))
            raise self._database.unusable(f"its pgvector is {release}, and {least} is the least", fix)
        if self._one("SELECT to_regclass(%s)", self._name("copy")) is None:
            namespace = self._database.settings.namespace
            if self._one("SELECT to_regnamespace(%s)", namespace) is None:  # else the right to make one isn't needed
                user = self._one("SELECT current_user")
                grant = f'let the database\'s owner run there: CREATE SCHEMA "{namespace}" AUTHORIZATION "{user}";'
                with self._granted(f"there is no schema {namespace}, and {user} may not make one", grant):
                    self._connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(namespace)))
            self._connection.execute(SQL(_TABLES).format(copies=_copies(self._database)))

    @contextmanager
    def _granted(self, why: str, grant: str) -> Iterator[None]:
        """Raise HIVE-434 with what an owner has to run where the right is missing."""
        from psycopg.errors import InsufficientPrivilege

        try:
            yield
        except InsufficientPrivilege:
            raise self._database.unusable(why, grant) from None

    def _release(self) -> Any:
        return self._one("SELECT extversion FROM pg_extension WHERE extname = 'vector'")

    def _begun(self, collection: str, index_hash: str, model: str, vectors: VectorIndex) -> tuple[str, bool]:
        """Return the name of the copy's table, registered if it is new, and whether it is complete."""
        from psycopg.sql import SQL

        self._run(
            SQL(
                "INSERT INTO {copies} (name, collection, index_hash, embedding_model, dimensions, chunks)"
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (collection, index_hash) DO NOTHING"
            ),
            # Never a dropped table's name: readers notice that theirs is gone, and look up the new one.
            *(f"vectors_{secrets.token_hex(8)}", collection, index_hash, model, vectors.dimensions, len(vectors)),
        )
        sql = SQL("SELECT name, complete FROM {copies} WHERE collection = %s AND index_hash = %s")
        name, complete = self._run(sql, collection, index_hash).fetchone() or ("", False)
        return name, complete

    def _count(self, table: Identifier) -> int | None:
        """Return the number of rows; None where the table doesn't exist."""
        from psycopg.errors import UndefinedTable
        from psycopg.sql import SQL

        with suppress(UndefinedTable):
            return int(self._one(SQL("SELECT count(*) FROM {table}").format(table=table)))
        return None

    def _make_table(self, table: Identifier, dimensions: int) -> None:
        from psycopg.sql import SQL, Literal

        size = Literal(dimensions)
        inline = "ALTER COLUMN embedding SET STORAGE PLAIN" if 4 * dimensions <= _INLINE_BYTES else ""
        with self._connection.transaction():
            self._run(
                SQL(
                    "CREATE TABLE IF NOT EXISTS {table} (chunk integer PRIMARY KEY, digest bytea NOT NULL,"
                    " embedding vector({size}) NOT NULL)"
                ).format(table=table, size=size)
            )
            if inline:
                self._run(SQL("ALTER TABLE {table} " + inline).format(table=table))

    def _send(
        self, name: str, table: Identifier, collection: str, model: str, vectors: VectorIndex, progress: Progress
    ) -> None:
        digests = _digests(vectors)
        missing = self._missing(table, digests)
        if len(missing) == len(vectors):
            missing = self._carried(name, table, collection, model, digests)
        for start in range(0, len(missing), PART):
            progress("sending vectors", len(vectors) - len(missing) + start, len(vectors))
            part = missing[start : start + PART]
            self._insert(table, _rows(part, digests[part], vectors.rows(part)))

    def _missing(self, table: Identifier, digests: NDArray[np.void]) -> NDArray[np.intp]:
        """Return the chunks without their vector in the table; rows with a wrong one are deleted."""
        from psycopg.sql import SQL

        present = np.zeros(len(digests), np.bool_)
        wrong = []
        with self._connection.transaction(), self._connection.cursor("sent", binary=True) as cursor:
            cursor.itersize = 50_000
            cursor.execute(SQL("SELECT chunk, digest FROM {table}").format(table=table))
            for chunk, digest in cursor:
                if chunk < len(digests) and digests[chunk].tobytes() == digest:
                    present[chunk] = True
                else:
                    wrong.append(chunk)
        if wrong:
            self._run(SQL("DELETE FROM {table} WHERE chunk = ANY(%s::integer[])").format(table=table), wrong)
        return (~present).nonzero()[0]

    def _carried(
        self, name: str, table: Identifier, collection: str, model: str, digests: NDArray[np.void]
    ) -> NDArray[np.intp]:
        """Copy the vectors that the newest complete copy has too, on the server; return the chunks still missing."""
        from psycopg.sql import SQL

        newest = self._run(
            SQL(
                "SELECT name FROM {copies} WHERE collection = %s AND embedding_model = %s AND complete"
                " AND name <> %s ORDER BY number DESC LIMIT 1"
            ),
            *(collection, model, name),
        ).fetchone()
        if newest is None:
            return np.arange(len(digests))
        with self._connection.transaction():
            self._connection.execute(
                "CREATE TEMPORARY TABLE wanted (chunk integer, digest bytea, embedding bytea) ON COMMIT DROP"
            )
            with self._connection.cursor().copy("COPY wanted (chunk, digest) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(_rows(np.arange(len(digests)), digests, None))
            self._run(
                SQL(
                    "INSERT INTO {table} SELECT DISTINCT ON (wanted.chunk) wanted.chunk, wanted.digest, old.embedding"
                    " FROM wanted JOIN {old} AS old ON old.digest = wanted.digest"
                ).format(table=table, old=_table(self._database, newest[0]))
            )
        return self._missing(table, digests)

    def _insert(self, table: Identifier, rows: bytes) -> None:
        from psycopg.sql import SQL

        sql = SQL("COPY {table} (chunk, digest, embedding) FROM STDIN (FORMAT BINARY)").format(table=table)
        with self._connection.transaction(), self._connection.cursor().copy(sql) as copy:
            copy.write(rows)

    def _index(self, name: str, table: Identifier, vectors: VectorIndex, progress: Progress) -> None:
        """Build or drop the HNSW index according to the settings."""
        from psycopg.sql import SQL, Identifier

        wanted = self._database.settings.search == "hnsw"
        index = f"{name}_hnsw"
        if wanted and len(vectors):
            progress("building the HNSW index", 0, 1)
            sql = "CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw (embedding vector_ip_ops)"
        else:
            sql = "DROP INDEX IF EXISTS {namespace}.{index}"
        with self._connection.transaction():
            namespace = Identifier(self._database.settings.namespace)
            self._run(SQL(sql).format(index=Identifier(index), table=table, namespace=namespace))
            self._run(SQL("UPDATE {copies} SET hnsw = %s WHERE name = %s"), wanted, name)

    def _name(self, table: str) -> str:
        return f"{self._database.settings.namespace}.{table}"

    def _one(self, sql: Any, *values: Any) -> Any:
        row = self._connection.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def _run(self, sql: SQL | Composed, *values: Any) -> psycopg.Cursor[Any]:
        from psycopg.sql import SQL

        composed = sql.format(copies=_copies(self._database)) if isinstance(sql, SQL) else sql
        return self._connection.execute(composed, values)


def _copies(database: Database) -> Identifier:
    from psycopg.sql import Identifier

    return Identifier(database.settings.namespace, "copy")


def _table(database: Database, name: str) -> Identifier:
    from psycopg.sql import Identifier

    return Identifier(database.settings.namespace, name)


def _release(text: str | None) -> tuple[int, ...]:
    """Return a release's numbers; (0, 0) for None.

    >>> _release("0.8.1") >= (0, 8), _release("0.6.2") >= (0, 8), _release(None)
    (True, False, (0, 0))
    """
    parts = (text or "0.0").split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def _digests(stored: VectorIndex) -> NDArray[np.void]:
    """Return a digest of each vector's content, shape `(n,)`."""
    digests = bytearray()
    for start in range(0, len(stored), PART):
        block = stored.rows(np.arange(start, min(start + PART, len(stored)))).astype("<f4", copy=False)
        digests += b"".join(hashlib.blake2b(row.tobytes(), digest_size=_DIGEST).digest() for row in block)
    return np.frombuffer(bytes(digests), f"V{_DIGEST}")


def _rows(chunks: NDArray[np.intp], digests: NDArray[np.void], vectors: NDArray[np.float32] | None) -> bytes:
    """Return rows in PostgreSQL's binary COPY format; without `vectors` of two fields."""
    layout: list[Any] = [("fields", ">i2"), ("chunk_bytes", ">i4"), ("chunk", ">i4"), ("digest_bytes", ">i4")]
    layout.append(("digest", f"V{_DIGEST}"))
    if vectors is not None:
        dimensions = vectors.shape[1]
        layout += [("bytes", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f4", (dimensions,))]
    rows: NDArray[Any] = np.zeros(len(chunks), np.dtype(layout))
    rows["fields"], rows["chunk_bytes"], rows["digest_bytes"] = (2 if vectors is None else 3), 4, _DIGEST
    rows["chunk"], rows["digest"] = chunks, digests
    if vectors is not None:
        rows["bytes"], rows["dimensions"], rows["vector"] = 4 + 4 * dimensions, dimensions, vectors
    return b"PGCOPY\n\xff\r\n\0" + bytes(8) + rows.tobytes() + b"\xff\xff"
