"""Random documents, readers and grants, and a word in each place of each document that gives its origin away."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import Principal
from hive_agents.ranking import build_index
from hive_agents.ranking.config import point_active
from tests.conftest import write_config, write_document

TENANTS = ("acme", "globex", "initech")
GROUPS = ("qa", "lab", "legal")
FOLDERS = ("guides", "sops", "notes")
STATUSES = ("effective", "draft", "retired")
WORDS = "assay balance beaker buffer column filter flask heater lamp mixer pump rotor sample valve".split()
COLLECTION: dict[str, Any] = {
    "name": "kb",
    "fields": {
        "title": {"type": "text"},
        "category": {"type": "keyword", "filterable": True},
        "status": {"type": "keyword", "filterable": True, "synonyms": {"effective": ["released"]}},
        "topic": {"type": "keyword", "filterable": True},
        "owner": {"type": "keyword", "filterable": True},
        "updated": {"type": "date", "filterable": True},
        "keeper": {"type": "keyword"},
        # Declared all the same: they must neither be shown nor filter.
        "tenant": {"type": "keyword", "filterable": True},
        "view": {"type": "keyword", "filterable": True},
        "content": {"type": "text"},
    },
    "chunking": {"strategy": "by_heading", "max_tokens": 512, "heading_level": 2},
}

# Where a word stands: title, body, heading, path, values (topic, owner, keeper), and what nobody is ever shown:
# a group of `view`, a field that isn't declared.
TEXT, VALUES, NEVER = "tbhk", "vo", "gs"
_CANARY = re.compile(r"zq([a-z])(\d{5})x", re.I)


def canary(place: str, number: int) -> str:
    return f"zq{place}{number:05d}x"


def canaries(text: str) -> set[tuple[str, int]]:
    """(place, number of the document) of every canary in a text, however it is marked."""
    plain = re.sub(r"</?mark>|\x1b\[[0-9;]*m", "", text)
    return {(place.lower(), int(number)) for place, number in _CANARY.findall(plain)}


@dataclass(frozen=True)
class Doc:
    number: int
    doc_id: str
    tenants: tuple[str, ...]
    view: tuple[str, ...]
    status: str
    words: tuple[str, ...]
    topic: str
    owner: str
    injected: str = ""

    @property
    def text(self) -> str:
        n, (first, second, *others) = self.number, self.words
        front = {
            "title": f"{first.title()} and {second} {canary('t', n)}",
            "tenant": list(self.tenants),
            "view": [*self.view, f"group:{canary('g', n)}"],
            "status": self.status,
            "topic": self.topic,
            "owner": self.owner,
            "keeper": canary("k", n),
            "updated": f"2025-{n % 12 + 1:02d}-{n % 28 + 1:02d}",
            "secret": canary("s", n),
        }
        lines = "\n".join(f"{name}: {json.dumps(value)}" for name, value in front.items())
        return (
            f"---\n{lines}\n---\nThe {first} is kept near the {second} for 9 days, says {canary('b', n)}."
            f" {self.injected}\n\n"
            f"## Care of the {others[0]} {canary('h', n)}\n\n"
            f"Clean the {others[0]} with the {first} once a week, or {canary('b', n)} fails. "
            f"The {' and the '.join(others)} stay dry.\n"
        )


@dataclass(frozen=True)
class Rules:
    """What `access/*.json` says: admins of tenants, and grants as (tenant, match, view)."""

    admins: tuple[tuple[str, str], ...] = ()
    grants: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def write(self, workspace: Workspace, readers: Iterable[Principal]) -> None:
        folder = workspace.root / "access"
        folder.mkdir(exist_ok=True)
        tenants = {name: {"admins": [who for tenant, who in self.admins if tenant == name]} for name in TENANTS}
        principals = {
            one.user: {"tenant": one.tenant, "groups": sorted(one.groups), "roles": sorted(one.roles)}
            for one in readers
        }
        grants = [{"tenant": tenant, "match": match, "view": list(view)} for tenant, match, view in self.grants]
        value = {"tenants": tenants, "principals": principals, "grants": grants}
        (folder / "rules.json").write_text(json.dumps(value), encoding="utf-8")

    def allows(self, reader: Principal, doc: Doc) -> bool:
        """By the words of the specification, not by our code."""
        subjects = {"tenant", f"user:{reader.user}", *(f"group:{group}" for group in reader.groups)}
        if reader.tenant not in doc.tenants:
            return False
        admin = any(tenant == reader.tenant and who in subjects for tenant, who in self.admins)
        granted = any(
            tenant == reader.tenant and _matches(match, doc.doc_id) and subjects & set(view)
            for tenant, match, view in self.grants
        )
        return admin or granted or bool(subjects & set(doc.view))


def _matches(match: str, doc_id: str) -> bool:
    return match in ("**", doc_id) or (match.endswith("/**") and doc_id.startswith(match[:-2]))


def readers(visit: object = "") -> list[Principal]:
    """Three of each tenant: a reader, an approver, an operator who also administers; each visit has its own."""
    roles = ({"reader"}, {"reader", "approver"}, {"reader", "operator", "admin"})
    return [
        Principal(tenant, f"{tenant}{n}{visit}", frozenset(GROUPS[n : n + 1]), frozenset(roles[n]))
        for tenant in TENANTS
        for n in range(3)
    ]


def random_documents(rng: random.Random, count: int, first: int = 1) -> list[Doc]:
    found = []
    for number in range(first, first + count):
        words = tuple(rng.sample(WORDS, 5))
        # A few values are shared between documents of different readers.
        shared = rng.random() < 0.3
        found.append(
            Doc(
                number=number,
                doc_id=f"{rng.choice(FOLDERS)}/{words[0]}-{canary('p', number)}.md",
                tenants=tuple(sorted(rng.sample(TENANTS, rng.choice((1, 1, 1, 2))))),
                view=tuple(rng.sample(("tenant", *(f"group:{group}" for group in GROUPS)), rng.choice((0, 0, 1, 2)))),
                status=rng.choice(STATUSES),
                words=words,
                topic=rng.choice(WORDS) if shared else canary("v", number),
                owner=rng.choice(("mei", "lucia")) if shared else canary("o", number),
            )
        )
    return found


def random_rules(rng: random.Random, documents: list[Doc], people: list[Principal]) -> Rules:
    grants = []
    for _ in range(rng.randrange(0, 5)):
        match = rng.choice((rng.choice(documents).doc_id, f"{rng.choice(FOLDERS)}/**", "**", "gone/**"))
        view = rng.choice(("tenant", f"group:{rng.choice(GROUPS)}", f"user:{rng.choice(people).user}"))
        grants.append((rng.choice(TENANTS), match, (view,)))
    admins = [(one.tenant, f"user:{one.user}") for one in people if "admin" in one.roles and rng.random() < 0.3]
    return Rules(tuple(admins), tuple(grants))


def make(root: Path, documents: Iterable[Doc], *, settings: str = "", embedding: bool = False) -> Workspace:
    """An indexed workspace of `documents` with an active config, and no rules yet."""
    (root / "collections").mkdir(parents=True)
    (root / "documents").mkdir()
    (root / "collections" / "kb.json").write_text(json.dumps(COLLECTION), encoding="utf-8")
    models = "" if embedding else '[models]\nembedding = "none"\n'
    (root / "hive.toml").write_text(settings if "[models]" in settings else models + settings, encoding="utf-8")
    workspace = Workspace(root)
    for doc in documents:
        write_document(workspace, doc.doc_id, doc.text)
    path = write_config(workspace, "v1", "hybrid" if embedding else "keyword")
    point_active(workspace, path)
    build_index(workspace)
    return workspace


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
