"""A small knowledge base of two tenants, without vectors, and readers of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import known_principal
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.ranking import SearchEngine
from tests.conftest import make_workspace
from tests.folders import kept_folder

PEOPLE = {
    "tenants": {"acme": {"admins": ["user:root"]}, "globex": {"admins": []}},
    "principals": {
        "dana": {"tenant": "acme", "groups": ["qa"], "roles": ["reader", "approver"]},
        "guest": {"tenant": "acme"},
        "root": {"tenant": "acme", "roles": ["reader", "operator", "admin"]},
        "hana": {"tenant": "globex", "roles": ["reader", "approver"]},
    },
}


def _document(title: str, text: str, *, tenant: str = "acme", view: str = "tenant", **fields: str) -> str:
    lines = [f"title: {title}", f"tenant: {tenant}", f'view: ["{view}"]', *(f"{key}: {fields[key]}" for key in fields)]
    return "---\n" + "\n".join(lines) + f"\n---\n{text}\n"


def _pages() -> dict[str, str]:
    pages = {
        f"guides/g{n:02}.md": _document(
            f"Guide {n}",
            f"Guide number {n} explains the lamp. Turn the lamp off before you open it.",
            status="effective" if n % 2 else "draft",
            effective=f"2025-01-{n:02}",
        )
        for n in range(1, 26)
    }
    rotate = "To rotate a key, create a second key, deploy it, then revoke the first key. Keys cost nothing."
    return pages | {
        "faqs/rotate.md": _document("How to rotate a key", rotate, status="effective", effective="2025-03-01"),
        "faqs/lost.md": _document("A lost key", "A lost key is revoked at once. Tell support.", status="draft"),
        "sops/recall.md": _document(
            "Recall", "A recall of a batch takes two signatures.", view="group:qa", status="secret"
        ),
        "sops/globex.md": _document("Recall at Globex", "A recall takes one signature.", tenant="globex"),
    }


PAGES = _pages()


def make_knowledge_base(root: Path) -> Workspace:
    """Indexed, with `words` as the active config; documents and people as above."""
    place = make_workspace(root, embedding=False, documents=PAGES)
    (place.root / "access").mkdir()
    (place.root / "access" / "principals.json").write_text(json.dumps(PEOPLE), encoding="utf-8")
    (place.configs / "active.json").symlink_to("words.json")
    place.index()
    return place


def ask(
    place: Workspace,
    user: str,
    text: str,
    *,
    thread: str | None = None,
    engine: SearchEngine | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One turn; the engine is shared where one is given."""
    chat = Chat(place, known_principal(place, user), thread, engine=engine)
    return asyncio.run(chat.ask(Request(text=text, **more)))


def as_bytes(reply: dict[str, Any]) -> bytes:
    """A reply less its ids, for comparing what two readers are told."""
    return json.dumps({key: reply[key] for key in reply if key not in ("thread_id", "run_id")}).encode()


def use_models(place: Workspace, **roles: list[dict[str, Any]]) -> None:
    """Scripted models in hive.toml, one file of answers a role; only who is late is not waited for."""
    late = any("delay_seconds" in answer for answers in roles.values() for answer in answers)
    lines = [f'[models]\nembedding = "none"\ndeadline_seconds = {0.5 if late else 60.0}']
    for role, answers in roles.items():
        script = place.root / f"{role}.jsonl"
        script.write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
        lines.append(f'{role} = ["scripted:{script}"]')
    (place.root / "hive.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


@cache
def _pristine() -> Path:
    return make_knowledge_base(kept_folder("hive-chat-") / "workspace").root


def copied_knowledge_base(folder: Path) -> Workspace:
    return Workspace(shutil.copytree(_pristine(), folder, symlinks=True))


@cache
def knowledge_base() -> Workspace:
    """Shared by tests that change no file in it; others' threads are in it."""
    return copied_knowledge_base(_pristine().parent / "shared")


def place_with(root: Path, documents: dict[str, str], *keywords: str) -> Workspace:
    """An indexed workspace for the people of tests, whose collection has these filterable fields, too."""
    place = make_workspace(root, embedding=False, documents=documents)
    schema = place.root / "collections" / "kb.json"
    fields = json.loads(schema.read_text())
    fields["fields"] |= {name: {"type": "keyword", "filterable": True} for name in keywords}
    schema.write_text(json.dumps(fields))
    (place.root / "access").mkdir()
    (place.root / "access" / "principals.json").write_text(json.dumps(PEOPLE), encoding="utf-8")
    (place.configs / "active.json").symlink_to("words.json")
    place.index()
    return place
