"""Requests that wait for a person."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from hive_agents import audit
from hive_agents.database import connect, database_errors, transaction
from hive_agents.workspace import Workspace


def file_request(
    workspace: Workspace,
    *,
    kind: str,
    title: str,
    context: Mapping[str, Any],
    run_id: str | None = None,
    requester: str = "user:local",
) -> str:
    """Put a pending request into the store; asked again by the same run, it stays the same request."""
    with closing(connect(workspace.database)) as connection, database_errors(workspace.database):
        with transaction(connection):
            if run_id is not None:
                found = connection.execute("SELECT id FROM approvals WHERE run_id = ?", (run_id,)).fetchone()
                if found:
                    return str(found[0])
            request = f"a{uuid.uuid4().hex[:10]}"
            content = json.dumps(context, ensure_ascii=False, sort_keys=True)
            connection.execute(
                "INSERT INTO approvals (id, tenant, kind, status, title, requester, risk, created_at, version,"
                " content_hash, run_id, request, decisions)"
                " VALUES (?, 'local', ?, 'pending', ?, ?, 'high', ?, 1, ?, ?, ?, '[]')",
                (
                    request,
                    kind,
                    title,
                    requester,
                    audit.now(),
                    hashlib.sha256(content.encode()).hexdigest(),
                    run_id,
                    content,
                ),
            )
    return request
