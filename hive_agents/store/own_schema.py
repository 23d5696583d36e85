"""Detection of foreign objects in a server's schema that would run code when the records are read or written.

A view, a trigger, a default, a better matching overload of a function: all of them run with the rights of the caller.
So the schema is checked before it is used, over a connection that resolves no names in it.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError
from hive_agents.store.copying import record_tables
from hive_agents.store.postgres import FUNCTIONS, SchemaRights, explained, opened, other_answers, rights_on
from hive_agents.store.sealing import is_seal
from hive_agents.workspace import RemoteDatabase

if TYPE_CHECKING:
    import psycopg

    from hive_agents.store.database import DatabasePlace

_OTHER_TABLES = (
    *("schema_version", "audit_lines", "records_half_moved"),
    *("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations"),
)
_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\((.*?)\).*?LANGUAGE (\w+).*?AS\s*\$\$(.*?)\$\$", re.DOTALL)
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r'(\b\w+|")\s*\(|[A-Za-z_"]\s*\.')
"""A function call or a qualified name: on this connection every name outside of pg_catalog is qualified."""
_CALLED = {"COALESCE", "WHEN", "THEN", "ELSE", "CASE", "AND", "OR", "NOT"}

_STRANGER = """
    NOT EXISTS (
        SELECT FROM pg_roles AS known, pg_roles AS own WHERE own.rolname = current_user AND known.oid = {0} AND
            (known.rolsuper OR known.oid = own.oid OR (NOT own.rolsuper AND pg_has_role(own.oid, known.oid, 'USAGE')))
    )
"""
"""Whether a role is neither this user's nor a superuser's, who could do anything anyway."""


def _owned(owner: str) -> str:
    return _STRANGER.format(owner)


_TABLES = "pg_class AS c WHERE c.relnamespace = %(schema)s AND c.relname = ANY(%(tables)s)"
_OF_TABLES = f"(SELECT c.oid FROM {_TABLES})"
_SYSTEM = "'pg_catalog'::regnamespace"
_CHANGEABLE = {
    "the schema belongs to another role": f"""
        SELECT nspname FROM pg_namespace WHERE oid = %(schema)s AND {_owned("nspowner")}""",
    "another role may create something in the schema": f"""
        SELECT nspname FROM pg_namespace, aclexplode(nspacl) AS granted
        WHERE pg_namespace.oid = %(schema)s AND granted.privilege_type = 'CREATE' AND {_owned("granted.grantee")}""",
    "it belongs to another role": f"SELECT relname FROM {_TABLES} AND {_owned('c.relowner')}",
    "another role may create triggers on it": f"""
        SELECT relname FROM {_TABLES} AND EXISTS (
            SELECT FROM aclexplode(c.relacl) AS granted
            WHERE granted.privilege_type = 'TRIGGER' AND {_owned("granted.grantee")})""",
    "the function belongs to another role": f"""
        SELECT proname FROM pg_proc WHERE pronamespace = %(schema)s AND {_owned("proowner")}""",
}
"""Ways for others to change the schema at any time: the description, and the query for the objects."""
_ACTING = {
    "it isn't a table without rules, policies and heirs": f"""
        SELECT relname FROM {_TABLES} AND (
            c.relkind <> 'r' OR c.relpersistence <> 'p' OR c.reloftype <> 0 OR c.relispartition
            OR c.relrowsecurity OR c.relforcerowsecurity OR EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid)
            OR EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhrelid, inhparent)))""",
    "it has a column that is computed, or of a type of somebody's own": f"""
        SELECT attrelid::regclass::text || '.' || attname FROM pg_attribute JOIN pg_type AS t ON t.oid = atttypid
            LEFT JOIN pg_collation AS ordered ON ordered.oid = attcollation
        WHERE attrelid IN {_OF_TABLES} AND attnum > 0 AND NOT attisdropped AND (
            t.typnamespace <> {_SYSTEM} OR t.typtype <> 'b' OR attgenerated <> '' OR collnamespace <> {_SYSTEM})""",
    "it has a constraint that calls or concerns something else": f"""
        SELECT conname FROM pg_constraint
        WHERE contype = 'f' AND (conrelid IN {_OF_TABLES}) <> (confrelid IN {_OF_TABLES})
            OR contype NOT IN ('p', 'u', 'f', 'n') AND conrelid IN {_OF_TABLES}""",
    "it has an index that compares in another way": f"""
        SELECT indexrelid::regclass::text FROM pg_index, unnest(indclass) AS class JOIN pg_opclass AS o ON o.oid = class
        WHERE indrelid IN {_OF_TABLES} AND opcnamespace <> {_SYSTEM}""",
    "it is an operator, a type, a conversion or a collation": f"""
        SELECT oprname FROM pg_operator WHERE oprnamespace = %(schema)s AND {_owned("oprowner")}
        UNION SELECT oprname FROM pg_operator AS o WHERE oprnamespace = %(schema)s AND NOT EXISTS (
            SELECT FROM pg_depend WHERE classid = 'pg_operator'::regclass AND objid = o.oid AND deptype = 'e')
        UNION SELECT typname FROM pg_type AS t WHERE typnamespace = %(schema)s AND typtype <> 'c' AND typelem = 0
            AND (typtype = 'd' OR {_owned("typowner")} OR NOT EXISTS (
                SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass AND objid = t.oid AND deptype = 'e'))
        UNION SELECT conname FROM pg_conversion WHERE connamespace = %(schema)s
        UNION SELECT collname FROM pg_collation WHERE collnamespace = %(schema)s""",
    "it calls a function of another role whenever something is created": f"""
        SELECT evtname FROM pg_event_trigger JOIN pg_proc AS p ON p.oid = evtfoid
        WHERE evtenabled <> 'D' AND {_owned("proowner")}""",
    "it calls a function of another role to convert values": f"""
        SELECT castsource::regtype || ' as ' || casttarget::regtype FROM pg_cast JOIN pg_proc AS p ON p.oid = castfunc
        WHERE castsource < 16384 AND casttarget < 16384 AND {_owned("proowner")}""",
    "it stands among PostgreSQL's own, and belongs to another role": f"""
        SELECT proname FROM pg_proc WHERE pronamespace = {_SYSTEM} AND {_owned("proowner")}
        UNION SELECT oprname FROM pg_operator WHERE oprnamespace = {_SYSTEM} AND {_owned("oprowner")}""",
}
"""Objects that could run code: the description, and the query for their names."""
_EXPRESSIONS = f"""
    SELECT adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid IN {_OF_TABLES}
    UNION SELECT indexrelid::regclass::text, pg_get_expr(indexprs, indrelid) FROM pg_index
        WHERE indrelid IN {_OF_TABLES} AND indexprs IS NOT NULL
    UNION SELECT indexrelid::regclass::text, pg_get_expr(indpred, indrelid) FROM pg_index
        WHERE indrelid IN {_OF_TABLES} AND indpred IS NOT NULL
"""
"""Default values, and expressions of indexes."""
_TRIGGERS = f"""
    SELECT tgname, tgrelid::regclass::text, pronamespace = %(schema)s AND proname = 'records_moved'
    FROM pg_trigger JOIN pg_proc AS p ON p.oid = tgfoid WHERE tgrelid IN {_OF_TABLES} AND NOT tgisinternal
"""
_CODE = """
    SELECT proname, oidvectortypes(proargtypes), lanname, prosrc, prosecdef OR proconfig IS NOT NULL OR prokind <> 'f'
    FROM pg_proc AS p JOIN pg_language AS l ON l.oid = prolang WHERE pronamespace = %(schema)s AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
"""
"""Functions, except those of extensions, which a superuser owns."""


def require_own_schema(place: RemoteDatabase) -> None:
    """Raise HIVE-407 for foreign objects in a schema, and for rights of others to change it.

    Raises: as opening a connection does. A missing schema is accepted.
    """
    import psycopg

    try:
        with closing(opened(place, names_from="")) as raw, other_answers():
            foreign = _first_foreign(raw, place)
    except psycopg.Error as error:
        raise explained(error, place) from error
    if foreign is not None:
        name, problem, fix = foreign
        message = f"{name[:60]!r} in schema {place.schema} is none of this program's doing: {problem}"
        raise HiveError.of("HIVE-407", message, file=place.name, fix=fix)


def is_same_place(one: DatabasePlace, other: DatabasePlace) -> bool:
    """Return whether both lead to the same records, such as a server's by its socket, its port or a pooler.

    Servers are only looked at. Raises: as opening a connection does.
    """
    if not (isinstance(one, RemoteDatabase) and isinstance(other, RemoteDatabase)) or one == other:
        return one == other
    return one.schema == other.schema and _identity(one) == _identity(other)


def _identity(place: RemoteDatabase) -> Any:
    """Return what tells a server's database from all others, copies of the server included."""
    import psycopg

    query = (
        "SELECT system_identifier, pg_postmaster_start_time(), oid FROM pg_control_system(), pg_database"
        " WHERE datname = current_database()"
    )
    try:
        with closing(opened(place, names_from="")) as raw, other_answers():
            return raw.execute(query).fetchone()
    except psycopg.Error as error:
        raise explained(error, place) from error


def require_rights(place: RemoteDatabase) -> SchemaRights:
    """Return what the user may do in a schema that is only looked at.

    Raises: HIVE-403 with what an owner has to run where a right is missing, else as `require_own_schema`.
    """
    import psycopg

    try:
        with closing(opened(place, names_from="")) as raw, other_answers():
            rights = rights_on(raw, place)
    except psycopg.Error as error:
        raise explained(error, place) from error
    if rights.lacking:
        raise rights.refusal(place)
    require_own_schema(place)
    return rights


def _first_foreign(raw: psycopg.Connection[Any], place: RemoteDatabase) -> tuple[str, str, str] | None:
    """Return the first foreign object: its name, the problem, and the fix."""
    schema = raw.execute(b"SELECT oid FROM pg_namespace WHERE nspname = %s", (place.schema,)).fetchone()
    parameters = {
        "schema": schema[0] if schema else 0,
        "tables": [*_OTHER_TABLES, *(table.name for table in record_tables())],
    }

    def rows(query: str) -> list[tuple[Any, ...]]:
        return raw.execute(query.encode(), parameters).fetchall()

    fix = f"name another schema under [storage]; or let schema {place.schema}, and all in it, belong to this user alone"
    for problem, query in _CHANGEABLE.items():
        for (name,) in rows(query):
            return str(name), problem, fix
    fix = "find out who made it; then drop it, and run this again"
    for problem, query in _ACTING.items():
        for (name,) in rows(query):
            return str(name), problem, fix
    for name, expression in rows(_EXPRESSIONS):
        if not is_plain(expression):
            return str(name), f"it computes {expression[:60]}", fix
    for name, table, is_own in rows(_TRIGGERS):
        if name != "moved" or not is_own:
            return str(name), f"it is a trigger of {table}", fix
    ours = {(name, _types(params), language, body) for name, params, language, body in _FUNCTION.findall(FUNCTIONS)}
    for name, types, language, body, special in rows(_CODE):
        sealing = (name, types, language) == ("records_moved", "", "plpgsql") and is_seal(body)
        if special or not (sealing or (name, types, language, body) in ours):
            return str(name), "it is a function", fix
    return None


def _types(parameters: str) -> str:
    return ", ".join(parameter.split()[-1] for parameter in parameters.split(","))


def is_plain(expression: str) -> bool:
    """Return whether an expression consists of columns, literals and PostgreSQL's own operators.

    >>> is_plain("COALESCE(due_at, '9999'::text)"), is_plain("0"), is_plain("pg_sleep(9)"), is_plain("risk = x.f")
    (True, True, False, False)
    """
    bare = _LITERAL.sub("''", expression)
    return all(match[1] in _CALLED for match in _CALL.finditer(bare))
