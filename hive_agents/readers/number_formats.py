"""Numbers and dates as a spreadsheet prints them, by their number formats."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

_TOKEN = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]|(?P<date>AM/PM|A/P|y+|m+|d+|h+|s+(?:\.0+)?)'
    r"|(?P<exponent>E[+-]0+)|(?P<place>[0#?]+(?:[,.0#?]*[0#?.])?|\.[0#?]+)(?P<scale>,*)|(?P<sign>.)",
    re.I | re.S,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?[\d.]+)")
_ELAPSED = re.compile(r"(?i)h+|m+|s+")
_COMPARE = {
    "<": float.__lt__,
    ">": float.__gt__,
    "<=": float.__le__,
    ">=": float.__ge__,
    "=": float.__eq__,
    "<>": float.__ne__,
}
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_LONGEST = 255
"""Signs of a format, as spreadsheets have it: it stands in each of its cells."""
_GENERAL, _LOCAL_DATE = ("", "general", "@"), "mm-dd-yy"


def printed_number(value: float, form: str) -> str:
    """Return a number as its format prints it.

    >>> printed_number(1234567, '#,##0.0,,"M"'), printed_number(-3.5, '[$€-407]#,##0.00;[Red]-[$€-407]#,##0.00')
    ('1.2M', '-€3.50')
    >>> printed_number(0.125, "0.0%"), printed_number(7, "000"), printed_number(12000, "0.0E+00"), printed_number(5, "")
    ('12.5%', '007', '1.2E+04', '5')
    """
    section, number = _section(value, form if len(form) <= _LONGEST else "")
    if section.strip().lower() in _GENERAL:
        return f"{number:.15g}" if isinstance(number, float) else str(number)
    tokens = list(_TOKEN.finditer(section))
    places = [token for token in tokens if token["place"]]
    if not places:
        return "".join(_literal(token) for token in tokens).strip()
    percents = sum(token["sign"] == "%" for token in tokens)
    scaled = Decimal(repr(number)) * 100**percents / 1000 ** len(places[-1]["scale"])
    exponent = next((token for token in tokens if token["exponent"]), None)
    if exponent is None and "/" in section and len(places) > 1:
        return f"{number:.15g}"  # a fraction
    shown, used = "", False
    for token in tokens:
        if token["place"]:
            shown += "" if used else _digits(scaled, token["place"], exponent)
            used = True
        elif not token["exponent"]:
            shown += _literal(token)
    return shown.strip()


def _section(value: float, form: str) -> tuple[str, float]:
    """Return the section of a format for a value, and the value without the sign that the section prints itself."""
    sections = re.findall(r'(?:"[^"]*"|\\.|\[[^\]]*\]|[^;])*(?:;|\Z)', form)
    sections = [section.removesuffix(";") for section in sections if section] or [""]
    for section in sections:
        found = _CONDITION.search(" ".join(re.findall(r"\[([^\]]*)\]", section)))
        if found and _COMPARE[found[1]](float(value), float(found[2])):
            return section, value
    if any(_CONDITION.search(section) for section in sections[:1]):
        return sections[min(1, len(sections) - 1)], value
    if value < 0 and len(sections) > 1:
        return sections[1], abs(value)
    return sections[2] if value == 0 and len(sections) > 2 else sections[0], value


def _literal(token: re.Match[str]) -> str:
    if token["bracket"] is not None:  # a colour, a condition, or a currency
        return token["bracket"][1:].partition("-")[0] if token["bracket"].startswith("$") else ""
    return token["text"] or token["escaped"] or token["sign"] or token["date"] or ""


def _digits(number: Decimal, place: str, exponent: re.Match[str] | None) -> str:
    whole, _, decimals = place.partition(".")
    if exponent is not None:
        mantissa, _, power = f"{number:.{len(decimals)}E}".partition("E")
        sign = power[0] if power[0] == "-" or "+" in exponent[0] else ""
        return f"{mantissa}E{sign}{power[1:].zfill(exponent[0].count('0'))}"
    shown = str(abs(number).quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP))
    before, _, after = shown.partition(".")
    after = after.rstrip("0") if not decimals.strip("#") else after
    before = before.zfill(whole.count("0"))
    if before == "0" and "0" not in whole:
        before = ""
    if "," in whole:
        before = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", before)
    sign = "-" if number < 0 and re.search(r"[1-9]", shown) else ""
    return sign + before + (f".{after}" if after else "")


def printed_date(value: dt.datetime | dt.date | dt.time, form: str) -> str:
    """Return a date as its format prints it; in ISO form where that depends on who looks at it.

    >>> day = dt.datetime(2024, 3, 5, 14, 7)
    >>> printed_date(day, "mmm yyyy"), printed_date(day, "dd.mm.yyyy hh:mm"), printed_date(day, "h:mm AM/PM")
    ('Mar 2024', '05.03.2024 14:07', '2:07 PM')
    """
    if form.lower() in (_LOCAL_DATE, "m/d/yy h:mm", *_GENERAL) or form.startswith("[$-F"):
        return iso_date(value)
    section = form.partition(";")[0]
    tokens = list(_TOKEN.finditer(section))
    dates = [token for token in tokens if token["date"] and not token["text"]]
    twelve = any(token["date"].upper() in ("AM/PM", "A/P") for token in dates)
    shown = ""
    for token in tokens:
        if token["date"]:
            at = dates.index(token)
            shown += _date_part(value, token["date"].lower(), twelve, _is_minute(dates, at))
        else:
            shown += _literal(token)
    return shown.strip() or iso_date(value)


def iso_date(value: dt.datetime | dt.date | dt.time) -> str:
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(" ")
    return value.isoformat()


def _is_minute(dates: Sequence[re.Match[str]], at: int) -> bool:
    """Return whether an `m` stands beside hours or seconds."""
    before = dates[at - 1]["date"].lower() if at else ""
    after = dates[at + 1]["date"].lower() if at + 1 < len(dates) else ""
    return before.startswith("h") or after.startswith("s")


def _date_part(value: dt.datetime | dt.date | dt.time, part: str, twelve: bool, minute: bool) -> str:
    hour, minutes = getattr(value, "hour", 0), getattr(value, "minute", 0)
    if part in ("am/pm", "a/p"):
        return ("PM" if hour >= 12 else "AM")[: 2 if part == "am/pm" else 1]
    if part[0] == "h" or part[0] == "s" or minute:
        number = (hour % 12 or 12) if twelve and part[0] == "h" else hour if part[0] == "h" else minutes
        number = getattr(value, "second", 0) if part[0] == "s" else number
        return f"{number:0{min(len(part.partition('.')[0]), 2)}d}"
    if isinstance(value, dt.time):
        return ""
    if part[0] == "y":
        return f"{value.year:04d}" if len(part) > 2 else f"{value.year % 100:02d}"
    number, names = (value.month, _MONTHS) if part[0] == "m" else (value.day, _DAYS)
    name = names[value.month - 1 if part[0] == "m" else value.weekday()]
    return (f"{number}", f"{number:02d}", name[:3], name, name[:1])[min(len(part), 5) - 1]


def printed_duration(value: dt.timedelta, form: str) -> str:
    """Return a duration as its format prints it.

    >>> printed_duration(dt.timedelta(hours=49, minutes=5), "[h]:mm")
    '49:05'
    """
    seconds = round(value.total_seconds())
    left, shown = abs(seconds), ""
    for token in _TOKEN.finditer(form.partition(";")[0]):
        part = (token["bracket"] or token["date"] or "").lower()
        if not _ELAPSED.fullmatch(part):
            shown += _literal(token)
            continue
        size = {"h": 3600, "m": 60, "s": 1}[part[0]]
        number = left // size if token["bracket"] else left // size % (24 if part[0] == "h" else 60)
        left = left % size if token["bracket"] else left
        shown += f"{number:0{len(part)}d}"
    return ("-" if seconds < 0 else "") + shown.strip() if shown.strip() else str(value)
