from __future__ import annotations

import asyncio
import base64
import copy
import html
import json
import logging
import pickle
import stat
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from cryptography.fernet import Fernet
from typer.testing import CliRunner

from hive_agents import Workspace
from hive_agents.agents import AgentSpec, ToolContext, ToolRegistry
from hive_agents.agents.verify import check_agent
from hive_agents.base.errors import HiveError
from hive_agents.cli import credentials as commands
from hive_agents.events.bus import EventBus
from hive_agents.events.log import EventLog
from hive_agents.events.types import Event, EventType
from hive_agents.workspace.credentials import CredentialStore, Secret, is_reference, redacted, resolve

KEY = Fernet.generate_key().decode()
CANARIES = [
    "Canary-plain-8f2a61",
    'canary "quoted" 5c77',
    "canary\\back\\slash-11",
    "canary+and/signs=22",
    "canary with spaces 33",
    "canary-ünïcode-44",
    "canary\nwith\nlines-55",
    "-----BEGIN PRIVATE KEY-----\ncanary66AAAA\n-----END PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOjc3fQ.c2lnbmF0dXJl",
    "sk-Canary88canary88canary88",
    "canary'apostrophe'99",
    "https://user:canary12@host/path?x=1",
    "canary'<&>\"\x1bé13",
]
NAMES = [f"canary{number}" for number in range(len(CANARIES))]


@pytest.fixture
def place(text_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("HIVE_CREDENTIAL_KEY", KEY)
    monkeypatch.setitem(sys.modules, "keyring", None)
    return text_workspace


def code(call: Any) -> tuple[str, int]:
    with pytest.raises(HiveError) as raised:
        call()
    return raised.value.diagnostics[0].code, raised.value.exit_code


def test_a_credential_is_kept_encrypted_and_only_for_its_owner(place: Workspace) -> None:
    store = CredentialStore(place)
    store.set("mail", "hunter2")
    store.set("git_hub", "other")
    store.set("mail", "hunter3")
    file = place.state / "credentials.json"
    assert (store.names(), store.get("mail").reveal()) == (["git_hub", "mail"], "hunter3")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hunter" not in file.read_text()
    store.delete("mail")
    assert store.names() == ["git_hub"]
    assert code(lambda: store.get("mail")) == ("HIVE-421", 2)
    assert code(lambda: store.delete("mail")) == ("HIVE-421", 2)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "x" * 65, "-x", "mail\n"])
def test_a_name_is_a_name(place: Workspace, name: str) -> None:
    assert code(lambda: CredentialStore(place).set(name, "v")) == ("HIVE-113", 2)


@pytest.mark.parametrize("value", ["", "x" * 64_001])
def test_a_value_has_a_length(place: Workspace, value: str) -> None:
    assert code(lambda: CredentialStore(place).set("a", value)) == ("HIVE-409", 2)


def test_without_its_key_the_store_names_credentials_and_gives_none(place: Workspace) -> None:
    CredentialStore(place).set("mail", "hunter2")
    for key in ("", "short", Fernet.generate_key().decode()):
        store = CredentialStore(place, {"HIVE_CREDENTIAL_KEY": key})
        assert store.names() == ["mail"]
        assert code(lambda store=store: store.get("mail")) == ("HIVE-421", 3)
        assert code(lambda store=store: store.set("other", "x")) == ("HIVE-421", 3)
    assert CredentialStore(place).get("mail").reveal() == "hunter2"


def test_what_another_key_encrypted_is_replaced_by_storing_it_again(place: Workspace) -> None:
    """So a backup is restored where the key of its host isn't known."""
    CredentialStore(place).set("records", "hunter2")
    here = CredentialStore(place, {"HIVE_CREDENTIAL_KEY": Fernet.generate_key().decode()})
    here.set("records", "hunter3")
    assert here.get("records").reveal() == "hunter3"


def test_one_store_has_one_key(place: Workspace) -> None:
    """Of several credentials those that another key encrypted are deleted first, as the refusal says."""
    CredentialStore(place).set("mail", "hunter2")
    CredentialStore(place).set("records", "hunter2")
    here = CredentialStore(place, {"HIVE_CREDENTIAL_KEY": Fernet.generate_key().decode()})
    with pytest.raises(HiveError, match="HIVE-421") as refused:
        here.set("records", "hunter3")
    assert "hive credentials delete mail" in str(refused.value.diagnostics[0].fix)
    here.delete("mail")
    here.set("records", "hunter3")
    assert (here.names(), here.get("records").reveal()) == (["records"], "hunter3")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"key": "k", "credentials": {"a": 1}}', "\x00\xff", '{"hunter2": 1}']
)
def test_a_damaged_store_says_so_and_nothing_of_what_it_holds(place: Workspace, text: str) -> None:
    (place.state / "credentials.json").write_bytes(text.encode("latin-1"))
    for call in (CredentialStore(place).names, lambda: CredentialStore(place).set("a", "b")):
        with pytest.raises(HiveError, match="HIVE-421") as raised:
            call()
        assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_tokens_cannot_be_swapped_or_changed(place: Workspace) -> None:
    store = CredentialStore(place)
    store.set("low", "public")
    store.set("root", "hunter2")
    file = place.state / "credentials.json"
    value = json.loads(file.read_text())
    value["credentials"]["low"] = value["credentials"]["root"]
    file.write_text(json.dumps(value))
    assert code(lambda: store.get("low")) == ("HIVE-421", 3)
    value["credentials"]["low"] = value["credentials"]["root"][:-8] + "AAAAAAA="
    file.write_text(json.dumps(value))
    assert code(lambda: store.get("low")) == ("HIVE-421", 3)


class Ring:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, user: str) -> str | None:
        return self.kept.get((service, user))

    def set_password(self, service: str, user: str, password: str) -> None:
        self.kept[service, user] = password


def test_the_keyring_holds_the_key_where_there_is_one(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    monkeypatch.setitem(sys.modules, "keyring", ring)
    store = CredentialStore(place, {})
    store.set("mail", "hunter2")
    store.set("other", "x")
    assert (store.get("mail").reveal(), len(ring.kept)) == ("hunter2", 1)
    ring.kept.clear()
    assert code(lambda: store.get("mail")) == ("HIVE-421", 3)
    assert code(lambda: store.set("new", "x")) == ("HIVE-421", 3)
    assert not ring.kept


def test_whoever_has_no_terminal_keeps_secrets_by_the_machine_s_own_key(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without variable and keyring; on another machine, as after a copy, they can't be read."""
    monkeypatch.setenv("HIVE_HOME", str(tmp_path / "here"))
    assert code(lambda: CredentialStore(place, {}).set("model", "hunter2")) == ("HIVE-421", 3)
    CredentialStore(place, {}, unattended=True).set("model", "hunter2")
    for text in (one.read_bytes() for one in place.root.rglob("*") if one.is_file()):
        assert b"hunter2" not in text
    CredentialStore(place, {}).set("mail", "hunter3")
    store = CredentialStore(Workspace(place.root), {})
    assert [store.get(name).reveal() for name in store.names()] == ["hunter3", "hunter2"]
    monkeypatch.setenv("HIVE_HOME", str(tmp_path / "elsewhere"))
    assert code(lambda: store.get("model")) == ("HIVE-421", 3)
    assert code(lambda: CredentialStore(place, {}, unattended=True).set("new", "x")) == ("HIVE-421", 3)


def test_references_lead_to_secrets(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    ring.set_password("hive", "jwt", "r")
    monkeypatch.setitem(sys.modules, "keyring", ring)
    CredentialStore(place).set("mail", "c")
    monkeypatch.setenv("TOKEN", "e")
    found = [resolve(place, reference) for reference in ("credential:mail", "env:TOKEN", "keyring:hive/jwt")]
    assert [secret.reveal() for secret in found] == ["c", "e", "r"]
    assert [secret.reference for secret in found] == ["credential:mail", "env:TOKEN", "keyring:hive/jwt"]


@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        ("credential:nobody", ("HIVE-421", 2)),
        ("credential:../local.key", ("HIVE-421", 2)),
        ("env:NOT_SET_ANYWHERE", ("HIVE-421", 3)),
        ("keyring:hive/jwt", ("HIVE-411", 3)),
        ("keyring:jwt", ("HIVE-409", 2)),
        ("hunter2", ("HIVE-409", 2)),
        ("file:/etc/passwd", ("HIVE-409", 2)),
        ("credential:", ("HIVE-409", 2)),
    ],
)
def test_a_reference_that_leads_nowhere_says_so(place: Workspace, reference: str, wanted: tuple[str, int]) -> None:
    assert code(lambda: resolve(place, reference)) == wanted
    assert is_reference(reference) is (wanted[0] != "HIVE-409")


def run(place: Workspace, *arguments: str, given: str = "") -> Any:
    app = typer.Typer()
    app.add_typer(commands.app, name="credentials")
    return CliRunner().invoke(app, ["credentials", *arguments, "-w", str(place.root)], input=given)


def test_the_command_line_takes_values_from_standard_input_and_the_prompt(place: Workspace) -> None:
    for name, options, given in (("a", ["--value-stdin"], "hunter2\n"), ("b", [], "hunter3\n")):
        ran = run(place, "set", name, *options, given=given)
        assert ran.exit_code == 0, ran.output
        assert "hunter" not in ran.output
    store = CredentialStore(place)
    assert (store.get("a").reveal(), store.get("b").reveal()) == ("hunter2", "hunter3")
    assert json.loads(run(place, "list", "--json").output) == {"credentials": [{"name": "a"}, {"name": "b"}]}
    assert run(place, "delete", "a").exit_code == 0
    assert run(place, "set", "c", "hunter2").exit_code == 2
    assert isinstance(run(place, "delete", "a").exception, HiveError)


def hidden(text: str) -> None:
    """Fails where a canary is in the text, as it is or in a form that anybody can turn back."""
    for canary in CANARIES:
        data = canary.encode()
        forms = {canary, json.dumps(canary)[1:-1], repr(canary)[1:-1], base64.b64encode(data).decode(), data.hex()}
        found = [form for form in forms if form in text]
        assert not found, found


@pytest.fixture
def planted(place: Workspace) -> Workspace:
    store = CredentialStore(place)
    for name, canary in zip(NAMES, CANARIES, strict=True):
        store.set(name, canary)
    return place


@pytest.fixture
def secrets(planted: Workspace) -> list[Secret]:
    found = [resolve(planted, f"credential:{name}") for name in NAMES]
    assert [secret.reveal() for secret in found] == CANARIES
    return found


def test_canaries_are_in_no_file_of_the_workspace(planted: Workspace) -> None:
    for path in planted.root.rglob("*"):
        if path.is_file():
            hidden(path.read_bytes().decode("latin-1"))


def test_canaries_are_in_no_representation(secrets: list[Secret]) -> None:
    for secret in secrets:
        shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>80}", "%s" % secret, repr(dir(secret))]  # noqa: UP031
        shown += [
            repr(copy.deepcopy({"s": secret})),
            repr(SimpleNamespace(s=secret)),
            json.dumps([secret], default=str),
        ]
        shown += [repr(getattr(secret, name)) for name in Secret.__slots__]
        hidden("".join(shown))
        assert not hasattr(secret, "__dict__")
        assert (copy.copy(secret) is secret, secret == Secret(secret.reveal()), secret == secret.reveal()) == (
            True, True, False,
        )  # fmt: skip
        with pytest.raises(AttributeError):
            secret.reference = "x"


def test_canaries_cannot_be_written_down(secrets: list[Secret]) -> None:
    """Neither pickle nor JSON takes a secret, nor does what checkpoints are written with."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    for secret in secrets:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError):
                pickle.dumps({"s": secret}, protocol)
        with pytest.raises(TypeError):
            json.dumps({"s": secret})
        with pytest.raises(TypeError):
            secret.__getstate__()
        for serializer in (JsonPlusSerializer(), JsonPlusSerializer(pickle_fallback=True)):
            try:
                written = serializer.dumps_typed({"s": secret})
            except TypeError:
                continue
            hidden(written[1].decode("latin-1"))


def test_canaries_are_in_no_exception(planted: Workspace, secrets: list[Secret]) -> None:
    def login(secret: Secret) -> None:
        raise RuntimeError(f"cannot log in with {secret}")

    for secret, name in zip(secrets, NAMES, strict=True):
        with pytest.raises(RuntimeError) as raised:
            login(secret)
        found = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
        text = "".join(line for line in (found.stack[-1].locals or {}).values())
        hidden(text + str(raised.value))
        for broken in (f"credential:{name}x", f"credentials:{name}", secret.reveal()):
            with pytest.raises(HiveError) as refused:
                resolve(planted, broken)
            hidden(str(refused.value))
        with pytest.raises(HiveError) as refused:
            CredentialStore(planted).set(secret.reveal(), "x")
        hidden(str(refused.value))


async def test_canaries_reach_no_log_event_or_tool_result(
    planted: Workspace, secrets: list[Secret], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    registry = ToolRegistry()

    def leak(how: str, token: Secret) -> str:
        value = token.reveal()
        if how == "raise":
            raise RuntimeError(f"401 for {value}")
        forms = {"json": json.dumps({"t": value}), "repr": repr(value), "hex": value.encode().hex()}
        return forms.get(how) or base64.b64encode(value.encode()).decode()

    log = EventLog(planted)
    async with EventBus(log) as bus:
        for name in NAMES:
            registry.register(leak, name=name, policy="allow", credentials={"token": f"credential:{name}"})
            assert "token" not in json.dumps(registry[name].for_model().model_dump()["parameters"])
            hidden(repr(registry[name]))
            for how in ("json", "repr", "hex", "base64", "raise"):
                found = await registry.call(name, {"how": how}, ToolContext(planted, run_id="r"))
                hidden(repr(found))
                assert "***" in found.content
                kind = EventType.TOOL_FAILED if found.is_error else EventType.TOOL_COMPLETED
                await bus.publish(Event(kind, payload={"tool": name, "text": found.content}))
        logging.getLogger("x").warning("%s %r", secrets, secrets[0])
        logged = await asyncio.to_thread(lambda: list(log.replay(0)))
        assert len(logged) == 5 * len(NAMES)
        for event in logged:
            hidden(json.dumps(event.to_json(), ensure_ascii=False))
    hidden(caplog.text)


def test_canaries_reach_no_output_of_the_command_line(planted: Workspace) -> None:
    for name, canary in zip(NAMES, CANARIES, strict=True):
        for arguments in (
            ["list"],
            ["list", "--json"],
            ["set", name, "--value-stdin"],
            ["set", canary, "--value-stdin"],
            ["delete", canary],
        ):
            ran = run(planted, *arguments, given=canary)
            hidden(ran.output + repr(ran.exception))


def test_canaries_are_found_in_prompts_before_a_model_sees_them(planted: Workspace) -> None:
    for name in NAMES:
        spec = {
            "id": "a",
            "goal": "g",
            "entry": "n",
            "nodes": [{"id": "n", "system_prompt": f"Use credential:{name}."}],
        }
        found = check_agent(AgentSpec.model_validate(spec))
        assert [one.code for one in found] == ["HIVE-220"]
        hidden(str(found))


@pytest.mark.parametrize("canary", CANARIES)
def test_redaction_finds_every_form(canary: str) -> None:
    from urllib.parse import quote, quote_plus

    secret = Secret(canary)
    data = canary.encode()
    for form in (canary, json.dumps(canary), json.dumps(canary, ensure_ascii=False), repr(canary), html.escape(canary),
                 quote(canary), quote_plus(canary), data.hex(), data.hex().upper(),
                 base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):  # fmt: skip
        shown = redacted(f"a {form} b", [secret])
        assert shown.replace('"***"', "***").replace("'***'", "***") == "a *** b"
        hidden(shown)
    assert redacted("nothing here", [secret, ""]) == "nothing here"


@pytest.mark.parametrize("canary", CANARIES)
def test_redaction_finds_a_secret_that_was_encoded_together_with_other_text(canary: str) -> None:
    """As the `user:secret` of Basic authentication, at each place where base64 can begin, in both alphabets."""
    for before in ("user:", "a", "ab", "abc", "abcd:"):
        for after in ("", "\n", "&more", "=="):
            data = f"{before}{canary}{after}".encode()
            for form in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
                for shown in (f"Basic {form}", form.rstrip("="), f"({form})", f"x{form}"):
                    assert redacted(shown, [Secret(canary)]) in ("Basic ***", "***", "(***)")


@pytest.mark.parametrize("canary", CANARIES)
def test_redaction_finds_a_secret_in_a_form_or_url_whoever_wrote_it(canary: str) -> None:
    """Writers differ in what they encode, in the case of the digits, and in the sign for a space."""
    from urllib.parse import quote, quote_plus, urlencode

    everything = "".join(f"%{byte:02X}" for byte in canary.encode())
    forms = [quote(canary, safe=safe) for safe in ("", "/", "!'()*", "~-._*")]
    for form in (*forms, quote_plus(canary), urlencode({"": canary})[1:], everything, everything.lower()):
        assert redacted(f"user=a&password={form}&x=1", [Secret(canary)]) == "user=a&password=***&x=1"


def test_redaction_leaves_other_text_alone() -> None:
    text = "Basic dXNlcjpvdGhlcg== and deadbeef, a sentence with words/like+these and no secret in it."
    assert redacted(text, [Secret("hunter2"), Secret("abc")]) == text


def test_a_secret_within_another_is_taken_out_too() -> None:
    assert redacted("abc abcdef", ["abc", "abcdef"]) == "*** ***"


def test_the_package_imports_nothing_heavy() -> None:
    import subprocess

    heavy = "{'cryptography', 'boto3', 'keyring'}"
    script = f"import sys, hive_agents.workspace.credentials; print({heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
