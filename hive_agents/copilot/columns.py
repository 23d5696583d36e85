"""Conditions on the columns of tables: "not yet paid", "out of stock", "cost between 10 and 20", "without a manager".

They are read where nothing else is asked: each word of the message belongs to a condition, a value, a date, what the
rows are called, or the grammar around them. In any other message such words may be content.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import ge, gt, le, lt
from typing import cast

from hive_agents.copilot.bounds import (
    bounds_of,
    compared,
    date_fields,
    in_units,
    is_number,
    size_of,
    units_of,
    value_at,
)
from hive_agents.copilot.dates import DateSpan
from hive_agents.copilot.forms import word_key
from hive_agents.copilot.language import language, word_list, word_table
from hive_agents.copilot.plan import DocumentFilter, FilterValue, Operator
from hive_agents.copilot.roles import deed, holding, parts, role_of
from hive_agents.copilot.sentence import (
    ABOUT,
    ADVERBS,
    ARTICLES,
    BE,
    CONNECTIVES,
    DOCUMENT,
    EMPTY,
    NEGATIONS,
    PREPOSITIONS,
    QUESTION,
    Mention,
    Sentence,
    linking_verbs,
)
from hive_agents.copilot.vocabulary import LONGEST
from hive_agents.documents import terms

Found = tuple[list[DocumentFilter], set[int]]
"""Filters, and the places of the words that they were read from."""

_HAVE = word_list("words", "have")
_WITHOUT, _LINKS, _LEADS = (word_list("columns", name) for name in ("without", "links", "leads"))
_LISTING, _UNITS = word_list("words", "listing"), word_list("columns", "units")
_SIGNS, _AGAINST = {">": "gt", "<": "lt"}, frozenset({"than", "to", "its", "their"})
_OVER = (ADVERBS, BE, ARTICLES, _HAVE)


def conditions_in(s: Sentence) -> list[DocumentFilter] | None:
    """Return the filters of a message that only asks for rows by their columns; None of any other message."""
    never = word_list("columns", "never")
    for n in range(len(s.words)):
        mine = s.at(n) == "me" and s.at(n - 1) in PREPOSITIONS | {"to"}
        if mine or s.at(n) in never or s.at(n) in ABOUT - PREPOSITIONS:
            return None
    asks = s.at(0) not in QUESTION or s.at(0) in _LEADS or (s.at(0), s.at(1)) == ("how", "many")
    if not asks or (s.at(0) == "how" and s.at(1) != "many"):
        return None
    columns = _Columns(s)
    columns.read()
    return columns.filters if columns.is_complete() else None


def number_bounds(s: Sentence) -> list[Found]:
    """Return filters on numbers beside their column, in a message that asks for more: "pages over 20", "ticket 42"."""
    columns, bounds, words = _Columns(s), list[Found](), range(len(s.words))
    for place in words if not any(map(columns.denies, words)) else ():
        filters, told = columns.number(place, only_named=True) or ([], set())
        row = {place} < told <= {*range(place + 1)} and filters[0].op == "eq" and s.vocabulary.numbers(filters[0].field)
        if filters and (s.filters_by_description or row) and not any(places & told for _, places in bounds):
            bounds.append((filters, told))
    one = [filters[0] for filters, _ in bounds if filters[0].op == "eq" and s.vocabulary.numbers(filters[0].field)]
    if len(one) > 1:  # "compare rule 4 and rule 7"
        either = DocumentFilter(field=one[0].field, op="in", value=[value for each in one for value in each.values])
        return [([either] if filters[0] in one else filters, told) for filters, told in bounds]
    return bounds


class _Columns:
    def __init__(self, sentence: Sentence) -> None:
        self.s = sentence
        self.filters: list[DocumentFilter] = []
        self.used: set[int] = set()
        self.dated = {n for span in sentence.dates if span.led for n in range(span.first, span.last + 1)}
        self.conditions = 0
        self.denials: set[int] = set()
        """Places of the negations that conditions were read with."""
        self.nouns = {n for n in range(len(sentence.words)) if self._is_noun(n)}
        if not self.nouns and sentence.vocabulary.noun:
            self.nouns = {n for n in range(len(sentence.words)) if self._stands_for_rows(n)}
        self.linking = linking_verbs(sentence, set()) if self.nouns else set[int]()

    def read(self) -> None:
        for rule in (self._against, self.number, self._absent, self._present, self._level, self._flag):
            for place in range(len(self.s.words)):
                found = None if place in self.used | self.dated else rule(place)
                if found is not None and self.used.isdisjoint(found[1]):
                    self.filters += found[0]
                    self.used |= found[1]
                    self.conditions += 1
        for filters, places in (*self._dates(), *self._values()):
            self.filters += filters
            self.used |= places

    def is_complete(self) -> bool:
        """Return whether conditions on columns, or on rows that their folder names, are all that the message says."""
        s = self.s
        rest = [n for n in range(len(s.words)) if n not in self.used | self.nouns | self.linking]
        directions = " ".join(language("en")["columns"]["directions"]).split()
        skipped = EMPTY.union(_LINKS, word_table("columns.measures"), directions, {"'s"})
        fields = {demand.field for demand in self.filters}
        # "operated by Bela", "directed by Bela", "3000 kg": words of a column that filters.
        own = {word_key([word]) for name in fields for part in parts(name) for word in (part, deed(part))}
        skipped |= {s.at(n) for n in rest if s.stem(n) in own}
        # Two tables have columns of their own: what their rows are called joins none of them.
        rows = {demand.field for demand in self.filters if role_of(demand.field) == "kind"}
        either = any(s.at(n) == "or" for n in rest) and len(fields - rows) > 1
        named = bool(self.nouns) and bool(self.filters)
        if any(self.denies(n) for n in rest if n not in self.denials):
            return False
        rest = [n for n in rest if n or s.at(0) != "name" or s.at(1) not in ARTICLES]
        told = all(s.at(n) in skipped or s.at(n).endswith("n't") for n in rest)
        return (bool(self.conditions) or named) and not either and told

    def _is_noun(self, place: int) -> bool:
        """Return whether a word is what rows are called: "products" of `products/`, "vans" of a column."""
        word = self.s.at(place)
        called = word in DOCUMENT if self.s.vocabulary.noun else word == "documents" != self.s.words[place].text.lower()
        mention = self.s.inside.get(place)
        if mention is None:
            return called or word_key([word]) in self.s.vocabulary.folders
        return called or (place == mention.last and self._is_kind(mention))

    def _stands_for_rows(self, place: int) -> bool:
        """Return whether a word stands for all rows: "who works in the lab", "all in the lab", "how many are sold"."""
        s, after = self.s, self.s.at(place + 1)
        led = after in PREPOSITIONS - ABOUT or after in word_list("words", "relative")
        everyone = s.at(place) in ("all", "everyone", "everybody", "those")
        many = (place, s.at(0), s.at(1)) == (1, "how", "many") and after in BE | _HAVE
        return (s.at(place) == "who" and place == 0) or (everyone and led) or many

    def _is_kind(self, mention: Mention) -> bool:
        """Return whether a value in the plural is what is asked for: "how many vans by Acme"."""
        s, meaning = self.s, mention.meanings[0]
        before = s.back(mention.first, ARTICLES, *(frozenset({s.at(n)}) for n in s.inside))
        leads = before < 0 or s.at(before) in _LISTING | {"many", "which", "what", "me"}
        plural = s.at(mention.last) != str(meaning.value).lower() or s.at(mention.last).endswith("s")
        column = meaning.role in ("other", "kind" if s.vocabulary.noun else "other")  # else a folder
        return leads and plural and column and not (mention.shy or mention.plain or meaning.noun)

    def _negated(self, place: int) -> bool:
        """Return whether a condition is denied: "are not", "haven't been", "neither … nor"."""
        s = self.s
        at_before = s.back(place, *_OVER)
        before = s.at(at_before)
        denials = {at_before} if self.denies(at_before) else set[int]()
        if (s.at(at_before - 1), before) == ("no", "longer"):
            denials = {at_before - 1}
        elif before == "or" or before == "nor":  # "neither paid nor shipped"
            denials |= {n for n in range(place) if s.at(n) == "neither"}
        self.denials |= denials
        return bool(denials) and (before != "nor" or len(denials) > 1)

    def denies(self, place: int) -> bool:
        word = self.s.at(place)
        return word in NEGATIONS or word in _WITHOUT or word.endswith("n't")

    def _named(self, place: int, names: list[str], most: int = LONGEST) -> tuple[str, int] | None:
        """Return the field that the words from a place on name, and how many they are."""
        words = [self.s.at(n) for n in range(place, min(place + most, len(self.s.words)))]
        found = self.s.vocabulary.named_field(words, names) if words else None
        return found if found is not None and not (EMPTY - DOCUMENT).issuperset(words[: found[1]]) else None

    def _flag(self, place: int) -> Found | None:
        """Return the filter of a column of yes and no: "discontinued", "unpaid", "aren't organic"."""
        s, flags = self.s, self.s.vocabulary.flags
        prefix = next((one for one in word_list("columns", "negating") if s.at(place).startswith(one)), "")
        if (s.at(place), s.at(place + 1)) == ("out", "of"):
            for name, (_, false) in flags.items():
                if parts(name)[0] == "in" and word_key(parts(name)[1:]) == word_key([s.at(place + 2)]):
                    return [DocumentFilter(field=name, value=false)], {place, place + 1, place + 2}
        for name in flags:
            bare = [part for part in parts(name) if part not in BE | _HAVE | {"flag"}]
            places = [place]
            # "the deposit is not paid" denies `deposit_paid`.
            while len(places) < len(bare) and places[-1] + 1 < len(s.words):
                following = places[-1] + 1
                while any(s.at(following) in words for words in (*_OVER, NEGATIONS)) and s.at(following) not in bare:
                    following += 1
                places.append(following)
            words = [s.at(n) for n in places]
            for opposite in ("", prefix) if prefix else ("",):
                words[0] = words[0].removeprefix(opposite)
                same = word_key(words) == word_key(bare) or [*map(_key, words)] == [*map(_key, bare)]
                if bare and same:
                    inside = any(self.denies(n) for n in range(place, places[-1]) if n not in places)
                    no = (self._negated(place) or inside) != bool(opposite)
                    value = flags[name][1 if no else 0]
                    return [DocumentFilter(field=name, value=value)], set(range(place, places[-1] + 1))
        alike = [name for name in s.vocabulary.fields if s.at(place) == parts(name)[-1]]
        if s.at(place).endswith("ed") and alike in [[name] for name in flags]:  # "evacuated" of `medically_evacuated`
            return [DocumentFilter(field=alike[0], value=flags[alike[0]][self._negated(place)])], {place}
        for sides in language("en")["columns"]["opposites"]:
            side = next((one.split() for one in sides if s.at(place) in one.split()), None)
            called = [name for name in flags if not set(" ".join(sides).split()).isdisjoint(parts(name))]
            if side is not None and len(called) == 1:  # "failed" of `successful`
                no = self._negated(place) != set(side).isdisjoint(parts(called[0]))
                return [DocumentFilter(field=called[0], value=flags[called[0]][no])], {place}
        found = self._named(place, list(flags))  # "members of the club" of `club_member`, "official" of `official_song`
        name, last = found or ("", 0)
        said = {_key(s.at(n)) for n in range(place, place + last)}
        own = {_key(part) for part in parts(name) if part not in BE | _HAVE and not s.vocabulary.calls(part)}
        if not own or not own <= said:
            return None
        value = flags[name][1 if self._negated(place) else 0]
        return [DocumentFilter(field=name, value=value)], set(range(place, place + last))

    def _absent(self, place: int) -> Found | None:
        """Return the filter of "without a manager", "with no units in stock"; of texts, none of all values."""
        s = self.s
        denied = s.at(place) in _HAVE and s.at(place - 1).endswith("n't")
        without = denied or (s.at(place) in _WITHOUT and s.at(place + 1) != "longer")
        found = self._held(place, absent=True) if without else None
        self.denials |= {place, place - 1} if denied and found is not None else set()
        return found

    def _present(self, place: int) -> Found | None:
        """Return the filter of "with an operator", "have spare parts in stock"."""
        s, has = self.s, self.s.at(place) in _HAVE | word_list("columns", "having")
        found = self._held(place, absent=False) if has and not s.at(place - 1).endswith("n't") else None
        last = max(found[1]) if found is not None else place
        return found if s.ends_clause(last) or s.at(last + 1) in CONNECTIVES | {"but"} else None

    def _held(self, place: int, *, absent: bool) -> Found | None:
        """Return the filter of rows that have something, or nothing, in the column that is named behind a place."""
        following = place + 1
        while self.s.at(following) in ARTICLES:
            following += 1
        vocabulary = self.s.vocabulary
        names = [
            name for name, words in vocabulary.fields.items() if words.values or words.type in ("number", "boolean")
        ]
        found = self._named(following, names)
        if found is None:
            return None
        name, places = found[0], set(range(place, following + found[1]))
        if vocabulary.fields[name].type == "number":
            # "No rating" of a column without a 0 are rows without a value, which no filter has.
            none = absent and name in vocabulary.nonzero
            return None if none else ([DocumentFilter(field=name, op="eq" if absent else "gt", value=0)], places)
        if name in vocabulary.flags:
            return [DocumentFilter(field=name, value=vocabulary.flags[name][absent])], places
        values: list[FilterValue] = list(vocabulary.fields[name].values)
        return [DocumentFilter(field=name, op="not_in" if absent else "in", value=values)], places

    def _level(self, place: int) -> Found | None:
        """Return the filter of "out of stock" and "in stock"."""
        s = self.s
        held = word_list("columns", "stocks")
        stocks = [name for name in self._numbers() if any(root in name.lower() for root in held)]
        for phrase, level in word_table("columns.levels").items() if len(stocks) == 1 else ():
            words = phrase.split()
            if [s.at(n) for n in range(place, place + len(words))] == words:
                empty = (level == "none") != self._negated(place)
                op: Operator = "eq" if empty else "gt"
                return [DocumentFilter(field=stocks[0], op=op, value=0)], set(range(place, place + len(words)))
        return None

    def number(self, place: int, *, only_named: bool = False) -> Found | None:
        """Return the filters of a comparison: "cost more than 30", "between 10 and 20 units in stock"; with
        `only_named` none whose column the measure tells."""
        s = self.s
        if not is_number(s.at(place)) or (is_number(s.at(place - 2)) and s.at(place - 1) in CONNECTIVES):
            return None
        first, op = compared(s, place)
        value, last = value_at(s, place)
        bounds: list[tuple[Operator, float]] = [(op or "eq", value)]
        if s.at(first) == "between" and s.at(last + 1) == "and" and is_number(s.at(last + 2)):
            upper, last = value_at(s, last + 2)
            bounds, first = [("gte", value), ("lte", upper)], first - 1
        elif s.at(last + 1) in CONNECTIVES and is_number(s.at(last + 2)):
            return None  # "in groups 1 and 2" names two values
        between, unit = len(bounds) == 2, ""
        after = self._named(last + 1, self._numbers())
        if s.at(last + 1) in _UNITS:  # "600 km range"
            last, unit = last + 1, s.at(last + 1)
            after = self._named(last + 1, self._numbers()) or after
        more = set[int]()
        for place_of_or in (last + 1, last + 1 + (after[1] if after is not None else 0)):
            limit = word_table("columns.limits").get(s.at(place_of_or + 1)) if s.at(place_of_or) == "or" else None
            if limit is not None and op is None and not between:  # "4.5 or better", "six cylinders or more"
                op, more = cast("Operator", limit), {place_of_or, place_of_or + 1}
                bounds = [(op, value)]
        counts = s.follow_up or s.at(0) == "how" or s.at(first) in word_list("columns", "counted")
        if after is not None and (op or between or counts):
            return self._bounded(after[0], bounds, more | set(range(first + 1, last + 1 + after[1])), unit)
        before = s.back(first + 1, BE, ARTICLES, _HAVE, PREPOSITIONS, word_list("columns", "exactly"))
        for start in range(max(0, before - LONGEST + 1), before + 1):
            named = self._named(start, self._numbers(), before + 1 - start)
            if named is not None and named[1] == before + 1 - start:
                leading = word_table("fields.comparisons").get(s.at(start - 1))
                if leading is not None and op is None and not between:  # "above floor 4"
                    return self._bounded(
                        named[0], [(cast("Operator", leading), value)], set(range(start - 1, last + 1)), unit
                    )
                if (
                    s.at(start - 1) == "of"
                    and s.is_content(start - 2, self.nouns)
                    and not s.vocabulary.numbers(named[0])
                ):
                    return None  # "north of latitude 60"
                return self._bounded(named[0], bounds, more | set(range(start, last + 1)), unit)
        if only_named or last + 1 in self.nouns:
            return None  # "which companies had more than 100 orders"
        measures = word_table("columns.measures")
        measuring = next((n for n in (before, *range(first + 1, place), last + 1) if s.at(n) in measures), None)
        roots = "" if measuring is None else measures[s.at(measuring)]
        over = bool(op) or between
        if not roots and over and (before < 0 or before in self.nouns or s.is_head(before) or before in s.inside):
            roots = measures["worth"]
        name = holding(self._numbers(), roots.split())
        if name is None and over and size_of(unit) is not None:  # "longer than two hours"
            alike = [one for one in self._numbers() if in_units(value, unit, one) is not None and units_of(one)]
            name = alike[0] if len(alike) == 1 else None
        start = before if measuring == before else before + 1
        places = {*range(start, last + 1)} | {n for n in (measuring,) if n is not None}
        return self._bounded(name, bounds, more | places, unit) if name is not None else None

    def _against(self, place: int) -> Found | None:
        """Return the filter of two columns of one row: "tip higher than the fare", "paid < due"."""
        s = self.s
        sign = _SIGNS.get(s.words[place].gap.strip())
        kind = sign or {**word_table("fields.comparisons"), **word_table("columns.against")}.get(s.at(place))
        after = place if sign else place + 1
        while s.at(after) in ARTICLES | _AGAINST:
            after += 1
        end = s.back(place, *_OVER) + 1
        for names in (self._numbers(), s.vocabulary.of_type("date")) if kind in ("gt", "lt") else ():
            lefts = ((start, self._named(start, names, end - start)) for start in range(max(0, end - LONGEST), end))
            left, start = next(((found, at) for at, found in lefts if found and at + found[1] == end), (None, end))
            most = self._named(place + 1, names)
            if most and s.at(place + 1 + most[1]) == "than":  # "more women than men"
                left, start, after = most, place, place + 2 + most[1]
            right = self._named(after, names)
            if right and left and right[0] != left[0] and not self._negated(place):
                op: Operator = "above" if kind == "gt" else "below"
                return [DocumentFilter(field=left[0], op=op, value=right[0])], set(range(start, after + right[1]))
        return None

    def _bounded(self, name: str, bounds: list[tuple[Operator, float]], places: set[int], unit: str) -> Found | None:
        """Return the bounds in the column's unit; None where it holds another measure."""
        told = [(op, in_units(value, unit, name)) for op, value in bounds]
        demands = [DocumentFilter(field=name, op=op, value=value) for op, value in told if value is not None]
        return (demands, places) if len(demands) == len(bounds) else None

    def _numbers(self) -> list[str]:
        return self.s.vocabulary.of_type("number")

    def _dates(self) -> Iterator[Found]:
        """Return bounds on the date that a word beside them names: "launched before 2021", "due in May"."""
        for span in self.s.dates:
            years = self._years(span)
            if years is not None:
                self.conditions += 1
                yield years
                continue
            cue = next((n for n in self._beside(span) if n >= 0 and date_fields(self.s, n)), None)
            dates = date_fields(self.s, cue) if cue is not None else self.s.vocabulary.of_type("date")
            told = cue is not None or (len(dates) == 1 and span.led)  # "failed in 2020"
            if told and self.used.isdisjoint(range(span.first, span.last + 1)):
                places = {span.first if cue is None else cue, *range(span.first, span.last + 1)}
                yield bounds_of(self.s, span, dates[0], cue), places

    def _years(self, span: DateSpan) -> Found | None:
        """Return bounds on a column of years: "built before 2005" of `year_built`, "before 2005 founded"."""
        s = self.s
        before, *_ = beside = self._beside(span)
        events, stems = word_table("columns.events"), word_list("columns", "years")
        for place in beside:
            roots = events.get(s.at(place), "").split()
            for name in {**dict.fromkeys(self._numbers()), **s.vocabulary.years}:
                own = [part for part in parts(name) if part not in stems]
                told = any(root in name.lower() for root in roots)
                told = told or bool(s.stem(place) and s.stem(place) in terms(" ".join(own)))
                if told and (name in s.vocabulary.years or len(own) < len(parts(name))):
                    return self._in_years(name, span, place)
        plain = s.at(before) not in events and s.at(span.last + 1) not in events
        bare = [name for name in {**dict.fromkeys(self._numbers()), **s.vocabulary.years} if stems >= {*parts(name)}]
        spoken = [n for n in (before, span.last + 1) if n in self.nouns or s.at(n) in EMPTY | {""} or n in s.inside]
        alone = not {*s.vocabulary.years, *s.vocabulary.of_type("date")}.difference(bare)
        whatever = bool(bare) and alone and parts(bare[0])[0] in {"year", "jahr", "année", "año"}
        if len(bare) == 1 and (whatever or (plain and len(spoken) == 2)):
            return self._in_years(bare[0], span, before)
        return None

    def _in_years(self, name: str, span: DateSpan, place: int) -> Found:
        places = {place, *range(span.first, span.last + 1)}
        if self.s.vocabulary.fields[name].type == "number":
            return [DocumentFilter(field=name, op=op, value=day.year) for op, day in span.bounds], places
        tests = {"gte": ge, "gt": gt, "lte": le, "lt": lt}
        years = [
            year
            for year in self.s.vocabulary.years[name]
            if all(tests[op](int(str(year)[:4]), day.year) for op, day in span.bounds)
        ]
        return [DocumentFilter(field=name, op="in", value=years or [str(span.bounds[0][1].year)])], places

    def _beside(self, span: DateSpan) -> list[int]:
        """Return the places of the words that may say what happened on a date: before it, else behind it."""
        s = self.s
        before = s.back(span.first, ADVERBS, BE, PREPOSITIONS, ARTICLES)
        told = before >= 0 and s.is_content(before, set()) and before not in self.nouns and before not in s.inside
        return [before] if told else [before, span.last + 1]

    def _values(self) -> Iterator[Found]:
        """Return filters by the values that are named; of those that are excluded, one a column."""
        s = self.s
        excluded: dict[str, list[FilterValue]] = {}
        for mention in s.mentions:
            places, meaning = set(mention.places), mention.meanings[0]
            beside = {s.stem(s.back(mention.first, BE, ARTICLES)), s.stem(mention.last + 1)}
            called = any(word_key([part]) in beside for part in parts(meaning.field))  # "rated R"
            if (mention.shy and not called) or not places.isdisjoint(self.used | self.dated):
                continue
            naming = {s.at(n) for n in range(mention.first) if _key(s.at(n)) in map(_key, parts(meaning.field))}
            before = s.back(mention.first, *_OVER, PREPOSITIONS, frozenset({"come", "comes"} | naming))
            if self._negated(before if before in self.linking else before + 1):
                excluded.setdefault(meaning.field, []).extend(mention.values(meaning))
                yield [], places
            else:
                yield [DocumentFilter(field=meaning.field, op="in", value=mention.values(meaning))], places
        self.conditions += len(excluded)
        for name, values in excluded.items():
            # Rows of other tables have no such column: what isn't from A is from one of the others.
            told = s.vocabulary.fields[name]
            parting = bool(self.nouns) and name not in s.vocabulary.several
            others: list[FilterValue] = [value for value in told.values if value not in values and parting]
            others = [False] if told.type == "boolean" else others
            yield [DocumentFilter(field=name, op="in" if others else "not_in", value=list(others or values))], set()


def _key(word: str) -> str:
    return word_key([word])
