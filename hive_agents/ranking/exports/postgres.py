"""PostgreSQL with pgvector: one SQL function that does a whole search except reranking."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count, islice

import numpy as np

from hive_agents.documents import date_bound, function_terms, is_exact, proposals, spoken_language
from hive_agents.ranking.exports.contents import Content
from hive_agents.ranking.exports.plan import Difference, ExportPlan, Parts
from hive_agents.ranking.exports.postgres_terms import terms_sql
from hive_agents.ranking.lift import MOST, lift_weight

_ROWS = 50
_OPERATORS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


def parts(plan: ExportPlan) -> Parts:
    name = function_name(plan.config.name)
    given = "asked text, reader text[]" + (f", meant vector({plan.index.dimensions})" if plan.vector else "")
    body = _body(plan)
    # No value of the config may end the function's body.
    mark = next(mark for mark in map("$hive{}$".format, count()) if mark not in body)
    query = _FUNCTION.format(name=name, given=given, config=plan.config.name, body=body, columns=_COLUMNS, mark=mark)
    arguments = "asked => %(query)s, reader => %(reader)s" + (", meant => %(embedding)s" if plan.vector else "")
    return Parts(
        texts={"schema.sql": _schema(plan), "query.sql": query},
        data={"chunks.sql": lambda found: _inserts(plan, found)},
        request=f"SELECT * FROM hive.{name}({arguments})",
        differences=tuple(_differences(plan)),
        factors=("boosts", "lift"),
    )


def function_name(config: str) -> str:
    """Return the name of a config's function; names that differ only in punctuation share one.

    >>> function_name("v2-half.life")
    'search_v2_half_life'
    """
    return "search_" + re.sub(r"[^a-z0-9]", "_", config)[:56]


def _differences(plan: ExportPlan) -> Iterator[Difference]:
    if not plan.keyword:
        yield Difference("retrieval.method", "a question without any word is searched for too")
    if plan.vector:
        yield Difference("retrieval.method", "distances are pgvector's, in 32 bits: near ties may change places")
    yield Difference("retrieval", "words are stemmed by PostgreSQL's own Snowball, which may be of another release")


_COLUMNS = (
    "rank bigint, chunk_id text, doc_id text, title text, body text, score double precision,\n"
    "  bm25_rank bigint, vector_rank bigint, flagged boolean"
)

_FUNCTION = """SET standard_conforming_strings = on;
-- The config "{config}" as a function. Run schema.sql first, then chunks.sql, then this file.
DROP FUNCTION IF EXISTS hive.{name};
CREATE FUNCTION hive.{name}({given})
RETURNS TABLE ({columns})
LANGUAGE sql STABLE AS {mark}
{body}
{mark};
"""

_SCHEMA = """SET standard_conforming_strings = on;
-- What the function of query.sql needs. The database has to know letters beyond ASCII.
DO $hive$ BEGIN
  IF 'é' !~ '^[[:alnum:]]$' OR lower('É') <> 'é' THEN
    RAISE EXCEPTION 'letters beyond ASCII are unknown here: create the database with a UTF-8 locale, such as C.UTF-8';
  END IF;
END $hive$;
{extension}CREATE SCHEMA IF NOT EXISTS hive;

{terms}
CREATE TABLE hive.chunk (
  chunk_id text COLLATE "C" PRIMARY KEY,
  doc_id text COLLATE "C" NOT NULL,
  title text NOT NULL,
  heading text NOT NULL,
  body text NOT NULL,
  readers text[] NOT NULL,
{columns}  length integer NOT NULL DEFAULT 0
);
CREATE INDEX ON hive.chunk USING gin (readers);

CREATE TABLE hive.posting (
  term text COLLATE "C" NOT NULL,
  chunk_id text COLLATE "C" NOT NULL REFERENCES hive.chunk ON DELETE CASCADE,
  in_body integer NOT NULL,
  in_title integer NOT NULL,
  PRIMARY KEY (term, chunk_id)
);
CREATE INDEX ON hive.posting (chunk_id);

-- Postings and lengths follow the chunks, whoever writes these.
CREATE FUNCTION hive.post_words() RETURNS trigger LANGUAGE plpgsql AS $hive$
BEGIN
  DELETE FROM hive.posting WHERE chunk_id = NEW.chunk_id;
  WITH posted AS (
    INSERT INTO hive.posting
      SELECT term, NEW.chunk_id, sum(in_body), sum(in_title) FROM (
        SELECT term, 1 AS in_body, 0 AS in_title FROM hive.terms(NEW.heading || E'\\n' || NEW.body) AS term
        UNION ALL SELECT term, 0, 1 FROM hive.terms(NEW.title) AS term) AS found
      GROUP BY term RETURNING in_body + in_title AS times
  ) UPDATE hive.chunk SET length = (SELECT coalesce(sum(times), 0) FROM posted) WHERE chunk_id = NEW.chunk_id;
  RETURN NULL;
END $hive$;
CREATE TRIGGER post_words AFTER INSERT OR UPDATE OF title, heading, body ON hive.chunk
  FOR EACH ROW EXECUTE FUNCTION hive.post_words();
"""


def _schema(plan: ExportPlan) -> str:
    fields = plan.index.collection.fields
    columns = ""
    for name in plan.index.collection.filterable:
        columns += f'  {_column(name)} text[] COLLATE "C" NOT NULL,\n'
        if fields[name].type == "number":
            columns += f"  {_column(name, 'numbers')} double precision[] NOT NULL,\n"
        if fields[name].type == "date":
            columns += f"  {_column(name, 'newest')} double precision,\n"
    if plan.index.embedding_model is not None:
        columns += f"  embedding vector({plan.index.dimensions}),\n"
    return _SCHEMA.format(
        extension="CREATE EXTENSION IF NOT EXISTS vector;\n" if plan.index.embedding_model is not None else "",
        terms=terms_sql(plan.index.language),
        columns=columns,
    )


def _body(plan: ExportPlan) -> str:
    config, retrieval = plan.config, plan.config.retrieval
    steps = _lane_steps(plan) | {"fused": _fused(plan)}
    kept = "fused"
    if config.abstain.min_cosine is not None:
        nearest = f"(SELECT max(score) FROM vector) >= {_number(config.abstain.min_cosine)}"
        steps["near_enough"] = f"SELECT * FROM {kept} WHERE {nearest}"
        kept = "near_enough"
    if retrieval.per_document is not None:
        nth = "row_number() OVER (PARTITION BY doc_id ORDER BY score DESC, chunk_id)"
        steps["counted"] = f"SELECT *, {nth} AS nth FROM {kept}"
        steps["thinned"] = f"SELECT * FROM counted WHERE nth <= {retrieval.per_document}"
        kept = "thinned"
    steps["ranked"] = f"SELECT *, row_number() OVER (ORDER BY score DESC, chunk_id) AS place FROM {kept}"
    end = f"place <= {plan.limit}"
    if config.dynamic_k.enabled:
        steps |= _cliff(plan)
        end += " AND place < coalesce((SELECT place FROM cliff), place + 1)"
    with_ = ",\n".join(f"  {name} AS (\n    {text}\n  )" for name, text in steps.items())
    # `visible` is read many times; without MATERIALIZED the planner may recompute it each time.
    with_ = with_.replace("  visible AS (", "  visible AS MATERIALIZED (", 1)
    shown = ", ".join(f"{lane}_place" if lane in _lanes(plan) else "NULL::bigint" for lane in ("keyword", "vector"))
    return (
        f"WITH\n{with_}\nSELECT place, chunk_id, doc_id, title, body, score, {shown}, {_flagged(plan)}\n"
        f"FROM ranked WHERE {end} ORDER BY place"
    )


def _lanes(plan: ExportPlan) -> list[str]:
    return [*(["keyword"] if plan.keyword else []), *(["vector"] if plan.config.retrieval.vector else [])]


def _lane_steps(plan: ExportPlan) -> dict[str, str]:
    """From the chunks that the reader may see, whose statistics count, to the places in each lane."""
    config, retrieval = plan.config, plan.config.retrieval
    steps = {
        "visible": "SELECT * FROM hive.chunk AS chunk WHERE chunk.readers && reader",
        "allowed": f"SELECT * FROM visible WHERE {_filters(plan)}",
    }
    if plan.keyword:
        steps |= _words(plan)
    if lift_weight(config, plan.index.language):
        steps |= _names(plan)
    if config.boosts:
        steps |= _asked_for(plan)
    if plan.vector:
        depth = retrieval.candidates if retrieval.vector else 1
        steps["vector"] = (
            "SELECT chunk_id, 1 - (embedding <=> meant) AS score FROM allowed WHERE embedding IS NOT NULL\n"
            f"    ORDER BY score DESC, chunk_id LIMIT {depth}"
        )
    for lane in _lanes(plan):
        place = "row_number() OVER (ORDER BY score DESC, chunk_id)"
        steps[f"{lane}_lane"] = f"SELECT chunk_id, {place} AS place FROM {lane}"
    return steps


def _words(plan: ExportPlan) -> dict[str, str]:
    """BM25 as the index computes it, in 32 bits, rare words first, so that near ties are the same."""
    bm25 = plan.config.bm25
    k1, b = _number(bm25.k1), _number(bm25.b)
    tf = f"posting.in_body + {_number(bm25.title_boost)} * posting.in_title"
    return {
        "corpus": "SELECT count(*)::float8 AS n, avg(length)::float8 AS mean FROM visible",
        "asked_terms": "SELECT term, count(*) AS times FROM hive.terms(asked) AS term GROUP BY term",
        "found": (
            f"SELECT term, visible.chunk_id, times, length, {tf} AS tf\n"
            "    FROM asked_terms JOIN hive.posting USING (term) JOIN visible USING (chunk_id)\n"
            f"    WHERE {tf} > 0"
        ),
        "weighed": (
            "SELECT term, count(*) AS df, ln(1 + (n - count(*) + 0.5) / (count(*) + 0.5)) AS idf\n"
            "    FROM found, corpus GROUP BY term, n"
        ),
        "impacts": (
            "SELECT chunk_id, term, df, times::real\n"
            f"      * (idf * tf / (tf + {k1} * (1 - {b} + {b} * found.length / mean)))::real AS impact\n"
            "    FROM found JOIN weighed USING (term) JOIN allowed USING (chunk_id), corpus"
        ),
        "keyword": (
            "SELECT chunk_id, sum(impact ORDER BY df, term) AS score FROM impacts GROUP BY chunk_id\n"
            f"    ORDER BY score DESC, chunk_id LIMIT {plan.config.retrieval.candidates}"
        ),
    }


def _names(plan: ExportPlan) -> dict[str, str]:
    """As `lift.name_shares`, with the function words of the index's language alone."""
    exact, weight = "", "idf"
    if is_exact(plan.index.language):
        whole = "SELECT hive.exact_writings(hive.lowered(asked)) UNION SELECT hive.humped(asked)"
        exact = f" OR term IN ({whole})"
        weight = f"idf * CASE WHEN term IN ({whole}) THEN 2 ELSE 1 END"
    small = function_terms(plan.index.language, spoken_language("", plan.index.language))
    return {
        "small": f"SELECT unnest({_texts(sorted(small))}) AS term",
        "content": (
            "SELECT * FROM weighed WHERE term NOT IN (SELECT term FROM small)\n"
            "      OR NOT EXISTS (SELECT term FROM asked_terms EXCEPT SELECT term FROM small)"
        ),
        "known": "SELECT sum(idf ORDER BY term) AS total FROM content",
        "names": (
            f"SELECT term, {weight} AS weight, total FROM content, known\n"
            f"    WHERE term ~ '[0-9]' OR idf >= {MOST} * total{exact}"
        ),
        "named": (
            "SELECT chunk_id, sum(weight ORDER BY term) / total AS part FROM (\n"
            "      SELECT term, chunk_id FROM found\n"
            "      UNION ALL SELECT names.term, chunk_id FROM names\n"
            "        JOIN hive.posting ON posting.term = '=' || names.term JOIN visible USING (chunk_id)\n"
            "    ) AS has JOIN names USING (term)\n"
            "    GROUP BY chunk_id, total"
        ),
    }


def _asked_for(plan: ExportPlan) -> dict[str, str]:
    """As `LaneIndex.named`: the boosted fields of which the question names a value."""
    collection = plan.index.collection
    fields = {name: collection.fields[name] for name in plan.config.boosts}
    values, phrases = [], ["SELECT field, value AS phrase FROM known_values"]
    for name, schema in fields.items():
        value = _text(name.replace("_", " ")) if schema.type == "boolean" else "value"
        values.append(f"SELECT {_text(name)} AS field, {value} AS value FROM visible, unnest({_column(name)}) AS value")
        if schema.type == "date":
            phrases.append(f"SELECT field, left(value, 4) FROM known_values WHERE field = {_text(name)}")
        for known, names in schema.synonyms.items():
            where = f"field = {_text(name)} AND value = {_text(known)}"
            phrases.append(f"SELECT field, unnest({_texts(names)}) FROM known_values WHERE {where}")
    dates = [_column(name) for name in collection.filterable if collection.fields[name].type == "date"]
    phrase = "(SELECT string_agg(word, ' ') FROM hive.words(hive.lowered(phrase)) AS word)"
    return {
        "said": "SELECT string_agg(word, ' ') AS words FROM hive.words(hive.lowered(asked)) AS word",
        "known_values": "\n    UNION ".join(values),
        "value_names": "\n    UNION ".join(phrases),
        "years": (
            "SELECT min(left(value, 4)::integer) AS oldest, max(left(value, 4)::integer) AS newest\n"
            f"    FROM visible, unnest({' || '.join(dates) or 'ARRAY[]::text[]'}) AS value"
        ),
        "phrases": (
            "SELECT field, phrase FROM value_names\n"
            "    UNION SELECT field, generate_series(oldest, newest - 1)::text FROM value_names, years\n"
            f"    WHERE lower(phrase) = ANY ({_texts(sorted(proposals.NO_LONGER))})"
        ),
        "asked_for": (
            "SELECT DISTINCT field FROM phrases, said\n"
            f"    WHERE position(' ' || {phrase} || ' ' IN ' ' || words || ' ') > 0"
        ),
    }


def _flagged(plan: ExportPlan) -> str:
    detection, absent = plan.config.distraction_detection, plan.config.retrieval.candidates + 1
    if not detection.enabled or len(_lanes(plan)) < 2:
        return "false"
    ranks = f"coalesce(keyword_place, {absent}), coalesce(vector_place, {absent})"
    return f"1 - least({ranks})::float8 / greatest({ranks}) > {_number(detection.disagreement_threshold)}"


def _fused(plan: ExportPlan) -> str:
    lanes, k = _lanes(plan), plan.config.retrieval.rrf_k
    sums = " + ".join(
        f"coalesce({_number(weight)} / ({k} + {lane}_lane.place), 0)"
        for lane, weight in zip(lanes, plan.weights, strict=True)
    )
    boosts = [
        f"CASE WHEN {_column(name)} && {_texts([value])} AND {_unasked(name)} THEN {_number(factor)} ELSE 1 END"
        for name, factors in plan.factors.items()
        for value, factor in factors.items()
    ]
    for name, age in plan.ages.items():
        days = f"greatest({_number(age.reference)} - {_column(name, 'newest')}, 0)"
        # `greatest` passes over NULL: a document without a date has no age, and the factor 1.
        factor = f"power(0.5::float8, {days} / {_number(age.half_life)})"
        boosts.append(f"CASE WHEN {_unasked(name)} THEN {factor} ELSE 1 END")
    lift = lift_weight(plan.config, plan.index.language)
    if lift:
        boosts.append(f"(1 + {_number(lift)} * coalesce(named.part * (1 + named.part), 0))")
    score = "\n      * ".join([f"({sums})", *boosts])
    places = ", ".join(f"{lane}_lane.place AS {lane}_place" for lane in lanes)
    joined = " FULL JOIN ".join(f"{lane}_lane" for lane in lanes) + (" USING (chunk_id)" if len(lanes) > 1 else "")
    joined += " JOIN visible USING (chunk_id)" + (" LEFT JOIN named USING (chunk_id)" if lift else "")
    return f"SELECT chunk_id, doc_id, title, body, {places},\n      {score} AS score\n    FROM {joined}"


def _unasked(field: str) -> str:
    return f"{_text(field)} NOT IN (SELECT field FROM asked_for)"


def _cliff(plan: ExportPlan) -> dict[str, str]:
    dynamic, k = plan.config.dynamic_k, plan.config.retrieval.rrf_k
    step = " + ".join(f"{_number(w)} * (1.0 / ({k} + place - 1) - 1.0 / ({k} + place))" for w in plan.weights)
    return {
        "gaps": "SELECT place, lag(score) OVER (ORDER BY place) - score AS gap FROM ranked",
        "means": (
            "SELECT place, gap, sum(gap) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
            " / nullif(place - 2, 0) AS mean FROM gaps"
        ),
        "cliff": (
            "SELECT min(place) AS place FROM means\n"
            f"    WHERE place <= {plan.limit} AND place > {max(2, dynamic.min_results)}"
            f" AND gap > {_number(dynamic.gap_threshold_factor)} * greatest(mean, {step})"
        ),
    }


def _filters(plan: ExportPlan) -> str:
    tests = []
    for name, wanted in plan.config.conditions.items():
        column = _column(name)
        if wanted.include is not None:
            tests.append(f"{column} && {_texts(plan.filter_texts(name, wanted.include))}")
        if wanted.exclude:
            tests.append(f"NOT {column} && {_texts(plan.filter_texts(name, wanted.exclude))}")
        for operator, bound in wanted.bounds:
            if plan.is_date(name):
                operator, day = date_bound(operator, bound)
                values, limit = column, _text(day)
            else:
                values, limit = _column(name, "numbers"), _number(float(bound))
            tests.append(f"EXISTS (SELECT FROM unnest({values}) AS one WHERE one {_OPERATORS[operator]} {limit})")
    return " AND ".join(tests) or "true"


def _inserts(plan: ExportPlan, found: Iterator[Content]) -> Iterator[str]:
    fields = plan.index.collection.fields
    columns = ["chunk_id", "doc_id", "title", "heading", "body", "readers"]
    for name in plan.index.collection.filterable:
        columns.append(_column(name))
        if fields[name].type == "number":
            columns.append(_column(name, "numbers"))
        if fields[name].type == "date":
            columns.append(_column(name, "newest"))
    if plan.index.embedding_model is not None:
        columns.append("embedding")
    yield "SET standard_conforming_strings = on;\nBEGIN;\nDELETE FROM hive.chunk;\n"
    while rows := list(islice(found, _ROWS)):
        values = ",\n".join(f"({', '.join(_row(plan, content))})" for content in rows)
        yield f"INSERT INTO hive.chunk ({', '.join(columns)}) VALUES\n{values};\n"
    yield "COMMIT;\nANALYZE hive.chunk;\nANALYZE hive.posting;\n"


def _row(plan: ExportPlan, content: Content) -> Iterator[str]:
    chunk = content.chunk
    yield from map(_text, (chunk.chunk_id, chunk.doc_id, chunk.title, chunk.ancestors, chunk.text))
    yield _texts(content.readers)
    for name in plan.index.collection.filterable:
        kind = plan.index.collection.fields[name].type
        yield _texts(content.values[name])
        if kind == "number":
            yield f"ARRAY[{', '.join(map(_number, content.numbers[name]))}]::double precision[]"
        if kind == "date":
            yield _number(content.newest[name]) if name in content.newest else "NULL"
    if plan.index.embedding_model is not None:
        vector = np.zeros(0) if chunk.vector is None else chunk.vector
        yield f"'[{','.join(f'{value:.9g}' for value in vector.tolist())}]'"


def _column(field: str, kind: str = "field") -> str:
    return '"' + f"{kind}:{field}".replace('"', '""') + '"'


def _text(value: str) -> str:
    # PostgreSQL's text can't contain NUL.
    return "'" + value.replace("'", "''").replace("\0", " ") + "'"


def _texts(values: Iterable[str]) -> str:
    return f"ARRAY[{', '.join(map(_text, values))}]::text[]"


def _number(value: float) -> str:
    return f"{float(value)!r}::float8"
