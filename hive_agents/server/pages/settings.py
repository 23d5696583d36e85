"""The settings: pages of forms that work without scripts. A change of a file is shown before it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.responses import Response

from hive_agents import copilot
from hive_agents.access import (
    LOCAL_TENANT,
    AccessRules,
    GroupEntry,
    Principal,
    PrincipalEntry,
    access_change,
    asked_by,
    is_open,
    issued_tokens,
    known_principal,
    logins,
    mint,
    proofs,
    revoke,
)
from hive_agents.base import HiveError, NotFound, sha256
from hive_agents.base.files import load_value
from hive_agents.server.account import tenant_of
from hive_agents.server.address import is_loopback
from hive_agents.server.auth import ADMIN, Call
from hive_agents.server.pages.reading import (
    labelled,
    open_change,
    open_now,
    opens_until_named,
    reads_now,
    told_of_person,
)
from hive_agents.server.pages.view import Pages, seen_other
from hive_agents.server.signin import origin_of
from hive_agents.store import FileChange, edits
from hive_agents.triggers import files
from hive_agents.workspace import Workspace, trust, trusted
from hive_agents.workspace.credentials import CredentialStore
from hive_agents.workspace.settings import FILE

pages = Pages()
OWNERS = ("signin", "records")
"""Parts that the workspace's owner alone sees."""
PEOPLE, PERSON, GROUP, TOKENS = "/settings/people", "/settings/person", "/settings/group", "/settings/tokens"
LIFETIMES = {"hour": 3600, "day": 86_400, "month": 30 * 86_400, "year": 365 * 86_400}
FIRST_TENANT = "team"
"""The tenant of the first person, where nothing names one yet."""
RANKED = ("reader", "approver", "operator", "admin")
DONE = ("written", "removed", "ended", "revoked", "connected", "trusted", "made", "another", "restarted", "added")
"""What a page may say that it did."""


@pages.get("/settings", ADMIN, "settings.html")
def overview(call: Call) -> dict[str, Any]:
    """The parts of the settings."""
    parts = ("people", "readers", "tokens", "signin", "models", "trust", "agents", "schedules", "judge", "records")
    return {"parts": [one for one in parts if tenant_of(call) is None or one not in OWNERS]}


@pages.get(PEOPLE, ADMIN, "settings_people.html")
def people(call: Call) -> dict[str, Any]:
    """The people and groups of the caller's tenant; the owner's are all."""
    rules, tenant = AccessRules.load(call.workspace), tenant_of(call)
    known = [one for one in rules.principals.values() if tenant in (None, one.tenant)]
    return {
        "people": sorted(known, key=lambda one: (one.tenant, one.user)),
        "groups": [(name, *found) for name, found in sorted(_groups(rules).items()) if tenant in (None, found[0])],
        "faults": rules.faults,
        "ranked": RANKED,
        "whole": tenant is None,
        "tenants": tenants_in_use(call, rules),
        "opens": opens_until_named(call),
        "done": done_of(call),
        **known_names(call, rules),
    }


@pages.get(PERSON, ADMIN, "settings_person.html")
def person(call: Call) -> dict[str, Any]:
    """One person's entry, to be changed, with the folders that are shared with them, and a token for them to make."""
    known, rules = _own_person(call, call.request.query_params.get("user", "")), AccessRules.load(call.workspace)
    shared = [one for one in rules.grants if one.tenant == known.tenant and rules.subjects(known) & {*one.view}]
    folders = [one.match.removesuffix("/**") for one in shared]
    return {
        "person": known,
        "ranked": RANKED,
        "folders": folders,
        "reads": reads_now(call, rules, known.user),
        "whole": tenant_of(call) is None,
        "lifetimes": LIFETIMES,
        "made_for": proofs.made_for(call.workspace, known.user, known.tenant),
        **known_names(call, rules),
    }


@pages.post(PERSON, ADMIN, "settings_change.html")
def change_person(call: Call) -> dict[str, Any] | Response:
    """Write, remove or end a person; who is removed is ended, too.

    With the first person the workspace's owner goes on reading everything, if they say so.
    """
    user, act, place = call.sent("user"), call.sent("act"), call.workspace
    keeps = bool(call.sent("keep")) and opens_until_named(call)
    if act == "write":
        entry = _entry(PrincipalEntry, call, groups=names_in(call, "groups"), roles=call.all_sent("role"))
        if user in AccessRules.load(place).principals:
            _own_person(call, user)
        elif (tenant := tenant_of(call)) is not None and files.is_anothers_service(place, user, tenant):
            message = f'a schedule that is not of your tenant acts as "{user}"'
            fix = "choose another name, or ask the workspace's owner"
            raise HiveError.of("HIVE-415", message, fix=fix, exit_code=1)

        def written() -> list[FileChange]:
            return [*([open_change(call)] if keeps else []), access_change(place, "principals", user, entry)]

        told, opened = told_of_person(call, user, written()[-1], keeps=keeps), partial(open_now, place)
        return changed(call, written, PEOPLE, "written", then=opened if keeps else None, entries=True, told=told)
    known = _own_person(call, user)

    def end() -> None:
        copilot.end_person(place, user, known.tenant, asked_by(call.principal.user))

    if act == "remove":
        return changed(
            call, lambda: [access_change(place, "principals", user, None)], PEOPLE, "removed", then=end, entries=True
        )
    end()
    return seen_other(f"{PEOPLE}?done=ended")


@pages.get(GROUP, ADMIN, "settings_group.html")
def group(call: Call) -> dict[str, Any]:
    """A group's members, to be changed."""
    name = call.request.query_params.get("name", "")
    tenant, members = _own_group(call, name)
    known = known_names(call, AccessRules.load(call.workspace))
    return {"name": name, "tenant": tenant, "members": members, **known}


@pages.post(GROUP, ADMIN, "settings_change.html")
def change_group(call: Call) -> dict[str, Any] | Response:
    """Write or remove a group."""
    name, place, entry = call.sent("name"), call.workspace, None
    if call.sent("act") == "write":
        entry = _entry(GroupEntry, call, members=names_in(call, "members"))
        if name in _groups(AccessRules.load(place)):
            _own_group(call, name)
    else:
        _own_group(call, name)
    done = "written" if entry else "removed"
    return changed(call, lambda: [access_change(place, "groups", name, entry)], PEOPLE, done, entries=True)


@pages.get(TOKENS, ADMIN, "settings_tokens.html")
def tokens(call: Call) -> dict[str, Any]:
    """The tokens that were made here and haven't expired."""
    return _tokens(call)


@pages.post(TOKENS, ADMIN, "settings_tokens.html")
def change_tokens(call: Call) -> dict[str, Any] | Response:
    """Revoke a token, or make one, which is shown this once."""
    if call.sent("act") == "revoke":
        revoke(call.workspace, call.sent("jti"), by=asked_by(call.principal.user), tenant=tenant_of(call))
        return seen_other(f"{TOKENS}?done=revoked")
    user, ttl = call.sent("user"), LIFETIMES.get(call.sent("lifetime"), LIFETIMES["hour"])
    if not user and call.principal.tenant == LOCAL_TENANT:
        made = logins.owner_token(call.workspace, ttl)
    else:
        made = mint(call.workspace, _own_person(call, user), ttl, maker=call.principal, require=call.require_still)
    return _tokens(call) | {"made": made}


def _tokens(call: Call) -> dict[str, Any]:
    rules, tenant = AccessRules.load(call.workspace), tenant_of(call)
    return {
        "tokens": issued_tokens(call.workspace, tenant),
        "people": sorted(one.user for one in rules.principals.values() if tenant in (None, one.tenant)),
        "lifetimes": LIFETIMES,
        "whole": tenant is None,
        "owner": tenant is None and is_open(call.workspace),
        **_way_in(call),
        "made": None,
        "done": done_of(call),
    }


def _way_in(call: Call) -> dict[str, Any]:
    """Return where people sign in, and the name of the text that tells whether that is known to others."""
    at, listener = f"{origin_of(call.request, told=True)}/login", call.request.app.state.listener
    names = [name for name in call.workspace.settings.server.hosts if not is_loopback(name)]
    if not is_loopback(urlsplit(at).hostname or ""):
        return {"at": at, "use": "made_use"}
    if names:
        return {"at": f"{names[0]}/login", "use": "made_use"}
    return {"at": at, "use": "made_here" if is_loopback(listener.host) else "made_nearby"}


def tenants_in_use(call: Call, rules: AccessRules) -> list[str]:
    """Return the tenants that are in use for the workspace's owner to choose from, and one for the first person."""
    if tenant_of(call) is not None:
        return []
    known = {one.tenant for one in rules.principals.values()} | {one.tenant for one in rules.grants} | {*rules.admins}
    known |= {tenant for tenant, _ in rules.groups} | {call.workspace.settings.signin.tenant} - {""}
    if not known:  # else the documents, of which there may be many, aren't read
        known = {one for _, labels in labelled(call) for one in labels.tenants} - {LOCAL_TENANT}
    return sorted(known) or [FIRST_TENANT]


def _own_person(call: Call, user: str) -> Principal:
    """Return a person that the caller administers. Raises: HIVE-409 (404) for others as for none."""
    found, tenant = known_principal(call.workspace, user), tenant_of(call)
    if tenant not in (None, found.tenant):
        raise NotFound.of("HIVE-409", f'there is no principal "{user}"', file="access", fix="choose one of the list")
    return found


def _own_group(call: Call, name: str) -> tuple[str, list[str]]:
    found, tenant = _groups(AccessRules.load(call.workspace)).get(name), tenant_of(call)
    if found is None or tenant not in (None, found[0]):
        raise NotFound.of("HIVE-409", f'there is no group "{name}"', file="access", fix="choose one of the list")
    return found


def _groups(rules: AccessRules) -> dict[str, tuple[str, list[str]]]:
    """Return the tenant and the members of each group that names some."""
    found: dict[str, tuple[str, list[str]]] = {}
    for (tenant, user), names in sorted(rules.groups.items()):
        for name in names:
            found.setdefault(name.removeprefix("group:"), (tenant, []))[1].append(user)
    return found


def _entry(model: Any, call: Call, **given: Any) -> Any:
    return load_value(model, {"tenant": tenant_of(call) or call.sent("tenant"), **given}, "access")


def names_in(call: Call, field: str) -> list[str]:
    """Return the names that were ticked or written, between commas."""
    given = [name.strip() for sent in call.all_sent(field) for name in sent.split(",")]
    return list(dict.fromkeys(filter(None, given)))


def known_names(call: Call, rules: AccessRules) -> dict[str, list[str]]:
    """Return the people and the groups of the caller's tenant, of all for the owner, to choose from."""
    tenant = tenant_of(call)
    people = [one for one in rules.principals.values() if tenant in (None, one.tenant)]
    groups = {name for name, (of, _) in _groups(rules).items() if tenant in (None, of)}
    return {
        "known_people": sorted(one.user for one in people),
        "known_groups": sorted(groups.union(*(one.groups for one in people))),
    }


def missing(field: str) -> HiveError:
    return HiveError.of("HIVE-409", f"the {field} is missing", path=field, fix="fill it in", exit_code=2)


def done_of(call: Call) -> str | None:
    done = call.request.query_params.get("done")
    return done if done in DONE else None


def changed(
    call: Call,
    made: Callable[[], list[FileChange]],
    back: str,
    done: str,
    *,
    then: Callable[[], object] | None = None,
    trusts: Sequence[str] = (),
    entries: bool = False,
    credential: str | None = None,
    joins: int = 0,
    told: Sequence[tuple[str, dict[str, Any]]] = (),
) -> dict[str, Any] | Response:
    """Return the differences with a form to write them; once that came back, write them and return to the list.

    Differences that aren't those that were read are shown anew. Others' writing may be waited for: the caller's rights
    are looked up again before theirs. Of a file with `entries` of tenants an admin of one is
    shown the lines that are an entry of theirs. With `credential` the form below the difference asks for its key, which
    is stored with the change. `joins` counts documents that come to belong to a tenant by it, and `told` says in words
    what it does to whom. `trusts` are keys of hive.toml, whose parts are trusted as the change writes them.
    """
    read, key = call.sent("read"), call.request.state.sent.pop("key", [""])[0].strip()
    given = _trusted_with(call.workspace, made(), trusts) if trusts else []
    if read and credential is not None:
        if not key:
            raise missing("key")
        if edits.digest_of(made()) == read:  # first: settings name no key that isn't there
            CredentialStore(call.workspace, unattended=True).set(credential, key)

    def still_made() -> list[FileChange]:
        call.require_still()
        return made()

    if read and edits.write_changes(call.workspace, still_made, read, call.by):
        for name, text, _ in given:
            trust(call.workspace, [name], read=sha256(text))
        if then is not None:
            then()
        return seen_other(f"{back}?{urlencode({'done': done})}")
    sent: dict[str, Sequence[str]] = call.request.state.sent
    kept = [(name, value) for name, values in sent.items() if name not in ("csrf", "read") for value in values]
    changes, tenant = made(), tenant_of(call)
    shown = [(change.file, [line for line in change.lines if not entries or tenant is None or _is_of(line, tenant)])
             for change in changes]  # fmt: skip
    return {
        "changes": [(file, lines) for file, lines in shown if lines],
        "digest": edits.digest_of(changes),
        "kept": kept,
        "back": back,
        "another": bool(read),
        "asks_key": credential is not None,
        "joins": joins,
        "told": told,
        "trusts": [(name, text) for name, text, is_unread in given if is_unread],
    }


def _trusted_with(workspace: Workspace, changes: list[FileChange], keys: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return (name, text, is_unread) of the parts at these keys as they are after the change.

    Unread is what was there before, and wasn't trusted: a difference leaves out the lines of it that stay.
    """
    (settings,) = changes
    before, after = (trusted.setting_parts(workspace, text or "") for text in (settings.before, settings.after))
    untrusted = {one.name for one in trusted.parts(workspace) if one.status != "trusted"}
    names = [f"{FILE}: {key}" for key in keys]
    return [(name, after[name], name in before and name in untrusted) for name in names if name in after]


def _is_of(line: str, tenant: str) -> bool:
    """Return whether a line of a difference is one entry of a tenant: a person, a group or a grant.

    >>> [_is_of(line, "a") for line in ('+"x": {"tenant": "a"},', '-"x": {"tenant": "a"}, "y": {"tenant": "b"}', "-{")]
    [True, False, False]
    >>> _is_of('+    {"tenant": "a", "match": "**", "view": ["tenant"]}', "a")
    True
    """
    text = line[1:].strip().removesuffix(",")
    try:
        entries = json.loads(text if text.startswith("{") else f"{{{text}}}")
    except ValueError:
        return False
    listed = [entries] if text.startswith("{") else list(entries.values())
    return len(listed) == 1 and all(isinstance(one, dict) and one.get("tenant") == tenant for one in listed)
