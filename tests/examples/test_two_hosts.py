"""docs/two-hosts.md is followed on loopback, and the files beside it are what their programs take."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography.fernet import Fernet

from hive_agents.ranking import SearchEngine
from hive_agents.server.metrics import Metrics
from tests.ports import lasting_port
from tests.real_engines import Postgres, postgres
from tests.sample import copied_sample, hive

ROOT = Path(__file__).parents[2]
SERVE = ROOT / "examples" / "serve"
PAGE = (ROOT / "docs" / "two-hosts.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: (\w))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PASSWORD = "choose another one"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def run(line: str, folder: Path, server: Postgres, patch: pytest.MonkeyPatch) -> str:
    """Run a command of the page in a host's folder; what it says."""
    words = shlex.split(line.partition(" < ")[0])[1:]
    words = [re.sub(r"@db\.example/hive$", f"@/postgres?host={Path(server.socket).parent}", word) for word in words]
    if " < " in line:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{PASSWORD}\n".encode())))
    ran = hive(*words, "-w", folder)
    # The doctor's advice on the sample isn't about this page.
    assert ran.code == 0 or words[0] == "doctor", (line, ran.out, ran.err)
    return ran.out


@pytest.mark.slow
@pytest.mark.sqlite_file
def test_the_page_is_followed(tmp_path: Path, server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", Fernet.generate_key().decode())
    monkeypatch.setenv("HIVE_SIGNING_KEY", "9f" * 32)
    folders = {name: tmp_path / name for name in "ab"}
    copied_sample(folders["a"])
    said: dict[str, str] = {}
    with ExitStack() as stack:
        ports: dict[str, list[int]] = {"a": [], "b": []}
        for kind, host, text in BLOCK.findall(PAGE):
            if kind == "sql":
                server.run(text)
                server.require_password("hive_app")
            if kind == "toml":
                settings = folders["a"] / "hive.toml"
                settings.write_text(settings.read_text() + "\n" + text)
            if host == "b" and not folders["b"].exists():
                shutil.copytree(folders["a"], folders["b"], symlinks=True, ignore=shutil.ignore_patterns(".hive"))
            for line in text.splitlines() if kind == "sh" else ():
                folder = folders[host]
                if not line.startswith("hive serve"):
                    said[f"{host}: {line.split(' postgresql')[0]}"] = run(line, folder, server, monkeypatch)
                    continue
                port = lasting_port()
                ports[host].append(port)
                command = re.sub(r"--port \d+", f"--port {port}", line.removeprefix("hive "))
                program = [sys.executable, "-m", "hive_agents"]
                process = subprocess.Popen([*program, *command.split(), "-w", folder], cwd=ROOT)
                stack.callback(process.wait, 60)
                stack.callback(process.terminate)
                until_ready(process, port)
        assert "moved and verified" in said["a: hive storage setup"]
        assert "shares what is there" in said["b: hive storage setup"]
        for folder in folders.values():
            storage = tomllib.loads((folder / "hive.toml").read_text())["storage"]
            assert (storage["namespace"], storage["password_ref"]) == ("handbook", "credential:records")
            assert "fail records" not in hive("doctor", "-w", folder).out
        assert len(ports["a"]) == len(ports["b"]) == 2
        token = said["a: hive token --user dana --quiet"].strip()
        asked = {"query": "How long does an API token last?"}
        bearer = {"Authorization": f"Bearer {token}"}
        for host in "ab":
            url = f"http://127.0.0.1:{ports[host][0]}"
            answer = httpx.post(f"{url}/api/query", json=asked, headers=bearer, timeout=120, trust_env=False)
            assert answer.status_code == 200, answer.text
        (made,) = hive("token", "list", "-w", folders["b"], "--json").json["tokens"]
        assert hive("token", "revoke", made["jti"], "-w", folders["b"]).code == 0
        url = f"http://127.0.0.1:{ports['a'][0]}"
        refused = httpx.post(f"{url}/api/query", json=asked, headers=bearer, timeout=120, trust_env=False)
        assert refused.status_code == 401


def until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    while True:
        assert process.poll() is None
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)


@pytest.mark.slow
def test_systemd_takes_the_unit_of_each_role(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = (SERVE / "hive@.service").read_text(encoding="utf-8")
    unit = tmp_path / "hive@api.service"
    unit.write_text(text.replace("/srv/lab/.venv/bin/hive", sys.executable), encoding="utf-8")
    ran = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    for role in ("api", "worker", "judge"):
        lines = (SERVE / f"{role}.env").read_text(encoding="utf-8").splitlines()
        assert {line.split("=")[0] for line in lines if not line.startswith("#")} == {"ROLES", "PORT"}


TESTS = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{series: 'hive_queue_oldest_seconds{{kind="worker"}}', values: "0 40x10"}}
      - {{series: 'hive_host_part_up{{part="records", instance="a:8787"}}', values: "1 1 0x10"}}
      # One host began again, and another one takes over six runs.
      - {{series: 'hive_runs_taken_over{{instance="a:8788"}}', values: "40x5 0x20"}}
      - {{series: 'hive_runs_taken_over{{instance="b:8788"}}', values: "1x5 7x20"}}
    alert_rule_test:
      - {{eval_time: 1m, alertname: HiveQuestionsWait, exp_alerts: []}}
      - eval_time: 4m
        alertname: HiveQuestionsWait
        exp_alerts:
          - exp_labels: {{severity: critical, kind: worker}}
            exp_annotations:
              summary: "a question has waited for 40s"
              do: "ask /readyz of the workers whether one lives, and start another one"
      - {{eval_time: 3m, alertname: HivePartDown, exp_alerts: []}}
      - eval_time: 6m
        alertname: HivePartDown
        exp_alerts:
          - exp_labels: {{severity: critical, part: records, instance: "a:8787"}}
            exp_annotations:
              summary: "records of a:8787 is down"
              do: "ask its /readyz what is missing: the records, an engine, or that part"
      - {{eval_time: 4m, alertname: HiveRunsTakenOver, exp_alerts: []}}
      - eval_time: 15m
        alertname: HiveRunsTakenOver
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: "6 runs were taken over from dead workers within a quarter of an hour"
              do: "see which workers die, and why: their journals, and the memory of their machines"
"""


def test_prometheus_takes_the_rules_and_they_ring(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    rules, tests = SERVE / "alerts.yml", tmp_path / "tests.yml"
    tests.write_text(TESTS.format(rules=rules), encoding="utf-8")
    for words in (["check", "rules", str(rules)], ["test", "rules", str(tests)]):
        ran = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_rules_and_dashboard_name_what_hosts_tell(tmp_path: Path) -> None:
    ends = ("", "_total", "_bucket", "_sum", "_count")
    found = Metrics(SearchEngine(copied_sample(tmp_path / "ws"))).registry.collect()
    known = {f"{one.name}{end}" for one in found for end in ends}
    board = json.loads((SERVE / "dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = (SERVE / "alerts.yml").read_text(encoding="utf-8")
    asked += re.findall(r"expr: (.*(?:\n {10}.*)*)", rules)
    names = {name for text in asked for name in re.findall(r"\bhive_\w+", text)}
    assert len(names) >= 8
    assert names <= known


def test_each_host_in_a_container_has_the_secrets_that_the_page_names() -> None:
    services = yaml.safe_load((SERVE / "compose.yaml").read_text())["services"]
    secrets = set(re.findall(r"^\| `(HIVE_\w+)` \|", PAGE, re.MULTILINE))
    assert secrets
    for name in ("a", "b", "worker"):
        assert secrets <= services[name]["environment"].keys()
        assert "HIVE_OWNER_PASSWORD" not in services[name]["environment"], "a user with a schema of its own is enough"


def test_each_host_in_a_container_is_asked_where_it_listens() -> None:
    services = yaml.safe_load((SERVE / "compose.yaml").read_text())["services"]
    for name in ("a", "b", "worker"):
        words = services[name]["command"]
        port = words[words.index("--port") + 1]
        assert f"http://127.0.0.1:{port}/readyz" in services[name]["healthcheck"]["test"]
        assert words[words.index("--host") + 1] == "0.0.0.0", "for the proxy, and for whoever reads /metrics"
