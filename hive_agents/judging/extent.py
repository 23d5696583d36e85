"""Of how much, of whom, and under which condition a claim says what its source says of less: all, only, if."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from hive_agents.judging.amounts import NUMBER_WORDS, UNITS
from hive_agents.judging.clauses import WORDS, Clause, Clauses, function_words, is_thing, meaning
from hive_agents.judging.passages import STOP
from hive_agents.judging.polarity import UNDER
from hive_agents.judging.roles import PLACES

_UNIVERSAL = re.compile(
    r"\b(?:all|every|each|any(?! (?:two|three|four|\d))|always|both|whole|entire|everyone|everybody|whoever|anyone|per"
    r"|any time|once a (?:day|week|month|year))\b"
)
LIMITED = re.compile(
    r"\b(?:some|most|many|few|several|only|certain|neither|usually|often|sometimes|mostly|one|half|part)\b"
)
_SWEEPING = re.compile(r"\b(?:always|everyone|everybody|anyone|anybody|whenever|at any ?time|in (?:any|every) case)\b")
_PERSONS = ("everyone", "everybody", "anyone", "anybody")
_ONE_OF = re.compile(r"\b(?:one|any|some) of (?:the|those|these|its|their) (\w+)")
_NARROWING = frozenset("over above under below that which who whose with without until from since".split())
_ONLY = re.compile(r"\b(?:only|except|just|atmost|alone|no other|not)\b")
_SPARED = re.compile(r"\b(?:unless|except)\b")
_FORMERLY = re.compile(r"\W*(?:before|previously|formerly|until now|in the past|so far),? ")
CONDITION = re.compile(r"\b(?:only )?(?:if|unless|except|provided(?: that)?)\b|\bonly (?:when|with|after|where)\b")
_PART = re.compile(r"[,;] |\bbut\b|\band (?=(?:is|are|has|have|can|may|must|will|does|needs?)\b)")


def extent(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield the claim's "all" where the clause speaks of some."""
    limited = LIMITED.search(clause.text) or CONDITION.search(clause.sentence) or "whenever" in clause.words
    for found in re.finditer(_SWEEPING, claim.text):
        chosen = found[0] in _PERSONS and re.search(r"\b(?:who|for \w+s)\b", clause.text)
        aside = re.search(r"\b(?:before|after|until|if|when|without|that) (?:\w+ )?$", claim.text[: found.start()])
        if not aside and found[0] not in clause.text and not _UNIVERSAL.search(clause.text) and (limited or chosen):
            yield "quantity", found[0]
    if "never" in claim.words and _SPARED.search(clause.sentence) and not CONDITION.search(claim.sentence):
        yield "condition", "never"
    if (one := _ONE_OF.search(claim.text)) and not _ONE_OF.search(clause.text):
        every = re.search(r"\ball (?:of )?(?:the |those |these |its |their )?(\w+)", clause.text)
        if every and meaning(every[1]) == meaning(one[1]):
            yield "quantity", one[0]
    if (one := re.search(r"\bif any (?:\w+ )?(\w+)", claim.text)) and "any" not in clause.words:
        every = re.search(r"\b(\w+) all\b|\ball (?:of )?(?:the |whose )?(?:\w+ )?(\w+)", clause.text)
        if every and meaning(one[1]) in map(meaning, filter(None, every.groups())):
            yield "quantity", "any"
    lone = re.search(r"\b([^\W_]{1,40}) only (?:in|on|at|with|for|to|during|by)\b", clause.text)
    wide = _UNIVERSAL.search(claim.text)
    told = "only" in claim.words or _UNIVERSAL.search(clause.text)
    if lone and wide and not told and meaning(lone[1]) in claim.stems:
        yield "quantity", wide[0]
    if any_ := re.search(r"\b(?:in|for|by|with|to|of) any (\w+)", claim.text):
        places = [at for at, word in enumerate(clause.words) if meaning(word) == meaning(any_[1])]
        narrowed = all({*clause.words[at + 1 : at + 2]} & _NARROWING for at in places)
        if places and narrowed and any_[0] not in clause.text:
            yield "quantity", any_[0]
    for found in re.finditer(r"\b(all|every|each|both)\b(?: of)?(?=((?: [^\W_]+(?:['’]s)?){0,6}))", claim.text):
        named = [word for word in WORDS.findall(found[2]) if word not in STOP][: 2 if found[1] == "all" else 1]
        nouns = {meaning(word) for word in named if is_thing(word)}
        if found[1] in clause.words or re.search(r"\b(?:no|not|none)\b", claim.text[: found.start()]):
            continue
        limits = [_limit(clause, at, found[1]) for at, word in enumerate(clause.words) if meaning(word) in nouns]
        if limits and all(limits):
            yield "quantity", found[1]


def _limit(clause: Clause, at: int, extent: str) -> bool:
    """Return whether a word of a clause is counted, or one thing of its kind, and not all."""
    ahead = clause.words[max(0, at - 5) : at]
    if _UNIVERSAL.search(" ".join(ahead)):
        return False
    if extent == "both":  # it may join two sentences
        return any(map(LIMITED.fullmatch, ahead))
    narrowed = at + 1 < len(clause.words) and clause.words[at + 1] in _NARROWING
    narrowed = narrowed or "only" in clause.words[:at]
    counted = narrowed or any(
        ((word in NUMBER_WORDS or word.isdigit()) and before != "the") or LIMITED.fullmatch(word)
        for before, word in pairwise(("", *ahead))
    )
    alone = not clause.words[at].endswith("s") and not (at and clause.words[at - 1] in ("a", "an") and clause.duty)
    return counted or alone or re.search(r"\bexcept\b", clause.sentence) is not None  # "a form must" is each form


def _only_under(clause: Clause) -> bool:
    """Return whether it is so under a condition only: only works when it is open."""
    return re.search(r"\b(?:if|when|once|after|while)\b", clause.text.partition("only ")[2]) is not None


def only(claim: Clause, clause: Clause) -> Iterator[tuple[str, str]]:
    """Yield where one says that it is so for one thing only, and the other speaks of another or of any."""
    for one, other in ((claim, clause), (clause, claim)):
        lone = re.search(r"(?<!-)\bonly (?:the |a |an )?([^\W\d_]+)(?= [^\W\d_]+)", one.text)
        if lone is None or LIMITED.fullmatch(lone[1]) or lone[1] in function_words() | PLACES | NUMBER_WORDS.keys():
            continue
        if _ONLY.search(other.sentence) or (_only_under(one) and UNDER.search(other.text)):
            continue
        said = next(Clause(part) for part in _PART.split(one.text) if "only" in part)
        shared = len(said.stems & other.stems)
        spoken = one is claim or shared > 1 or 2 * shared >= len(said.stems)
        if spoken and (one is claim or meaning(lone[1]) not in other.stems):
            yield "quantity", "only"
    every = re.search(r"\b(?:all|every|each|any)\b (?:of |the )*(?:[^\W\d_]+ )?([^\W\d_]+)", clause.text)
    if "only" in claim.words and every and meaning(every[1]) in claim.stems and not _UNIVERSAL.search(claim.text):
        yield "quantity", "only"
    joined = Clause(" ".join(re.split(r" (?:and|or) ", clause.text)[1:])).stems
    under = _only_under(claim) and UNDER.search(clause.text)
    lacking = bool(joined) and not joined & claim.stems and not under
    if lacking and "only" in claim.words and not _ONLY.search(clause.sentence):
        yield "quantity", "only"
    last = re.search(r"\b((?:\w+ ){1,5})only(?:$|[,.])", clause.text)
    stems = Clause(last[1]).stems if last else frozenset()
    parts = [len(Clause(part).stems & claim.stems) for part in re.split(r"[,;] ", clause.text) if "only" not in part]
    if stems and "only" not in claim.words and not stems & claim.stems and max(parts, default=0) < 2:
        yield "quantity", "only"


_UNTIL = re.compile(r"\buntil (?!after\b)(?:the |an? )?([^,.;()]{3,60})")
_WAITS = re.compile(r"\b(?:wait\w*|not|never|nobody|no|only|cannot)\b|n['’]t\b")
_BESIDE = re.compile(r"\b(before|after) ((?:(?! (?:before|after)\b)[^,.;()]){3,60})")
_WITHOUT = re.compile(r"\bwithout (?:any |an? |the |their |your )*((?:[\w'’-]+ ?){1,2})")


def past(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield where a claim begins before what the clause waits for, goes on after what ends it there, or does without
    what it needs there."""
    denied = _WAITS.search(claim.text) or claim.duty == "forbidden"
    if denied:
        return
    if (lacking := _WITHOUT.search(claim.text)) and "without" not in clause.words and not _WAITS.search(clause.text):
        things = Clause(lacking[1]).stems
        beside = rf"\bwith (?:an? |the )?{re.escape(lacking[1].strip())}\b"
        if things and things <= clause.stems and (clause.duty == "required" or re.search(beside, clause.text)):
            yield "condition", lacking[0].strip()
    if (until := _UNTIL.search(clause.text)) is None or _UNTIL.search(claim.text):
        return
    end, begun = Clause(until[1]).stems, Clause(clause.text[: until.start()]).stems
    waits = _WAITS.search(clause.text[: until.start()]) is not None
    for found in _BESIDE.finditer(claim.text):
        when = Clause(found[2]).stems
        told = claim.stems - when
        same = begun - {"wait"} <= told or source.weight(told & begun) >= 0.5 * source.weight(told)
        if end and 2 * len(end & when) >= len(end) and waits is (found[1] == "before") and same:
            yield "order", found[0]


def under_another(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield the case in which a claim has something be so that the clause says of another case."""
    mine, theirs = UNDER.search(claim.text), UNDER.search(clause.text)
    if mine is None or theirs is None or _WAITS.search(mine[0]):
        return
    case, other = ({one for one in Clause(found[0]).stems if is_thing(one)} for found in (mine, theirs))
    case, other = case - other, other - case
    if not case or not other or case & Clause(clause.sentence).stems or other & claim.stems:
        return
    main = claim.stems - case
    own = [source.weight(main & each.stems) for each in source.clauses if case & each.stems]
    told = source.weight(main & clause.stems) >= 0.75 * source.weight(main)
    if told and own and max(own) < 0.5 * source.weight(main):
        yield "condition", mine[0].strip()


def condition(claim: Clause, clause: Clause, source: Clauses) -> Iterator[tuple[str, str]]:
    """Yield what the clause says under a condition, and the claim without any word of it."""
    lacking = re.search(r"\bwithout (?:any |an? |the |being )?(\w{5,})", claim.text)
    if lacking and "without" not in clause.words and claim.duty in ("permitted", "free"):
        for found in CONDITION.finditer(clause.sentence):
            having = WORDS.findall(re.split(r"[,;.]", clause.sentence[found.end() :])[0])
            denied = found[0] in ("unless", "except") or {"no", "not"} & {*having}
            if not denied and any(lacking[1][:6] in word for word in having):
                yield "condition", lacking[0]
    if _FORMERLY.match(clause.text):
        return
    conditions = list(CONDITION.finditer(clause.sentence))
    boundless = re.search(r"\bany ?time\b|\balways\b", claim.text) is not None
    limited = CONDITION.search(claim.sentence) or re.match(r"(?:for|with|in|during|at|on) ", claim.sentence)
    if not conditions or limited or "without" in claim.words:
        return
    if re.search(r"\b(?:when|before|after|may|can|might|until|some|sometimes)\b", claim.sentence) and not boundless:
        return
    main, under = clause.sentence.partition(" because ")[0], set[str]()
    for found in conditions:
        rest = re.split(r"[,;.]", clause.sentence[found.end() :])[0]
        main = main.replace(rest, " ")
        under |= Clause(rest).stems
    told = {one for one in claim.stems if one not in UNITS and one not in ("tim", "anytim", "alway")}
    shared = Clause(main).stems & told
    if under and not under & told and source.weight(shared) >= 0.65 * source.weight(told):
        yield "condition", conditions[0][0]
