"""What a message is for, before its words are matched with anything: a greeting, a question, a list, a chat."""

from __future__ import annotations

import re
from enum import Enum

_MOST_WORDS = 15
_POLITE = (
    r"(?:please|pls|plz|kindly|ok|okay|so|well|um+|sorry|excuse\sme|thanks|thank\syou|(?:hi|hello|hey)(?:\sthere|\sall|\steam|\severyone)?|dear\s\w+"
    r"|good\s(?:morning|afternoon|evening|day)|i\shope\syou(?:'re|\sare)\s(?:well|fine)|quick\squestion)"
)
_PREFIX = re.compile(
    rf"""^(?:{_POLITE}\b[\s,.!:;–-]*
    |i\s(?:was|am|'m)\s(?:just\s)?wondering\s(?:if|whether)?\s*(?:you\s(?:can|could)\s)?|i'm\swondering\s(?:if|whether)?\s*
    |(?:can|could|would|will)\s(?:you|u|someone|anybody|anyone)\s(?:be\sso\skind\s(?:as\s)?to\s|please\s|pls\s|maybe\s|kindly\s)*
    |(?:can|could|may)\s(?:i|we)\s(?:please\s)?(?=(?:see|get|have|view|list|browse)\b)
    |do\syou\s(?:happen\sto\s)?know\s(?:if|whether)?\s*|(?:tell|remind)\sme\s(?=how|why|what|when|where|who|if|whether|which|about)
    |(?:i'd|i\swould|we'd)\slike\sto\s(?:know\s)?|i\s(?:want|need)\sto\s(?:know\s)?|let\sme\sknow\s
    )""",
    re.X | re.I,
)
_SUFFIX = re.compile(r"\b(?:please|pls|plz|thanks|thank\syou|thx|many\sthanks)$", re.I)
_PHRASES = (
    r"hi|hello|hey+|hiya|howdy|yo|greetings|hallo|moin|good (?:morning|afternoon|evening|day|night)|morning|"
    r"thanks|thank you|thank u|thx|ty|cheers|many thanks|much appreciated|ok|okay|k|kk|great|cool|nice|perfect|"
    r"awesome|excellent|brilliant|wonderful|fine|good|super|sure|yes|yeah|yep|no|nope|alright|all right|got it|"
    r"i see|understood|makes sense|never ?mind|nvm|forget it|forget about it|sorry|oops|my bad|"
    r"wrong (?:window|chat|tab)|lol|rofl|(?:ha)+h?|(?:he){2,}|wow|hm+|well done|good (?:job|work|one)|"
    r"great (?:job|work|stuff)|nice (?:job|work|one)|bye|bye bye|goodbye|good ?night|see (?:you|ya)|"
    r"talk to you later|cya|that's all|that is all|that's it|all good|no worries|no problem|you're welcome|"
    r"welcome|please|have a (?:nice|good|great) (?:day|weekend|evening|one)|happy (?:birthday|new year|friday)|"
    r"merry christmas|test|testing|ping"
)
_FILLERS = (
    r"mate|man|buddy|folks|guys|dude|"
    r"a lot|a bunch|so much|very much|so|very|for (?:your|the) (?:help|time|answer|support)|for (?:that|this)|"
    r"there|everyone|all|team|later|then|now|again|tomorrow|you|and|that was|that's|it's|helpful|to you|too|"
    r"really|just|copilot|assistant"
)
_SMALL_TALK = re.compile(rf"(?:(?:{_PHRASES}|{_FILLERS})\s)+")
_SPEAKS = re.compile(rf"(?:^|\s)(?:{_PHRASES})\s")

_CHATTER = re.compile(
    r"""\b(?:tell|got|know|give|say|hear|have)\b.*\b(?:joke|riddle|fun\sfact|fairy\s?tale|bedtime\sstory)s?\b
    |\b(?:write|sing|compose|make|recite|tell)\b.*\b(?:poem|song|haiku|joke|rap|limerick|story|lullaby)\b
    |\bweather\b.*\b(?:like|today|tomorrow|outside|now|week|weekend|forecast)\b|^(?:how|what)\s(?:'s|is)\sthe\sweather
    |\b(?:is\sit|will\sit|it's|it\sis)\s(?:going\sto\s)?(?:be\s)?(?:rain|raining|snow|snowing|sunny)\b
    |^(?:who|what|when)\b.*\b(?:won|win|wins|winning|beat)\b.*\b(?:cup|match|game|election|league|bowl|championship|oscar|race)\b
    |\b(?:capital|president|prime\sminister|king|queen|population)\sof\s\w+$|\bmeaning\sof\slife\b
    |^(?:are|were|do|did)\s(?:you|u)\s(?:a|an|human|real|alive|there|ok|okay|like|love|feel|married|sentient|happy|sad|sleep|dream
      |tired|hungry|busy|smart|conscious|sure|have\sfeelings|have\sa\sname|speak)\b
    |^(?:you|u)(?:\s(?:'re|are|r))\s\w+(?:\s\w+){0,3}$|^(?:i|we)\s(?:really\s)?(?:love|like|hate|miss|adore)\s(?:you|u)\b
    |^(?:and\s)?how\s(?:are|r)\s(?:you|u|things)\b|^how\s(?:'s|is|was)\s(?:it\sgoing|your\s\w+|life|everything)|^what\s?(?:'s|is)?\sup$
    |^what\s(?:'s|is)\syour\s(?:name|favou?rite|age|job|purpose)\b|^how\sold\sare\syou|^who\s(?:made|built|created|trained)\syou
    |^where\s(?:are\syou\sfrom|do\syou\slive)|^who\sare\syou|^what\sare\syou$
    |^what\s(?:time|day|date)\sis\sit|^what\s(?:'s|is)\sthe\s(?:time|date)$|^what\sday\sis\s(?:it|today)
    |^(?:i\s(?:am|'m)|i'm)\s(?:bored|hungry|tired|happy|sad|sleepy)\b""",
    re.X,
)
_SUM = re.compile(
    r"^(?:(?:what's|what is|calculate|how much is)\s)?\d+\s?(?:[-+*/x×÷^]|plus|minus|times|divided by)\s?\d+[\s?=]*$",
    re.I,
)
_HELP = re.compile(
    r"""^(?:help|help\sme|help\splease|usage|commands|instructions)$
    |\bwhat\s(?:can|could|do|are|all\scan)\s(?:you|u)\s(?:do|able|know|help|capable|answer|offer|search|find)(?:\b(?!.*\b(?:about|on)\b))
    |^how\s(?:can|could|do|would|might)\s(?:you|u)\s(?:help|assist|support)(?:\sme|\sus)?$
    |^how\s(?:can|do|should|would|to)\s(?:i\s|we\s)?(?:use|work\swith|talk\sto|operate)\s(?:this|you|the\s(?:copilot|assistant|chat|bot))\b
    |^how\s(?:does|do)\s(?:this|you|this\s\w+|the\s(?:copilot|assistant|chat|bot))\s(?:work|operate)$
    |\bwhat\s(?:kinds?|sorts?|types?)\sof\s(?:questions?|things?|stuff)\s(?:can|could|may|should|do)\b
    |^what\s(?:can|could|may|should)\s(?:i|we)\s(?:ask|do|search|find|say)(?:\s(?:you|here|with\syou|with\sthis|for|about|in\shere|this))*$
    |^what\s(?:are|is)\syour\s(?:capabilit|abilit|feature|skill|function)
    |^what\s(?:filters?|fields?|categories)\s(?:can|are|do|could)\b""",
    re.X,
)
_CHANGE = r"(?:new|changed?|updated?|revised|modified|added|edited|published|issued|released)"
_LISTING = re.compile(
    rf"""^(?:and\s)?(?:list|show|display|give|gimme|get|find|fetch|see|view|browse|enumerate|search|bring|pull|return|retrieve|provide
      |filter|send|print|look|looking|need|want|overview|have|all|every|everything|anything|any|i\sneed|i\swant|i'm\slooking
      |i\sam\slooking|we\sneed|tell\sme\sabout|which\sof|what\sof)\b
    |^(?:is|are|were|was)\s(?:there|any|anything)\b|^(?:do|does|did)\s(?:we|you|they|i)\s(?:already\s)?have\b
    |^have\s(?:we|you)\b|^(?:what|which|anything|something)(?:\s(?:things?|else|all))?(?:\s(?:has|have|was|were|is|'s|are|got))?
      (?:\s(?:been|recently|all|there))*\s{_CHANGE}\b
    |^what\s(?:did|does|do|has|have)\s\w+(?:\s\w+)?\s(?:write|own|author|create|change|update|written|publish|maintain)\b
    |^(?:what|which)\s(?:'s|is|are)\s(?:the|our|your)\s(?:newest|latest|most\srecent|oldest)\b
    |^what\s(?:'s|is)\smine$
    |^where\s(?:can|could|do)\s(?:i|we)\s(?:find|see|get)\b""",
    re.X,
)
_DEFINITION = re.compile(
    r"\b(?:means?|meaning|meant by|definition|define[sd]?|stands? for|differences?|differs?|different|versus|vs"
    r"|distinguish)\b"
)


class Kind(Enum):
    """What a sentence does: a field's value restricts a list or a fragment; in a question it is a word like others."""

    LISTING = "asks for documents"
    QUESTION = "asks about content"
    DEFINITION = "asks what a word means"
    FRAGMENT = "no verb of its own"


def without_politeness(text: str) -> str:
    """
    >>> without_politeness("Hi, could you please tell me how pairing works?")
    'how pairing works?'
    """
    for _ in range(6):
        found = _PREFIX.match(text)
        if found is None or not found.end() or not text[found.end() :].strip(" ?!.,"):
            break
        text = text[found.end() :]
    shorter = _SUFFIX.sub("", text.rstrip(" ,.!?–-"))
    shorter = text if len(shorter) == len(text.rstrip(" ,.!?–-")) else shorter.rstrip(" ,.!?–-")
    return (shorter if any(sign.isalnum() for sign in shorter) else text).strip()


def is_sum(text: str) -> bool:
    """
    >>> is_sum("what is 2 + 2?"), is_sum("2025-03")
    (True, False)
    """
    return len(text) < 60 and bool(_SUM.match(text)) and not re.match(r"\d{4}-\d\d", text)


def is_small_talk(spoken: str) -> bool:
    """Greetings, thanks, and chat about anything but documents; `spoken` is lower-cased, words parted by one space."""
    if not spoken or spoken.count(" ") >= _MOST_WORDS:
        return False
    plain = re.sub(r" ('s|'re)\b", r"\1", spoken) + " "
    if _SMALL_TALK.fullmatch(plain) and _SPEAKS.search(plain):
        return True
    return bool(_CHATTER.search(spoken))


def asks_for_help(spoken: str) -> bool:
    """Whether the copilot itself is meant: what it can do, how it is used."""
    return spoken.count(" ") < _MOST_WORDS and bool(_HELP.search(spoken))


def is_listing(spoken: str) -> bool:
    return bool(_LISTING.search(spoken))


def is_definition(spoken: str) -> bool:
    return bool(_DEFINITION.search(spoken))
