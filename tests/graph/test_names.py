r"""No name ends its quotes: whatever a label, key, property, index or type is called, a statement does what it should.

The server replaces `\uXXXX` in the whole query text before it looks for quotes: to it the six characters `\u0060` in a
name are a back-tick.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from neo4j_queue.cypher import unquotable
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import VectorWrite
from neo4j_queue.schema import migrate_graph
from neo4j_queue.settings import Settings
from neo4j_queue.text import TextRecipe

# Each example runs several statements that the server has never planned before: a tenth of a second or two.
BRIEF = profile(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CANARY = "CREATE (:Canary {alive: true})"
BREAKING_OUT = r"X\u0060]->(b) WITH row MATCH (z) DETACH DELETE z //"
PIECES = (
    *("`", "``", r"\u0060", r"\\u0060", r"\uu0060", r"\u005cu0060", r"\U0060", "\\", r"\u", r"\u000a"),
    *("\0", "\n", "\r", "\t", "\x7f", "\x85", "\u2028", "\ufeff", "//", "/*", "*/", ";"),
    *("__LABEL__", "__KEY__", "__VECTOR__", "__", "$uid", "{", "}", "]", ")", "->(b)", " ", "'", '"'),
    *("X", "é", "😀", ") DETACH DELETE n //", ": 1}) MATCH (z) DETACH DELETE z //", BREAKING_OUT),
)
names = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


@pytest.fixture
def bare(graph_db: Database) -> Callable[..., EntityGraph]:
    """A graph of any label, key and text property."""

    def make(label: str, key: str, text: str) -> EntityGraph:
        recipe = TextRecipe((key, text), lambda values: f"{values.get(key)} {values.get(text)}")
        return EntityGraph(graph_db, recipe, "m", dimensions=2, label=label, key=key)

    return make


def wiped(graph_db: Database) -> None:
    graph_db.write("MATCH (n) DETACH DELETE n")
    graph_db.write(CANARY)


def labels(graph_db: Database) -> list[list[str]]:
    found = graph_db.read("MATCH (n) RETURN labels(n) AS labels ORDER BY labels(n)[0] <> 'Canary', n.name")
    return [sorted(set(row["labels"]) - {"EmbedPending"}) for row in found]


@BRIEF
@given(kind=names)
@example(kind=BREAKING_OUT)
def test_a_type_of_relations_is_data_whatever_it_looks_like(
    graph: EntityGraph, graph_db: Database, kind: str
) -> None:
    """Seen failing with the type written into the statement between back-ticks: the first example left no node."""
    wiped(graph_db)
    graph.create_entities([{"name": "a"}, {"name": "b"}])
    try:
        graph.create_relations([("a", kind, "b"), ("b", "KNOWS", "a"), ("a", kind, "b")])
    except ValueError:
        assert "\0" in kind or not kind.strip()
        kinds = []
    else:
        kinds = sorted([kind, "KNOWS"])
    assert labels(graph_db) == [["Canary"], ["Entity"], ["Entity"]]
    found = graph_db.read("MATCH ()-[r]->() RETURN type(r) AS type")
    assert sorted(row["type"] for row in found) == kinds


@BRIEF
@given(label=names, key=names, text=names)
@example(label=r"A\u0060) DETACH DELETE n //", key="k", text="t")
@example(label="A", key=r"k\u0060: 1}) MATCH (z) DETACH DELETE z //", text="t")
@example(label="A__KEY__", key="k", text="t")
@example(label="A", key="k", text="\0")
def test_a_label_or_a_key_is_a_name_whatever_it_looks_like(
    bare: Callable[..., EntityGraph], graph_db: Database, label: str, key: str, text: str
) -> None:
    """Seen failing with a `quote` that only doubles back-ticks, and with placeholders filled one after the other."""
    wiped(graph_db)
    graph = bare(label, key, text)
    try:
        graph.create_entities([{key: "a", text: "one"} if key != text else {key: "a"}])
    except ValueError:
        assert any(unquotable(name) for name in (label, key)) or "\0" in text
        assert labels(graph_db) == [["Canary"]]
        return
    (found,) = graph.read_texts(["a"])
    graph.write_vectors([_write(found.uid, found.source, found.content_hash)])
    assert graph.read_texts(["a"])[0].fresh
    assert graph.coverage().fresh == 1
    assert labels(graph_db) == [["Canary"], [label]] or label == "Canary"
    graph.delete_entity("a")
    assert labels(graph_db) == [["Canary"]]


def _write(uid: str, source: Sequence[object], content_hash: str) -> VectorWrite:
    return VectorWrite(uid, source, content_hash, [1.0, 0.0])


@pytest.mark.parametrize("name", ["A__KEY__", "A__INDEX__", "it`s", "a b", "é😀"])
def test_indexes_of_odd_names_are_made_under_exactly_these(
    graph_db: Database, make_settings: Callable[..., Settings], name: str
) -> None:
    """Seen failing for `A__KEY__` with placeholders filled one after the other."""
    plain = name.replace("`", "'")
    settings = make_settings(
        embed_entity_label=plain,
        embed_entity_key=f"k {plain}",
        embed_text_properties=(f"p {plain}",),
        neo4j_vector_index=f"i {plain}",
    )
    report = migrate_graph(graph_db, settings)
    try:
        assert report.problems == ()
        assert set(report.created) >= {f"{plain}_k {plain}_key", f"i {plain}", f"i {plain}_text"}
        found = graph_db.read("SHOW INDEXES YIELD name, labelsOrTypes AS l, properties AS p RETURN *")
        by_name = {row["name"]: (row["l"], row["p"]) for row in found}
        assert by_name[f"i {plain}_text"] == ([plain], [f"p {plain}"])
        assert by_name[f"{plain}_k {plain}_key"] == ([plain], [f"k {plain}"])
    finally:
        for made in report.created:
            graph_db.autocommit(f"DROP CONSTRAINT `{made}` IF EXISTS")
            graph_db.autocommit(f"DROP INDEX `{made}` IF EXISTS")


@pytest.mark.parametrize("kind", ["", "  ", "a\0b", "x" * 1_001, "half \ud83d", 7, None, ["A"]])
def test_a_type_that_the_server_cannot_hold_names_the_relation(
    graph: EntityGraph, graph_db: Database, kind: object
) -> None:
    graph.create_entities([{"name": "a"}, {"name": "b"}])
    with pytest.raises(ValueError, match="the type of the relation 'a' -> 'b' must be a text"):
        graph.create_relations([("b", "KNOWS", "a"), ("a", kind, "b")])  # type: ignore[list-item]
    assert graph_db.read("MATCH ()-[r]->() RETURN r") == []
