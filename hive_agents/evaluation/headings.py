"""Questions out of headings, as somebody would ask them who hasn't seen the heading."""

from __future__ import annotations

import re

_HOW_TO = re.compile(r"(?i)^how\s+(?:to|do\s+i|can\s+i)\s+(.+)$")
_ASKS = re.compile(
    r"(?i)^(?:can|does|do|is|are|should|must|may|(?:what|when|where|who|which|why|how)\s+(?:is|are|was|do|does|did|can|should|must|may"
    r"|will|to|many|much|long|often)|(?:what|who)\s+\w+s)\s"
)
_CLAUSE = re.compile(r"(?i)^(?:what|when|where|who|which|why|how|about)\s+")
_LEAD = re.compile(
    r"(?i)^(?:(?:chapter|section|part|appendix)\s+[\w.]+[.:]?\s+)?(?:an?\s+|the\s+)?(?:(?:notes?|guides?|introduction|overview)\s+(?:about|to|on|of)\s+)?"
)
_CODE = re.compile(r"\w/\w|\s/|\w_\w|::|\(\)|(?:^|\s)--?\w")
_CONDITION = re.compile(r"(?i)^(?:if|when)\s+(.+)$")
_GERUND = re.compile(r"^([A-Z]\w{2,}ing)\s+(.+)$")
_ORDER = re.compile(
    r"(?i)^(add|allow|apply|archive|assign|attach|back\s+up|build|buy|calibrate|cancel|check|choose|clean|close|collect|compare"
    r"|configure|connect|convert|copy|create|customi[sz]e|define|delete|deploy|disable|download|edit|enable|export|find|fix|get"
    r"|grant|handle|import|install|invite|join|keep|label|launch|load|make|manage|measure|migrate|modify|monitor|mount|move|open"
    r"|order|pair|prepare|print|protect|publish|read|record|register|release|remove|rename|renew|replace|report|request|reset"
    r"|restart|restore|retire|return|revoke|roll\s+back|rotate|run|save|schedule|search|secure|select|send|set(?:\s+up)?|share"
    r"|sign|start|stop|store|submit|switch|sync|test|train|transfer|turn|uninstall|unlock|update|upgrade|upload|use|validate"
    r"|verify|view|write)\s+(?!(?:and|or|of|for|in|is|are)\b)(.+)$"
)
_ALSO_NOUN = re.compile(
    r"(?i)^(?:build|check|download|edit|export|fix|handle|import|label|load|measure|monitor|mount|move|order|print|read|record"
    r"|register|release|report|request|reset|return|run|schedule|search|set|share|sign|start|stop|store|switch|sync|test"
    r"|transfer|turn|update|upgrade|upload|use|view)\s+(?!(?:up|the|an?|your|all)\b)"
)
_PLURAL = re.compile(r"(?i)[^isu\W]s$")
_JOINED = re.compile(r"(?i)(?<!\w)(?:and|or|&)(?!\w)")
_FURTHER = re.compile(r"(?i)(?:^|\s)(?:of|for|in|on|with|to|from|by|at|under|per|between|after|before)\s|[(:,]")
_ARTICLE = re.compile(r"(?i)(?:the|an?)\s")
_OWNED = re.compile(r"(?i)(?:your|our|my|this|that|these|those|other|more|some|new)\s")
_SHOWN_LARGE = r"(?<=[a-z,;] ){}\b"
_MOST_OF_TITLE = 5


def asked(heading: str, title: str, text: str = "", language: str = "english") -> str:
    """Return a question that a heading answers; `title` is what stands above it, "" where that says no more.

    A word keeps its capital where the text writes it so within a sentence.

    >>> asked("Rotating the keys", "API tokens"), asked("Rate limits", "API tokens"), asked("Who may do it?", "x")
    ('how does rotating the keys work?', 'what are the rate limits for API tokens?', 'Who may do it?')
    >>> asked("Caddy core", "Architecture", "The Caddy core is small."), asked("Common Caddyfile Patterns", "")
    ('what is Caddy core?', 'what are common caddyfile patterns?')
    """
    if heading.endswith("?"):
        return heading
    if language == "german":
        return f"was bedeutet {heading}?"
    if _CODE.search(heading):
        return f"what does {heading} do?"
    bare = heading.rstrip(" .:!")
    words = _as_spoken(_without_lead(bare), re.sub(rf"(?m)^\W*{re.escape(heading)}\W*$", "", text))
    for form, question in ((_HOW_TO, "how do I {}?"), (_CONDITION, "what happens if {}?")):
        found = form.match(words)
        if found:
            return question.format(found[1])
    if _ASKS.match(words):
        return f"{words}?"
    about = _CLAUSE.match(words)
    if about:
        return f"what should I know about {words.removeprefix(about[0]) if about[0].lower() == 'about ' else words}?"
    if _ORDER.match(words) and not _ALSO_NOUN.match(words):
        return f"how do I {words[0].lower()}{words[1:]}?"
    if _GERUND.match(bare):
        return f"how does {words[0].lower()}{words[1:]} work?"
    return _of_a_thing(words, title)


def _of_a_thing(words: str, title: str) -> str:
    """Return what is asked about a thing that a heading names: where it is no name, within the document's."""
    is_name = any(word[:1].isupper() or not word.isalpha() for word in words.split())
    if _JOINED.search(words):
        plain = is_name or not _is_short(title)
        return f"what should I know about {words}?" if plain else f"how do {words} work in {title}?"
    if _FURTHER.search(words) or _OWNED.match(words):
        return f"what should I know about {words}?"
    be, of = ("are", "for") if _PLURAL.search(words) else ("is", "of")
    if is_name or _ARTICLE.match(words) or not _is_short(title):
        return f"what {be} {words}?"
    return f"what {be} the {words} {of} {title}?"


def _is_short(title: str) -> bool:
    """Return whether a title is a name that a question may hold, and no question or sentence."""
    return bool(title) and len(title.split()) <= _MOST_OF_TITLE and not (_ASKS.match(title) or title.endswith("?"))


def _without_lead(heading: str) -> str:
    """Return a heading without its number and without what only says that it is about something.

    >>> _without_lead("Chapter 1. A note about keys"), _without_lead("The default limits")
    ('keys', 'The default limits')
    """
    found = _LEAD.match(heading)
    topic = heading[found.end() :] if found else heading
    return topic if topic and len(topic.split()) < len(heading.split()) - 1 else heading


def _as_spoken(heading: str, text: str) -> str:
    """Return a heading with small letters, but for words that the text writes large within its sentences."""
    return " ".join(_spoken(word, text) for word in heading.split())


def _spoken(word: str, text: str) -> str:
    if not word[:1].isupper() or word != word.capitalize():
        return word
    written_large = re.search(_SHOWN_LARGE.format(re.escape(word)), text) is not None
    return word if written_large else word.lower()
