"""The result of one check of a workspace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hive_agents.base import Diagnostic

CheckStatus = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    name: str
    status: CheckStatus
    message: str
    fix: str | None = None


def check_of(name: str, found: Diagnostic, status: CheckStatus = "fail") -> Check:
    place = f"{found.file}: {found.path}" if found.path not in (None, "$") else str(found.file)
    where = f" ({place})" if found.file and place not in found.message else ""
    return Check(name, status, f"{found.code}: {found.message}{where}", found.fix)
