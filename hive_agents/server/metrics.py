"""Metrics for Prometheus; no label takes values from tenants or readers, so their number is bounded."""

from __future__ import annotations

import datetime as dt
import sqlite3
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.registry import Collector

from hive_agents.models import resting
from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, OPTIMIZER_GRAPH, RunQueue, leases_of, store
from hive_agents.store import connected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hive_agents.host import Host
    from hive_agents.ranking import SearchEngine
    from hive_agents.server.feed import Feed

MEDIA = CONTENT_TYPE_PLAIN_1_0_0
_CONNECTIONS = """
    SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, search: SearchEngine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(EngineMetrics(search))
        labels = ["method", "route", "status"]
        self.requests = Counter("hive_http_requests", "Requests answered.", labels, registry=self.registry)
        self.seconds = Histogram("hive_http_request_seconds", "Seconds until an answer began.", ["method", "route"],
                                 buckets=SECONDS, registry=self.registry)  # fmt: skip
        self._streams = Gauge("hive_event_streams", "Event streams that are open.", registry=self.registry)
        self._runs = Gauge("hive_runs", "Runs in the store, by how they stand.", ["status"], registry=self.registry)
        self._active = Gauge("hive_runs_at_work", "Runs that this process works on.", registry=self.registry)
        self._up = Gauge("hive_host_part_up", "Whether a part of the host is up.", ["part"], registry=self.registry)
        self._resting = Gauge("hive_models_resting", "Models that failed and aren't asked now.", registry=self.registry)
        self._pending = Gauge("hive_approvals_pending", "Requests that wait for a person.", registry=self.registry)
        self._due = Gauge("hive_queue_runs", "Runs that are due and that nobody works on.", ["kind"],
                          registry=self.registry)  # fmt: skip
        self._oldest = Gauge("hive_queue_oldest_seconds", "Age of the oldest run that is due.", ["kind"],
                             registry=self.registry)  # fmt: skip
        self._open = Gauge("hive_http_connections", "Connections of clients that are open.", registry=self.registry)
        self._records = Gauge("hive_records_connections", "Connections to the server of the records, of all clients.",
                              ["kind"], registry=self.registry)  # fmt: skip
        self._taken_over = Gauge("hive_runs_taken_over", "Runs of dead workers that this process has put back.",
                                 registry=self.registry)  # fmt: skip
        self._again = Gauge("hive_effects_tried_again", "Tries of effects beyond the first, in the records.",
                            registry=self.registry)  # fmt: skip

    def shown(self, host: Host, feed: Feed, connections: Sized) -> bytes:
        """Return the present metrics in the text format of Prometheus."""
        with connected(host.workspace.records) as connection:
            by_status = dict(connection.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall())
            query = "SELECT count(*) FROM approvals WHERE status = 'pending'"
            self._pending.set(connection.execute(query).fetchone()[0])
            query = "SELECT coalesce(sum(attempts - 1), 0) FROM effects WHERE attempts > 1"
            self._again.set(connection.execute(query).fetchone()[0])
            if not isinstance(connection, sqlite3.Connection):
                open_, most = connection.execute(_CONNECTIONS).fetchone()
                self._records.labels("open").set(open_)
                self._records.labels("most").set(most)
        due, now = RunQueue(leases_of(host.workspace)).due(), dt.datetime.now(dt.UTC)
        for kind in (AGENT_GRAPH, OPTIMIZER_GRAPH, CHAT_GRAPH):
            began = [dt.datetime.fromisoformat(run.started_at) for run in due if run.graph == kind]
            self._due.labels(kind).set(len(began))
            self._oldest.labels(kind).set((now - min(began)).total_seconds() if began else 0.0)
        for status in store.STATUSES:
            self._runs.labels(status).set(by_status.get(status, 0))
        self._streams.set(feed.watching)
        self._open.set(len(connections))
        self._taken_over.set(host.dispatcher.taken_over)
        self._active.set(len(host.dispatcher.active))
        self._resting.set(resting())
        for part, state in host.roles.items():
            self._up.labels(part).set(state == "up")
        return generate_latest(self.registry)


class EngineMetrics(Collector):
    """What the breakers of the settings' engines have counted in this process."""

    def __init__(self, search: SearchEngine) -> None:
        self._search = search

    def collect(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("hive_engine_state", "1 for the state of its breaker.", labels=["engine", "state"])
        asked = CounterMetricFamily("hive_engine_requests", "Requests to it.", labels=["engine", "outcome"])
        took = SummaryMetricFamily("hive_engine_request_seconds", "Seconds until it answered.", labels=["engine"])
        for kind, breaker in self._search.breakers.items():
            for one in breaker.STATES:
                state.add_metric([kind, one], breaker.state == one)
            for outcome in breaker.OUTCOMES:
                asked.add_metric([kind, outcome], breaker.outcomes[outcome])
            took.add_metric([kind], sum(breaker.outcomes.values()) - breaker.outcomes["spared"], breaker.seconds)
        yield from (state, asked, took)


class MeasuredRequests:
    """Counts each request under its route's path; those without a route under "none"."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                method = scope["method"] if route != "none" else "any"
                self._metrics.requests.labels(method, route, str(message["status"])).inc()
                self._metrics.seconds.labels(method, route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, sent)
