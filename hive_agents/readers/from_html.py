"""HTML to Markdown: the main content of a page. Tables are regular: spanning cells are expanded."""

from __future__ import annotations

import re
import warnings
from typing import Any

from bs4 import BeautifulSoup, Tag
from bs4.dammit import EncodingDetector
from markdownify import MarkdownConverter

from hive_agents.readers.decoding import decode
from hive_agents.readers.imported import Imported, ImportFailure
from hive_agents.readers.markdown import escape, fence, plain_lines

_TABLE_BLOCKS = ["pre", "table", "ul", "ol", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote"]
_TABLE_PARTS = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "colgroup"]
_MOST = 200


def regular_tables(content: Tag) -> None:
    """Make each table below `content` regular, in place.

    A cell over several rows is repeated in each, so that each row is complete; one over several columns is followed by
    empty ones. A table for the layout of other blocks becomes <div> elements.
    """
    for table in reversed(content.find_all("table")):  # inner ones first
        rows = [row for row in table.find_all("tr") if row.find_parent("table") is table]
        cells = [cell for row in rows for cell in row.find_all(["td", "th"], recursive=False)]
        if any(cell.find(_TABLE_BLOCKS) is not None for cell in cells) or len(rows) * _longest(rows) <= 1:
            _unwrap(table, rows)
        else:
            _fill(rows)


def _longest(rows: list[Tag]) -> int:
    return max((len(row.find_all(["td", "th"], recursive=False)) for row in rows), default=0)


def _unwrap(table: Tag, rows: list[Tag]) -> None:
    for part in [table, *table.find_all(_TABLE_PARTS)]:
        if (
            part is table
            or part.find_parent("table") is None
            or any(row is part or row in part.parents for row in rows)
        ):
            part.name = "div"


def _fill(rows: list[Tag]) -> None:
    below: dict[int, tuple[int, str]] = {}  # column -> (rows still covered, text)
    for row in rows:
        column = 0
        for cell in row.find_all(["td", "th"], recursive=False):
            column = _covered(cell, column, below)
            across, down = _span(cell, "colspan"), _span(cell, "rowspan")
            if down > 1:
                words = cell.get_text(" ", strip=True)
                below |= {column + offset: (down, words if offset == 0 else "") for offset in range(across)}
            for _ in range(across - 1):
                cell.insert_after(_cell(""))
            column += across
        column = _covered(row, column, below)
        below = {at: (rows_left - 1, words) for at, (rows_left, words) in below.items() if rows_left > 1}


def _covered(where: Tag, column: int, below: dict[int, tuple[int, str]]) -> int:
    """Insert the cells that reach down into this row from `column` on; return the first free column."""
    while column in below:
        inserted = _cell(below[column][1])
        if where.name == "tr":
            where.append(inserted)
        else:
            where.insert_before(inserted)
        column += 1
    return column


def _span(cell: Tag, name: str) -> int:
    value = str(cell.get(name, "1")).strip()
    return max(1, min(int(value), _MOST)) if value.isdigit() else 1


def _cell(words: str) -> Tag:
    cell = BeautifulSoup("", "html.parser").new_tag("td")
    cell.string = words
    return cell


_NO_CONTENT = (
    "script, style, nav, aside, form, noscript, template, svg, iframe, button, footer, [hidden], .headerlink, .linenos,"
    " [role=navigation], [role=search], [role=banner], [role=contentinfo], .sphinxsidebar, .related, .navheader,"
    " .navfooter, .nav, .breadcrumb, .breadcrumbs, .skip-link, .permalink"
)
_BANNERS = "header, #page-header, #masthead"
_LISTINGS = ".toc, #toc, .contents.topic, .table-of-contents, .toctree-wrapper"
_ENOUGH_WORDS = 20
_NAVIGATION = frozenset(
    """breadcrumb breadcrumbs mainmenu menu menubar nav navbar navigation pager pagination sidebar sidenav submenu toc
    toolbar topbar""".split()
)
"""Parts of class names and ids of navigation; a wrapper of the whole page may have one, too."""
_MOSTLY_LINKS = 0.6
_STEP = re.compile(r"(?i)^\W*(?:prev(?:ious)?|next|up|home|top|back)\b\W*$")
_STEPS_BESIDE = 8
_TRAIL = re.compile(r"[^\0]*\0(?:\s*[>»›→|·•/]\s*\0)+[^\0]*")
"""Links, each replaced by NUL, with only a separator between them."""
_TRAIL_BESIDE = 3
_MARKS = frozenset("¶ § # 🔗".split())
"""Texts of permalinks beside headings."""
_EXPONENT = re.compile(r"[-+−]?\d+|[a-zA-Z]")
_RULES_AROUND = re.compile(r"\A(?:-{3,}\s+)+|(?:\s+-{3,})+\Z")
_CHAPTER = re.compile(r"(?i)(?:chapter\s+)?\d+(?:\.\d+)*\.?\s")
_LANGUAGE = re.compile(r"(?:language|lang|highlight|sourceCode)-(\w[\w+#-]*)")
_NOT_LANGUAGES = {"default", "none", "text"}


_BLOCKS = frozenset(
    """address article aside blockquote center details dl div fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr
    main menu nav ol p pre section table ul""".split()
)
_CELLS = frozenset({"td", "th"})
_PARTS = frozenset({"thead", "tbody", "tfoot"})
_ENDED_BY = {
    "li": (frozenset({"li"}), frozenset({"ul", "ol", "menu", "dir"})),
    **dict.fromkeys(("dt", "dd"), (frozenset({"dt", "dd"}), frozenset({"dl"}))),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    **dict.fromkeys(_CELLS, (_CELLS, frozenset({"tr", "table"}))),
    **dict.fromkeys(_PARTS, (_PARTS, frozenset({"table"}))),
    **dict.fromkeys(_BLOCKS, (frozenset({"p"}), _CELLS | {"table", "caption", "button", "object"})),
    "a": (frozenset({"a"}), _BLOCKS | _CELLS | {"li", "dt", "dd"}),
}
"""For a start tag, the open elements that it ends implicitly, and those that limit the search for them."""


class _Page(BeautifulSoup):
    """A parser of HTML that supplies optional end tags."""

    def handle_starttag(self, name: str, *arguments: Any, **options: Any) -> Any:
        ended, beyond = _ENDED_BY.get(name, (frozenset(), frozenset()))
        around: Any = self.currentTag
        while ended and around is not None and around.name not in beyond:
            if around.name in ended:
                self.handle_endtag(around.name)
                break
            around = around.parent
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
    for junk in soup.select(_NO_CONTENT):
        junk.decompose()
    content = _content(soup)
    title = _title(soup, content)
    if soup.title:
        soup.title.decompose()
    _without_navigation(content)
    regular_tables(content)
    markdown = _Converter().convert_soup(content)
    markdown = _RULES_AROUND.sub("", re.sub(r"[ \t]+$|^\\$", "", markdown, flags=re.M).strip())
    return Imported(re.sub(r"\n{3,}", "\n\n", markdown) + "\n", title or None)


def _title(soup: BeautifulSoup, content: Tag) -> str:
    """Return the page's title.

    It is the only <h1>, unless that is a chapter's, else <title>, which often has the site's name, else the first <h1>.
    """
    headings = [" ".join(heading.get_text(" ").split()) for heading in content.find_all("h1")]
    head_title = " ".join(soup.title.get_text(" ").split()) if soup.title else ""
    if len(headings) == 1 and not (head_title and _CHAPTER.match(headings[0])):
        return headings[0]
    return head_title or next(iter(headings), "")


def _without_navigation(content: Tag) -> None:
    """Remove links to other pages, and tables of contents if the page has other content."""
    for table in content.find_all("table"):
        links = table.find_all("a")
        other_words = len(table.get_text(" ").split()) - sum(len(link.get_text(" ").split()) for link in links)
        if any(_STEP.match(_link_text(link)) for link in links) and other_words <= _STEPS_BESIDE:
            table.decompose()
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
    listings = [listing for listing in listings if not any(parent in listings for parent in listing.parents)]
    listed_words = sum(len(listing.get_text(" ").split()) for listing in listings)
    if len(content.get_text(" ").split()) - listed_words >= _ENOUGH_WORDS:
        for listing in listings:
            listing.decompose()


def _link_text(link: Tag) -> str:
    """Return the text of a link and of its images."""
    return " ".join([link.get_text(" "), *(str(image.get("alt", "")) for image in link("img"))])


def _is_navigation(element: Tag) -> bool:
    """Return whether an element has a name of navigation, and mostly consists of links."""
    names = [*(element.get("class") or []), str(element.get("id") or "")]
    if _NAVIGATION.isdisjoint(part for name in names for part in re.split(r"[-_]", name.lower())):
        return False
    links = sum(len(link.get_text(" ").split()) for link in element.find_all("a"))
    return links >= _MOSTLY_LINKS * len(element.get_text(" ").split())


def _is_trail(element: Tag) -> bool:
    """Return whether an element is links between separators, such as breadcrumbs or a list of languages."""
    if element.find(["p", "div", "ul", "ol", "pre", "table"]):
        return False
    parts = ["\0" if part.find_parent("a") else str(part) for part in element.find_all(string=True)]
    shown = re.sub("\0+", "\0", "".join(parts))
    return bool(_TRAIL.fullmatch(shown)) and len(re.findall(r"\w+", shown)) <= _TRAIL_BESIDE


def _content(soup: BeautifulSoup) -> Tag:
    """Return the page's <main>, else its articles, else its body without banners."""
    main = soup.select_one("main, [role=main]")
    if main is not None:
        return main
    articles = [article for article in soup.find_all("article") if article.find_parent("article") is None]
    if articles:
        holder = soup.new_tag("div")
        holder.extend([article.extract() for article in articles])
        return holder
    for banner in soup.select(_BANNERS):
        if banner.find("h1") is None:
            banner.decompose()
    return soup.body or soup


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
        return f"^{text}" if _EXPONENT.fullmatch(text.strip()) else text  # 2 to the 64th isn't 264

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
