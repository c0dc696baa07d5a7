"""Search by words: a text is a text, whatever it looks like, in any language that the analyzer is for."""

import random
import re
import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.schema import migrate_graph
from neo4j_queue.schema.graph_schema import GraphSchema
from neo4j_queue.schema.indexes import indexes
from neo4j_queue.settings import Settings
from tests.conftest import MakeSettings

INDEX = "notes_of_search"
SPECIAL = "+-&|!(){}[]^\"~*?:\\/<>=@#$%;,.`'_"


def found(graph: EntityGraph, query: str, **given: Any) -> list[str]:
    answer = graph.search(query, mode="keyword", strict=True, **given)
    assert answer.search_type == "keyword"
    return [hit.uid for hit in answer]


@pytest.fixture
def notes(graph_db: Database, make_settings: MakeSettings) -> Iterator[Callable[..., EntityGraph]]:
    """A graph of notes with a full-text index of its own: `notes(embed_fulltext_analyzer="cjk")`."""
    made: list[Settings] = []

    def open_graph(**overrides: Any) -> EntityGraph:
        settings = make_settings(
            **{
                "embed_entity_label": "Note",
                "neo4j_vector_index": INDEX,
                "embed_text_properties": "name,title,body",
                **overrides,
            }
        )
        made.append(settings)
        assert migrate_graph(graph_db, settings).problems == ()
        return EntityGraph.from_settings(settings, database=graph_db)

    yield open_graph
    graph_db.autocommit("MATCH (n:Note) DETACH DELETE n")
    for settings in made[:1]:
        schema = GraphSchema.from_settings(settings)
        for index in indexes(graph_db).values():
            if index.labels == [schema.label]:
                kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
                graph_db.autocommit(f"DROP {kind} `{name}` IF EXISTS")


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "title:(a OR",
            "AND",
            "OR",
            "NOT",
            "AND loom",
            "loom OR",
            "NOT loom",
            "a AND OR b",
            "(",
            ")",
            '"',
            '"loom',
        ),
        *(
            "*",
            "?",
            "*:*",
            "loom*",
            "~",
            "loom~",
            "loom~0.5",
            "^",
            "loom^4",
            "[a TO b]",
            "{a TO",
            "/loom",
            "\\",
        ),
        *("\\u", "\\u0041", "name:loom", "+loom", "-loom", "!loom", "a && b", "a || b", "&&", "||", "://"),
        *(
            "\u3000",
            "loom\u3000card",
            "loom\u00a0card",
            "\u200b",
            "\x00",
            "loom\x00",
            "🜚",
            "🜚 loom",
            "é",
            "ﷺ",
        ),
        *("", " ", "---", "<loom>", "loom > 3", "_exists_:name", "name:[* TO *]", "max.score", "loom;card"),
    ],
)
def test_what_a_person_types_is_harmless(graph: EntityGraph, typed: str) -> None:
    """D8. Seen failing with the text as it is: errors of the parser, and everything found by `*`."""
    graph.create_entities([{"name": "Jacquard", "observations": ["a loom with a card"]}, {"name": "Ada"}])
    if not typed.strip():
        with pytest.raises(ValueError, match="blank"):
            found(graph, typed)
        return
    # Between letters a colon is part of a word, to the analyzer.
    has_a_word = typed != "name:loom" and ("loom" in typed or re.search(r"\ba\b", typed) is not None)
    assert found(graph, typed) == (["Jacquard"] if has_a_word else [])


def test_a_thousand_odd_queries_raise_nothing(graph: EntityGraph) -> None:
    """Guard: the escapes; each of them is needed for some of these."""
    graph.create_entities([{"name": "Jacquard", "observations": ["a loom"]}])
    chance = random.Random(7)
    signs = SPECIAL * 3 + string.ascii_letters + "  \t\u3000漢é"
    for _ in range(1_000):
        words = [
            chance.choice(["AND", "OR", "NOT", "TO", "loom"])
            if chance.random() < 0.3
            else "".join(chance.choice(signs) for _ in range(chance.randint(1, 8)))
            for _ in range(chance.randint(1, 6))
        ]
        query = " ".join(words)
        if query.strip():
            found(graph, query)


@pytest.mark.parametrize(
    "text", ["word " * 20_000, "漢" * 20_000, "a.b-c/" * 5_000, "x" * 100_000, "é" * 50_000]
)
def test_a_page_of_text_is_a_query_like_any_other(graph: EntityGraph, text: str) -> None:
    """Seen failing with all of its words: the index refuses so many clauses, and a term of so many bytes."""
    graph.create_entities([{"name": "Jacquard", "observations": ["a word"]}])
    assert found(graph, text) == (["Jacquard"] if text.startswith("word") else [])


@pytest.mark.parametrize(
    "observations",
    [["a loom with punched cards"], "a loom with punched cards", '["a loom with punched cards"]'],
    ids=["list", "text", "JSON"],
)
def test_observations_are_found_in_each_of_their_forms(graph: EntityGraph, observations: Any) -> None:
    graph.create_entities([{"name": "Jacquard", "observations": observations}, {"name": "Ada"}])
    assert found(graph, "punched") == ["Jacquard"]


def test_every_word_counts_in_any_letters(graph: EntityGraph) -> None:
    """What stop-word lists leave out may be a name."""
    graph.create_entities([{"name": "The Who"}, {"name": "Ada"}])
    assert found(graph, "the who") == found(graph, "THE WHO") == ["The Who"]


def test_soft_deleted_entities_and_other_labels_are_not_found_and_do_not_eat_the_page(
    graph: EntityGraph, graph_db: Database
) -> None:
    graph.create_entities([{"name": f"loom {at}"} for at in range(300)])
    graph_db.write("MATCH (n:Entity) WHERE n.name <> 'loom 7' SET n.validTo = 1")
    assert found(graph, "loom", limit=2) == ["loom 7"]


def test_entities_without_a_key_are_not_found(graph: EntityGraph, graph_db: Database) -> None:
    graph_db.write(
        "CREATE (:Entity {observations: ['a loom']}), (:Entity {name: 'x', observations: ['a loom']})"
    )
    assert found(graph, "loom") == ["x"]


# --- Lucene's own syntax ----------------------------------------------------------------------------------------


def test_syntax_is_syntax_where_it_is_asked_for(graph: EntityGraph) -> None:
    graph.create_entities(
        [
            {"name": "Jacquard", "observations": ["a loom with punched cards"]},
            {"name": "Jacob", "observations": ["a loom"]},
        ]
    )
    assert found(graph, "name:Jac* AND NOT observations:punched", lucene=True) == ["Jacob"]
    assert found(graph, '"punched cards"', lucene=True) == ["Jacquard"]
    assert sorted(found(graph, "loon~", lucene=True)) == ["Jacob", "Jacquard"]
    assert found(graph, "no_such_property:loom", lucene=True) == []
    assert found(graph, "loon~") == []


@pytest.mark.parametrize(
    "typed", ["title:(a OR", '"open', "[a TO", "/(/", "a AND AND b", "foo:bar:baz", "*:*("]
)
def test_a_mistake_in_the_syntax_is_one_line(graph: EntityGraph, typed: str) -> None:
    """Seen failing: twenty lines of the parser's grammar in the driver's ClientError."""
    graph.create_entities([{"name": "Jacquard"}])
    for mode in (None, "hybrid"):
        with pytest.raises(ValueError, match=r"^the query is not in Lucene syntax: ") as refused:
            graph.search(typed, mode=mode, lucene=True, embed=lambda _: [1.0, *[0.0] * 255])
        assert "\n" not in str(refused.value)


# --- Languages --------------------------------------------------------------------------------------------------


def test_chinese_and_japanese_words_are_found_by_the_analyzer_for_them(
    notes: Callable[..., EntityGraph],
) -> None:
    graph = notes(embed_fulltext_analyzer="cjk")
    graph.create_entities(
        [
            {"name": "a", "title": "東京都の天気"},
            {"name": "b", "title": "京都の寺"},
            {"name": "c", "body": "hello world"},
        ]
    )
    assert found(graph, "東京") == ["a"]
    assert found(graph, "hello") == ["c"]
    assert found(graph, "東" * 3_000) == []


def test_an_analyzer_of_a_language_knows_its_forms(notes: Callable[..., EntityGraph]) -> None:
    graph = notes(embed_fulltext_analyzer="german")
    graph.create_entities([{"name": "a", "title": "Die Häuser am Fluss"}])
    assert found(graph, "Haus") == ["a"]


@pytest.mark.parametrize("analyzer", ["whitespace", "keyword", "simple", "unicode_whitespace"])
def test_operators_are_words_to_every_analyzer(notes: Callable[..., EntityGraph], analyzer: str) -> None:
    """A neighbour: an analyzer that keeps capital letters, where lower-case operators would be other words."""
    graph = notes(embed_fulltext_analyzer=analyzer)
    graph.create_entities([{"name": "a", "title": "AND"}, {"name": "b", "title": "OR"}])
    assert found(graph, "AND") == ["a"]


def test_names_of_properties_with_odd_signs_are_searched(notes: Callable[..., EntityGraph]) -> None:
    graph = notes(embed_text_properties="rdfs:label,a b,c.d")
    graph.create_entities(
        [{"name": "a", "rdfs:label": "loom"}, {"name": "b", "a b": "loom"}, {"name": "c", "c.d": "loom"}]
    )
    assert sorted(found(graph, "loom")) == ["a", "b", "c"]


def test_an_index_of_another_program_over_the_text_is_used(
    notes: Callable[..., EntityGraph], graph_db: Database, make_settings: MakeSettings
) -> None:
    graph = notes()
    graph_db.autocommit(f"DROP INDEX {INDEX}_text")
    graph_db.autocommit("CREATE FULLTEXT INDEX theirs FOR (n:Note) ON EACH [n.body, n.name, n.title]")
    graph_db.autocommit("CALL db.awaitIndexes(30)")
    graph.create_entities([{"name": "a", "title": "loom"}])
    answer = graph.search("loom", mode="keyword", strict=True)
    assert ([hit.uid for hit in answer], answer.coverage.text_index) == (["a"], "theirs")
    assert graph.search("loom").fallback_reason == f"no current entity has a vector of {graph.model} yet"


def test_an_index_of_ours_over_other_words_is_a_reason_with_the_way_out(
    notes: Callable[..., EntityGraph], graph_db: Database, make_settings: MakeSettings
) -> None:
    notes()
    changed = make_settings(
        embed_entity_label="Note", neo4j_vector_index=INDEX, embed_text_properties="name,summary"
    )
    answer = EntityGraph.from_settings(changed, database=graph_db).search("loom", mode="hybrid")
    assert (
        f"full-text index {INDEX}_text is over name, title, body, not name, summary: run neo4j-queue init --yes"
        in (answer.fallback_reason or "")
    )
