"""What other programs write is found by itself: real beat, real workers, plain Cypher."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from neo4j_queue.cypher import quote
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.schema.indexes import indexes
from neo4j_queue.schema.triggers import State, look
from tests.celery.conftest import MakeWorld, Run, World
from tests.waiting import wait_until

MOVIES = {
    "EMBED_ENTITY_LABEL": "Movie",
    "EMBED_ENTITY_KEY": "imdb",
    "EMBED_TEXT_PROPERTIES": "title,plot",
    "NEO4J_VECTOR_INDEX": "movie_embeddings",
}
COUNT = 300
WRITE = (
    "UNWIND range(1, $count) AS n CREATE (:Movie {imdb: 'tt' + n, title: 'Film ' + n, plot: 'What happens in ' + n, "
    "updatedAt: datetime()})"
)
EDIT = "MATCH (m:Movie {imdb: $key}) SET m.plot = $plot, m.updatedAt = datetime()"
HASH = "MATCH (m:Movie {imdb: $key}) WHERE m.embedding IS NOT NULL RETURN m.embedding_hash AS hash"
# Half the interval that is waited for at worst, a turn, a lease and a batch, on a machine that does other things too.
SLACK_S = 15.0


@pytest.fixture
def movies(make_world: MakeWorld, graph_db: Database) -> Iterator[Any]:
    """A world of films, whose indexes and triggers are gone afterwards."""

    def make(**overrides: str) -> World:
        return make_world(**MOVIES, **overrides)

    yield make
    graph_db.autocommit("MATCH (n) DETACH DELETE n")
    for index in indexes(graph_db).values():
        if index.labels == ["Movie"] or index.properties == ["imdb"]:
            kind, name = ("CONSTRAINT", index.constraint) if index.constraint else ("INDEX", index.name)
            graph_db.autocommit(f"DROP {kind} {quote(name)} IF EXISTS")
    with Database(replace(graph_db.address, database="system")) as system:
        system.write("CALL apoc.trigger.dropAll('neo4j') YIELD name RETURN count(*) AS n")
    wait_until(
        lambda: not graph_db.read("CALL apoc.trigger.list() YIELD name RETURN name"),
        within_s=20,
        what="no trigger is at work",
    )


def start(world: World) -> None:
    """One control worker, one embed worker, beat; returns when all have work behind them."""
    world.celery.control()
    world.celery.embed()
    world.celery.beat()


def embedded(world: World, count: int, *, within_s: float) -> None:
    wait_until(
        lambda: world.all_fresh(count), within_s=within_s, what=f"all embedded; {world.graph.coverage()}"
    )


def wait_for_edit(world: World, key: str, before: str, *, within_s: float) -> float:
    """Seconds until the entity carries the vector of another text."""
    began = time.monotonic()

    def changed() -> bool:
        found = world.graph_db.read(HASH, key=key)
        return bool(found) and found[0]["hash"] != before and not world.graph.get_text(key).needs_vector

    wait_until(changed, within_s=within_s, what=f"{key} is embedded; {world.queue.status()}")
    return time.monotonic() - began


def hash_of(world: World, key: str) -> str:
    return str(world.graph_db.read(HASH, key=key)[0]["hash"])


def test_a_graph_of_another_program_is_embedded_by_worker_and_beat_alone(movies: Any, run: Run) -> None:
    """Four settings, `init`, worker, beat: nothing else. Guard: `missing` in EMBED_DISCOVERY."""
    world = movies()
    world.graph_db.write(WRITE, count=COUNT)
    run("init", **world.environment)
    start(world)
    embedded(world, COUNT, within_s=90)


def test_an_edit_is_found_by_the_timestamp_within_its_interval(movies: Any, run: Run) -> None:
    """So is a film that was deleted and made again, and the end of a slow transaction. Guard: `changed:updatedAt`."""
    world = movies(EMBED_DISCOVERY="outbox,changed:updatedAt", EMBED_DISCOVERY_INTERVALS="300000,2000")
    world.graph_db.write(WRITE, count=COUNT)
    said = run("init", **world.environment)
    assert "created Movie_updatedAt_changed" in said
    start(world)
    # The first look is over all of them.
    embedded(world, COUNT, within_s=90)
    before = hash_of(world, "tt7")
    world.graph_db.write(EDIT, key="tt7", plot="Another plot")
    wait_for_edit(world, "tt7", before, within_s=2 + SLACK_S)
    world.graph_db.write("MATCH (m:Movie {imdb: 'tt8'}) DETACH DELETE m")
    world.graph_db.write("CREATE (:Movie {imdb: 'tt8', title: 'Film 8', plot: 'x', updatedAt: datetime()})")
    wait_for_edit(world, "tt8", "", within_s=2 + SLACK_S)
    assert {job["priority"] for job in world.jobs() if job["entity_uid"] in ("tt7", "tt8")} >= {1}


def test_an_edit_is_found_by_the_full_sweep(movies: Any, run: Run) -> None:
    """No timestamp, no trigger. Guard: `all` in EMBED_DISCOVERY."""
    world = movies(EMBED_DISCOVERY="outbox,all", EMBED_DISCOVERY_INTERVALS="300000,2000")
    world.graph_db.write(WRITE, count=COUNT)
    run("init", **world.environment)
    start(world)
    embedded(world, COUNT, within_s=90)
    before = hash_of(world, "tt7")
    world.graph_db.write(EDIT, key="tt7", plot="Another plot")
    wait_for_edit(world, "tt7", before, within_s=4 + SLACK_S)


def test_an_edit_is_found_by_the_trigger_within_seconds(movies: Any, run: Run) -> None:
    """Guard: `hasten`. Without it the outbox is looked at every five minutes, and none of these is found in time."""
    world = movies()
    world.graph_db.write(WRITE, count=COUNT)
    assert "marks changes of title, plot, imdb, validTo" in run("init", "--triggers", **world.environment)
    start(world)
    embedded(world, COUNT, within_s=90)
    taken = []
    for n in range(1, 4):
        before = hash_of(world, f"tt{n}")
        world.graph_db.write(EDIT, key=f"tt{n}", plot="Another plot")
        taken.append(wait_for_edit(world, f"tt{n}", before, within_s=SLACK_S))
    # On a quiet machine each takes three seconds at most; one that is busy may be late once.
    assert min(taken) < 5, taken
    world.graph_db.write("MATCH (m:Movie {imdb: 'tt8'}) DETACH DELETE m")
    world.graph_db.write("CREATE (:Movie {imdb: 'tt8', title: 'Film 8', plot: 'What happens in 8'})")
    wait_for_edit(world, "tt8", "", within_s=SLACK_S)
    assert EntityGraph.from_settings(world.settings, database=world.graph_db).known().outbox == 0


def test_init_and_doctor_know_the_trigger(movies: Any, run: Run) -> None:
    world = movies()
    graph_db, settings, here = world.graph_db, world.settings, world.environment
    run("init", **here)
    assert "no trigger" in run("init", "--check", "--triggers", code=78, both=True, **here)
    answer = run("init", "--triggers", "--json", **here)
    assert (answer["ok"], answer["trigger"]["state"]) == (True, "current")
    assert run("init", "--check", "--triggers", "--json", **here)["trigger"]["problems"] == []
    assert run("init", "--json", **here)["trigger"] == {"state": "current", "notes": [], "problems": []}

    def told(**changed: str) -> list[tuple[str, str]]:
        found = run("doctor", "--json", code=None, **{**here, **changed})["findings"]
        return [(each["grade"], each["detail"]) for each in found if each["subject"] == "changes by others"]

    assert [grade for grade, _ in told()] == ["ok"]
    ((grade, detail),) = told(EMBED_TEXT_PROPERTIES="title")
    assert (grade, "made for other settings" in detail) == ("warning", True)
    note = run("init", **{**here, "EMBED_TEXT_PROPERTIES": "title"})
    assert "made for other settings" in note
    assert look(graph_db, settings).state is State.CURRENT, "left as it was"
    run("init", "--no-triggers", **here)
    assert look(graph_db, settings).state is State.ABSENT
    assert told() == []
    assert "trigger" not in run("init", "--no-triggers", **here)
    off = run("init", "--triggers", code=78, both=True, **{**here, **_swapped(here)})
    assert "apoc.trigger.enabled=true" in off or "jobs" in off


def _swapped(here: dict[str, str]) -> dict[str, str]:
    """The graph on the server that allows no trigger, the jobs on the other one."""
    return {
        "NEO4J_URI": here["EMBED_JOB_DATABASE_URI"],
        "NEO4J_DATABASE": here["EMBED_JOB_DATABASE_NAME"],
        "EMBED_JOB_DATABASE_URI": here["NEO4J_URI"],
        "EMBED_JOB_DATABASE_NAME": here["NEO4J_DATABASE"],
        "NEO4J_USERNAME": here["EMBED_JOB_DATABASE_USERNAME"],
        "NEO4J_PASSWORD": here["EMBED_JOB_DATABASE_PASSWORD"],
        "EMBED_JOB_DATABASE_USERNAME": here["NEO4J_USERNAME"],
        "EMBED_JOB_DATABASE_PASSWORD": here["NEO4J_PASSWORD"],
    }
