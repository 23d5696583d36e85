"""Questions made from headings, as a reader who hasn't seen the heading would ask them."""

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
_COMPLEMENT = re.compile(r"(?i)(?:^|\s)(?:of|for|in|on|with|to|from|by|at|under|per|between|after|before)\s|[(:,]")
_ARTICLE = re.compile(r"(?i)(?:the|an?)\s")
_DETERMINED = re.compile(r"(?i)(?:your|our|my|this|that|these|those|other|more|some|new)\s")
_CAPITALISED = r"(?<=[a-z,;] ){}\b"
_MOST_OF_TITLE = 5


def question_for(heading: str, title: str, text: str = "", language: str = "english") -> str:
    """Return a question that the section under a heading answers; `title` is the document's, "" to leave it out.

    A word stays capitalised where the text capitalises it within a sentence.

    >>> question_for("Rotating the keys", "API tokens"), question_for("Who may do it?", "x")
    ('how does rotating the keys work?', 'Who may do it?')
    >>> question_for("Rate limits", "API tokens")
    'what are the rate limits for API tokens?'
    >>> question_for("Caddy core", "Architecture", "The Caddy core is small.")
    'what is Caddy core?'
    >>> question_for("Common Caddyfile Patterns", "")
    'what are common caddyfile patterns?'
    """
    if heading.endswith("?"):
        return heading
    if language == "german":
        return f"was bedeutet {heading}?"
    if _CODE.search(heading):
        return f"what does {heading} do?"
    bare = heading.rstrip(" .:!")
    words = _in_sentence_case(_without_lead(bare), re.sub(rf"(?m)^\W*{re.escape(heading)}\W*$", "", text))
    for form, question in ((_HOW_TO, "how do I {}?"), (_CONDITION, "what happens if {}?")):
        match = form.match(words)
        if match:
            return question.format(match[1])
    if _ASKS.match(words):
        return f"{words}?"
    clause = _CLAUSE.match(words)
    if clause:
        topic = words.removeprefix(clause[0]) if clause[0].lower() == "about " else words
        return f"what should I know about {topic}?"
    if _ORDER.match(words) and not _ALSO_NOUN.match(words):
        return f"how do I {words[0].lower()}{words[1:]}?"
    if _GERUND.match(bare):
        return f"how does {words[0].lower()}{words[1:]} work?"
    return _about_noun(words, title)


def _about_noun(words: str, title: str) -> str:
    """Return a question about a noun phrase; unless it is a proper name, in the context of the title."""
    is_name = any(word[:1].isupper() or not word.isalpha() for word in words.split())
    if _JOINED.search(words):
        plain = is_name or not _is_short(title)
        return f"what should I know about {words}?" if plain else f"how do {words} work in {title}?"
    if _COMPLEMENT.search(words) or _DETERMINED.match(words):
        return f"what should I know about {words}?"
    be, of = ("are", "for") if _PLURAL.search(words) else ("is", "of")
    if is_name or _ARTICLE.match(words) or not _is_short(title):
        return f"what {be} {words}?"
    return f"what {be} the {words} {of} {title}?"


def _is_short(title: str) -> bool:
    """Return whether a title is short enough for a question, and no question or sentence."""
    return bool(title) and len(title.split()) <= _MOST_OF_TITLE and not (_ASKS.match(title) or title.endswith("?"))


def _without_lead(heading: str) -> str:
    """Return a heading without its number and lead-ins such as "a note about".

    >>> _without_lead("Chapter 1. A note about keys"), _without_lead("The default limits")
    ('keys', 'The default limits')
    """
    lead = _LEAD.match(heading)
    topic = heading[lead.end() :] if lead else heading
    return topic if topic and len(topic.split()) < len(heading.split()) - 1 else heading


def _in_sentence_case(heading: str, text: str) -> str:
    """Return a heading in lower case, except words that the text capitalises within sentences."""
    return " ".join(_lowered(word, text) for word in heading.split())


def _lowered(word: str, text: str) -> str:
    if not word[:1].isupper() or word != word.capitalize():
        return word
    capitalised = re.search(_CAPITALISED.format(re.escape(word)), text) is not None
    return word if capitalised else word.lower()
