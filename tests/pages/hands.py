"""Stories as lists of steps, each of which is done by the pointer or by keys alone, at three widths.

A step names a thing of the page as people find it, by its role and its name. By keys it is reached with Tab from where
the focus is, and each place on the way has to show that it has the focus, and not lie below something else. By the
pointer it has to be hit. Both have to be so at each width; what a step does it does at one of them, the next step at
another. Where a story looks, the page has to fit each width, and be accessible.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Error, Locator, Page, expect

from tests.pages.browser import picture, require_accessible

WIDTHS, HEIGHT = (390, 820, 1440), 900
MOST = 90
"""Places that are passed on the way to one; the longest page of a story has some 60."""
MOST_BYTES = 150_000
"""Of a page with all that it has loaded, as it is sent."""
WEIGHT = "performance.getEntries().reduce((sum, one) => sum + (one.encodedBodySize ?? 0), 0)"
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
FOCUSED = """(wanted) => {
    const one = document.activeElement;
    const name = (one.getAttribute("aria-label") || one.textContent.trim() || one.id || one.tagName).slice(0, 60);
    if (one.tabIndex < 0) return [one === wanted, name, null]; // where a page put the focus itself
    const ringed = [one, one.parentElement].some((each) => {
        const style = getComputedStyle(each);
        return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    });
    const isHit = (x, y) => {
        const hit = document.elementFromPoint(x, y);
        return hit && (one.contains(hit) || hit.contains(one));
    };
    const seen = [...one.getClientRects()].some((box) => [0.02, 0.5, 0.98].some((x) => [0.1, 0.5, 0.9].some(
        (y) => isHit(box.left + x * box.width, box.top + y * box.height))));
    const fault = !ringed ? "it doesn't show that it has the focus" : !seen ? "it has the focus, and isn't seen" : null;
    return [one === wanted, name, fault];
}"""
LEAVING = ("navigat", "destroyed", "not attached")
"""In what a browser says of a page that is just being left for the next one."""


@dataclass(frozen=True)
class Thing:
    """Something on a page, and how it is found."""

    name: str
    find: Callable[[Page], Locator]

    def __str__(self) -> str:
        return self.name


def role(kind: Any, name: str, *, exact: bool = True, nth: int = 0) -> Thing:
    return Thing(
        f"the {kind} {name}",
        lambda page: page.get_by_role(kind, name=name, exact=exact).filter(visible=True).nth(nth),
    )


def button(name: str, **how: Any) -> Thing:
    return role("button", name, **how)


def link(name: str, **how: Any) -> Thing:
    return role("link", name, **how)


def labelled(name: str, nth: int = 0) -> Thing:
    return Thing(f"the field {name}", lambda page: page.get_by_label(name, exact=True).filter(visible=True).nth(nth))


def text(words: str) -> Thing:
    return Thing(f'"{words}"', lambda page: page.get_by_text(words).filter(visible=True).first)


def css(selector: str) -> Thing:
    return Thing(selector, lambda page: page.locator(selector).first)


def summary(words: str) -> Thing:
    """What opens and closes a part."""
    return Thing(f"what opens {words}", lambda page: page.locator("summary", has_text=words).filter(visible=True).first)


class Hand(ABC):
    """One way to work. A thing is found at each width; what is done with it, at the first of them: each way has another
    one for the same step."""

    name: str
    ahead = 0

    @abstractmethod
    async def reach(self, page: Page, one: Locator) -> None:
        """Go there, at the width that the page has."""

    @abstractmethod
    async def again(self, page: Page, one: Locator) -> None:
        """Be there at another width, too."""

    @abstractmethod
    async def press(self, page: Page, one: Locator) -> None: ...

    @abstractmethod
    async def write(self, page: Page, one: Locator, words: str) -> None: ...

    @abstractmethod
    async def pick(self, page: Page, one: Locator, option: str) -> None: ...


class Pointer(Hand):
    name = "pointer"

    async def reach(self, page: Page, one: Locator) -> None:
        await one.click(trial=True)

    again = reach

    async def press(self, page: Page, one: Locator) -> None:
        await one.click()

    async def write(self, page: Page, one: Locator, words: str) -> None:
        await one.fill(words)

    async def pick(self, page: Page, one: Locator, option: str) -> None:
        await one.select_option(option)


class Keys(Hand):
    name = "keys"
    ahead = 1

    async def reach(self, page: Page, one: Locator) -> None:
        await one.wait_for(state="attached")
        passed = []
        for _ in range(MOST):
            is_there, name = await self._focused(page, one)
            if is_there:
                return
            passed.append(name)
            await page.keyboard.press("Tab")
        raise AssertionError(f"{one} isn't reached: {passed}")

    async def again(self, page: Page, one: Locator) -> None:
        for _ in range(2):  # a page that was still being made puts the focus where it is wanted, once
            for key in ("Shift+Tab", "Tab"):
                await page.keyboard.press(key)
            is_there, name = await self._focused(page, one)
            if is_there:
                return
            await self.reach(page, one)
        raise AssertionError(f"{name} has the focus where {one} had it")

    async def _focused(self, page: Page, one: Locator) -> tuple[bool, str]:
        """Return whether this has the focus, and what has it, which has to be seen."""
        try:
            is_there, name, fault = await page.evaluate(FOCUSED, await one.element_handle())
        except Error as error:
            if not any(words in str(error) for words in LEAVING):
                raise
            return False, "the page is being left"
        assert fault is None, f"{fault}: {name}"
        return is_there, name

    async def press(self, page: Page, one: Locator) -> None:
        is_box = await one.evaluate("(one) => one.matches('[type=checkbox]')")
        await page.keyboard.press("Space" if is_box else "Enter")

    async def write(self, page: Page, one: Locator, words: str) -> None:
        await page.keyboard.press("Control+A")
        await page.keyboard.type(words)
        if await one.get_attribute("type") == "time" and await one.input_value() != words:  # twelve hours, and am or pm
            for _ in range(3):
                await page.keyboard.press("ArrowLeft")
            await page.keyboard.type(f"{dt.time.fromisoformat(words):%I%M%p}")

    async def pick(self, page: Page, one: Locator, option: str) -> None:
        chosen = "(one) => [one.selectedOptions[0]?.label, one.options.length, one.value]"
        await page.keyboard.press("Home")
        for _ in range((await one.evaluate(chosen))[1]):
            label, _, value = await one.evaluate(chosen)
            if option in (label, value):
                return
            await page.keyboard.press("ArrowDown")
        raise AssertionError(f"{one} has no {option}")


@dataclass
class Played:
    """A story that is played: who sits before which page, and what was learned on the way, by name."""

    hand: Hand
    pages: dict[str, Page]
    folder: Path
    known: dict[str, str]
    who: str = "owner"
    pictures: int = 0
    steps: int = 0

    @property
    def page(self) -> Page:
        return self.pages[self.who]

    async def at(self, thing: Thing) -> Locator:
        """Return a thing that can be worked with at each width; it is, at the one that the page has afterwards, and
        each step has another one."""
        one = thing.find(self.page)
        turn = (self.steps + self.hand.ahead) % 3
        first, *others = WIDTHS[turn:] + WIDTHS[:turn]
        for width in others:
            await self.page.set_viewport_size({"width": width, "height": HEIGHT})
            await (self.hand.reach if width == others[0] else self.hand.again)(self.page, one)
        await self.page.set_viewport_size({"width": first, "height": HEIGHT})
        await self.hand.again(self.page, one)
        return one


Step = Callable[[Played], Awaitable[None]]


def press(thing: Thing) -> Step:
    async def step(story: Played) -> None:
        await story.hand.press(story.page, await story.at(thing))

    return step


def write(thing: Thing, words: str | Callable[[], str]) -> Step:
    """Write words, in which {name} is what is known by that name, or what has to be written then."""

    async def step(story: Played) -> None:
        one = await story.at(thing)
        said = words if isinstance(words, str) else words()
        await story.hand.write(story.page, one, said.format_map(story.known))

    return step


def pick(thing: Thing, option: str) -> Step:
    async def step(story: Played) -> None:
        await story.hand.pick(story.page, await story.at(thing), option)

    return step


def attach(thing: Thing, *names: str) -> Step:
    """Choose files of the story's folder."""

    async def step(story: Played) -> None:
        one = await story.at(thing)
        async with story.page.expect_file_chooser() as chosen:
            await story.hand.press(story.page, one)
        await (await chosen.value).set_files([story.folder / name for name in names])

    return step


def see(thing: Thing | str) -> Step:
    async def step(story: Played) -> None:
        found = text(thing) if isinstance(thing, str) else thing
        await expect(found.find(story.page)).to_be_visible()

    return step


def lacks(thing: Thing) -> Step:
    async def step(story: Played) -> None:
        await expect(thing.find(story.page)).to_have_count(0)

    return step


def learn(name: str, thing: Thing) -> Step:
    """Keep the value of a field, as somebody who passes it on."""

    async def step(story: Played) -> None:
        story.known[name] = await thing.find(story.page).input_value()

    return step


def turn(who: str) -> Step:
    """Go on at another person's browser, which begins at the page to sign in."""

    async def step(story: Played) -> None:
        story.who = who
        if story.page.url == "about:blank":
            await story.page.goto("/login")

    return step


def look(name: str) -> Step:
    """Pictures of the page, which fits each width and weighs little. Axe looks, too: on a phone where one hand acts, at
    one of the other widths after the other where the other does."""

    async def step(story: Played) -> None:
        page = story.page
        story.pictures += 1
        last = 0 if isinstance(story.hand, Pointer) else 1 + story.pictures % 2
        for width in (*WIDTHS[last + 1 :], *WIDTHS[: last + 1]):
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            await _require_fit(page, width)
            await picture(page, story.folder / "pictures", f"{story.pictures} {name} {width}")
        await require_accessible(page, targets=True)
        weight = await page.evaluate(WEIGHT)
        assert weight <= MOST_BYTES, f"{page.url} weighs {weight} bytes"

    return step


async def _require_fit(page: Page, width: int) -> None:
    """What a script draws to the width of a window follows it a moment later."""
    for _ in range(100):
        if await page.evaluate(SIDEWAYS) <= 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{page.url} is wider than {width} px")


async def play(story: Played, steps: Sequence[Step]) -> None:
    for story.steps, step in enumerate(steps, 1):
        try:
            await step(story)
        except (AssertionError, Error) as error:
            with suppress(Error):
                await picture(story.page, story.folder / "pictures", "failed")
            raise AssertionError(f"step {story.steps} at {story.page.url}: {error}") from error
