"""The analyzer as SQL functions of PostgreSQL: `hive.terms` gives the terms of `documents.terms`."""

from __future__ import annotations

from hive_agents.documents import analysis, is_exact, language_of

_WORD = "'[[:alnum:]][[:alnum:]' || hive.marks() || ']*(?:[''’][[:alpha:]][[:alpha:]' || hive.marks() || ']*)?'"
_JOINERS = r"U&'\200C\200D'"
# Our own patterns are of Perl's kind, where the first alternative that fits counts: here it is the longest.
_HUMP = "'[a-z][A-Z]|[A-Z]{2}[a-z]{2}'"
_PART = "'[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+'"
_RUN = r"'[[:alnum:]]+(?:[._/:@,\\+-]+[[:alnum:]]+)+'"
_SIGNED = (
    r"'(?<![[:alnum:]])(?:[a-z](?:\+\+|#)|\.net)(?![[:alnum:]])"
    r"|(?<![[:alnum:]_!-])--[a-z\d][a-z\d-]{0,37}[a-z\d](?![[:alnum:]_-])'"
)
_SUBJECT = (
    r"'^[ \t>]*(?:\|[ \t]*|#{1,6}[ \t]+|[*+-][ \t]+|(?=\*))[*`\\]*(-{0,2}[[:alnum:]][^\s|*`()]{0,39})"
    r"(?:[*`]+|[ \t]*(?=[|(:=–—]|$))'"
)

_STEM = """DROP TEXT SEARCH DICTIONARY IF EXISTS hive.stem CASCADE;
CREATE TEXT SEARCH DICTIONARY hive.stem (TEMPLATE = snowball, Language = {language});
"""

_WORDS = r"""-- In compatibility form and lower case.
CREATE OR REPLACE FUNCTION hive.lowered(body text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  SELECT CASE WHEN octet_length(body) = length(body) THEN lower(body) ELSE lower(regexp_replace(
    replace(normalize(body, NFKC), 'İ', U&'i\0307'), '(?<=[[:alpha:]])Σ(?![[:alpha:]])', 'ς', 'g')) END
$hive$;

{dictionary}-- No index takes more than 2,700 bytes: a long run of letters, such as an image's, is cut.
CREATE OR REPLACE FUNCTION hive.stemmed(word text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$ SELECT left({stem}, 400) $hive$;

-- The combining marks of letters, as a set.
CREATE OR REPLACE FUNCTION hive.marks() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$ SELECT '{marks}' $hive$;

CREATE OR REPLACE FUNCTION hive.words(body text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  SELECT translate(found[1], {joiners}, '')
  FROM regexp_matches(body, {word}, 'g') AS found
$hive$;

-- A word of a script without spaces: its signs and their pairs, or the pairs of its clusters.
CREATE OR REPLACE FUNCTION hive.parts(word text) RETURNS SETOF text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $hive$
DECLARE
  part text;
  pieces text[];
BEGIN
  FOR part IN
    SELECT hit[1] FROM regexp_matches(word, '{signs}+|{letters}+|{others}+', 'g') AS hit
  LOOP
    IF part ~ '^{signs}' THEN
      pieces := string_to_array(part, NULL);
      RETURN QUERY SELECT unnest(pieces);
    ELSIF part ~ '^{letters}' THEN
      pieces := ARRAY(SELECT hit[1] FROM regexp_matches(part, {cluster}, 'g') AS hit);
      IF cardinality(pieces) = 1 THEN
        RETURN NEXT part;
      END IF;
    ELSE
      pieces := NULL;
      RETURN NEXT hive.stemmed(part);
    END IF;
    RETURN QUERY SELECT pieces[nth] || pieces[nth + 1] FROM generate_series(1, cardinality(pieces) - 1) AS nth;
  END LOOP;
END $hive$;

"""

_EXACT = r"""-- Of a run such as foo_bar or CVE-2024-1234 what it is written together, C++ and --dry-run.
CREATE OR REPLACE FUNCTION hive.exact_writings(lowered text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  WITH run AS (
    SELECT found[1] AS run FROM regexp_matches(lowered, {run}, 'g') AS found
    WHERE length(found[1]) <= 40 AND found[1] ~ '[0-9_.]|::'
  ), parted AS (
    SELECT regexp_replace(regexp_replace(run, '(?<=[0-9]),(?=[0-9]{{3}}(?![0-9]))', '', 'g'),
      '(?<=[0-9])[.,]+(?=[0-9])', ' ', 'g') AS run FROM run
  ), joined AS (
    SELECT translate(regexp_replace(run, '[._/:@,\\+-]+', '', 'g'), ' ', '.') AS run FROM parted
  )
  SELECT hive.stemmed(regexp_replace(run, '^v(?=[0-9])', '')) FROM joined
  UNION ALL SELECT found[1] FROM regexp_matches(lowered, {signed}, 'g') AS found
$hive$;

-- What rows, headings and items are about, by what they begin with.
CREATE OR REPLACE FUNCTION hive.subjects(lowered text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  SELECT '=' || min(named) FROM regexp_matches(lowered, {subject}, 'gn') WITH ORDINALITY AS line(name, place),
    LATERAL (SELECT written FROM hive.exact_writings(name[1]) AS written
      UNION ALL SELECT part FROM hive.words(name[1]) AS word, hive.parts(word) AS part
        WHERE NOT EXISTS (SELECT FROM hive.exact_writings(name[1]))) AS found(named)
  GROUP BY place HAVING count(*) = 1
$hive$;

-- A word of Latin, Greek or Cyrillic letters without their accents, and its parts in camelCase.
CREATE OR REPLACE FUNCTION hive.other_writings(word text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  WITH word AS (SELECT hive.lowered(word) AS lowered), plain AS (
    SELECT lowered, replace(replace(replace(translate(normalize(regexp_replace(normalize(lowered, NFD),
      '([\u0001-\u02ff\u0370-\u0482\u0488-\u052f\u1e00-\u1fff])[\u0300-\u034e\u0350-\u036f\u0483-\u0487]+', '\1', 'g'
      ), NFC), 'øłıđ', 'olid'), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe') AS plain FROM word
  )
  SELECT hive.stemmed(plain) FROM plain WHERE plain <> lowered
  UNION ALL SELECT hive.stemmed(lower(found[1])) FROM regexp_matches(word, {part}, 'g') AS found WHERE word ~ {hump}
$hive$;

-- The words of a question in camelCase, whole.
CREATE OR REPLACE FUNCTION hive.humped(body text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $hive$
  SELECT hive.stemmed(hive.lowered(word)) FROM hive.words(normalize(body, NFKC)) AS word WHERE word ~ {hump}
$hive$;

"""

_TERMS = r"""-- The terms of the index, with repeats. ROWS: those of a question, by which the planner looks postings up.
CREATE OR REPLACE FUNCTION hive.terms(body text) RETURNS SETOF text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE ROWS 10 AS $hive$
DECLARE lowered text := hive.lowered(body);
BEGIN
  IF body ~ '{signs}|{letters}' THEN
    RETURN QUERY SELECT part FROM hive.words(lowered) AS word, hive.parts(word) AS part;
  ELSE
    RETURN QUERY SELECT hive.stemmed(word) FROM hive.words(lowered) AS word;
  END IF;
{exact}END $hive$;
"""

_MORE = r"""  IF octet_length(body) > length(body) OR body ~ {hump} THEN
    RETURN QUERY SELECT other FROM hive.words(normalize(body, NFKC)) AS word, hive.other_writings(word) AS other
      WHERE octet_length(word) > length(word) OR word ~ {hump};
  END IF;
  RETURN QUERY SELECT written FROM hive.exact_writings(lowered) AS written;
  RETURN QUERY SELECT about FROM hive.subjects(lowered) AS about;
"""


def terms_sql(analyzer: str) -> str:
    """Return the statements that make `hive.terms`, which gives the terms of the analyzer."""
    language, marks = language_of(analyzer), analysis.scripts()["mark"][1:-1]
    plain = "replace(word, '’', '''')"
    stemmed = language != "none"
    patterns = {
        "marks": marks,
        "signs": analysis.scripts()["signs"],
        "letters": analysis.scripts()["letters"],
        "others": f"[^{analysis.scripts()['signs'][1:-1]}{analysis.scripts()['letters'][1:-1]}]",
        "cluster": "'" + analysis.scripts()["cluster"].replace(marks, "' || hive.marks() || '") + "'",
        "word": _WORD,
        "joiners": _JOINERS,
        "hump": _HUMP,
        "part": _PART,
        "run": _RUN,
        "signed": _SIGNED,
        "subject": _SUBJECT,
    }
    words = _WORDS.format(
        dictionary=_STEM.format(language=language) if stemmed else "",
        stem=f"coalesce((ts_lexize('hive.stem', {plain}))[1], {plain})" if stemmed else plain,
        **patterns,
    )
    exact = _EXACT.format(**patterns) if is_exact(analyzer) else ""
    more = _MORE.format(**patterns) if is_exact(analyzer) else ""
    return words + exact + _TERMS.format(exact=more, **patterns)
