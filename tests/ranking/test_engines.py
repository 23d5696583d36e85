"""Exports in real engines: what they find is what we find, on the sample and on texts that nobody here wrote."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hive_agents import Workspace
from hive_agents.access import AccessLabels, AccessRules, Principal, known_principal, owner
from hive_agents.documents import terms
from hive_agents.evaluation import load_golden
from hive_agents.index import SqliteIndex
from hive_agents.ranking import RetrievalConfig, SearchEngine
from hive_agents.ranking.exports import Export, export, filled, values_for
from hive_agents.ranking.exports.postgres_terms import terms_sql
from tests.readmes import readmes, summaries
from tests.real_engines import OpenSearch, Postgres, jdk, opensearch, postgres, quoted
from tests.sample import indexed_sample

pytestmark = pytest.mark.slow

KB = "knowledge-base"
CONFIGS: dict[str, dict[str, Any]] = {
    "hybrid": {"retrieval": {"method": "hybrid", "top_k": 10}},
    "words": {"retrieval": {"method": "keyword", "top_k": 10}, "bm25": {"k1": 0.9, "b": 0.4, "title_boost": 2.5}},
    "meaning": {"retrieval": {"method": "vector", "top_k": 10}},
    "everything": {
        "retrieval": {
            "method": "hybrid",
            "top_k": 10,
            "candidates": 50,
            "per_document": 1,
            "weights": {"keyword": 1.0, "vector": 2.0},
        },
        "filters": {"status": {"not": ["retired"]}, "updated": {"gte": "2020-01-01"}},
        "boosts": {"category": {"faqs": 0.5, "api-docs": 1.3}, "updated": {"half_life_days": 300}},
    },
    "current": {
        "retrieval": {"method": "hybrid", "top_k": 10},
        "boosts": {"status": {"retired": 0.3}, "updated": {"half_life_days": 2000}},
    },
    "plain": {"retrieval": {"method": "keyword", "top_k": 10}},
    "thinned": {
        "retrieval": {"method": "keyword", "top_k": 10, "per_document": 1},
        "filters": {"status": {"not": ["retired"]}, "category": ["sops", "faqs"], "updated": {"gte": "2020-01-01"}},
    },
    "unlifted": {"retrieval": {"method": "hybrid", "top_k": 10}, "lift": {"weight": 0.0}},
    "cut": {
        "retrieval": {"method": "hybrid", "top_k": 10},
        "dynamic_k": {"enabled": True, "gap_threshold_factor": 2.0, "min_results": 2, "max_results": 8},
        "distraction_detection": {"enabled": True},
        "abstain": {"min_cosine": 0.35},
    },
}
CONFIGS["everything_unlifted"] = CONFIGS["everything"] | {"lift": {"weight": 0.0}}
ODD = (
    *("", "...", "_", "A", "é", "日", "日本", "ก", "-5 +5 5- --flag --dry-run=1", "1st 2nd 3rd 10th b2b H2O"),
    *("Zoë's getUserById in C++ v3.14.2", "Node.js, ABC-42, v1.20, 1,234.5 and std::vector; C# on .NET; well-known"),
    *("1,234,567.89 and 1,23 and 12,345", "10,000 1.000.000 3,14 1,2,3", "1..2 1.,2 1.-2 1-.2 1.2.", "CVE-2024-1234"),
    *("foo_bar a_b_c __init__", "HTTPServer parseXMLDoc iPhone XMLHttpRequest2 ABc AB1", "fooBar's HTTPServer’s"),
    *("Straße Øre Łódź ısı Đorđe Ægir œuvre ẞ", "café naïve résumé ÀÉÎõü ÀB ÉcoleABc", "İstanbul I ı", "Ǆ ǆ ĳ ŉ ſ K Å"),
    *("Ελλάδα ΟΔΟΣ Ὀδυσσεύς Σ", "ёлка Йод їжак Київ", "हिन्दी में लिखा हुआ क्\u200dष", "ล้างหน้าจอ ไทย"),
    *("API数组的 東京都 カタカナ ガ", "x日y1 日_本_1", "မြန်မာ ភាសាខ្មែរ ລາວ", "한국어 검색", "Việt Nam tiếng"),
    *("ﬁne ﬂow ① ½ x² ª Ⅷ ⅷ", "it's they’re O'Reilly l’été d'État don't can’t", "a.b.c.d 192.168.0.1:8080"),
    *("C:\\Users\\me/path\\to.txt a\\b_c", "user@example.com https://example.com/a/b?c=d&e=f_g", "x\u200dy"),
    *(f"{'a' * 30}_{'b' * size}" for size in (8, 9, 10)),
    *("F# c# C++ x++ i++; c++11 .net .NETCore asp.net", "v1 v2.0 V3.1.4 vfoo_bar v.1", "std::vector<int> a::b ::x"),
    "--code (--dry-run) `--no-x`=1 a--b <!--c --d_e ---f --g- --üb",
    "| `max_tokens` | 5 |\n# Keys\n- **--code** hex\n> **Note:** x\n####x\n* maxRetries = 3\n|日本|\n+ ab: c\n- [x](y)",
    *("snake_case_name camelCaseName PascalCase SCREAMING_SNAKE", "ABCdef ABCDef aB ŁódźFoo éCole getÉtat"),
    *("e\u0301cole e\u0301-1 cafe\u0301", "\u0301abc", "שָׁלוֹם עולם א\u0301", "العَرَبِيَّة", "ﷺ", "𝐁𝐨𝐥𝐝 𝟏𝟐"),
    *("2024-01-31T10:20:30Z $1,234.50 €9.99 50% a+b=2 c+1", "\U0001f600 smile ☺️ 1️⃣", "naïveTest_1 café_2 a,b,c"),
)


def config(name: str, collection: str = KB) -> RetrievalConfig:
    return RetrievalConfig.model_validate({"name": name, "collection": collection} | CONFIGS[name])


VALUES: dict[Any, list[dict[str, Any]]] = {}
"""The questions' parameters, which are the same for many configs: each question is embedded once."""


@cache
def opened(root: Path, collection: str, who: Principal) -> tuple[SearchEngine, Any]:
    """An engine, and what the reader may see of its index."""
    search = Workspace(root).engine()
    index = search.index(collection)
    if who == owner():
        return search, index
    labels = [(doc_id, AccessLabels.of(front)) for doc_id, front in index.front_matter()]
    return search, index.within(AccessRules.load(search.workspace).visible(who, labels))


class Asked:
    """One export with what we find ourselves for the same questions."""

    def __init__(
        self, place: Workspace, program: RetrievalConfig, engine: str, who: Principal, questions: Sequence[str] = ()
    ) -> None:
        search, scope = opened(place.root, program.collection, who)
        self.index: SqliteIndex = search.index(program.collection)
        self.program, self.who = program, who
        self.made: Export = export(place, self.index, program, engine)
        golden = place.root / "evals" / "golden.json"
        found = [one.query for one in load_golden(place, None)] if golden.exists() else summaries(place)
        self.questions = list(questions) or found[:60]
        self.visible = set(scope.doc_ids())
        self.ours = [scope.chunk_ids(one.returned) for one in search.run_on(scope, self.questions, program)]

    @property
    def values(self) -> Iterator[dict[str, Any]]:
        key = (self.made.index_hash, self.who, self.made.parameters, *self.questions)
        if key not in VALUES:
            VALUES[key] = [values_for(self.made, self.index, question, self.who) for question in self.questions]
        return map(dict, VALUES[key])

    def overlap(self, theirs: Sequence[Sequence[str]]) -> float:
        """The mean share of the longer list that is in both."""
        pairs = [(set(a), set(b)) for a, b in zip(self.ours, theirs, strict=True)]
        return sum(len(a & b) / max(len(a), len(b), 1) if a or b else 1.0 for a, b in pairs) / len(pairs)

    def identical(self, theirs: Sequence[Sequence[str]]) -> float:
        return sum(list(a) == list(b) for a, b in zip(self.ours, theirs, strict=True)) / len(self.ours)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


def in_postgres(server: Postgres, asked: Asked) -> list[list[str]]:
    server.run(asked.made.texts["query.sql"])
    function = asked.made.request.partition("hive.")[2].partition("(")[0]
    return [[row["chunk_id"] for row in rows] for rows in server.ask(function, list(asked.values))]


def load(server: Postgres, asked: Asked) -> None:
    """Fill the server from the export, unless it was by an export of the same index."""
    if server.run("SELECT obj_description(to_regnamespace('hive'))").strip() == asked.made.index_hash:
        return
    server.run("DROP SCHEMA IF EXISTS hive CASCADE;")
    server.run(asked.made.texts["schema.sql"])
    server.run("".join(asked.made.data["chunks.sql"]()))
    server.run(f"COMMENT ON SCHEMA hive IS '{asked.made.index_hash}'")


def test_postgresql_gives_the_terms_of_the_index(database: Postgres) -> None:
    """All of them, where nothing is stemmed; its stemmer of another release stems one word in five hundred otherwise.

    Of the descriptions each fifth chunk is enough: they are read again for the postings.
    """
    place = readmes()
    chunks = list(place.engine().index(place.engine().resolve(None).collection).stored())
    for analyzer, texts, least in (
        ("none+", (*ODD, *(chunk.text for chunk in chunks[::5])), 1.0),
        ("english+", ODD, 0.98),
        ("german", ODD, 0.98),
    ):
        database.run(f"DROP SCHEMA IF EXISTS hive CASCADE; CREATE SCHEMA hive;\n{terms_sql(analyzer)}")
        asked = (f"SELECT coalesce(json_agg(term), '[]') FROM hive.terms({quoted(text)}) AS term;" for text in texts)
        theirs = [Counter(json.loads(line)) for line in database.run("\n".join(asked)).splitlines()]
        ours = [Counter(terms(text, analyzer)) for text in texts]
        same = sum((a & b).total() for a, b in zip(ours, theirs, strict=True))
        assert same >= least * max(sum(map(Counter.total, ours)), sum(map(Counter.total, theirs)))


def test_postgresql_finds_what_we_find_for_each_reader_and_config(database: Postgres) -> None:
    """All but a few lists are the same, in order; its stemmer is of another release."""
    place = Workspace(indexed_sample())
    load(database, Asked(place, config("hybrid"), "postgres", known_principal(place, "dana")))
    for name in CONFIGS:
        for user in ("dana", "guest"):
            asked = Asked(place, config(name), "postgres", known_principal(place, user))
            theirs = in_postgres(database, asked)
            assert {chunk.partition("#")[0] for found in theirs for chunk in found} <= asked.visible
            assert asked.overlap(theirs) >= 0.99, (name, user)
            assert asked.identical(theirs) >= 0.93, (name, user)


def test_postgresql_demotes_nothing_for_who_asks_about_a_past_year(database: Postgres) -> None:
    """2019 is before every document, 2026 the newest year: neither is a time at which something retired held."""
    place = Workspace(indexed_sample())
    dana = known_principal(place, "dana")
    asked = {year: f"cleaning of vessel A in {year}" for year in (2019, 2020, 2023, 2025, 2026)}
    found = {}
    for name in ("current", "hybrid"):
        told = Asked(place, config(name), "postgres", dana, list(asked.values()))
        load(database, told)
        theirs = in_postgres(database, told)
        assert told.identical(theirs) == 1.0
        found[name] = dict(zip(asked, theirs, strict=True))
    retired = "sops/clean-vessel-a-2022.md"
    places = {year: [chunk.partition("#")[0] for chunk in chunks] for year, chunks in found["current"].items()}
    assert {year for year, listed in places.items() if retired in listed} == {2020, 2023, 2025}
    assert found["current"][2023] == found["hybrid"][2023]


def test_postgresql_shows_nothing_to_nobody(database: Postgres) -> None:
    place = Workspace(indexed_sample())
    asked = Asked(place, config("words"), "postgres", known_principal(place, "dana"))
    load(database, asked)
    database.run(asked.made.texts["query.sql"])
    for reader in ("ARRAY[]::text[]", "NULL", "ARRAY['acme,user:']", "ARRAY['tenant']"):
        assert (
            database.run(f"SELECT count(*) FROM hive.search_words(asked => 'key', reader => {reader})").strip() == "0"
        )


def test_postgresql_keeps_its_postings_when_a_chunk_changes(database: Postgres) -> None:
    """In a transaction that is rolled back: the data are those of other tests, too."""
    place = Workspace(indexed_sample())
    asked = Asked(place, config("words"), "postgres", known_principal(place, "dana"))
    load(database, asked)
    database.run(asked.made.texts["query.sql"])
    ask = "SELECT count(*) FROM hive.search_words(asked => 'zwiebelfisch', reader => ARRAY['acme,tenant'])"
    first = "(SELECT min(chunk_id) FROM hive.chunk WHERE 'acme,tenant' = ANY (readers))"
    length = f"SELECT length FROM hive.chunk WHERE chunk_id = {first}"
    image = "".join(sha256(bytes([number])).hexdigest() for number in range(100))
    change = f"UPDATE hive.chunk SET body = body || ' Zwiebelfisch {image}' WHERE chunk_id = {first}"
    steps = ("BEGIN", ask, length, change, ask, length, f"DELETE FROM hive.chunk WHERE chunk_id = {first}", ask)
    told = list(map(int, database.run(";\n".join((*steps, "ROLLBACK;"))).split()))
    assert told == [0, told[1], 1, told[1] + 2, 0]


def test_postgresql_finds_what_we_find_in_texts_that_nobody_here_wrote(database: Postgres) -> None:
    place = readmes()
    collection = place.engine().resolve(None).collection
    asked = Asked(place, config("words", collection), "postgres", owner())
    assert len(asked.questions) >= 50
    load(database, asked)
    theirs = in_postgres(database, asked)
    assert asked.overlap(theirs) >= 0.98
    assert asked.identical(theirs) >= 0.9
    posted = json.loads(database.run("SELECT json_agg(posting) FROM hive.posting").replace("\n", ""))
    found = Counter({(one["chunk_id"], one["term"]): one["in_body"] + one["in_title"] for one in posted})
    chunks = list(asked.index.stored())
    ours = Counter((chunk.chunk_id, word) for chunk in chunks for word in (*chunk.words, *chunk.title_words))
    assert (ours & found).total() >= 0.998 * max(ours.total(), found.total())


def in_qdrant(asked: Asked) -> list[list[str]]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    create = models.CreateCollection.model_validate(json.loads(asked.made.texts["collection.json"])["create"])
    client.create_collection("kb", vectors_config=create.vectors, sparse_vectors_config=create.sparse_vectors)
    client.upsert("kb", [models.PointStruct.model_validate_json(line) for line in asked.made.data["points.jsonl"]()])
    retrieval, found = asked.program.retrieval, []
    for values in asked.values:
        request = models.QueryRequest.model_validate(filled(asked.made.request, values))
        points = client.query_points("kb", query=request.query, prefetch=request.prefetch, limit=request.limit).points
        kept: list[str] = []
        for point in points:
            assert point.payload is not None
            same = sum(chunk.partition("#")[0] == point.payload["doc_id"] for chunk in kept)
            if same < (retrieval.per_document or len(points)):
                kept.append(point.payload["chunk_id"])
        found.append(kept[: retrieval.top_k])
    client.close()
    return found


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("unlifted", 0.97),
        ("words", 0.96),
        ("meaning", 1.0),
        ("everything_unlifted", 0.96),
        ("hybrid", 0.91),
        ("everything", 0.92),
    ],
)
def test_qdrant_finds_nearly_what_we_find(name: str, least: float) -> None:
    """Less than all: its statistics are of all documents, ours the reader's, and its equal scores stand otherwise.

    Lists are most alike where names aren't lifted: a formula there knows neither which words of a question are known
    nor what they weigh together. A question's vector differs in its last digits between processors, and with it the
    order of what is nearly equal: an overlap of .97 and more on one was .968 on another.
    """
    place = Workspace(indexed_sample())
    asked = Asked(place, config(name), "qdrant", known_principal(place, "dana"))
    theirs = in_qdrant(asked)
    assert {chunk.partition("#")[0] for found in theirs for chunk in found} <= asked.visible
    assert asked.overlap(theirs) >= least


def test_qdrant_finds_what_we_find_where_the_reader_sees_all() -> None:
    place = readmes()
    collection = place.engine().resolve(None).collection
    asked = Asked(place, config("words", collection), "qdrant", owner())
    theirs = in_qdrant(asked)
    assert asked.overlap(theirs) >= 0.99


@pytest.fixture(scope="module")
def cluster() -> Iterator[OpenSearch]:
    with opensearch() as server:
        yield server


def in_opensearch(server: OpenSearch, asked: Asked, name: str) -> list[list[str]]:
    """Without the analyzer, which this distribution lacks: the words are ours on both sides, split at blanks."""
    index = json.loads(asked.made.texts["index.json"])
    index["settings"]["index"]["analysis"] = {"analyzer": {"hive": {"type": "whitespace"}}}
    server.call("PUT", f"/{name}", index)
    language, lines = asked.index.language, []
    for text in asked.made.data["chunks.ndjson"]():
        action, row = text.splitlines()
        value = json.loads(row)
        lines += [action, json.dumps(value | {"words": " ".join(terms(value["words"], language))})]
    assert not server.call("POST", f"/{name}/_bulk?refresh=true", "\n".join(lines) + "\n")["errors"]
    found = []
    for values in asked.values:
        values["query"] = " ".join(terms(values["query"], language))
        hits = server.call("POST", f"/{name}/_search", filled(asked.made.request, values))["hits"]["hits"]
        found.append([hit["_source"]["chunk_id"] for hit in hits])
    return found


def test_opensearch_finds_nearly_what_we_find(cluster: OpenSearch) -> None:
    """Less than all: it keeps a text's length in 8 bits, and its statistics are of all documents."""
    place = Workspace(indexed_sample())
    for name, least in (("plain", 0.95), ("thinned", 0.95)):
        asked = Asked(place, config(name), "opensearch", known_principal(place, "dana"))
        theirs = in_opensearch(cluster, asked, name)
        assert {chunk.partition("#")[0] for found in theirs for chunk in found} <= asked.visible
        assert asked.overlap(theirs) >= least
    foreign = readmes()
    collection = foreign.engine().resolve(None).collection
    asked = Asked(foreign, config("plain", collection), "opensearch", owner())
    theirs = in_opensearch(cluster, asked, "readmes")
    assert asked.overlap(theirs) >= 0.93


ANALYSIS = """
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.regex.Pattern;
import org.apache.lucene.analysis.*; import org.apache.lucene.analysis.core.LowerCaseFilter;
import org.apache.lucene.analysis.pattern.PatternTokenizer; import org.apache.lucene.analysis.snowball.SnowballFilter;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
public class Analysis {
  public static void main(String[] given) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null;) {
      Tokenizer words = new PatternTokenizer(Pattern.compile(given[0]), 0);
      words.setReader(new StringReader(line.replace('\\u2019', '\\'')));
      TokenStream stream = new SnowballFilter(new LowerCaseFilter(words), "English");
      CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
      StringBuilder found = new StringBuilder();
      stream.reset();
      while (stream.incrementToken()) found.append(term).append(' ');
      out.println(found.toString().trim());
    }
  }
}
"""


def test_the_analyzer_written_for_opensearch_gives_our_words(cluster: OpenSearch, tmp_path: Path) -> None:
    """By Lucene's classes, which the server's analyzer of these names is made of."""
    place = readmes()
    name = place.engine().resolve(None).collection
    asked = Asked(place, config("words", name), "opensearch", owner())
    pattern = json.loads(asked.made.texts["index.json"])["settings"]["index"]["analysis"]["tokenizer"]["word"][
        "pattern"
    ]
    (tmp_path / "Analysis.java").write_text(ANALYSIS, encoding="utf-8")
    lines = [" ".join(chunk.text.split()) for chunk in asked.index.stored()]
    ran = subprocess.run(
        [jdk() / "bin" / "java", "-cp", f"{cluster.home}/lib/*", str(tmp_path / "Analysis.java"), pattern],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr[-1000:]
    theirs, ours = Counter(ran.stdout.split()), Counter(word for line in lines for word in terms(line))
    differing = sum((ours - theirs).values())
    assert differing <= 0.01 * ours.total()
