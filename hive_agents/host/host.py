"""The host: one process with the bus, the runs, the health judge, the queen and the triggers of a workspace."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hive_agents.access import TOKENS
from hive_agents.base import Diagnostic, HiveError
from hive_agents.events import Bell, EventBus, EventLog
from hive_agents.host.dispatcher import Dispatcher
from hive_agents.host.roles import HostRole, Work
from hive_agents.models import Chain
from hive_agents.runs import join, leases_of, leave
from hive_agents.store import connected, database, moved, moved_to
from hive_agents.workspace import Workspace, is_trusted
from hive_agents.workspace.settings import Role as ModelRole

if TYPE_CHECKING:
    from hive_agents.agents import ToolRegistry
    from hive_agents.triggers import TriggerSpec

ROLES = ("runs", "judge", "queen", "triggers", "http")
_GROUPS = {"api": ("http",), "worker": ("runs", "triggers"), "all": ROLES}
"""Names of groups of roles, for hosts that share the work."""
GRACE = 20.0
"""Seconds that the current steps of runs may take when the host ends."""
SETTLING_SECONDS = 5.0
"""Seconds until a new host keeps house: the runs that wait for it begin first."""
LEAVING_SECONDS = 3.0
"""Seconds in which a host that others stand in for still answers, while `/readyz` says that it ends: examples/serve's
proxy asks every two, and sends nothing more to it then."""
READY_SECONDS = 1.0
"""Seconds that a check of readiness waits for the database to write."""
ANSWER_SECONDS = 2.0
"""Seconds after which a check of readiness answers, whatever it waits for."""
SUBSTITUTED = ("HIVE-402", "HIVE-434")
"""Codes of an engine that is away, for which a host's own index stands in."""
CHECKS = 4
"""Threads for checks of readiness, apart from those that work."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Host:
    r"""Serves a workspace until it is stopped; use `async with`, or `run`.

    `roles` are the parts of this process, or "api" (http), "worker" (runs and triggers), "all". Several hosts may
    serve one workspace: they share the runs, and one of them at a time has judge, queen and triggers. `serve` listens
    for HTTP requests until it is cancelled; without the role http, for probes alone. All agents get `tools` beside
    those of the workspace, and `models` in place of those of the settings.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from hive_agents import Workspace
    >>> from hive_agents.cli.sample import init_workspace
    >>> folder = TemporaryDirectory()
    >>> place = Workspace(init_workspace(Path(folder.name), empty=True))
    >>> _ = Path(folder.name, "hive.toml").write_text('[models]\nembedding = "none"')
    >>> _ = Path(folder.name, "documents", "bees.md").write_text("# Bees\nThey dance.")
    >>> import asyncio
    >>> async def briefly() -> str:
    ...     async with Host(place, roles=["runs"]) as host:
    ...         return "it works"
    >>> asyncio.run(briefly())
    'it works'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        roles: Collection[str] = ROLES,
        tools: ToolRegistry | None = None,
        models: Callable[[ModelRole], Chain] | None = None,
        parallel: int = 32,
        serve: Callable[[Host], Awaitable[object]] | None = None,
    ) -> None:
        """Raises: HIVE-409 for an unknown role, or none."""
        if not roles or not set(roles) <= {*ROLES, *_GROUPS}:
            fix = f"use some of {', '.join(dict.fromkeys([*_GROUPS, *ROLES]))}"
            raise HiveError.of("HIVE-409", "a host has no such role", fix=fix)
        roles = {part for name in roles for part in _GROUPS.get(name, (name,))}
        if serve is not None and "http" not in roles:
            roles.add("probes")
        self._given: dict[str, Any] = {
            "roles": roles, "tools": tools, "models": models, "parallel": parallel, "serve": serve,
        }  # fmt: skip
        self.successor: Host | None = None
        """The host that `run` ended for."""
        self.workspace, self._log = workspace, EventLog(workspace)
        self.bus = EventBus(self._log)
        self.dispatcher = Dispatcher(workspace, self.bus, parallel=parallel, tools=tools, models=models)
        self._brought: dict[str, Any] = {"tools": tools, "models": models}
        self._serve = serve
        self.uploads = Bell(None)
        """Rung for each upload, so that its import begins at once."""
        self._roles = self._chosen(roles)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped, self._is_run = asyncio.Event(), False
        self.engines: dict[str, str] = {}
        """The state of each engine of the settings at the last check of readiness: "ok" or "away"."""
        self._checks: dict[str, Future[None]] = {}
        self._checking = ThreadPoolExecutor(CHECKS, thread_name_prefix="ready")
        self._stack = AsyncExitStack()
        self.drained = True
        """Whether every run came to rest by itself when the host ended."""

    @property
    def roles(self) -> dict[str, str]:
        """The state of each part: "up", "waiting" while another host has it, or "down"."""
        return {role.name: role.state for role in self._roles}

    async def __aenter__(self) -> Self:
        """Raises: HIVE-402, HIVE-403, HIVE-407 when the database can't be used."""
        self._stack.callback(self._log.close)
        # Also without a run: it shows when this host read its settings.
        self._stack.callback(leave, self.workspace, join(self.workspace))
        await self._stack.enter_async_context(self.bus)
        self._tasks = [asyncio.create_task(role.run(), name=role.name) for role in self._roles]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all parts; runs return to the queue after their current step."""
        for task in self._tasks:
            task.cancel()
        drained, *_ = await asyncio.gather(self.dispatcher.drain(GRACE), *self._tasks, return_exceptions=True)
        self.drained = drained is True
        self._checking.shutdown(wait=False)
        await self._stack.aclose()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until `stop`; a second signal ends the process at once."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._is_run = True
        try:
            async with self:
                await self._stopped.wait()
                if "http" in self.roles and not isinstance(self.workspace.records, Path):
                    await asyncio.sleep(LEAVING_SECONDS)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """End `run`, on its event loop."""
        self._stopped.set()

    def restart(self, workspace: Workspace) -> None:
        """End `run` for a `successor` like this host, with the settings that `workspace` has read.

        Raises: HIVE-409 where somebody else than `run` ends this host, who wouldn't begin the next one.
        """
        if not self._is_run:
            fix = "end the program that hosts this workspace, and start it again"
            raise HiveError.of("HIVE-409", "this host can't begin again by itself", fix=fix)
        self.successor = Host(workspace, **self._given)
        self.stop()

    async def fire(self, spec: TriggerSpec, input: dict[str, Any], *, key: str, scheduled: str) -> str | None:
        """Queue the run of a trigger and return its id; see `hive_agents.triggers.Fire`."""
        from hive_agents.host.firing import fire

        publish = self.bus.publish
        run_id = await fire(self.workspace, spec, input, key=key, scheduled=scheduled, publish=publish, **self._brought)
        self.dispatcher.wake()
        return run_id

    async def faults(self) -> list[Diagnostic]:
        """Return what prevents the host from working: a database that can't be written, a part that is down, an engine
        that is away while there is no index on this host; and that it ends."""
        if self._stopped.is_set():
            return [Diagnostic("HIVE-427", "this host ends", fix="ask another one, or this one when it is back")]
        faults = [
            Diagnostic("HIVE-427", f"{name} is down, and begins again in a moment", fix="see what the host has logged")
            for name, state in self.roles.items()
            if state == "down"
        ]
        search = self.dispatcher.engine
        kinds = list(search.breakers)
        checks: dict[str, Callable[[], None]] = {kind: partial(search.greet, kind) for kind in kinds}
        checks["the records"] = partial(self.require_fit, self.workspace)
        *greeted, written = await asyncio.gather(*(self._checked(*check) for check in checks.items()))
        self.engines = {kind: "away" if away else "ok" for kind, away in zip(kinds, greeted, strict=True)}
        away = [fault for of_engine in greeted for fault in of_engine]
        is_substituted = bool(away) and await asyncio.to_thread(search.has_own_index)
        if is_substituted:
            away = [fault for fault in away if fault.code not in SUBSTITUTED]
        return [*faults, *written, *away]

    async def _checked(self, name: str, check: Callable[[], None]) -> list[Diagnostic]:
        """Return the faults that a check finds; one that hangs is begun once, however many ask for it."""
        running = self._checks.get(name)
        if running is None or running.done():
            running = self._checks[name] = self._checking.submit(check)
        try:
            await asyncio.wait_for(asyncio.wrap_future(running), ANSWER_SECONDS)
        except TimeoutError:
            message = f"{name} didn't answer within {ANSWER_SECONDS:.0f} s"
            return [Diagnostic("HIVE-402", message, fix="see whether their server is up, and answers others")]
        except HiveError as error:
            return error.diagnostics
        return []

    def require_fit(self, workspace: Workspace) -> None:
        """Raise HIVE-402, 403 or 407 for records that can't be written, or were moved away, and HIVE-431 where other
        keys of tokens than this host's are trusted by now: nobody who asks is let in then."""
        if "http" in self.roles and not is_trusted(workspace, *TOKENS):
            message = "hive.toml has other settings of tokens since this host began, and it lets nobody in"
            raise HiveError.of("HIVE-431", message, fix="start this host again")
        database.require_writable(workspace.records, READY_SECONDS)
        with connected(workspace.records) as connection:
            if (target := moved_to(connection)) is not None:
                raise moved(target, "hive.toml")

    def _signalled(self, number: int) -> None:
        if self._stopped.is_set():
            os._exit(128 + number)  # every part tolerates being killed
        self.stop()

    def _chosen(self, names: Collection[str]) -> list[HostRole]:
        leases = leases_of(self.workspace)
        roles = []
        for name, work in self._works().items():
            if name in names:
                roles.append(HostRole(name, work, leases=None if name in ("runs", "http", "probes") else leases))
        if not isinstance(self.workspace.records, Path):
            from hive_agents.host.roles import follow_deployments

            roles.append(HostRole("deployments", lambda: follow_deployments(self.workspace)))
        if "http" in names and self._serve is not None:
            from hive_agents.host.imports import carry_out_imports

            roles.append(HostRole("imports", lambda: carry_out_imports(self.workspace, self.uploads)))
        if "runs" in names:
            # This lease shows other processes that a host takes runs: see `decisions.HOST`.
            roles.append(HostRole("housekeeping", self._housekeeping, leases=leases))
        return roles

    def _works(self) -> dict[str, Work]:
        works: dict[str, Work] = {
            "runs": self.dispatcher.run,
            "judge": self._judge,
            "queen": self._queen,
            "triggers": self._triggers,
        }
        serve = self._serve
        if serve is not None:
            works["http"] = works["probes"] = lambda: serve(self)
        return works

    async def _housekeeping(self) -> None:
        await asyncio.sleep(SETTLING_SECONDS)
        from hive_agents.host.housekeeping import keep_house

        await keep_house(self.workspace)

    async def _judge(self) -> None:
        from hive_agents.host.health import HealthJudge

        if "runs" in self.roles:  # runs that an outage interrupted are taken up again first, and don't count as crashed
            await self.dispatcher.looked.wait()
        await HealthJudge(self.workspace, self.bus).run()

    async def _queen(self) -> None:
        from hive_agents.host.queen import Queen

        await Queen(self.workspace, self.bus).run()

    async def _triggers(self) -> None:
        from hive_agents.host.due_sources import run_due_sources
        from hive_agents.triggers import Scheduler, Subscriptions

        async with asyncio.TaskGroup() as group:
            group.create_task(Scheduler(self.workspace, self.fire).run())
            group.create_task(Subscriptions(self.workspace, self.fire).run())
            group.create_task(run_due_sources(self.workspace))
