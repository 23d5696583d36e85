"""HTML to Markdown: the main content of a page."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString
from markdownify import MarkdownConverter

from hive_agents.readers.decoding import decode
from hive_agents.readers.html_shown import as_shown, mostly_links, remove
from hive_agents.readers.html_tables import regular_tables
from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.linear_math import grouped
from hive_agents.readers.markdown import escape, fence, plain_lines

_BANNERS = "header, #page-header, #masthead"
_LISTINGS = ".toc, #toc, .contents.topic, .table-of-contents, .toctree-wrapper"
_ENOUGH_WORDS, _LEAST_SHARE = 20, 0.1
_NAVIGATION = frozenset(
    """breadcrumb breadcrumbs mainmenu menu menubar nav navbar navigation pager pagination sidebar sidenav submenu toc
    toolbar topbar""".split()
)
"""Parts of class names and ids of navigation; a wrapper of the whole page may have one, too."""
_STEP = re.compile(r"(?i)^\W*(?:prev(?:ious)?|next|up|home|top|back)\b\W*$")
_STEPS_BESIDE = 8
_TRAIL = re.compile(r"[^\0]*\0(?:\s*[>»›→|·•/]\s*\0)+[^\0]*")
"""Links, each replaced by NUL, with only a separator between them."""
_TRAIL_BESIDE = 3
_MARKS = frozenset("¶ § # 🔗".split())
"""Texts of permalinks beside headings."""
_SUM = re.compile(r"\w+(?:[-+−*·/]\w+)+")
_EXPONENT = re.compile(rf"[-+−]?\d+|[a-zA-Z]|{_SUM.pattern}")
_RULES_AROUND = re.compile(r"\A(?:-{3,}\s+)+|(?:\s+-{3,})+\Z")
_CHAPTER = re.compile(r"(?i)(?:chapter\s+)?\d+(?:\.\d+)*\.?\s")
_LANGUAGE = re.compile(r"(?:language|lang|highlight|sourceCode)-(\w[\w+#-]*)")
_NOT_LANGUAGES = {"default", "none", "text"}


_BLOCKS = frozenset(
    """address article aside blockquote center details dl div fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr
    main menu nav ol p pre section table ul""".split()
)
_CELLS = frozenset({"td", "th"})
_DEEPEST = 100
"""Levels of elements, as browsers have a limit, too: what is done with each, and with all around it, stays linear."""
_PARTS = frozenset({"thead", "tbody", "tfoot"})
_ENDED_BY = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "dir"})),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl"}))),
    "option": (frozenset({"option"}), frozenset({"select", "datalist"})),
    "optgroup": (frozenset({"optgroup"}), frozenset({"select", "datalist"})),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    **dict.fromkeys(_CELLS, (_CELLS, frozenset({"tr", "table"}))),
    **dict.fromkeys(_PARTS, (_PARTS, frozenset({"table"}))),
    **dict.fromkeys(_BLOCKS, (frozenset({"p"}), _CELLS | {"table", "caption", "button", "object"})),
    "a": (frozenset({"a"}), _BLOCKS | _CELLS | {"li", "dt", "dd"}),
}
"""For a start tag, the open elements that it ends implicitly, and those that limit the search for them."""


class _Page(BeautifulSoup):
    """A parser of HTML that supplies optional end tags, and puts what is nested too deeply beside what is around it."""

    too_deep = 0

    def handle_starttag(self, name: str, *arguments: Any, **options: Any) -> Any:
        ended, beyond = _ENDED_BY.get(name, (frozenset(), frozenset()))
        around: Any = self.currentTag
        while ended and around is not None and around.name not in beyond:
            if around.name in ended:
                self.handle_endtag(around.name)
                break
            around = around.parent
        if len(self.tagStack) > _DEEPEST and not self.builder.can_be_empty_element(name):
            self.too_deep += 1
            self.endData()
            self.popTag()
        return super().handle_starttag(name, *arguments, **options)


def from_html(data: bytes) -> Imported:
    declared = EncodingDetector.find_declared_encoding(data, is_html=True, search_entire_document=False)
    return from_markup(decode(data, declared))


def from_markup(markup: str) -> Imported:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XHTML, and about pages that are just a URL
        soup = _Page(markup, "html.parser")
    if soup.find(True) is None:
        raise ImportFailure("holds no HTML; a plain text has the suffix .txt")
    _gather(soup)
    left_out = as_shown(soup)
    left_out["levels of nesting"] += soup.too_deep
    head_title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    if soup.title:
        soup.title.decompose()
    content = _content(soup, left_out)
    title = _title(head_title, content)
    _without_navigation(content, left_out)
    regular_tables(content)
    markdown = _Converter().convert_soup(content)
    markdown = _RULES_AROUND.sub("", re.sub(r"[ \t]+$|^\\$", "", markdown, flags=re.M).strip())
    return Imported(re.sub(r"\n{3,}", "\n\n", markdown) + "\n", title or None, left_out=left_out)


def _gather(soup: BeautifulSoup) -> None:
    """Move what stands around the body into it, as browsers do: texts of the head, and what follows the end."""
    body = soup.body
    if body is None:
        return
    before: list[Any] = []
    for holder in filter(None, (soup, soup.html, soup.head)):
        passed = False
        for node in list(holder.children):
            passed = passed or node is body or node is soup.html
            is_text = type(node) is NavigableString and str(node).strip()
            if is_text and not passed:
                before.append(node.extract())
            elif passed and (is_text or isinstance(node, Tag)) and node not in (body, soup.html):
                body.append(node.extract())
    body.insert(0, *before)


def _title(head_title: str, content: Tag) -> str:
    """Return the page's title; `head_title` is what its <title> says.

    It is the only <h1>, unless that is a chapter's, else <title>, which often has the site's name, else the first <h1>.
    """
    headings = [" ".join(heading.get_text(" ").split()) for heading in content.find_all("h1")]
    if len(headings) == 1 and not (head_title and _CHAPTER.match(headings[0])):
        return headings[0]
    return head_title or next(iter(headings), "")


def _without_navigation(content: Tag, left_out: Counter[str]) -> None:
    """Remove links to other pages, and tables of contents if the page has other content."""
    for table in content.find_all("table"):
        links = table.find_all("a")
        other_words = len(table.get_text(" ").split()) - sum(len(link.get_text(" ").split()) for link in links)
        if any(_STEP.match(_link_text(link)) for link in links) and other_words <= _STEPS_BESIDE:
            remove([table], left_out, "parts of navigation")
    for link in content.select("a[href]"):
        shown = _link_text(link)
        is_step = link.find("img") and (_STEP.match(shown) or not re.search(r"\w", shown))
        if is_step or (str(link["href"]).startswith("#") and shown.strip() in _MARKS):
            link.decompose()
    listings = [
        *content.select(_LISTINGS),
        *filter(_is_navigation, content.find_all(["div", "ul", "ol", "table", "p"])),
        *filter(_is_trail, content.find_all(["div", "p"])),
    ]
    known = set(map(id, listings))
    listings = [listing for listing in listings if not any(id(parent) in known for parent in listing.parents)]
    listed_words = sum(len(listing.get_text(" ").split()) for listing in listings)
    if len(content.get_text(" ").split()) - listed_words >= _ENOUGH_WORDS:
        remove(listings, left_out, "parts of navigation")


def _link_text(link: Tag) -> str:
    """Return the text of a link and of its images."""
    return " ".join([link.get_text(" "), *(str(image.get("alt", "")) for image in link("img"))])


def _is_navigation(element: Tag) -> bool:
    """Return whether an element has a name of navigation, and mostly consists of links."""
    names = [*(element.get("class") or []), str(element.get("id") or "")]
    if _NAVIGATION.isdisjoint(part for name in names for part in re.split(r"[-_]", name.lower())):
        return False
    return mostly_links(element) or not element.get_text(strip=True)


def _is_trail(element: Tag) -> bool:
    """Return whether an element is links between separators, such as breadcrumbs or a list of languages."""
    if element.find(["p", "div", "ul", "ol", "pre", "table"]):
        return False
    parts = ["\0" if part.find_parent("a") else str(part) for part in element.find_all(string=True)]
    shown = re.sub("\0+", "\0", "".join(parts))
    return bool(_TRAIL.fullmatch(shown)) and len(re.findall(r"\w+", shown)) <= _TRAIL_BESIDE


def _content(soup: BeautifulSoup, left_out: Counter[str]) -> Tag:
    """Return the page's <main>, else its articles, else its body without banners."""
    body = soup.body or soup
    main = soup.select_one("main, [role=main]")
    articles = [article for article in soup.find_all("article") if article.find_parent("article") is None]
    words = _words(body)
    if main is not None and _words(main) >= words * _LEAST_SHARE:
        content: Tag = main.extract()
    elif articles and sum(map(_words, articles)) >= words * _LEAST_SHARE:
        content = soup.new_tag("div")
        content.extend([article.extract() for article in articles])
    else:
        remove([each for each in soup.select(_BANNERS) if each.find("h1") is None], left_out, "banners")
        return body
    if content.find("h1") is None:
        content.insert(0, *(heading.extract() for heading in body.select("h1")[:1]))
    remove([body], left_out, "parts beside the main one")
    return content


def _words(element: Tag) -> int:
    return len(element.get_text(" ").split())


class _Converter(MarkdownConverter):
    def __init__(self) -> None:
        super().__init__(
            heading_style="atx",
            bullets="-",
            newline_style="backslash",
            strong_em_symbol="*",
        )

    def escape(self, text: str, parent_tags: set[str]) -> str:
        return escape(text) if text else ""

    def convert_img(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f"(Image: {escape(str(element['alt']))})" if element.get("alt") else ""

    def convert_a(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        if not re.match(r"https?://|mailto:", str(element.get("href", ""))):
            return text  # a relative link, which leads nowhere here
        words, uri = " ".join(text.split()), str(element["href"])
        if not words or "_noformat" in parent_tags:
            return text
        space = " " if text[-1:].isspace() else ""
        return (f"<{uri}>" if element.get_text() == uri else f"[{words}]({uri.replace(' ', '%20')})") + space

    def convert_p(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        if "_inline" in parent_tags:
            return f" {text.strip()} "
        return f"\n\n{plain_lines(text.strip())}\n\n" if text.strip() else ""

    def convert_pre(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{fence(element.get_text(), _language(element) or '')}\n\n" if text.strip() else ""

    def convert_sup(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        # 2 to the 64th isn't 264
        return f"^{grouped(text.strip())}" if _EXPONENT.fullmatch(text.strip()) and element.find("a") is None else text

    def convert_sub(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f"_({text.strip()})" if _SUM.fullmatch(text.strip()) else text

    def convert_td(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f" {' '.join(text.split()).replace('|', chr(92) + '|')} |"

    convert_th = convert_td

    def convert_tr(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        table = element.find_parent("table")
        is_first = table is None or table.find("tr") is element
        line = "|" + " --- |" * len(re.findall(r"(?<!\\)\|", text)) + "\n" if is_first else ""
        return f"| {text.strip()}\n" + line if text.strip() else ""

    def convert_dt(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n**{' '.join(text.split())}**\n\n" if text.strip() else ""

    def convert_dd(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return f"\n\n{text.strip()}\n\n"


def _language(element: Tag) -> str | None:
    """Return the language in a highlighter's class, of the block, of its code or of its two nearest wrappers."""
    code = element.find("code")
    wrappers = [parent for _, parent in zip(range(2), element.parents, strict=False)]
    for node in [element, code, *wrappers]:
        classes: Any = node.get("class") if isinstance(node, Tag) else None
        match = _LANGUAGE.search(" ".join(classes or []))
        if match and match[1] not in _NOT_LANGUAGES:
            return match[1]
    return None
