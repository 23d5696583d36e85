"""Compiler, linter and test suite for configs; the gate that deploys only what is proved better."""

from hive_agents.verification.check import check_config, named_config, require_sound
from hive_agents.verification.deploy import Deployment, deploy, rollback
from hive_agents.verification.gate import GateResult, run_gate

__all__ = [
    "Deployment",
    "GateResult",
    "check_config",
    "deploy",
    "named_config",
    "require_sound",
    "rollback",
    "run_gate",
]
