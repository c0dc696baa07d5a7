"""Finding what needs a vector: in pages, by index, without reading everything."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entity_graph import Coverage, EntityText

Pages = Callable[[str | None, int], list[EntityText]]


def all_of(page: Pages, limit: int) -> Iterator[str]:
    """Every uid that a paged reader gives."""
    after: str | None = None
    while texts := page(after, limit):
        assert len(texts) <= limit
        yield from (text.uid for text in texts)
        after = texts[-1].uid


def operators(database: Database, query: str, **parameters: Any) -> list[tuple[str, str]]:
    """Name and details of each operator of a plan."""

    def walk(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
        yield plan["operatorType"].split("@")[0], plan["args"].get("Details", "")
        for child in plan.get("children", ()):
            yield from walk(child)

    with database.driver().session(database=database.address.database) as session:
        explained = query.replace("\n", " replan=force EXPLAIN\n", 1)
        plan = session.run(explained, parameters).consume().plan  # type: ignore[arg-type, unused-ignore]
    assert plan is not None
    return list(walk(plan))


@pytest.fixture
def mixed(graph: EntityGraph, graph_db: Database, embed: Callable[..., Any]) -> None:
    """ours-*: by this library; theirs-*: by another program; some embedded, some soft-deleted, one of another label."""
    graph.create_entities([{"name": f"ours-{at}"} for at in range(9)])
    graph_db.write("UNWIND range(0, 8) AS at CREATE (:Entity {name: 'theirs-' + at})")
    graph_db.write(
        "CREATE (:Other {name: 'other'}), (:Other:EmbedPending {name: 'other'}), (:Entity {title: 'no key'})"
    )
    embed("ours-1", "ours-2", "theirs-1", "theirs-2")
    graph_db.write("MATCH (n:Entity {name: 'ours-3'}) SET n.validTo = 1")
    graph_db.write("MATCH (n:Entity {name: 'theirs-3'}) SET n.validTo = 1")


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_give_each_entity_once_in_the_order_of_the_key(graph: EntityGraph, limit: int) -> None:
    ours = [f"ours-{at}" for at in range(9)]
    theirs = [f"theirs-{at}" for at in range(9)]
    assert list(all_of(graph.pending_page, limit)) == [uid for uid in ours if uid not in ("ours-1", "ours-2")]
    current = [uid for uid in ours + theirs if not uid.endswith("3")]
    assert list(all_of(graph.entities_page, limit)) == current
    missing = [uid for uid in current if not uid.endswith(("1", "2"))]

    def missing_page(after: str | None, limit: int) -> list[EntityText]:
        return graph.get_entities_without_embeddings(limit, after)

    assert list(all_of(missing_page, limit)) == missing


@pytest.mark.usefixtures("mixed")
def test_pages_tell_what_is_fresh_and_what_is_deleted(graph: EntityGraph) -> None:
    assert {text.uid for text in graph.entities_page() if text.fresh} == {
        "ours-1",
        "ours-2",
        "theirs-1",
        "theirs-2",
    }
    assert {text.uid for text in graph.pending_page() if text.deleted} == {"ours-3"}


@pytest.mark.usefixtures("mixed")
def test_coverage_counts_current_entities(graph: EntityGraph, graph_db: Database) -> None:
    assert graph.coverage() == Coverage(entities=17, fresh=4, stale=0, missing=13)
    graph_db.write("MATCH (n:Entity {name: 'theirs-1'}) SET n.embedding_model = 'other'")
    graph.add_observations("ours-1", ["changed"])
    assert graph.coverage() == Coverage(entities=17, fresh=2, stale=2, missing=13)


def test_coverage_of_an_empty_graph_is_zeros(graph: EntityGraph) -> None:
    assert graph.coverage() == Coverage(0, 0, 0, 0)


def test_fifty_of_a_thousand_without_a_vector(graph: EntityGraph) -> None:
    graph.create_entities([{"name": f"e{at:04d}"} for at in range(1000)])
    assert [text.uid for text in graph.get_entities_without_embeddings(50)] == [
        f"e{at:04d}" for at in range(50)
    ]
    assert len(graph.get_entities_without_embeddings()) == 10


@pytest.mark.parametrize("name", ["coverage", "missing_page", "missing_pending_page", "get"])
def test_whether_there_is_a_vector_is_told_without_reading_it(
    graph: EntityGraph, graph_db: Database, name: str
) -> None:
    """A plan that caches the vector reads it: sixty times slower where nothing else is to be done.

    Statements that judge whether a vector is fresh do read those of the model: a tenth of a millisecond for 1,536
    numbers, beside the text that is read and hashed.
    """
    parameters = {
        "after": "",
        "until": "z",
        "pending": True,
        "limit": 10,
        "properties": [],
        "model": "m",
        "keys": ["x"],
    }
    plan = operators(graph_db, graph._statement(name), **parameters)
    assert any("n.embedding IS" in details for _, details in plan), plan
    assert [details for _, details in plan if "cache[n.embedding]" in details] == []


@pytest.mark.parametrize("name", ["pending_page", "missing_pending_page"])
def test_the_outbox_is_read_in_order_by_its_own_index(
    graph: EntityGraph, graph_db: Database, name: str
) -> None:
    parameters = {"after": "", "until": "z", "limit": 10, "properties": ["name"], "model": "m"}
    plan = operators(graph_db, graph._statement(name), **parameters)
    names = [operator for operator, _ in plan]
    assert any(op == "NodeIndexSeekByRange" and ":EmbedPending(name)" in details for op, details in plan), (
        plan
    )
    assert not {"NodeByLabelScan", "AllNodesScan", "Sort", "Top"} & set(names), plan


@pytest.mark.parametrize("name", ["entities_page", "missing_page"])
def test_entities_are_read_in_order_by_the_index_of_the_key(
    graph: EntityGraph, graph_db: Database, name: str
) -> None:
    parameters = {
        "after": "",
        "until": "z",
        "pending": True,
        "limit": 10,
        "properties": ["name"],
        "model": "m",
    }
    plan = operators(graph_db, graph._statement(name), **parameters)
    names = [operator for operator, _ in plan]
    assert any("Seek" in op and ":Entity(name)" in details for op, details in plan), plan
    assert not {"NodeByLabelScan", "AllNodesScan", "Sort", "Top"} & set(names), plan


@pytest.mark.parametrize(
    "name", ["read_texts", "write_vectors", "update", "lock_sources", "lock_pending", "get"]
)
def test_entities_are_found_by_the_index_of_the_key(
    graph: EntityGraph, graph_db: Database, name: str
) -> None:
    plan = operators(
        graph_db,
        graph._statement(name),
        names=[],
        writes=[],
        rows=[],
        properties=["name"],
        property="embedding",
        model="m",
        keys=["x"],
    )
    assert any("IndexSeek" in op and "(name)" in details for op, details in plan), plan
    assert not {"NodeByLabelScan", "AllNodesScan"} & {operator for operator, _ in plan}, plan


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("read_wanted", {"wanted": [{"keys": ["a"], "versions": ["0" * 16]}], "properties": ["name"]}),
        ("copies", {"hashes": ["0" * 64]}),
    ],
)
def test_the_vector_of_a_text_is_looked_up_by_its_hash(
    graph: EntityGraph, graph_db: Database, name: str, parameters: dict[str, Any]
) -> None:
    """Every batch asks: without the index on `embedding_hash` each of its jobs would scan all entities."""
    plan = operators(graph_db, graph._statement(name), model="m", **parameters)
    assert not {"NodeByLabelScan", "AllNodesScan"} & {operator for operator, _ in plan}, plan
    assert any("Entity(embedding_hash)" in details for _, details in plan), plan
