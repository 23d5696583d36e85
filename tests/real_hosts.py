"""Two hosts as an operator has them: folders, `hive serve` for the API and for work, real engines, a real proxy.

Each folder is a copy of the sample workspace with an agent that pays orders; what its tools do outside stands in one
file of accounts.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from hive_agents import Workspace
from hive_agents.cli.main import main as hive
from tests.ports import lasting_port
from tests.real_engines import OpenSearch, Postgres, opensearch, postgres, postgres_with_tls
from tests.tls import Authority

ROOT = Path(__file__).parents[1]
APPROVED_ABOVE = 50
RESTART_SECONDS = 2.0
"""After which a unit begins again."""
SETTINGS = """
[tools]
python = ["tools/*.py"]
[[access.keys]]
kid = "first"
alg = "HS256"
secret_ref = "env:HIVE_SIGNING_KEY"
[server]
rate_per_minute = 100000
concurrent_runs = 100
"""
TOOLS = '''
import json, os, time
from hive_agents import tool
from hive_agents.agents import ToolContext

def account(**facts):
    line = b"\\n" + json.dumps(facts).encode() + b"\\n"
    with open(os.environ["HIVE_CHAOS_ACCOUNTS"], "ab", buffering=0) as file:
        file.write(line)

@tool(side_effect="external")
def pay(order: str, amount: int, context: ToolContext) -> str:
    """Pay an order; the bank honours the key."""
    time.sleep(0.3)
    account(paid=order, key=context.idempotency_key)
    time.sleep(0.3)
    return "paid"

@tool(side_effect="external")
def send_letter(order: str) -> str:
    """Send the customer a letter."""
    time.sleep(0.3)
    account(letter=order)
    time.sleep(0.3)
    return "sent"
'''
AGENT = {
    "id": "payer", "version": 1, "goal": "pay", "entry": "pay", "edges": [], "identity": "You pay orders.",
    "model": "scripted:scripts/orders.jsonl",
    "nodes": [{"id": "pay", "system_prompt": "Pay $order.", "input_keys": ["order"], "output_keys": ["text"],
               "tools": ["pay", "send_letter"]}],
    "tool_policy": [{"match": "pay", "when": f"args['amount'] > {APPROVED_ABOVE}", "decision": "ask"},
                    {"match": "*", "decision": "allow"}],
}  # fmt: skip


def order(number: int) -> tuple[str, int]:
    """Return the name and the amount of an order; each third needs a person."""
    return f"order-{number:04d}", 80 if number % 3 == 0 else 20


def script(runs: int) -> str:
    lines = []
    for name, amount in map(order, range(runs)):
        calls = [("pay", {"order": name, "amount": amount}), ("send_letter", {"order": name}),
                 ("set_output", {"key": "text", "value": f"{name} is paid"})]  # fmt: skip
        lines += [{"when": {"contains": name}, "tool_calls": [{"name": tool, "args": args}]} for tool, args in calls]
    return "\n".join(map(json.dumps, lines)) + "\n"


class Server:
    """A `hive serve` that begins again when it ends."""

    def __init__(self, kind: str, folder: str, place: Path, role: str, log: Path) -> None:
        self.kind, self.name, self.port = kind, f"{kind} {folder}", lasting_port()
        program = [sys.executable, "-m", "hive_agents", "serve", "--headless", "--quiet", "-w", str(place)]
        self._command = [*program, "--role", role, "--port", str(self.port)]
        self._log = log.open("ab")
        self.ended_by_itself = 0
        self._expected = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(self._command, cwd=ROOT, stderr=self._log, env=environment)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def supervise(self) -> None:
        """Begin again what has ended, as a unit with `Restart=always` does."""
        while True:
            await asyncio.sleep(0.05)
            if self._process is not None and self._process.poll() is not None:
                self.ended_by_itself += not self._expected
                self._expected = False
                await asyncio.sleep(RESTART_SECONDS)
                self.begin()

    async def kill(self) -> None:
        self._expected = True
        self.signal(signal.SIGKILL)
        await asyncio.sleep(RESTART_SECONDS)
        await self.ready()

    async def ready(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            for _ in range(3_000):
                with suppress(httpx.TransportError):
                    if (await client.get(f"{self.url}/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.1)
        raise TimeoutError(f"{self.name} isn't ready after five minutes")

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()
        self._log.close()


class Hosts:
    """Two folders, their processes, the engines and the proxy at `url`, until the stack is closed."""

    def __init__(self, folder: Path, stack: ExitStack, runs: int, caddyfile: Path, *, with_engine: bool = True) -> None:
        self.accounts = folder / "accounts"
        self.accounts.touch()
        os.environ |= {"HIVE_HOME": str(folder / "home"), "HIVE_SIGNING_KEY": os.urandom(32).hex(),
                       "HIVE_CHAOS_ACCOUNTS": str(self.accounts)}  # fmt: skip
        programs = postgres_with_tls()
        if programs is None:
            raise SystemExit("no PostgreSQL with TLS on this machine")
        certificate = Authority(folder, "ours").issue("localhost")
        self.records: Postgres = stack.enter_context(postgres(programs, certificate=certificate))
        self.engine: OpenSearch | None = stack.enter_context(opensearch()) if with_engine else None
        search = "" if self.engine is None else f'[search]\nurl = "{self.engine.url("chaos")}"\n'
        places = [folder / "a", folder / "b"]
        hive(["init", str(places[0]), "--quiet"])
        hive(["index", "-w", str(places[0]), "--quiet"])
        hive(["deploy", "v1", "-w", str(places[0]), "--quiet"])
        first = Workspace(places[0])
        files = {"tools/bank.py": TOOLS, "agents/payer.json": json.dumps(AGENT),
                 "goals/pay.json": json.dumps({"id": "pay", "name": "Pay"}),
                 "scripts/orders.jsonl": script(runs),
                 "hive.toml": (first.root / "hive.toml").read_text() + SETTINGS + search}  # fmt: skip
        for name, text in files.items():
            (first.root / name).parent.mkdir(exist_ok=True)
            (first.root / name).write_text(text)
        shutil.copytree(places[0], places[1], ignore=shutil.ignore_patterns(".hive"))
        address = f"postgresql://hive@127.0.0.1:{self.records.port}/postgres?sslmode=require"
        for place in places:
            for words in (["trust"], ["storage", "setup", address, "--namespace", "chaos", "--yes"], ["index"]):
                if all(hive([*words, "-w", str(place), "--quiet"]) for _ in range(3)):  # a busy machine may need some
                    raise SystemExit(f"hive {' '.join(words)} failed")
        self.place = Workspace(places[0])
        self.servers = [
            Server("api", "a", places[0], "api", folder / "api-a.log"),
            Server("api", "b", places[1], "api", folder / "api-b.log"),
            Server("worker", "a", places[0], "worker,judge,queen", folder / "worker-a.log"),
            Server("worker", "b", places[1], "worker,judge,queen", folder / "worker-b.log"),
        ]
        for server in self.servers:
            stack.callback(server.close)
            server.begin()
        self.apis = self.servers[:2]
        self.url = f"http://127.0.0.1:{lasting_port()}"
        given = {"HIVE_SITE": self.url, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder),
                 "HIVE_UPSTREAM": " ".join(f"127.0.0.1:{one.port}" for one in self.apis)}  # fmt: skip
        proxied = folder / "Caddyfile"
        proxied.write_text("{\n\tadmin off\n}\n" + caddyfile.read_text())
        log = stack.enter_context((folder / "caddy.log").open("wb"))
        caddy = ["caddy", "run", "--adapter", "caddyfile", "--config", str(proxied)]
        proxy = subprocess.Popen(caddy, env=os.environ | given, stdout=log, stderr=log)
        stack.callback(proxy.wait)
        stack.callback(proxy.terminate)

    def cut(self) -> None:
        """End all connections to the records."""
        hosts = "application_name LIKE 'hive-agents%'"
        self.records.run(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {hosts};")

    def noted(self, what: str) -> list[dict[str, str]]:
        """Return the accounts of what was paid, or of each letter."""
        lines = [json.loads(line) for line in self.accounts.read_text().splitlines() if line]
        return [line for line in lines if what in line]
