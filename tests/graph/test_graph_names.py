"""What is left out is said: labels and properties that nothing carries, entities without a usable key."""

from collections.abc import Callable
from typing import Any

import pytest

from neo4j_queue.checks.graph_names import SAMPLE, strangers
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.keys import left_out, without_key, without_key_of
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope, sweep
from neo4j_queue.settings import Settings

MakeSettings = Callable[..., Settings]


@pytest.fixture
def books(graph_db: Database, make_settings: MakeSettings) -> Callable[..., list[str]]:
    """The lines about a graph of three books, with the settings given."""
    graph_db.write("UNWIND ['a', 'b', 'c'] AS isbn CREATE (:Book {isbn: isbn, title: 'T', summary: 'S'})")
    usual = {
        "embed_entity_label": "Book",
        "embed_entity_key": "isbn",
        "embed_text_properties": "title,summary",
    }

    def lines(**overrides: Any) -> list[str]:
        chosen = {name: value for name, value in {**usual, **overrides}.items() if value is not None}
        return strangers(graph_db, make_settings(**chosen))

    return lines


def test_settings_that_the_graph_knows_and_an_empty_graph_give_no_line(
    books: Callable[..., list[str]], graph_db: Database
) -> None:
    assert books() == []
    graph_db.write("MATCH (n) DELETE n")
    assert books(embed_entity_label="Bok") == []
    # A constraint makes the label known to the server.
    graph_db.write("CREATE (:Other)")
    graph_db.autocommit("CREATE CONSTRAINT bok IF NOT EXISTS FOR (n:Bok) REQUIRE n.isbn IS UNIQUE")
    try:
        # The server remembers each label that it ever had: another one may be named as near.
        (line,) = books(embed_entity_label="Bok", embed_entity_key="isbn")
        assert line.startswith("EMBED_ENTITY_LABEL=Bok: no node of the graph has this label")
    finally:
        graph_db.autocommit("DROP CONSTRAINT bok")


@pytest.mark.parametrize(
    ("wrong", "lines"),
    [
        (
            {"embed_entity_label": "Boook"},
            ["EMBED_ENTITY_LABEL=Boook: no node of the graph has this label; did you mean Book?"],
        ),
        (
            {"embed_entity_label": "book"},
            ["EMBED_ENTITY_LABEL=book: no node of the graph has this label; did you mean Book?"],
        ),
        (
            {"embed_entity_label": "Zebra"},
            ["EMBED_ENTITY_LABEL=Zebra: no node of the graph has this label"],
        ),
        (
            {"embed_entity_key": "isbm"},
            ["EMBED_ENTITY_KEY: no :Book has a property `isbm`; did you mean isbn?"],
        ),
        (
            {"embed_text_properties": "title,sumary"},
            ["EMBED_TEXT_PROPERTIES: no :Book has a property `sumary`; did you mean summary?"],
        ),
        (
            {"embed_text_properties": None, "embed_text_template": "{Title}: {summary}"},
            ["EMBED_TEXT_TEMPLATE: no :Book has a property `Title`; did you mean title?"],
        ),
        ({"embed_text_properties": None}, []),  # the parts of the default text may all be missing
    ],
)
def test_a_name_that_nothing_carries_is_said_with_the_nearest_one(
    books: Callable[..., list[str]], wrong: dict[str, Any], lines: list[str]
) -> None:
    assert books(**wrong) == lines


def test_a_property_that_only_a_late_entity_has_is_found(
    books: Callable[..., list[str]], graph_db: Database
) -> None:
    graph_db.write("UNWIND range(0, $n) AS at CREATE (:Book {isbn: 'n' + at})", n=SAMPLE)
    graph_db.write("CREATE (:Book {isbn: 'last', blurb: 'B'})")
    assert books(embed_text_properties="title,blurb") == []


@pytest.fixture
def keyless(graph_db: Database) -> None:
    """Three good entities, four without a usable key, and such of another label, or soft-deleted."""
    graph_db.write("CREATE (:Entity {name: 'a'}), (:Entity {name: 'b'}), (:Entity:EmbedPending {name: 'c'})")
    graph_db.write(
        "CREATE (:Entity {name: 7.25}), (:Entity {title: 'no key'}), (:Entity {name: ''}),"
        " (:Entity:EmbedPending {name: true}), (:Entity {name: 9.5, validTo: 1}), (:Other:EmbedPending {name: 1})"
    )


@pytest.mark.usefixtures("keyless")
@pytest.mark.parametrize(
    ("scope", "seen", "without"), [(Scope.ALL, 3, 4), (Scope.MISSING, 3, 4), (Scope.OUTBOX, 1, 1)]
)
def test_a_sweep_counts_the_entities_that_have_no_usable_key(
    graph: EntityGraph, queue: EmbedQueue, scope: Scope, seen: int, without: int
) -> None:
    done = sweep(graph, queue, scope)
    assert (done.seen, done.queued, done.without_key) == (seen, seen, without)


def test_where_every_key_is_usable_the_count_is_zero(graph: EntityGraph) -> None:
    assert graph.without_key() == 0
    graph.create_entities([{"name": "a"}, {"name": "b"}])
    graph.database.write("CREATE (:Entity:EmbedPending {name: -7})")
    assert (graph.without_key(), graph.without_key(pending=True)) == (0, 0)


@pytest.mark.usefixtures("keyless")
def test_a_person_who_waits_gets_the_count_of_the_first_entities(
    graph: EntityGraph, graph_db: Database
) -> None:
    """`doctor` on a graph of millions. Guard: the bound; the exact count walks over the whole index of the key."""
    assert without_key_of(graph_db, "Entity", "name") == (graph.without_key(), True)
    count, all_of_them = without_key_of(graph_db, "Entity", "name", 2)
    assert count <= 2
    assert not all_of_them


def test_the_line_says_how_many_why_and_what_to_do() -> None:
    line = left_out(1234, "Book", "id")
    assert line.startswith("1,234 :Book without a text or a whole number in `id`")
    assert "MATCH (n:`Book`) SET n.uid = " in line
    assert line.endswith(" with EMBED_ENTITY_KEY=uid")


def test_the_advice_about_keys_that_are_no_texts_works(graph_db: Database) -> None:
    """Seen failing with `toString` alone: nodes without the key stayed without one."""
    graph_db.write("CREATE (:Book {id: 7}), (:Book {id: 2.5}), (:Book {id: ''}), (:Book), (:Book {id: [1]})")
    line = left_out(5, "Book", "id")
    graph_db.write(line.partition("such as ")[2].partition(" with EMBED")[0])
    assert without_key(graph_db, "Book", "uid") == 0
    found = graph_db.read("MATCH (n:Book) RETURN count(DISTINCT n.uid) AS keys, collect(n.uid) AS all")[0]
    assert found["keys"] == 5
    assert {"7", "2.5"} <= set(found["all"])
