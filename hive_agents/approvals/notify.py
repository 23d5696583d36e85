"""Tell approvers by webhook; whoever can't be told doesn't keep anybody from deciding."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from typing import Literal
from urllib.parse import urlsplit

from hive_agents.approvals.request import ApprovalRequest
from hive_agents.trust import is_trusted
from hive_agents.workspace import Workspace

Occasion = Literal["requested", "reminder", "escalated", "delegated", "decided", "expired", "superseded"]
TIMEOUT_SECONDS = 5.0
_log = logging.getLogger(__name__)


def notify(workspace: Workspace, occasion: Occasion, request: ApprovalRequest) -> list[threading.Thread]:
    """POST `{"occasion", "request"}` to each address of `approvals.notify`, in the background.

    The request's context stays here: an address may belong to a chat that others read.
    """
    addresses = workspace.settings.approvals.notify
    if addresses and not is_trusted(workspace):
        _log.warning("approvals.notify: nobody is told: the workspace is not trusted; see `hive trust --diff`")
        return []
    body = json.dumps({"occasion": occasion, "request": request.summary()}, ensure_ascii=False).encode()
    threads = [threading.Thread(target=_post, args=(address, body)) for address in addresses]
    for thread in threads:
        thread.start()
    return threads


def _post(address: str, body: bytes) -> None:
    where = "an address that can't be read"
    try:
        parts = urlsplit(address)
        where = parts.hostname or where  # its path is often a secret
        if parts.scheme not in ("http", "https"):
            raise ValueError("not an http address")
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
            pass
    except Exception as error:
        _log.warning("approvals.notify: %s was not told: %s", where, error)
