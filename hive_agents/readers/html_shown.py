"""What a browser shows of a page's controls, drawings and formulas, as text; and what is left out, counted by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from bs4 import BeautifulSoup, Tag
from bs4.element import NavigableString

from hive_agents.readers.linear_math import linear

_UNSEEN = "script, style, template, noscript, [hidden], datalist, dialog:not([open])"
_ADDRESSES = ".headerlink, .permalink, .linenos, .skip-link"
"""Marks beside headings and lines, which no text needs."""
_NAVIGATION = (
    "nav, [role=navigation], [role=search], [role=banner], [role=contentinfo], .sphinxsidebar, .related, .navheader,"
    " .navfooter, .nav, .breadcrumb, .breadcrumbs"
)
_WITHIN = ["article", "blockquote", "figure", "li", "dd", "td"]
"""Elements whose <footer> says something about them."""
_ASKING = "input[type=search], input[type=password]"
_SEARCH = re.compile(r"(?i)search|login|log-in|signin|sign-in|newsletter|subscribe")
_CONTENT_OF_A_FORM = ["p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "article", "main", "section", "ul", "ol", "dl"]
_TYPED = frozenset({"", "text", "email", "number", "date", "datetime-local", "time", "month", "week", "url", "tel"})
_OPENS = re.compile(r"(?i)accordion|collaps|expand|toggle|faq|question|disclosure|tab\b")
_IN_A_TITLE = ["h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"]
_MOSTLY_LINKS = 0.6
_FORMULAS = {
    "mfrac": "fraction",
    "msup": "above",
    "mover": "above",
    "msub": "below",
    "munder": "below",
    "msubsup": "both",
    "munderover": "both",
    "msqrt": "root",
    "mroot": "nth root",
}


def as_shown(soup: BeautifulSoup) -> Counter[str]:
    """Change a page in place: without what isn't its content, and with its controls and formulas as text.

    Return the number of parts with words that were left out, by kind.
    """
    left_out: Counter[str] = Counter()
    remove(soup.select(f"{_UNSEEN}, {_ADDRESSES}"))
    remove(soup.select(_NAVIGATION), left_out, "parts of navigation")
    remove(filter(_is_beside, soup.find_all("aside")), left_out, "parts of navigation")
    remove(filter(_is_page_footer, soup.find_all("footer")), left_out, "footers of pages")
    for form in soup.find_all("form"):
        if _is_question(form):
            remove([form], left_out, "forms for searching and signing in")
        else:
            form.name = "div"
    _buttons(soup, left_out)
    for control in soup.find_all(["input", "select", "textarea"]):
        if control.name == "select":
            _choose(control, left_out)
        control.replace_with(_value(control))
    for name, kind in (("iframe", "embedded pages"), ("object", "embedded objects"), ("video", "videos")):
        remove(soup.find_all(name), left_out, kind, always=True)
    _drawings(soup, left_out)
    _readings(soup)
    _formulas(soup)
    for legend in soup.find_all(["legend", "summary"]):
        legend.name = "p" if legend.find(_IN_A_TITLE[:6]) is None else "div"
    for line_break in soup.select("pre br"):
        line_break.replace_with("\n")
    for line in soup.select("pre div, pre li, pre p"):
        if not line.get_text().endswith("\n"):
            line.append("\n")
    return left_out


def mostly_links(element: Tag) -> bool:
    """Return whether an element has links, and hardly any other words."""
    links = sum(_words(link) for link in element.find_all("a"))
    return links > 0 and links >= _MOSTLY_LINKS * _words(element)


def _words(element: Tag) -> int:
    return len(element.get_text(" ").split())


def remove(
    elements: Iterable[Tag], left_out: Counter[str] | None = None, kind: str = "", *, always: bool = False
) -> None:
    """Remove elements; those with words, or with `always` all, are counted as left out where a `kind` is said."""
    for element in list(elements):
        if element.decomposed:
            continue
        if left_out is not None and (always or re.search(r"\w", element.get_text())):
            left_out[kind] += 1
        element.decompose()


def _is_beside(aside: Tag) -> bool:
    return mostly_links(aside)


def _is_page_footer(footer: Tag) -> bool:
    return footer.find_parent(_WITHIN) is None or mostly_links(footer)


def _is_question(form: Tag) -> bool:
    """Return whether a form is a search or a login, not a wrapper or a filled form."""
    if form.find(_CONTENT_OF_A_FORM) is not None and form.find("h1") is not None:
        return False
    names = [*(form.get("class") or []), *(str(form.get(name) or "") for name in ("id", "action", "role", "name"))]
    named = any(_SEARCH.search(name) for name in names)
    return (named or form.select_one(_ASKING) is not None) and _words(form) < 40


def _buttons(soup: BeautifulSoup, left_out: Counter[str]) -> None:
    """Keep the buttons that are a heading, or open what is below them; the others act on the page."""
    for button in soup.select("button, [role=button]"):
        if button.decomposed:  # within another
            continue
        names = [*(button.get("class") or []), *(button.parent.get("class") or [] if button.parent else [])]
        if button.find_parent(_IN_A_TITLE) is not None:
            button.unwrap()
        elif button.name != "button" or button.get("aria-expanded") or button.get("aria-controls"):
            button.name = "p" if button.name == "button" else button.name
        elif any(_OPENS.search(name) for name in names) or button.get("role") == "tab":
            button.name = "p"
        else:
            remove([button], left_out, "buttons")


def _choose(select: Tag, left_out: Counter[str]) -> None:
    """Remove the options that aren't chosen; a browser chooses the first where none is."""
    options = select.find_all("option")
    chosen = [option for option in options if option.has_attr("selected")]
    if not chosen and not select.has_attr("multiple"):
        chosen = options[:1]
    remove([option for option in options if option not in chosen], left_out, "options that aren't chosen")


def _value(control: Tag) -> str:
    """Return the text that a control shows: a mark, what was typed, or what was chosen."""
    if control.name == "textarea":
        return control.get_text()
    if control.name == "select":
        chosen = ", ".join(" ".join(option.get_text(" ").split()) for option in control.find_all("option"))
        return f"{chosen} " if isinstance(control.next_sibling, Tag) else chosen
    kind = str(control.get("type") or "").lower()
    if kind in ("checkbox", "radio"):
        after = control.next_sibling
        space = "" if isinstance(after, NavigableString) and str(after)[:1].isspace() else " "
        return ("[x]" if control.has_attr("checked") else "[ ]") + space
    return str(control.get("value") or "") if kind in _TYPED else ""


def _drawings(soup: BeautifulSoup, left_out: Counter[str]) -> None:
    """Give drawings as their words, and count the pictures that have none."""
    for drawing in soup.find_all("svg"):
        words = " ".join(text.get_text(" ") for text in drawing.find_all("text"))
        drawing.replace_with(f" {' '.join(words.split())} " if words.strip() else "")
    for picture in soup.find_all("img"):
        if picture.get("alt") is None and picture.find_parent("a") is None:
            left_out["pictures without text"] += 1


def _readings(soup: BeautifulSoup) -> None:
    """Put the readings of ruby after their sentence, so that they don't part its words."""
    for holder in {id(ruby.parent): ruby.parent for ruby in soup.find_all("ruby")}.values():
        if holder is None:
            continue
        remove(holder.find_all("rp"))
        readings = [" ".join(reading.get_text().split()) for reading in holder.find_all("rt")]
        remove(holder.find_all(["rt", "rtc"]))
        if any(readings):
            holder.append(f" ({' '.join(readings)})")


def _formulas(soup: BeautifulSoup) -> None:
    for shown in soup.select(".katex"):
        if shown.select_one(".katex-mathml math") is not None:
            remove(shown.select(".katex-html"))
    for assistive in soup.find_all("mjx-assistive-mml"):
        if assistive.parent is not None:
            assistive.parent.replace_with(assistive)
    for formula in soup.find_all("math"):
        source = formula.find("annotation", encoding=re.compile("tex", re.I))
        text = source.get_text() if source is not None else _linear(formula)
        formula.replace_with(" ".join(text.split()) or str(formula.get("alttext") or ""))


def _linear(element: Tag) -> str:
    parts = [_linear(part) for part in element.find_all(True, recursive=False) if part.name != "annotation"]
    form = _FORMULAS.get(element.name)
    if form == "root":
        return linear(form, ["".join(parts)])
    if form is not None:
        return linear(form, parts)
    if element.name in ("mtr", "mtable"):
        return (", " if element.name == "mtr" else "; ").join(parts)
    return "".join(parts) if parts else element.get_text()
