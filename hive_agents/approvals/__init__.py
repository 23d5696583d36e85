"""Requests that wait for a person: asked once, decided once, and every step of it in the audit log."""

from hive_agents.approvals.patch import json_patch
from hive_agents.approvals.policy import ToolPolicy, ToolRule
from hive_agents.approvals.request import ApprovalRequest, Approvers, Decision, Diff, Filing
from hive_agents.approvals.store import ApprovalStore, file_request

__all__ = [
    "ApprovalRequest",
    "ApprovalStore",
    "Approvers",
    "Decision",
    "Diff",
    "Filing",
    "ToolPolicy",
    "ToolRule",
    "file_request",
    "json_patch",
]
