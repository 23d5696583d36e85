"""The settings of the workspace and its machine: models, schedules, the judge's thresholds, and the records.

What reaches elsewhere or runs code is the workspace owner's to change; other admins see it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import tomllib
from typing import Any

from starlette.responses import Response

from hive_agents.access import LOCAL_TENANT, service_principal
from hive_agents.base import HiveError
from hive_agents.base.files import load_value
from hive_agents.host import examine, moving, where
from hive_agents.judging import judge_stats
from hive_agents.models import price_of, probing
from hive_agents.server import colony
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.reading import settings_text
from hive_agents.server.pages.settings import changed, done_of, missing
from hive_agents.server.pages.view import Pages, seen_other
from hive_agents.store import FileChange, audit
from hive_agents.triggers import (
    TriggerSpec,
    TriggerStore,
    all_triggers,
    coming,
    files,
    reached_trigger,
    reaches,
    trigger_row,
)
from hive_agents.workspace import Workspace, is_trusted
from hive_agents.workspace.settings import FILE, Settings, describe_settings, with_values

pages = Pages()
MODELS, TRUST, SCHEDULES = "/settings/models", "/settings/trust", "/settings/schedules"
RECORDS, SIGN_IN = "/settings/records", "/settings/signin"
BACK_TO = {"signin": SIGN_IN, "trust": TRUST}
NEXT = 5
WORST = ("fail", "warn", "ok")
MENDED_AT = {"active config": "/optimize", "agents": "/colony", "chat models": MODELS, "collections": "/documents",
             "golden set": "/golden", "index": "/documents", "permissions": "/settings/people",
             "triggers": SCHEDULES, "trust": TRUST}  # fmt: skip
"""Where a person mends what a check of that name finds."""
OFTEN = {"hour": "{minute} * * * *", "day": "{minute} {hour} * * *", "workday": "{minute} {hour} * * 1-5",
         "week": "{minute} {hour} * * 1", "month": "{minute} {hour} 1 * *"}  # fmt: skip


@pages.get(MODELS, ADMIN, "settings_models.html")
def models(call: Call) -> dict[str, Any]:
    """The configured models with their roles, as the file says now."""
    return _models(call)


@pages.post(MODELS, ADMIN, "settings_models.html")
def change_models(call: Call) -> dict[str, Any] | Response:
    """Test the models, which asks each of them."""
    place = anew(call)
    tried = [(one.name, one.ok, probing.told_of(one) if one.ok else one.error, one.fix or _advice(one))
             for one in probing.probed(place, list(probing.configured_chat(place)))]  # fmt: skip
    embedding = probing.tried_embedding(place)
    tried.append((embedding.name, embedding.ok, embedding.error, embedding.fix))
    return _models(call) | {"tried": tried}


@pages.post("/settings/model", ADMIN, "settings_change.html")
def connect(call: Call) -> dict[str, Any] | Response:
    """Write an endpoint and its model to the settings, as the first that is asked, and trust both."""
    require_owner(call)
    name, url, model, place = call.sent("name"), call.sent("url"), call.sent("model"), anew(call)
    credential = f"model-{name}" if call.sent("keyed") else None
    for field in ("name", "url", "model"):
        if not call.sent(field):
            raise missing(field)
    reference = f"credential:{credential}" if credential else ""

    def made() -> list[FileChange]:
        before = settings_text(call)
        chain = [f"{name}:{model}", *(one for one in place.settings.models.chat if one != f"{name}:{model}")]
        after = with_values(before, "models", {"chat": chain})
        after = with_values(after, f"models.endpoints.{name}", {"base_url": url, "api_key_ref": reference})
        load_value(Settings, tomllib.loads(after), FILE)
        return [FileChange(FILE, before, after)]

    trusts = ["models.chat", f"models.endpoints.{name}"]
    return changed(call, made, MODELS, "connected", trusts=trusts, credential=credential)


@pages.post("/settings/restart", ADMIN, "settings_models.html")
async def restart(call: Call) -> Response:
    """End this host, which begins again with the settings of the file: a browser waits for it at the open socket."""
    require_owner(call)
    place, state = anew(call), call.request.app.state
    await call.in_thread(state.listener.require_fit, place)
    await call.in_thread(call.host.require_fit, place)
    call.host.restart(place)
    await state.closing.wait()  # or this server would answer what the browser asks for next
    answer = seen_other(f"{BACK_TO.get(call.sent('back'), MODELS)}?done=restarted")
    answer.headers["Connection"] = "close"  # it is closed in a moment, and the next request would be lost on it
    return answer


@pages.get(SCHEDULES, ADMIN, "settings_schedules.html")
def schedules(call: Call) -> dict[str, Any]:
    """The triggers, with the next times of each schedule."""
    sound, faulty = all_triggers(call.workspace)
    mine = [one for one in sound if reaches(call.workspace, one, call.reaches())]
    return {
        "rows": [
            (trigger_row(call.workspace, one), coming(call.workspace, one, NEXT), _may_change(call, one))
            for one in mine
        ],
        "faults": [one for error in faulty.values() for one in error.diagnostics],
        "agents": [one.id for one in colony.list_agents(call).agents if not one.diagnostics],
        "done": done_of(call),
    }


@pages.get("/settings/schedule", ADMIN, "settings_schedule.html")
def schedule(call: Call) -> dict[str, Any] | Response:
    """A new schedule of an agent, with the inputs that it needs."""
    wanted = call.request.query_params.get("agent", "")
    found = next((one for one in colony.list_agents(call).agents if one.id == wanted and not one.diagnostics), None)
    return seen_other(SCHEDULES) if found is None else {"agent": found, "often": OFTEN}


@pages.post("/settings/schedule", ADMIN, "settings_change.html")
def change_schedule(call: Call) -> dict[str, Any] | Response:
    """Write a new schedule, let one rest or go on, or remove one."""
    id, act, place = call.sent("id"), call.sent("act"), call.workspace
    if act == "write":
        spec = files.parse_trigger(json.dumps(_wanted(call)), f"triggers/{id}.json")
        _require_own_service(call, spec)
        return changed(
            call,
            lambda: [files.trigger_change(place, spec)],
            SCHEDULES,
            "written",
            then=lambda: TriggerStore(place).begin(spec, dt.datetime.now(dt.UTC)),
        )
    known = reached_trigger(place, id, call.reaches())
    _require_own_service(call, known)
    if act == "remove":
        return changed(
            call,
            lambda: [files.trigger_removal(place, id)],
            SCHEDULES,
            "removed",
            then=lambda: TriggerStore(place).forget(id),
        )
    other = known.model_copy(update={"enabled": act == "resume"})
    return changed(call, lambda: [files.trigger_change(place, other, anew=True)], SCHEDULES, "written")


@pages.get("/settings/judge", ADMIN, "settings_judge.html")
def judge(call: Call) -> dict[str, Any]:
    """The judge's thresholds, and what each rests on."""
    stats = judge_stats(call.workspace, tenant=None if is_owner(call) else call.principal.tenant)
    certified = {one["goal_type"]: one for one in audit.recorded(call.workspace, "judge.threshold")}
    return {"stats": stats, "certified": certified, "alpha": call.workspace.settings.judge.alpha}


@pages.get(RECORDS, ADMIN, "settings_records.html")
async def records(call: Call) -> dict[str, Any]:
    """Where the records are, whether this host can work, and what its settings say."""
    require_owner(call)
    place = call.workspace
    counts = await call.in_thread(moving.record_counts, place)
    described = await call.in_thread(describe_settings, place.root, os.environ)
    return {
        "where": where(place),
        "counts": [(name, number) for name, number in counts.items() if number],
        "faults": await call.host.faults(),
        "chosen": [one for one in described if one.source != "default"],
        "checks": [],
    }


@pages.post(RECORDS, ADMIN, "settings_records.html")
async def examined(call: Call) -> dict[str, Any]:
    """Examine the workspace and its machine in full, which asks the models, too; first what is wrong."""
    shown: dict[str, Any] = await records(call)
    found = await call.in_thread(examine, anew(call), names_documents=False)
    checks = [(one, MENDED_AT.get(one.name.partition(",")[0])) for one in found]
    return shown | {"checks": sorted(checks, key=lambda check: WORST.index(check[0].status))}


def _models(call: Call) -> dict[str, Any]:
    place = anew(call)
    settings = place.settings.models
    rows = [(name, roles, price_of(place.settings, name), _waits(place, name, roles))
            for name, roles in probing.configured_chat(place).items()]  # fmt: skip
    others = (("embedding", settings.embedding), ("reranker", settings.reranker))
    return {
        "rows": rows,
        "others": [(kind, name) for kind, name in others if name],
        "stale": settings != call.workspace.settings.models,
        "owner": is_owner(call),
        "tried": [],
        "done": done_of(call),
    }


def _waits(place: Workspace, name: str, roles: list[str]) -> bool:
    """Return whether a model isn't asked before it is trusted."""
    endpoint = name.partition(":")[0]
    keys = [f"models.{role}" for role in ("chat", *roles)]
    if endpoint in place.settings.models.endpoints:
        keys.append(f"models.endpoints.{endpoint}")
    return not all(is_trusted(place, key) for key in keys)


def _advice(one: Any) -> str:
    return "" if probing.is_fit(one) or not one.ok else probing.TAKE_A_LARGER


def anew(call: Call) -> Workspace:
    """Return the workspace with the settings that the file has now; the host goes on with those of its start."""
    return Workspace(call.workspace.root)


def _wanted(call: Call) -> dict[str, Any]:
    """Return the schedule that a form describes. Raises: HIVE-409 for a time that is none."""
    try:
        at = dt.time.fromisoformat(call.sent("at") or "00:00")
    except ValueError:
        fix = "write it as 08:30"
        raise HiveError.of("HIVE-409", "that is no time of day", path="at", fix=fix, exit_code=2) from None
    form = OFTEN.get(call.sent("often"), OFTEN["day"])
    sent: dict[str, list[str]] = call.request.state.sent
    inputs = {name.removeprefix("input."): values[0] for name, values in sent.items() if name.startswith("input.")}
    named = {"id": call.sent("id"), "type": "cron", "agent": call.sent("agent"), "input": inputs}
    return named | {"schedule": form.format(minute=at.minute, hour=at.hour), "timezone": call.sent("timezone") or "UTC"}


def _may_change(call: Call, spec: TriggerSpec) -> bool:
    """A schedule acts as the service, or person, of its name: a tenant's admin may make one of their tenant act."""
    return is_owner(call) or service_principal(call.workspace, spec.service).tenant == call.principal.tenant


def _require_own_service(call: Call, spec: TriggerSpec) -> None:
    """Raise HIVE-415 for a schedule that the caller may not change."""
    if not _may_change(call, spec):
        fix = f'name "service:{spec.id}" in access/*.json as one of your tenant, or ask the workspace\'s owner'
        raise HiveError.of("HIVE-415", "what this schedule acts as is not of your tenant", fix=fix, exit_code=1)


def is_owner(call: Call) -> bool:
    return call.principal.tenant == LOCAL_TENANT


def require_owner(call: Call) -> None:
    if not is_owner(call):
        fix = "sign in with a link of `hive open`, made on the machine that serves these pages"
        raise HiveError.of("HIVE-415", "the workspace's owner may do this", fix=fix, exit_code=1)
