"""Amounts in a text: numbers and number words with their units, dates, times of day, and codes, which are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import numeric

CODE = re.compile(r"\b(?=[\w./+-]{0,60}\d)(?=[\w./+-]{0,60}[A-Za-z])\w+(?:[-_./+]\w+)*")
VERSION = re.compile(r"\bv\d+(?:\.\d+)*\b|\b\d+(?:\.\d+){2,}\b")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d{2}))?\s?([ap])\.?m\b|\b(\d{1,2}):(\d{2})\b", re.I)

_PAST = re.compile(r"\b(?:a )?(half|quarter|five|ten|twenty) (past|to) (\d{1,2}|[a-z]{3,6})\b(?= |[.,;]|$)", re.I)

_OCLOCK = re.compile(
    r"\b(\d{1,2}|[a-z]{3,6}) (?:o['’]clock\b|in the (morning|afternoon|evening)\b)|\b(noon|midnight)\b", re.I
)

_SMALL = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_SMALL += " seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {
    **{word: float(value) for value, word in enumerate(_SMALL.split())},
    **{word: float(20 + 10 * place) for place, word in enumerate(_TENS.split())},
    "hundred": 100.0,
    "thousand": 1000.0,
    "million": 1e6,
    "billion": 1e9,
    "dozen": 12.0,
    "half": 0.5,
    "quarter": 0.25,
    "once": 1.0,
    "twice": 2.0,
    "thrice": 3.0,
    "double": 2.0,
    "triple": 3.0,
    "both": 2.0,
    **dict(zip("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert einmal zweimal"
               " dreimal halb halbe halben halber viertel doppelt".split(),
               (*range(2, 13), 20.0, 30.0, 100.0, 1.0, 2.0, 3.0, *[0.5] * 4, 0.25, 2.0), strict=True)),
}  # fmt: skip
ORDINALS = tuple("first second third fourth fifth sixth seventh eighth ninth tenth".split())
_VAGUE = frozenset("zero one half quarter double both once hundred thousand million billion einmal halb halbe halben"
                   " halber viertel doppelt hundert".split())  # fmt: skip
"""Number words that often count nothing: they speak for a claim and never against it."""

UNITS: dict[str, tuple[str, float]] = {}
for _dimension, _names in {
    "time": "s=1 sec=1 second=1 min=60 minute=60 h=3600 hr=3600 hour=3600 day=86400 d=86400 week=604800 month=2629800"
    " quarter=7889400 year=31557600 ms=0.001 millisecond=0.001 tag=86400 woche=604800 monat=2629800 jahr=31557600"
    " stunde=3600 sekunde=1 jähr=31557600 wöch=604800 täg=86400 stünd=3600 minüt=60 fortnight=1209600",
    "length": "mm=0.001 cm=0.01 m=1 km=1000 metre=1 meter=1 inch=0.0254 ft=0.3048 µm=1e-6"
    " nm=1e-9 mile=1609.34 foot=0.3048 feet=0.3048",
    "mass": "mg=1e-6 g=0.001 kg=1 t=1000 oz=0.02835 ounce=0.02835 gram=0.001 gramm=0.001 tonne=1000 lb=0.4536 µg=1e-9",
    "volume": "ml=0.001 l=1 litre=1 liter=1 µl=1e-6 cup=0.2366 tablespoon=0.01479 tbsp=0.01479 teaspoon=0.00493"
    " tsp=0.00493 pint=0.4732 gallon=3.785",
    "temperature": "°c=1 celsius=1",
    "fahrenheit": "°f=1 f=1 fahrenheit=1",
    "share": "%=1 percent=1 prozent=1",
    "money": "€=1 eur=1 euro=1 cent=0.01",
    "pounds": "£=1 gbp=1 pound=1 pence=0.01",
    "crowns": "crown=1 krone=1 krona=1",
    "dollars": "$=1 usd=1 dollar=1",
    "bytes": "byte=1 kb=1e3 mb=1e6 gb=1e9 tb=1e12 kib=1024 mib=1048576 gib=1073741824",
    "pressure": "bar=1e5 mbar=100 pa=1 hpa=100 kpa=1000 mpa=1e6 psi=6894.76",
    "power": "w=1 kw=1000 mw=1e6 watt=1 kilowatt=1000",
    "voltage": "v=1 mv=0.001 kv=1000 volt=1",
    "charge": "ah=1 mah=0.001",
    "torque": "n·m=1 n.m=1",
    "current": "a=1 ma=0.001 µa=1e-6 amp=1 ampere=1 milliamp=0.001 microamp=1e-6",
    "resistance": "ω=1 kω=1e3 mω=1e6 ohm=1 kohm=1e3 kilohm=1e3 megohm=1e6",
    "energy": "j=1 kj=1e3 wh=3600 kwh=3.6e6 kcal=4184",
    "rate": "kbit/s=1e3 mbit/s=1e6 gbit/s=1e9 kbps=1e3 mbps=1e6 gbps=1e9",
    "frequency": "hz=1 hertz=1 khz=1e3 mhz=1e6 ghz=1e9 rpm=0.0166667",
    "speed": "km/h=1 mph=1.609",
}.items():
    for _entry in _names.split():
        _name, _, _factor = _entry.partition("=")
        UNITS[_name.casefold()] = (_dimension, float(_factor))  # of two signs for micro, casefold leaves one

_PREFIXES = {"kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12, "centi": 0.01, "milli": 1e-3,
             "micro": 1e-6, "nano": 1e-9}  # fmt: skip
for _name in "second metre meter gram gramm litre liter watt volt ampere amp ohm hertz byte".split():
    for _prefix, _thousands in _PREFIXES.items():
        UNITS.setdefault(f"{_prefix}{_name}", (UNITS[_name][0], UNITS[_name][1] * _thousands))
for _name, (_of, _each) in [(name, unit) for name, unit in UNITS.items() if unit[0] == "length"]:
    UNITS |= {f"{_name}²": ("area", _each**2), f"{_name}³": ("volume", 1000 * _each**3)}
for _name, (_of, _each) in list(UNITS.items()):
    for _time in (
        "s sec second min minute h hr hour day".split() if _of in ("length", "volume", "mass", "bytes") else ()
    ):
        _times = 3.6 if _of == "length" else 1.0
        UNITS.setdefault(
            f"{_name}/{_time}", ("speed" if _of == "length" else f"{_of}/time", _times * _each / UNITS[_time][1])
        )

MONTHS = {name: number for number, names in enumerate(
    ("january jan januar", "february feb februar", "march mar märz", "april apr", "may mai", "june jun juni",
     "july jul juli", "august aug", "september sep sept", "october oct oktober", "november nov",
     "december dec dezember"), start=1) for name in names.split()}  # fmt: skip
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"\b(?P<y>(?:19|20)\d\d)(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])\b"),
    re.compile(r"\b(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})\b"),
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of )?(?P<n>{MONTH})\b\.?,?(?:\s+(?P<y>\d{{4}}))?", re.I),
    re.compile(rf"\b(?P<n>{MONTH})\b\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\s+(?P<y>\d{{4}}))?", re.I),
    re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b(?!\.\d)"),
    re.compile(r"\b(?P<d>0[1-9]|[12]\d|3[01])[-/](?P<m>0?[1-9]|1[0-2])[-/](?P<y>(?:20|(?=\d\d\b))\d\d)\b(?!-)"),
    re.compile(r"\b(?P<m>\d{1,2})/(?P<d>\d{1,2})/(?P<y>\d{4})\b"),
    re.compile(rf"\b(?P<n>{MONTH})\b\.?\s+(?P<y>\d{{4}})\b", re.I),
)


_CURRENCIES = frozenset({"money", "dollars", "pounds"})


@dataclass(frozen=True, slots=True)
class Quantity:
    value: float
    unit: str
    text: str
    vague: bool = False

    @property
    def dimension(self) -> str | None:
        return UNITS[self.unit][0] if self.unit in UNITS else None

    def same(self, other: Quantity) -> bool:
        """Return whether both are the same amount; without a unit, the same number."""
        coins = "cent" in (self.unit, other.unit) and {self.dimension, other.dimension} <= _CURRENCIES
        if self.dimension is not None and (self.dimension == other.dimension or coins):
            a, b = self.value * UNITS[self.unit][1], other.value * UNITS[other.unit][1]
            months = self.unit != other.unit and any(re.match("mon", one.unit) for one in (self, other))
            return abs(a - b) <= (0.017 if months else 0.002) * max(abs(a), abs(b))  # three months and 90 days
        if self.dimension is not None and other.dimension is not None:
            return False
        if "share" in (self.dimension, other.dimension) and {"half", "quarter"} & {self.text, other.text}:
            a, b = (one.value * (1 if one.dimension else 100) for one in (self, other))
            return a == b  # half of the fee, and 50 %
        if "." in self.text + other.text and _grouped(self) == _grouped(other) is not None:
            return True
        if _CURRENCIES.isdisjoint((self.dimension, other.dimension)):
            return self.value == other.value
        scaled = self.value * UNITS.get(self.unit, ("", 1.0))[1], other.value * UNITS.get(other.unit, ("", 1.0))[1]
        return self.value == other.value or scaled[0] == scaled[1]  # 5 cents, and 0.05 where the euros are said before


def _grouped(one: Quantity) -> str | None:
    """Return the digits of a number of thousands, whatever parts them: 100.000 and 100,000."""
    return re.sub(r"\D", "", one.text) if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+|\d{4,}", one.text) else None


@dataclass(frozen=True, slots=True)
class Date:
    year: int | None
    month: int
    day: int | None
    text: str

    def within(self, other: Date) -> bool:
        """Return whether the other date says all that this one does."""
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)


def without_times(text: str) -> str:
    """Return the text without its dates and times of day, whose numbers count nothing."""
    for pattern in _DATES:
        text = pattern.sub(lambda found: found[0] if _is_verb(found) else " ; ", text)
    return _CLOCK.sub(" ; ", _OCLOCK.sub(" ; ", _PAST.sub(" ; ", text)))


def _is_verb(date: re.Match[str]) -> bool:
    """Return whether what looks like a month is a verb: version 8 may be used."""
    month = date.groupdict().get("n") or ""
    return month in ("may", "mar")


def dates_in(text: str) -> Iterator[Date]:
    taken: list[tuple[int, int]] = []
    for pattern in _DATES:
        for found in pattern.finditer(text):
            if any(found.start() < end and start < found.end() for start, end in taken):
                continue
            parts = found.groupdict()
            month = MONTHS[parts["n"].lower()] if parts.get("n") else int(parts["m"])
            day = int(parts["d"]) if parts.get("d") else None
            if _is_verb(found):
                continue
            if month <= 12 and (day is None or day <= 31):
                taken.append(found.span())
                yield Date(int(parts["y"]) if parts.get("y") else None, month, day, found[0])


def clocks(text: str) -> dict[int, str]:
    """Return the times of day in a text, in minutes, as they are written."""
    found = {}
    for said in _PAST.finditer(text):
        part = {"half": 30, "quarter": 15}.get(said[1].casefold(), NUMBER_WORDS.get(said[1].casefold(), 0))
        hour = NUMBER_WORDS.get(said[3].casefold()) or float(said[3] if said[3].isdigit() else 0)
        found[int(60 * hour + (part if said[2].casefold() == "past" else -part))] = said[0]
    for said in _OCLOCK.finditer(_PAST.sub(" ", text)):
        hour = NUMBER_WORDS.get((said[1] or "").casefold()) or float(said[1] if (said[1] or "").isdigit() else 12)
        half = 12 if said[2] and said[2].casefold() != "morning" and hour < 12 else 0
        if said[3] or said[1].isdigit() or said[1].casefold() in NUMBER_WORDS:
            found[int(60 * (hour + half))] = said[0]
    for clock in _CLOCK.finditer(text):
        hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
        if clock[3]:
            hour = hour % 12 + (12 if clock[3].lower() == "p" else 0)
        found[60 * hour + minute] = clock[0]
    return found


@lru_cache(maxsize=2_000)  # each check reads the same sentences
def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers of a text with the unit after each, also those in words."""
    return tuple(_quantities(text))


def _quantities(text: str) -> Iterator[Quantity]:
    text = _AND_A_HALF.sub(
        lambda found: str(NUMBER_WORDS.get(found[1].casefold(), found[1])).removesuffix(".0") + ".5", text
    )
    text = re.sub(r"\bper cent\b", "percent", text)
    text = _DEGREES.sub(" °", _MIXED.sub(_as_decimal, text))
    text = _POWER.sub(lambda found: f"{found[2]}{'²' if found[1][0] in 'sSqQ' else '³'}", text)
    text = _LASTING.sub(r"\1 \2 ", text)
    text = _THOUSANDS.sub(lambda found: f"{float(found[1]) * 1000:g}", text)
    text = _FRACTION.sub(_as_share, _every_n(without_times(text)))
    codes = [found.span() for found in (*CODE.finditer(text), *VERSION.finditer(text)) if not is_measure(found[0])]
    for found in re.finditer(
        r"(?P<pre>[€$£])?\s?(?P<n>[-+−]?\d+(?:[,  ]\d{3})*(?:\.\d+)?|(?<![^\s(=:$€£])\.\d+)", text
    ):
        start, end = found.span("n")
        start += found["n"][0] in "-−" and start > 0 and text[start - 1].isdigit()  # 80-100
        if re.search(r"\w\($", text[:start][-2:]):
            continue  # scp(1)
        if any(a <= start < b for a, b in codes) or (start and (text[start - 1].isalnum() or text[start - 1] in ".,")):
            continue
        sign = text[start] in "-−" and (not start or text[start - 1].isspace() or text[start - 1] in "(|[`'\"“")
        number = float(re.sub(r"[^\d.]", "", found["n"]))
        if (times := _TIMES.match(text, end)) is not None:
            number, end = number * NUMBER_WORDS[times[1].casefold()], times.end()
        yield Quantity(-number if sign else number, (found["pre"] or _unit_after(text, end)), text[start:end].strip())
    words = list(re.finditer(r"[^\W\d_]+", _AND_MORE.sub(" ", text)))
    place = 0
    while place < len(words):
        word = words[place][0].casefold()
        if word not in NUMBER_WORDS:
            place += 1
            continue
        value, first = NUMBER_WORDS[word], place
        vague = word in _VAGUE or (place > 0 and words[place - 1][0].casefold() in ("the", "these", "those"))
        while place + 1 < len(words) and (following := words[place + 1][0].casefold()) in NUMBER_WORDS:
            more = NUMBER_WORDS[following]
            if following in ("hundred", "thousand", "million", "billion"):
                value *= more
            elif value >= 20 and value % 10 == 0 and more < 10 and word.endswith("ty"):
                value += more
            else:
                break
            vague, place = False, place + 1
        end = words[place].end()
        unit = _unit_after(text, end)
        vague = vague and (word != "one" or unit in ("", "a"))  # one month is no pronoun
        yield Quantity(value, unit if unit != "a" else "", text[words[first].start() : end], vague)  # "twice a day"
        place += 1
    for found in re.finditer(r"(?<!half )\b(?:an?|one|each|every|per)\s+(?:half\s+)?(?:an?\s+)?([a-z]+)\b", text, re.I):
        unit = _unit(found[1])
        if unit:
            half = 0.5 if " half" in f" {found[0].lower()}" else 1.0
            yield Quantity(half, unit, found[0], True)
    for found in re.finditer(r"\bhalf an?\s+([a-z]+)\b", text, re.I):
        if _unit(found[1]):
            yield Quantity(0.5, _unit(found[1]), found[0], True)


_AND_MORE = re.compile(rf"(?<=hundred) and(?= (?:{'|'.join(NUMBER_WORDS)})\b)", re.I)
_POWER = re.compile(r"\b(square[ -]|cubic[ -]|sq\.? ?|quadrat|kubik)([^\W\d_]+?)s?\b", re.I)
_LASTING = re.compile(r"\b(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)"
                      r"(monat|jähr|wöch|täg|stünd|minüt)(?:ig|lich)\w*", re.I)  # fmt: skip
_THOUSANDS = re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d)?)[kK]\b(?![-./])")
_PARTS = {"third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
_FRACTION = re.compile(rf"\b(one|two|three|four)[ -]({'|'.join(_PARTS)})s?\b(?:(?<=thirds)|(?= of\b(?! an?\b)))", re.I)
_DEGREES = re.compile(
    r"(?<=\d) ?(?:degrees? ?|deg\.? ?|(?:(?<= )|(?<=\d\d))(?=[CF]\b(?![+#.]\w)))(?=[CF]\b|celsius|fahrenheit)", re.I
)
_MIXED = re.compile(r"\b(?:(\d+) (?:and )?)?(\d)/(\d)\b(?=[ -][a-z])|(?:(?<!\d)(\d{1,9}) ?)?([¼½¾⅓⅔⅛⅜⅝⅞])")


def _as_decimal(found: re.Match[str]) -> str:
    """Return a number with a fraction in decimals: 1 1/2, 2¾."""
    part = numeric(found[5]) if found[5] else float(found[2]) / max(1.0, float(found[3]))
    return f"{float(found[1] or found[4] or 0) + part:.4g}"


def _as_share(found: re.Match[str]) -> str:
    return f"{100 * NUMBER_WORDS[found[1].casefold()] / _PARTS[found[2].casefold()]:g} %"


def _every_n(text: str) -> str:
    """Return a text in which every second day is every 2 days."""
    return _EVERY_NTH.sub(lambda found: f"every {_NTH[found[1].casefold()]} ", text)


_TIMES = re.compile(r"\s(hundred|thousand|million|billion)s?\b", re.I)
_AND_A_HALF = re.compile(r"\b(\d+|one|two|three|four|five|six|seven|eight|nine|ten) and a half\b", re.I)
_EVERY_NTH = re.compile(r"\bevery (second|other|third|fourth) (?=[a-z])", re.I)
_NTH = {"second": 2, "other": 2, "third": 3, "fourth": 4}


def is_measure(code: str) -> bool:
    """Return whether what looks like a code is a number with its unit: 30min, 5kg."""
    found = re.fullmatch(r"\d+(?:\.\d+)?([a-zµ%/]+)", code, re.I)
    measured = found is not None and (found[1] in "kK" or _unit(found[1]) != "")
    ranged = re.fullmatch(r"[\d.]+[-–][\d.]+([a-zµ]+)|[\d.]+([a-zµ]+)(?:/[a-z]+)+", code, re.I)  # 4-10kW, 20mg/kg
    measured = measured or (ranged is not None and _unit(ranged[1] or ranged[2]) != "")
    return measured or re.fullmatch(r"\d+(?:\.\d+)?[-/][a-z]+", code, re.I) is not None


def _unit_after(text: str, end: int) -> str:
    found = re.match(r"[\s\-]{0,2}(°\s?[CFcf]|[%€$£]|[^\W\d_]+(?:/[^\W\d_]+)?)", text[end : end + 24])
    if found is None:
        return ""
    per = re.match(r"([^\W\d_]+) per ([^\W\d_]+)", text[end : end + 40].lstrip())
    unit = (_unit(f"{_unit(per[1])}/{_unit(per[2])}") if per else "") or _unit(found[1].replace(" ", ""))
    if unit or not re.match(r"\s", text[end : end + 1]):
        return unit
    # "30 working days", "5 calendar weeks"
    second = re.match(r"\s*[^\W\d_]+\s+([^\W\d_]+)", text[end : end + 40])
    named = _unit(second[1]) if second is not None and len(second[1]) > 2 else ""
    return named if found[1].casefold() in ("working", "calendar", "full", "business", "consecutive") else ""


def _unit(word: str) -> str:
    word = word.casefold()
    for form in (word.removesuffix(end) for end in ("", "s", "es", "n", "e", "en")):
        if form in UNITS and (len(form) > 1 or form == word):
            return form
    return ""


_EVERY_FEW = re.compile(rf"\bevery ({'|'.join(NUMBER_WORDS)}|\d{{1,4}}) ([^\W\d_]+)", re.I)
_ADVERBS = "hourly|daily|weekly|monthly|quarterly|yearly|annually"
_EVERY = re.compile(rf"\b(?:per|an?|each|every)\s+([^\W\d_]+)|\b({_ADVERBS})\b", re.I)
_OFTEN = {"hourly": "h", "daily": "day", "weekly": "week", "monthly": "month", "quarterly": "quarter", "yearly": "year"}
_OFTEN["annually"] = "year"


def rates(text: str) -> set[float]:
    """Return the times that something is said to happen by, in seconds."""
    said = _EVERY.findall(_every_n(text))
    times = {between for _, between in times_per(text)}
    found = {_OFTEN[often.lower()] if often else _unit(word) for word, often in said if often or not times}
    few = [(_value(count), UNITS[_unit(word)]) for count, word in _EVERY_FEW.findall(_every_n(text)) if _unit(word)]
    times |= {count * between for count, (dimension, between) in few if dimension == "time"}
    return times | {UNITS[unit][1] for unit in found if unit and UNITS[unit][0] == "time"}


def without_rates(text: str) -> str:
    """Return a text without the words that say how often."""
    return _EVERY.sub(" ", _TIMES_PER.sub(" ", text))


def times_per(text: str) -> list[tuple[str, float]]:
    """Return what is said to happen several times in a while, each with the seconds between: four times a year."""
    found = ((count, unit or _OFTEN[often.lower()]) for count, unit, often in _TIMES_PER.findall(text))
    return [(count, between) for count, unit in found if (between := _seconds(count, unit))]


_TIMES_PER = re.compile(
    rf"\b((?:{'|'.join(NUMBER_WORDS)}|\d{{1,4}})(?= times?\b)|once|twice|thrice)(?: times?)?"
    rf" (?:(?:an?|each|every|per) ([a-z]+)|({_ADVERBS})\b)",
    re.I,
)


def _value(count: str) -> float:
    return NUMBER_WORDS.get(count.casefold(), 0) or float(count if count.isdigit() else 0)


def _seconds(count: str, unit: str) -> float:
    found, number = _unit(unit), _value(count)
    return UNITS[found][1] / number if found and number and UNITS[found][0] == "time" else 0.0
