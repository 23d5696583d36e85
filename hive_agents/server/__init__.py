"""HTTP: what a host offers to programs; a request starts a run, and never runs one."""

from hive_agents.server.app import create_app
from hive_agents.server.listener import Listener

__all__ = ["Listener", "create_app"]
