"""Plain words become an intent, without a model: what isn't clearly a command is never taken for one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

Verb = Literal[
    "help",
    "list",
    "why",
    "tickets",
    "waiting",
    "spend",
    "workers",
    "actions",
    "stop",
    "pause",
    "resume",
    "start",
    "tell",
    "decide",
    "several",
    "unknown",
]


@dataclass(frozen=True)
class Intent:
    """`about` names a run or an agent in the asker's words; `words` are to be told, `value` are inputs to start with.

    `value` is None where the text after the agent's name is no JSON object. `asks` is true of a command with a
    question mark, "stop r1?", which may be none.
    """

    verb: Verb
    about: str = ""
    words: str = ""
    value: dict[str, Any] | None = None
    asks: bool = False


_POLITE = re.compile(
    r"^(?:(?:hey|hi|hello|dear|ok|okay|now|then|please|queen|so|and|could you|can you|would you|will you|would you mind"
    r"|i want you to|tell me|show me|give me|let me know)\b[\s,:!.-]*)+",
    re.IGNORECASE,
)
_COMMANDS: tuple[tuple[Verb, str], ...] = (
    ("stop", "stop|halt|kill|cancel|abort|terminate"),
    ("pause", "pause|suspend|freeze"),
    ("resume", "resume|continue|unpause|go on with"),
    ("start", "start|run|launch"),
    ("decide", "approve|reject|accept|decline|deny|decide|sign off"),
)
_REQUEST = re.compile(r"\b(?:could|can|would|will) you\b", re.IGNORECASE)
_TELL = re.compile(r"(?:tell|steer|say to|instruct)\s+([\w.-]+)\s*[:,]?\s*(?:that\s+)?(.+)", re.IGNORECASE | re.DOTALL)
_ANY = "|".join(words for _, words in _COMMANDS)
_SECOND = re.compile(rf"(?:\b(?:and|then|but)\b|[,;.])\s*(?:then\s+|please\s+)*(?:{_ANY}|tell)\b", re.IGNORECASE)
_QUESTIONS: tuple[tuple[Verb, str], ...] = (
    ("help", r"^help\b|what can (?:you|i)|^\?+$|how do i (?:use|talk)|which commands"),
    ("actions", r"\b(?:did|have|are) you (?:do|done|act)|your (?:last )?actions"),
    ("why", r"\bwhy\b|what (?:has )?happened|what(?:'s| is| went) wrong with|\bstuck\b|explain"),
    ("waiting", r"\bwaits?\b|waiting|approvals?|requests?\b|inbox|needs? (?:me|a person|an answer)|to decide|pending"),
    ("tickets", r"tickets?\b|problems?\b|escalations?\b|troubles?\b|unhealthy|\bwrong\b|alarms?\b"),
    ("spend", r"\bcosts?\b|spen[dt]|money|\busd\b|dollars?|tokens?\b|budgets?\b|expensive"),
    ("workers", r"\bagents?\b|\bworkers?\b|who (?:can|could|should)|capabilit"),
    ("why", r"\b(?:how is|how's|what is .* doing|logs?|details?|progress|status) (?:of |for )?[\w.-]*\d|\blogs?\b"),
    (
        "list",
        r"running|status|\blist\b|\bruns?\b|going on|active|busy|working|failed|paused|queued|stopped|\bdone\b",
    ),
)


def understand(text: str) -> Intent:
    """The intent of one message.

    >>> understand("Could you please stop r1?").verb, understand("why did you stop r1").verb
    ('stop', 'why')
    >>> understand("don't stop it").verb, understand("stop r1 and start digest").verb
    ('unknown', 'several')
    >>> understand("stop r1?").asks, understand("could you stop r1?").asks
    (True, False)
    >>> understand('start digest with {"topic": "bees"}').value
    {'topic': 'bees'}
    """
    said = text.strip()
    said = _POLITE.sub("", said).strip()
    asks = bool(re.search(r"[?\uff1f]\W*$", said)) and not _REQUEST.search(text[: text.find(said)])
    if not said and text.strip():
        return Intent("help")
    told = _TELL.fullmatch(said)
    if told:
        return Intent("tell", told[1], told[2].strip())
    for verb, words in _COMMANDS:
        found = re.match(rf"(?:{words})\b(?!')(.*)", said, re.IGNORECASE | re.DOTALL)
        if found:
            return replace(_command(verb, found[1].strip()), asks=asks)
    lowered = said.casefold()
    if re.match(r"(?:do not|don['’]?t|never)\b", lowered):
        return Intent("unknown")
    for verb, pattern in _QUESTIONS:
        if re.search(pattern, lowered):
            return Intent(verb, said)
    return Intent("unknown", said)


def _command(verb: Verb, rest: str) -> Intent:
    about, brace, tail = rest.partition("{")
    if _SECOND.search(about):
        return Intent("several")
    about = about.strip(" \n\t.!?\uff1f")
    if verb != "start":
        return Intent(verb, about)
    about = re.sub(r"\s+(?:with|on|for|using|input)\s*:?$", "", about, flags=re.IGNORECASE)
    return Intent("start", about, value=_object(brace + tail))


def _object(text: str) -> dict[str, Any] | None:
    if not text.strip():
        return {}
    try:
        value = json.loads(text.strip(" \n\t.!"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
