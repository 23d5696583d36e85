"""When two questions are the same one."""

from __future__ import annotations

import re
import unicodedata

_UNSEEN = re.compile("[\u115f\u1160\u3164\uffa0]")
"""Letters without a picture; all else that isn't seen is of a category of its own."""


def question_key(text: str) -> str:
    """A question without case, punctuation and what nobody sees: what makes two of them the same question.

    >>> question_key("How do I rotate a key?"), question_key("How do I ro\\u200btate\\u00a0a \\uff4bey")
    ('how do i rotate a key', 'how do i rotate a key')
    """
    plain = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    # A mark that composes with its letter has done so by now; the others only make a text look new to a program.
    plain = "".join(sign for sign in plain if unicodedata.category(sign) not in ("Mn", "Me", "Cf"))
    return " ".join(re.findall(r"\w+", plain.lower()))
