"""Commands and questions that the queen understands without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hive_agents.base.files import jsontext
from hive_agents.runs import ACTIVE, STATUSES

if TYPE_CHECKING:
    from hive_agents.runs import RunRow

Inquiry = Literal["help", "list", "why", "tickets", "waiting", "spend", "workers", "actions"]
CommandVerb = Inquiry | Literal["stop", "pause", "resume", "start", "tell", "decide", "unknown"]


@dataclass(frozen=True)
class Intent:
    """`about` names a run, an agent or a status; `words` are for the run, `inputs` to start an agent with.

    `inputs` are None where the text after the agent's name is no JSON object. `asks` is True for a command with a
    question mark, "stop r1?", which may be a question.
    """

    verb: CommandVerb
    about: str = ""
    words: str = ""
    inputs: dict[str, Any] | None = None
    asks: bool = False


_POLITE = re.compile(
    r"(?:(?:hey|hi|hello|dear|ok|okay|now|then|please|queen|so|and|could you|can you|would you|will you|tell me|show me"
    r"|give me)\b[\s,:!.-]*)*",
    re.IGNORECASE,
)
_SIGNS = r"[\s.!?\uff1f]"
_END = re.compile(
    rf"(?:(?<![\s,])[\s,]+(?:please|now|thanks|thank you){_SIGNS}*|(?<!{_SIGNS}){_SIGNS}*)$", re.IGNORECASE
)
_REQUEST = re.compile(r"\b(?:could|can|would|will) you\b", re.IGNORECASE)
_RUN = r"(?:the )?(?P<about>[\w.-]*\w)(?: runs?)?"
_STATUS = rf"(?P<about>active|{'|'.join(STATUSES)})"
_STUCK = r"(?: (?:still |so )?(?:stuck|hanging|slow|failing|not (?:running|done)|active|" + "|".join(STATUSES) + "))?"
_PHRASES: dict[CommandVerb, Sequence[str]] = {
    "help": ("help", r"what can (?:you|i) (?:do|ask)", r"\W+"),
    "waiting": (
        *(
            "waiting",
            "(?:any |list |list the )?(?:open |pending )?(?:approvals|requests)",
            "what is waiting(?: for me)?",
        ),
        "(?:which|what) (?:approvals|requests) (?:are there|(?:are )?(?:open|pending|wait|waiting)(?: for me)?)",
    ),
    "tickets": (
        "(?:any |are there |are there any |the |list |list the )?(?:open )?(?:tickets|problems)",
        "(?:which|what) (?:tickets|problems) are (?:there|open)",
    ),
    "spend": ("costs?", "(?:what|how much) did (?:it|they) cost", "how much money", "what have we spent"),
    "actions": ("actions", "what did you do"),
    "workers": (
        *(
            "(?:list |list the |the )?agents",
            "(?:which|what) agents (?:are there|do (?:you|we) have|can (?:i|you) start)",
        ),
        "(?:which agent|who) (?:can|could|should) (?P<about>.+)",
    ),
    "list": (
        *("status", "(?:list |list the )?runs", "what(?: is|'s) going on"),
        rf"(?:what is|what's|is anything|which(?: runs)? are|list|list the)? ?{_STATUS}(?: runs)?",
    ),
    "why": (
        *(rf"why (?:is |was |did you stop )?{_RUN}{_STUCK}", rf"what (?:has )?happened to {_RUN}"),
        *(rf"why (?:did|does|has) {_RUN} (?:stop|pause|wait|fail)(?:ped|d|ed)?", rf"what is {_RUN} waiting for"),
        *(rf"what(?: is|'s| went) wrong with {_RUN}", rf"(?:how|what) is {_RUN}(?: doing)?"),
        *(rf"is {_RUN} ok(?:ay)?", rf"(?:status|log|logs) of {_RUN}"),
    ),
    "stop": (rf"(?:stop|halt|kill|cancel|abort|terminate)(?: {_RUN})?",),
    "pause": (rf"(?:pause|suspend|freeze)(?: {_RUN})?",),
    "resume": (rf"(?:resume|continue|unpause|go on with)(?: {_RUN})?",),
    "start": (r"(?:start|run|launch)\s+(?P<about>[^{]*?)\s*(?:\b(?:with|on|for|using|input)\s*:?\s*)?(?P<json>\{.*)?",),
    "tell": (r"(?:tell|steer|instruct)\s+(?P<about>[\w.-]+)\s*[:,]?\s*(?:that\s+)?(?P<words>.+)",),
    "decide": (r"(?:approve|reject|accept|decline|deny|decide|sign off)\b(?P<about>.*)",),
}
_COMMANDS = [(verb, re.compile(one, re.I | re.S)) for verb, several in _PHRASES.items() for one in several]
_ALL = re.compile(r"all|every|everything|everybody|them", re.IGNORECASE)
_AGAIN = re.compile(r"\b(?:it|that|this|that one|this one|the run|the same)\b", re.IGNORECASE)
_ID = re.compile(r"r[0-9a-f]{6,}")
_LIKE_ID = re.compile(r"r(?:\d[0-9a-z]*|[0-9a-f]{6,})")


def understand(text: str) -> Intent:
    """Return the intent of a message; a command must have nothing else in it.

    >>> understand("Could you please stop r1?").verb, understand("stop r1 if it fails").verb
    ('stop', 'unknown')
    >>> understand("stop r1?").asks, understand("could you stop r1?").asks
    (True, False)
    >>> understand('start digest with {"topic": "bees"}').inputs
    {'topic': 'bees'}
    """
    message = text.strip()
    polite = _POLITE.match(message)
    assert polite is not None
    plain = _END.sub("", message[polite.end() :])
    if message and not plain:
        return Intent("help")
    asks = bool(re.search(r"[?\uff1f]\W*$", message)) and not _REQUEST.search(polite[0])
    for verb, pattern in _COMMANDS:
        found = pattern.fullmatch(plain)
        if found is not None:
            named = {name: value or "" for name, value in found.groupdict().items()}
            inputs = jsontext.object_in(named["json"].strip() or "{}") if verb == "start" else None
            return Intent(verb, named.get("about", ""), named.get("words", "").strip(), inputs, asks)
    return Intent("unknown", asks=asks)


def means_all(about: str) -> bool:
    """Return whether a command is for more than one run."""
    return _ALL.fullmatch(about) is not None


@dataclass(frozen=True)
class Target:
    """A run, or the `options` for the asker's choice, or the `unknown` name."""

    run: RunRow | None = None
    options: list[RunRow] = field(default_factory=list)
    unknown: str | None = None


def target(about: str, rows: Sequence[RunRow], last: Sequence[str]) -> Target:
    """Return the run of `rows`, newest first, that a text names: by its id, its beginning, or its agent.

    An agent's name means its active run, else its latest. `last` are the runs last spoken of, which "it" means, and
    also a text that names nothing.
    """
    words = re.findall(r"[\w.-]{0,200}\w", about)
    named = {row.run_id: row for word in words for row in rows if _is_id(word, row)}
    if named:
        return _one(list(named.values()))
    agents = {row.agent or row.graph for row in rows}
    missing = next((word for word in words if _LIKE_ID.fullmatch(word) and word not in agents), None)
    if missing is not None:
        return Target(unknown=missing)
    of_agent = [row for row in rows if (row.agent or row.graph) in words]
    if of_agent:
        return _one([row for row in of_agent if row.status in ACTIVE] or of_agent[:1])
    mentioned = [row for row in rows if row.run_id in last]
    if mentioned and (_AGAIN.search(about) or not words):
        return _one(mentioned)
    return Target(options=[row for row in rows if row.status in ACTIVE])


def _is_id(word: str, row: RunRow) -> bool:
    return word == row.run_id or (len(word) >= 5 and row.run_id.startswith(word) and bool(_ID.match(row.run_id)))


def _one(rows: list[RunRow]) -> Target:
    return Target(run=rows[0]) if len(rows) == 1 else Target(options=rows)
