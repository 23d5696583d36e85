"""The files of `triggers/`: read, checked, written and removed."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hive_agents.access import LOCAL_TENANT, service_principal
from hive_agents.base import Diagnostic, HiveError, NotFound, did_you_mean, has_errors
from hive_agents.base.files import atomic_write_text, disk_errors, jsontext, load_value, remove
from hive_agents.store import FileChange, audit
from hive_agents.triggers.spec import CLASSES, SseTrigger, TriggerSpec, WebhookTrigger
from hive_agents.workspace import trust, trusted_bytes
from hive_agents.workspace.credentials import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hive_agents.access import Principal
    from hive_agents.workspace import Workspace

FOLDER, SERVICE = "triggers", "service:"
AGENT_VERSION = "agent_version"
"""The kind of audit entries of agents' deployments."""


def trigger_ids(workspace: Workspace) -> list[str]:
    return sorted(path.stem for path in workspace.json_files(FOLDER)[0])


def load_trigger(workspace: Workspace, id: str) -> TriggerSpec:
    """Return the trigger in `triggers/<id>.json`, checked at level 1 only.

    Raises: HIVE-107 (exit code 2) without such a file, else every fault of it (HIVE-101 to HIVE-113).
    """
    return _read(workspace, id)[0]


def sound_trigger(workspace: Workspace, id: str) -> TriggerSpec:
    """As `load_trigger`. Raises: also the faults of level 2, HIVE-431 for one that needs trust and has none."""
    spec, text = _read(workspace, id)
    found = check_trigger(spec, workspace, file=f"{FOLDER}/{id}.json", text=text)
    if has_errors(found):
        raise HiveError(found, exit_code=1)
    if _needs_trust(spec):
        trusted_bytes(workspace, workspace.root / FOLDER / f"{id}.json")
    return spec


def reaches(workspace: Workspace, spec: TriggerSpec, who: Principal | None) -> bool:
    """Return whether a principal may see and fire a trigger: one of their tenant or of the workspace.

    None is the workspace's owner, who may use all. Raises: the diagnostics of `access/*.json` where a file is faulty.
    """
    if who is None or who.tenant == LOCAL_TENANT:
        return True
    return service_principal(workspace, spec.service).tenant in (LOCAL_TENANT, who.tenant)


def is_anothers_service(workspace: Workspace, user: str, tenant: str) -> bool:
    """Return whether a trigger, trusted or not, would act as this user of `access/*.json`, and is not of the tenant:
    whoever is named so gets its runs."""
    name = user.removeprefix(SERVICE)
    for service in (spec.service for spec in _readable(workspace)):
        with suppress(HiveError):
            if service.removeprefix(SERVICE) == name and service_principal(workspace, service).tenant != tenant:
                return True
    return False


def reached_trigger(workspace: Workspace, id: str, who: Principal | None) -> TriggerSpec:
    """As `sound_trigger`; another tenant's trigger is unknown."""
    if who is not None and (
        id not in trigger_ids(workspace) or not reaches(workspace, load_trigger(workspace, id), who)
    ):
        raise _unknown(id)
    return sound_trigger(workspace, id)


def all_triggers(workspace: Workspace) -> tuple[list[TriggerSpec], dict[str, HiveError]]:
    """Return the valid triggers, by id, and the faults of the others, by file name."""
    sound: list[TriggerSpec] = []
    faulty = {str(found.file): HiveError([found]) for found in workspace.json_files(FOLDER)[1]}
    for id in trigger_ids(workspace):
        try:
            sound.append(sound_trigger(workspace, id))
        except HiveError as error:
            faulty[id] = error
    return sound, faulty


def parse_trigger(text: str, file: str) -> TriggerSpec:
    """Return the trigger in a text. Raises: every fault of level 1."""
    value = jsontext.parse(text, file)
    kind = value.get("type") if isinstance(value, dict) else None
    named = kind.lower() if isinstance(kind, str) else None
    if isinstance(value, dict) and named not in CLASSES:
        raise HiveError([_no_type(value, file, text)])
    return load_value(CLASSES[named or "cron"], value, file, text)


def check_trigger(
    spec: TriggerSpec, workspace: Workspace, *, file: str | None = None, text: str | None = None
) -> list[Diagnostic]:
    """Return the faults of level 2: the agent must exist, the secret must be a reference, and a webhook's its own.

    `text` gives lines.
    """
    file = file or f"{FOLDER}/{spec.id}.json"
    found = []
    agents = _agents(workspace)
    if spec.agent not in agents:
        fix = did_you_mean(spec.agent, agents, f"write agents/{spec.agent}.json")
        line = jsontext.line_of(text, ["agent"]) if text else None
        found.append(Diagnostic("HIVE-107", f'there is no agent "{spec.agent}"', file, "agent", fix, line))
    secret = secret_of(spec)
    if secret is not None and not is_reference(secret):
        # The value may be the secret itself, so no message shows it.
        fix = "store it with `hive credentials set NAME`, and write credential:NAME"
        line = jsontext.line_of(text, ["secret_ref"]) if text else None
        found.append(Diagnostic("HIVE-105", "that is no reference to a secret", file, "secret_ref", fix, line))
    for other in _readable(workspace) if isinstance(spec, WebhookTrigger) and spec.enabled else ():
        # A signature covers no name: what is signed for one webhook would count at the other.
        if isinstance(other, WebhookTrigger) and other.enabled and other.id != spec.id and secret == other.secret_ref:
            fix = "give each webhook a secret of its own, or disable one of them"
            message = f'the webhook "{other.id}" has the same secret'
            found.append(Diagnostic("HIVE-111", message, file, "secret_ref", fix))
    return found


def secret_of(spec: TriggerSpec) -> str | None:
    """Return the reference to a trigger's secret, None where it has none."""
    return spec.secret_ref if isinstance(spec, WebhookTrigger | SseTrigger) else None


def _needs_trust(spec: TriggerSpec) -> bool:
    """A stream's connection leads wherever its file says, whether or not it carries a secret."""
    return secret_of(spec) is not None or isinstance(spec, SseTrigger)


def write_trigger(workspace: Workspace, spec: TriggerSpec) -> str:
    """Write `triggers/<id>.json` and return its name.

    Raises: HIVE-111 (exit code 2) where it exists, every error of `check_trigger`, HIVE-114 where the folder is a link.
    """
    change = trigger_change(workspace, spec)
    atomic_write_text(workspace.root / change.file, change.after or "")
    if _needs_trust(spec):  # its owner has just made it
        trust(workspace, [change.file])
    return change.file


def trigger_change(workspace: Workspace, spec: TriggerSpec, *, anew: bool = False) -> FileChange:
    """Return the change that makes `triggers/<id>.json`, or writes it `anew`. Raises: as `write_trigger`."""
    file = f"{FOLDER}/{spec.id}.json"
    if not anew and spec.id in trigger_ids(workspace):
        fix = f"use another id, edit {file}, or `hive trigger remove {spec.id}` first"
        raise HiveError.of("HIVE-111", f'there is a trigger "{spec.id}"', file=file, path="id", fix=fix, exit_code=2)
    found = check_trigger(spec, workspace, file=file)
    if has_errors(found):
        raise HiveError(found, exit_code=1)
    before = jsontext.load_text(workspace.root / file, file) if anew else ""
    return FileChange(file, before, json.dumps(spec.to_json(), ensure_ascii=False, indent=2) + "\n")


def trigger_removal(workspace: Workspace, id: str) -> FileChange:
    """Return the change that removes `triggers/<id>.json`. Raises: HIVE-107 (exit code 2)."""
    _require_known(workspace, id)
    file = f"{FOLDER}/{id}.json"
    return FileChange(file, jsontext.load_text(workspace.root / file, file), None)


def remove_trigger(workspace: Workspace, id: str) -> str:
    """Remove `triggers/<id>.json` and return its name. Raises: HIVE-107 (exit code 2)."""
    change = trigger_removal(workspace, id)
    with disk_errors(workspace.root / change.file):
        remove(workspace.root / change.file)
    return change.file


def _readable(workspace: Workspace) -> Iterator[TriggerSpec]:
    for id in trigger_ids(workspace):
        with suppress(HiveError):
            yield load_trigger(workspace, id)


def _agents(workspace: Workspace) -> list[str]:
    """Return the agents with a file and the deployed ones, which serve without a file, too."""
    found = {path.stem for path in workspace.json_files("agents")[0]}
    with suppress(HiveError):  # a damaged log is no fault of the trigger; whether its agent runs is seen then
        found |= {str(entry["agent"]) for entry in audit.recorded(workspace, AGENT_VERSION)}
    return sorted(found)


def _read(workspace: Workspace, id: str) -> tuple[TriggerSpec, str]:
    _require_known(workspace, id)
    file = f"{FOLDER}/{id}.json"
    text = jsontext.load_text(workspace.root / file, file)
    spec = parse_trigger(text, file)
    jsontext.require_own_name("trigger", spec.id, id, file, text)
    return spec, text


def _require_known(workspace: Workspace, id: str) -> None:
    known = trigger_ids(workspace)
    if id not in known:
        raise _unknown(id, known)


def _unknown(id: str, known: Sequence[str] = ()) -> NotFound:
    fix = did_you_mean(id, known, "`hive trigger list` names those there are")
    return NotFound.of("HIVE-107", "there is no trigger of that name", file=FOLDER, path=id, fix=fix, exit_code=2)


def _no_type(value: dict[str, Any], file: str, text: str) -> Diagnostic:
    if "type" not in value:
        return Diagnostic("HIVE-106", '"type" is missing', file, "type", f"add it: {', '.join(CLASSES)}", 1)
    fix = did_you_mean(str(value["type"]), CLASSES, f"use one of {', '.join(CLASSES)}")
    shown = str(value["type"])[:40]
    return Diagnostic("HIVE-105", f'there is no type "{shown}"', file, "type", fix, jsontext.line_of(text, ["type"]))
