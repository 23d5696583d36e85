"""What readers call common kinds and states of documents, and which words point at a field."""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["kind", "status", "person", "place", "team", "audience", "language", "topic", "other"]
DateRole = Literal["changed", "effective", "created", "expires", "due"]

GROUPS: tuple[tuple[str, ...], ...] = (
    ("effective", "in force", "in effect", "valid", "current", "active", "live"),
    ("draft", "unfinished", "work in progress", "wip"),
    ("retired", "obsolete", "superseded", "withdrawn", "archived", "outdated", "out of date", "deprecated", "expired"),
    ("pending", "in review", "under review", "awaiting approval", "waiting for approval"),
    ("approved", "signed off"),
    ("closed", "done", "resolved", "completed", "finished"),
    ("open", "unresolved", "ongoing"),
    ("rejected", "declined", "refused"),
    ("published", "released"),
    ("sop", "standard operating procedure", "procedure"),
    ("tutorial", "walkthrough", "how-to", "howto", "guide", "step-by-step guide", "lesson"),
    ("faq", "frequently asked question", "q&a"),
    ("changelog", "release note", "change log"),
    ("api doc", "api documentation", "api reference", "api page"),
    ("policy", "guideline"),
    ("contract", "agreement"),
    ("manual", "handbook"),
    ("runbook", "playbook"),
    ("hr", "human resources", "people team"),
    ("qa", "quality assurance", "quality"),
    ("it", "information technology"),
    ("ehs", "health and safety"),
    ("r&d", "research and development"),
    ("lab", "laboratory"),
    ("administrator", "admin"),
    ("developer", "dev"),
    ("en", "english"),
    ("de", "german"),
    ("fr", "french"),
    ("es", "spanish"),
    ("it", "italian"),
    ("nl", "dutch"),
    ("pt", "portuguese"),
    ("ja", "japanese"),
    ("zh", "chinese"),
)
"""Words for one thing: each stands for whichever of its group is a value of the field."""

KIND_NOUNS = frozenset(
    """sop procedure tutorial guide faq changelog policy contract agreement manual handbook runbook playbook report memo
    letter invoice form template checklist minutes agenda specification spec article note notice plan presentation
    proposal whitepaper reference certificate""".split()
)

_ROLES: tuple[tuple[Role, str], ...] = (
    ("kind", "category type kind genre section folder class doctype format"),
    ("status", "status state stage phase lifecycle"),
    ("person", "owner author assignee writer responsible creator editor contact approver reviewer"),
    ("place", "site location place country region office plant city building area"),
    ("team", "department team group unit division org organisation organization function"),
    ("audience", "audience reader readers role level"),
    ("language", "language lang locale"),
    ("topic", "tag tags tagged label labels topic topics keyword keywords subject subjects"),
)
_DATE_ROLES: tuple[tuple[DateRole, str], ...] = (
    ("changed", "updated modified changed revised edited change update modification revision"),
    ("effective", "effective valid issued issue published released publication release start from date"),
    ("created", "created added written creation"),
    ("expires", "expires expiry expiration expire end until valid_to valid_until"),
    ("due", "due deadline review next"),
)
CUE_NOUNS: dict[Role, frozenset[str]] = {
    role: frozenset(words.split()) for role, words in _ROLES if role not in ("language", "audience")
}
CUE_PREPOSITIONS: dict[Role, frozenset[str]] = {
    "place": frozenset({"at", "in", "from"}),
    "person": frozenset({"by"}),
    "audience": frozenset({"for"}),
    "language": frozenset({"in"}),
    "kind": frozenset({"in", "from", "within", "among", "across", "inside"}),
}
"""Before a value of such a field these restrict what is searched, in any sentence: "how … at Carrow"."""

DATE_CUES: dict[str, DateRole] = {
    **dict.fromkeys(
        [
            "changed",
            "updated",
            "modified",
            "revised",
            "edited",
            "change",
            "changes",
            "update",
            "updates",
            "new",
            "newer",
        ],
        "changed",
    ),
    **dict.fromkeys(["effective", "valid", "issued", "published", "released", "force"], "effective"),
    **dict.fromkeys(["created", "added", "written", "uploaded"], "created"),
    **dict.fromkeys(["expire", "expires", "expiring"], "expires"),
    **dict.fromkeys(["due"], "due"),
}


def parts(name: str) -> list[str]:
    """The words of a field's name.

    >>> parts("effectiveDate"), parts("doc_type")
    (['effective', 'date'], ['doc', 'type'])
    """
    return (
        re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").replace("-", " ").replace(".", " ").lower().split()
    )


def role_of(name: str) -> Role:
    """What a field is to a reader, by its name.

    >>> role_of("doc_type"), role_of("created_by"), role_of("colour")
    ('kind', 'person', 'other')
    """
    named = parts(name)
    if named[-1:] == ["by"]:
        return "person"
    for role, words in _ROLES:
        if any(part in words.split() for part in named[-1:] + named[:1]):
            return role
    return "other"


def date_role_of(name: str) -> DateRole | None:
    """
    >>> date_role_of("effective_date"), date_role_of("updated"), date_role_of("valid_until")
    ('effective', 'changed', 'expires')
    """
    named = parts(name)
    if named[:1] == ["valid"] and named[-1] in ("to", "until", "till"):
        return "expires"
    for role, words in _DATE_ROLES:
        if any(part in words.split() for part in named if part not in ("date", "from", "next")):
            return role
    return "effective" if "date" in named or "from" in named else None
