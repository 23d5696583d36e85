"""Pages and their streams tell nothing of documents that whoever looks may not see, whatever their role."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from hive_agents import Workspace
from hive_agents.access import Principal, mint
from hive_agents.approvals import ApprovalStore, Filing
from hive_agents.server.pages.entrance import PARTS
from tests.leaks.corpus import Doc, Rules, canaries, canary, make, readers
from tests.pages.people import noting_agent
from tests.pages.test_optimize import searched
from tests.server.serving import SETTINGS, followed, served
from tests.server.test_leaks_http import OF_THE_MOMENT, QUESTIONS, TARGETS, WORDS, prepared, settled

ROLES = dict(zip(("reader", "approver", "operator"), readers(), strict=False))
TIMES = re.compile(
    r"(?<=<rect class=\"model\" )x[^>]*|(?<=<rect class=\"tool\" )x[^>]*|(?<=<rect class=\"judge\" )x[^>]*|"
    r"<code>[0-9a-f]{16}</code>|(?<=name=\"jti\" value=\")[0-9a-f]{24}|"
    r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|\b\d+(\.\d+)? ms\b|\b\d+\.\d+(?= s\b)"
)
CONFIG = "v9"
TRACED = re.compile(r"(?<=<td class=\"number\">)\d+\.\d\d|(?<=, audit log <code title=\")[0-9a-f]{64}\">[0-9a-f]{12}")
"""What is never the same twice: how long a step took, and where the audit log stood, which holds times."""


MACHINE = ("signin", "models", "trust", "agents", "schedules", "judge", "records")


def paths(run: str, thread: str, search: str, request: str, target: str) -> dict[str, list[str]]:
    """Each page by its route, and how it is asked for."""
    doc, words = quote(target, safe=""), quote(target)
    return {
        "/": ["/"],
        "/find": ["/find", f"/find?find={words}", "/find?find=rotor"],
        "/chat": ["/chat", f"/chat?about={doc}", f"/chat?search={words}"],
        "/chat/threads": ["/chat/threads", f"/chat/threads?search={words}"],
        "/chat/documents/{doc_id:path}": [
            f"/chat/documents/{doc}?query=rotor", f"/chat/documents/{doc}?run={run}",
            f"/chat/documents/open/1.md?run={run}&claim=0&n=1",
        ],
        "/chat/runs/{run_id}/why": [f"/chat/runs/{run}/why?doc_id={doc}", f"/chat/runs/{run}/why?doc_id=open/1.md"],
        "/chat/runs/{run_id}/passages": [
            f"/chat/runs/{run}/passages?doc_id={doc}", f"/chat/runs/{run}/passages?doc_id=open/1.md",
        ],
        "/chat/runs/{run_id}/others": [
            f"/chat/runs/{run}/others?search={words}", f"/chat/runs/{run}/others?search=rotor",
            f"/chat/runs/{run}/others?search=1",
        ],
        "/chat/runs/{run_id}/trace": [f"/chat/runs/{run}/trace"],
        "/chat/{thread_id}": [f"/chat/{thread}"],
        "/chat/{thread_id}/turns/{run_id}": [f"/chat/{thread}/turns/{run}"],
        "/documents": ["/documents", f"/documents?search={words}"],
        "/documents/rows": ["/documents/rows", f"/documents/rows?search={words}", "/documents/rows?search=rotor"],
        "/documents/try": [f"/documents/try?query={words}", "/documents/try?query=rotor"],
        "/documents/{doc_id:path}": [f"/documents/{doc}?query=rotor", "/documents/open/1.md?query=rotor"],
        "/golden": ["/golden", f"/golden?tag={words}"],
        "/golden/queries": ["/golden/queries", f"/golden/queries?tag={words}"],
        "/golden/worth": ["/golden/worth"],
        "/golden/label": [f"/golden/label?query={words}", "/golden/label?query=rotor"],
        "/golden/feedback": ["/golden/feedback", "/golden/feedback?status=accepted"],
        "/approvals": ["/approvals", "/approvals?status=all"],
        "/approvals/{request_id}": [f"/approvals/{request}", f"/approvals/{doc}"],
        "/optimize": ["/optimize"],
        "/optimize/{run_id}": [f"/optimize/{search}"],
        "/optimize/{run_id}/trials": [f"/optimize/{search}/trials"],
        "/optimize/compare/{before}/{after}": [f"/optimize/compare/v1/{CONFIG}"],
        "/optimize/configs/{name}": [f"/optimize/configs/{CONFIG}", f"/optimize/configs/{doc}"],
        "/colony": ["/colony", "/colony?status=done&graph=worker"],
        "/colony/compare": [f"/colony/compare?run={run}&run={search}", f"/colony/compare?run={run}&run={doc}"],
        "/colony/runs/{run_id}": [f"/colony/runs/{run}", f"/colony/runs/{run}?all=1"],
        "/settings": ["/settings"],
        "/settings/people": ["/settings/people"],
        "/settings/person": [f"/settings/person?user={words}"],
        "/settings/group": [f"/settings/group?name={words}"],
        "/settings/readers": ["/settings/readers", f"/settings/readers?folder={words}"],
        "/settings/tokens": ["/settings/tokens"],
        "/settings/agent": [f"/settings/agent?name={words}"],
        **{path: [path] for path in (f"/settings/{one}" for one in MACHINE)},
        "/settings/schedule": [f"/settings/schedule?agent={words}"],
    }  # fmt: skip


def test_every_page_is_looked_at() -> None:
    shown = {view.path for part in PARTS for view in part.pages.views if view.method == "GET"}
    assert shown == set(paths("r", "t", "r", "a", "x"))


def furnished(place: Workspace, *relevant: str) -> None:
    """A golden set, a second config, and who is whom."""
    queries = [
        {"id": f"q{n}", "query": f"where is the {word} kept?", "relevant": list(relevant), "distractors": [],
         "irrelevant": None, "tags": ["kept"], "split": ("train", "validation", "holdout")[n % 3]}
        for n, word in enumerate(("rotor", "pump", "lamp", "valve", "beaker", "buffer", "filter", "flask", "heater"))
    ]  # fmt: skip
    (place.root / "evals").mkdir(exist_ok=True)
    golden = {"collection": "kb", "k": 10, "queries": queries}
    (place.root / "evals" / "golden.json").write_text(json.dumps(golden), encoding="utf-8")
    config = json.loads((place.configs / "v1.json").read_text()) | {"name": CONFIG}
    config["retrieval"] = config["retrieval"] | {"top_k": 3}
    (place.configs / f"{CONFIG}.json").write_text(json.dumps(config))


async def shown(client: httpx.AsyncClient, path: str, headers: dict[str, str], part: bool) -> str:
    sent = headers | ({"HX-Request": "true"} if part else {})
    found = await client.get(path, headers=sent, follow_redirects=False)
    assert found.status_code < 500, found.text
    kept = {name: value for name, value in found.headers.items() if name not in OF_THE_MOMENT | {"content-length"}}
    return f"{found.status_code} {json.dumps(kept)} {found.text}"


async def changes(client: httpx.AsyncClient, headers: dict[str, str], text: str) -> tuple[str, dict[str, str]]:
    """What the stream of changes tells while a question is answered, and the question's run."""
    told: set[str] = set()
    async with client.stream("GET", "/api/changes", headers=headers) as response:
        lines = response.aiter_lines()
        run: dict[str, str] | None = None
        async for line in lines:
            told.add(settled(line))
            if run is None:
                sent = await client.post("/api/runs", json={"input": {"text": text}}, headers=headers)
                run = sent.json()
                await followed(client, run["events"], headers)
            elif run["run_id"] in line:
                break
    assert run is not None
    return "\n".join(sorted(told)), run


async def every_page(place: Workspace, who: Principal) -> dict[str, str]:
    told: dict[str, str] = {}
    headers = {"Authorization": f"Bearer {mint(place, who).token}"}
    search = searched(place, 3, owner=ROLES["operator"])
    filing = Filing(kind="question", title="Which one?", requester="user:kim", tenant=who.tenant,
                    context={"documents": ["open/1.md"], "question": "this one?"})  # fmt: skip
    request = ApprovalStore(place).file(filing).id
    async with served(place) as client:
        for n, (question, target) in enumerate(zip(QUESTIONS, [*TARGETS, "open/1.md"], strict=True)):
            if "reader" in who.roles:
                told[f"changes {n}"], run = await changes(client, headers, question)
            else:
                run = {"run_id": "r000", "thread_id": "t000"}
            for route, asked in paths(run["run_id"], run["thread_id"], search, request, target).items():
                for m, path in enumerate(asked):
                    if n and not any(each in path for each in (*run.values(), quote(target), quote(target, safe=""))):
                        continue  # it was asked before
                    for part in (False, True) if n == 0 else (True,):
                        told[f"{route} {m} of {n}, {'part' if part else 'whole'}"] = await shown(
                            client, path, headers, part
                        )
    return told


def comparable(name: str, text: str) -> str:
    if name.startswith("/chat/runs/{run_id}/trace"):
        text = TRACED.sub("ONCE", text)
    text = TIMES.sub("TIME", settled(text))
    # What happened within one second is in the order of ids, which are random.
    return "\n".join(sorted(re.split(r"\n|(?=</?[lotu])", text)))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
async def test_no_page_knows_whether_there_are_documents_that_its_reader_may_not_see(tmp_path: Path, role: str) -> None:
    found = []
    for name, hidden in (("a", 0), ("b", 500)):
        place = prepared(tmp_path / name, hidden)
        furnished(place, "open/1.md")
        found.append(await every_page(place, ROLES[role]))
    without, beside = found
    assert list(without) == list(beside)
    for name, text in without.items():
        told = {(kind, number) for kind, number in canaries(beside[name]) if number >= 1000}
        assert told <= canaries(" ".join([*QUESTIONS, *TARGETS])), name  # the asker's own words
        assert comparable(name, beside[name]) == comparable(name, text), name
        if name.startswith("/optimize/compare/") and role != "operator":
            assert text.startswith("403 "), "who measures is told figures, and nobody else"
    if "reader" in ROLES[role].roles:
        assert any(canaries(text) for text in without.values()), "one's own documents are there"


SECRET, OPEN = 2, 1


@pytest.mark.slow
async def test_no_page_tells_of_a_document_that_was_taken_away(tmp_path: Path) -> None:
    """It was found, quoted, labelled, spoken about, tried and asked about by those who could view it then."""
    place = make(
        tmp_path / "ws",
        [Doc(n, f"{folder}/{canary('p', n)}.md", ("acme",), (), "effective", WORDS[:5], canary("v", n), canary("o", n))
         for n, folder in ((OPEN, "open"), (SECRET, "lost"))],
        settings=SETTINGS,
    )  # fmt: skip
    people = readers()
    before = Rules(grants=(("acme", "**", ("tenant",)),))
    before.write(place, people)
    secret, doc_id = f"lost/{canary('p', SECRET)}.md", f"open/{canary('p', OPEN)}.md"
    furnished(place, secret, doc_id)
    search = searched(place, 3, owner=ROLES["operator"])
    quoted = f"it says {canary('b', SECRET)}"
    noting_agent(place, {"filename": "note.txt", "text": quoted}, quoted, searches="rotor")
    async with served(place) as client:
        headers = {name: {"Authorization": f"Bearer {mint(place, who).token}"} for name, who in ROLES.items()}
        body = {"graph": "event_loop", "agent": "writer", "input": {}}
        agent = (await client.post("/api/runs", json=body, headers=headers["operator"])).json()["run_id"]
        while not (waiting := (await client.get(f"/api/runs/{agent}", headers=headers["operator"])).json())[
            "approval_ids"
        ]:
            assert waiting["run"]["status"] in ("queued", "running", "waiting"), waiting
            await asyncio.sleep(0.05)
        of_agent = [f"/approvals/{waiting['approval_ids'][0]}", f"/colony/runs/{agent}"]
        for path in of_agent:
            assert quoted in await shown(client, path, headers["operator"], True), "while it may be viewed"
        for name in ("reader", "operator"):
            _, run = await changes(client, headers[name], "how long is the rotor kept near the pump?")
            found = (await client.get(f"/api/runs/{run['run_id']}", headers=headers[name])).json()["result"]
            assert SECRET in {number for _, number in canaries(json.dumps(found))}
            said = {"run_id": run["run_id"], "verdict": "outdated", "doc_id": secret, "comment": "old"}
            assert (await client.post("/api/feedback", json=said, headers=headers[name])).status_code == 201
            context = {"documents": [secret, doc_id], "question": "this one?"}
            filing = Filing(kind="question", title="Which one?", requester="user:kim", tenant="acme", context=context)
            request = ApprovalStore(place).file(filing).id
            Rules(grants=(("acme", "open/**", ("tenant",)),)).write(place, people)
            every = paths(run["run_id"], run["thread_id"], search, request, doc_id)
            for role, proof in headers.items():
                for path in [*(path for asked in every.values() for path in asked), *of_agent]:
                    for part in (False, True):
                        text = await shown(client, path, proof, part)
                        left = {kind for kind, number in canaries(text) if number == SECRET}
                        assert not left, f"{path} tells {role} of it: {sorted(left)}"
            before.write(place, people)
