"""A graph of another program whose keys are numbers: four settings, `init`, worker and beat, and nothing else."""

import os
from collections.abc import Iterator

import pytest

from neo4j_queue.database import Database
from neo4j_queue.embedders import open_embedder
from tests.celery.conftest import MakeWorld, Run
from tests.waiting import wait_until

# The full size is for a run by hand; both take the same ways, the larger one more of their pages.
MOVIES = int(os.environ.get("NEO4J_QUEUE_TEST_MOVIES", "1200"))
WITHIN_S = 60 + MOVIES / 50
FOUR = {
    "EMBED_ENTITY_LABEL": "Movie",
    "EMBED_ENTITY_KEY": "movieId",
    "EMBED_TEXT_PROPERTIES": "title,plot",
    "NEO4J_VECTOR_INDEX": "movies",
}
# Beat's sweep of all entities without a vector comes once an hour.
SOON = {"EMBED_DISCOVERY_INTERVALS": "2000,2000", "EMBED_BATCH_SIZE": "100"}


@pytest.fixture
def movies(graph_db: Database) -> Iterator[Database]:
    """The graph with so many movies, written by plain Cypher; the schema is taken away at the end."""
    graph_db.write(
        "UNWIND range(1, $count) AS id "
        "CREATE (:Movie {movieId: id, title: 'Movie ' + id, plot: 'A story about the number ' + id})",
        count=MOVIES,
    )
    before = names_of(graph_db)
    yield graph_db
    for kind, name in sorted(names_of(graph_db) - before):
        graph_db.autocommit(f"DROP {kind} `{name}` IF EXISTS")


def names_of(graph: Database) -> set[tuple[str, str]]:
    constraints = {("CONSTRAINT", row["name"]) for row in graph.read("SHOW CONSTRAINTS YIELD name")}
    return constraints | {("INDEX", row["name"]) for row in graph.read("SHOW INDEXES YIELD name")}


def test_movies_with_numbers_as_keys_are_embedded_and_named_by_their_numbers(
    make_world: MakeWorld, run: Run, movies: Database
) -> None:
    """Seen failing before numbers were keys: none was seen, and `status` said so of all of them."""
    world = make_world(**FOUR, **SOON)
    assert "neo4j: ready" in run("init", **FOUR)
    world.celery.control()
    world.celery.embed()
    world.celery.beat()
    embedded = "MATCH (n:Movie) WHERE n.embedding IS NOT NULL RETURN count(n) AS found"
    wait_until(
        lambda: movies.read(embedded)[0]["found"] == MOVIES,
        within_s=WITHIN_S,
        what="every movie has its vector",
    )
    world.drained(within_s=30)
    (row,) = movies.read(
        "MATCH (n:Movie {movieId: 7}) RETURN n.title + '\\n' + n.plot AS text, n.embedding AS vector"
    )
    assert row["vector"] == pytest.approx(
        open_embedder(world.settings).embed([row["text"]]).vectors[0], abs=1e-6
    )
    assert {job["status"] for job in world.jobs()} == {"completed"}
    assert run("jobs", "list", "--entity", "7", **FOUR).count("completed") == 1
    assert "is queued again" in run("repair", "7", **FOUR)
    movies.write("MATCH (n:Movie {movieId: 9}) SET n.plot = 'Another one'")
    world.graph.touch([9])
    wait_until(lambda: world.graph.get_text(9).fresh, within_s=30, what="the edit has its vector")
