"""The trigger: any program's change of an entity puts it into the outbox, and no write fails or loops for it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from neo4j_queue.checks.triggers import lines
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.sweep import Scope, sweep
from neo4j_queue.schema import triggers
from neo4j_queue.schema.triggers import OURS, State, Trigger
from neo4j_queue.settings import Settings
from tests.waiting import wait_until

# The server looks for new triggers every second.
AT_WORK_S = 20.0
PENDING = "MATCH (n:EmbedPending) RETURN n.name AS name ORDER BY name"
UNMARK = "MATCH (n:EmbedPending) REMOVE n:EmbedPending"


def _clean(database: Database) -> None:
    with Database(replace(database.address, database="system")) as system:
        system.write("CALL apoc.trigger.dropAll('neo4j') YIELD name RETURN name")
    wait_until(
        lambda: not database.read("CALL apoc.trigger.list() YIELD name RETURN name"),
        within_s=AT_WORK_S,
        what="no trigger is at work",
    )


@pytest.fixture
def no_trigger(graph_db: Database) -> Iterator[None]:
    """None before the test, and none after it."""
    _clean(graph_db)
    yield
    _clean(graph_db)


@pytest.fixture
def trigger(graph_db: Database, settings: Settings, no_trigger: None) -> Trigger:
    """The trigger of the test's settings, at work."""
    assert triggers.install(graph_db, settings).state is State.CURRENT
    return Trigger.of(settings)


def pending(database: Database) -> list[str]:
    """The keys of the outbox; it is empty afterwards."""
    names = [row["name"] for row in database.read(PENDING)]
    database.write(UNMARK)
    return names


CHANGES = {
    "created": "CREATE (:Entity {name: 'new'})",
    "created without a text": "CREATE (:Entity {name: 'new', other: 1})",
    "labelled": "MATCH (n:Other {name: 'new'}) SET n:Entity",
    "text changed": "MATCH (n:Entity {name: 'old'}) SET n.observations = ['changed']",
    "text removed": "MATCH (n:Entity {name: 'old'}) REMOVE n.observations",
    "all replaced": "MATCH (n:Entity {name: 'old'}) SET n = {name: 'old'}",
    "renamed": "MATCH (n:Entity {name: 'old'}) SET n.name = 'new'",
    "undeleted": "MATCH (n:Entity {name: 'gone'}) REMOVE n.validTo",
    "by APOC": "MATCH (n:Entity {name: 'old'}) CALL apoc.create.setProperty(n, 'name', 'new') YIELD node RETURN node",
    "merged": "MERGE (n:Entity {name: 'new'}) ON CREATE SET n.entityType = 'x'",
}
NO_CHANGES = {
    "another property": "MATCH (n:Entity {name: 'old'}) SET n.other = 1",
    "the same value": "MATCH (n:Entity {name: 'old'}) SET n.observations = ['first']",
    "another label": "CREATE (:Other {name: 'x', observations: ['x']})",
    "no key": "CREATE (:Entity {observations: ['x']})",
    "soft-deleted": "MATCH (n:Entity {name: 'old'}) SET n.validTo = 1",
    "changed while soft-deleted": "MATCH (n:Entity {name: 'gone'}) SET n.observations = ['x']",
    "label taken away": "MATCH (n:Entity {name: 'old'}) REMOVE n:Entity SET n.observations = ['x']",
    "deleted": "MATCH (n:Entity {name: 'old'}) DETACH DELETE n",
    "changed and deleted": "MATCH (n:Entity {name: 'old'}) SET n.observations = ['x'] WITH n DETACH DELETE n",
    "created and deleted": "CREATE (n:Entity {name: 'x'}) WITH n DELETE n",
    "unlabelled and deleted": "MATCH (n:Entity {name: 'old'}) REMOVE n:Entity, n.observations WITH n DELETE n",
    "a relationship": "MATCH (a:Entity {name: 'old'}), (b:Entity {name: 'gone'}) CREATE (a)-[:R {name: 'x'}]->(b)",
    "a vector": "MATCH (n:Entity {name: 'old'}) SET n.embedding = [1.0], n.embedding_hash = 'x'",
    "a token": "CALL db.createProperty('never seen before')",
    "nothing": "MATCH (n:Nowhere) SET n.observations = ['x']",
}
BEFORE = (
    "CREATE (:Entity {name: 'old', observations: ['first']}), (:Other {name: 'new', observations: ['x']}), "
    "(:Entity {name: 'gone', observations: ['x'], validTo: 1})"
)


@pytest.mark.usefixtures("trigger")
def test_changes_by_any_program_are_marked_and_nothing_else(graph_db: Database) -> None:
    """Guards: each part of triggers/mark. Without `MATCH (n) WHERE elementId(n) = id` the deletions fail."""
    for what, query in {**CHANGES, **NO_CHANGES}.items():
        graph_db.write("MATCH (n) DETACH DELETE n")
        graph_db.write(BEFORE)
        graph_db.write(UNMARK)
        graph_db.write(query)
        # Each statement names one entity, as it is called in the end.
        named = "new" if "'new'" in query else "gone" if "'gone'" in query else "old"
        assert pending(graph_db) == ([named] if what in CHANGES else []), what


@pytest.mark.usefixtures("trigger")
def test_a_mark_is_there_when_its_change_is(graph_db: Database) -> None:
    """One transaction: whoever sees the change sees the mark, and a rollback takes both away."""
    with graph_db.driver().session(database=graph_db.address.database) as session:
        rolled_back = session.begin_transaction()
        rolled_back.run("CREATE (:Entity {name: 'never'})").consume()
        rolled_back.rollback()
    assert pending(graph_db) == []
    graph_db.autocommit(
        "UNWIND range(1, 1000) AS n CALL (n) { CREATE (:Entity {name: 'e' + n}) } IN TRANSACTIONS OF 300 ROWS"
    )
    assert len(pending(graph_db)) == 1000


@pytest.mark.usefixtures("trigger")
def test_a_schema_can_be_changed(graph_db: Database) -> None:
    """A transaction that changes the schema may write nothing else: the trigger must not try."""
    graph_db.write("CREATE INDEX of_a_test FOR (n:OfATest) ON (n.name)")
    graph_db.write("DROP INDEX of_a_test")
    graph_db.write("CREATE CONSTRAINT of_a_test FOR (n:OfATest) REQUIRE n.name IS UNIQUE")
    graph_db.write("DROP CONSTRAINT of_a_test")


@pytest.mark.usefixtures("trigger")
def test_our_own_vector_writes_mark_nothing(
    graph: EntityGraph, queue: EmbedQueue, graph_db: Database, embed: Callable[..., Any]
) -> None:
    """Guard: the vector's properties are none of those that are watched. Else each write would be the next job."""
    graph_db.write("UNWIND range(1, 5) AS n CREATE (:Entity {name: 'e' + n, observations: ['x']})")
    assert sweep(graph, queue, Scope.OUTBOX).queued == 5
    assert len(embed(*(f"e{n}" for n in range(1, 6)))) == 5
    assert pending(graph_db) == []
    graph.touch(["e1"])
    assert pending(graph_db) == []
    # A text that is what it was again: marked by its change, and taken out by the sweep.
    graph_db.write("MATCH (n:Entity {name: 'e2'}) SET n.observations = ['y']")
    graph_db.write("MATCH (n:Entity {name: 'e2'}) SET n.observations = ['x']")
    assert (sweep(graph, queue, Scope.OUTBOX).fresh, pending(graph_db)) == (1, [])


@pytest.mark.parametrize(
    "name",
    [
        "back`tick",
        r"a\u0060b",
        "it's",
        'say "x"',
        "a) DETACH DELETE n //",
        "$label",
        "two words",
        "schöne Größe",
        "__LABEL__",
        "\\",
    ],
)
def test_names_are_data(graph_db: Database, no_trigger: None, settings: Settings, name: str) -> None:
    """Label, key and text property of any name, also one that is code elsewhere: the statement holds none of them."""
    wanted = Trigger(name, {"label": name, "key": name, "deleted": "validTo", "names": [name, "text"]})
    assert wanted.query == Trigger.of(settings).query
    with Database(replace(graph_db.address, database="system")) as system:
        system.write(
            triggers.statement("triggers/install"),
            database="neo4j",
            name=wanted.name,
            body=wanted.query,
            phase=triggers.PHASE,
            params=dict(wanted.params),
        )
    wait_until(lambda: triggers.is_at_work(graph_db, wanted), within_s=AT_WORK_S, what="it is at work")
    graph_db.write("CREATE (:Bystander {name: 'x'})")
    graph_db.write(
        "CREATE (n:$($label)) SET n += $properties", label=name, properties={name: "k", "text": "t"}
    )
    graph_db.write("CREATE (n:$($label)) SET n += $properties", label=name, properties={"text": "no key"})
    found = graph_db.read("MATCH (n:EmbedPending) RETURN labels(n) AS labels")
    assert [set(row["labels"]) for row in found] == [{name, "EmbedPending"}]
    assert graph_db.read("MATCH (n:Bystander) RETURN count(n) AS n")[0]["n"] == 1


def test_its_state_is_known(
    graph_db: Database, jobs_db: Database, make_settings: Callable[..., Settings], no_trigger: None
) -> None:
    """Guards: `is_same`, `paused`, and the names that are ours."""
    settings = make_settings()
    assert triggers.look(graph_db, settings).state is State.ABSENT
    assert not triggers.remove(graph_db, settings)
    found = triggers.install(graph_db, settings)
    assert found.state is State.CURRENT
    assert "observations" in found.detail
    assert triggers.install(graph_db, settings) == found, "a second time nothing is to be done"

    other = make_settings(embed_text_properties="title")
    assert triggers.look(graph_db, other).state is State.OUTDATED
    assert triggers.look(graph_db, make_settings(embed_entity_label="Book")).others == (f"{OURS}Entity",)
    assert triggers.install(graph_db, other).state is State.CURRENT
    graph_db.write("CREATE (n:Entity {name: 'a'})")
    graph_db.write(UNMARK)
    graph_db.write("MATCH (n:Entity {name: 'a'}) SET n.title = 'x'")
    assert pending(graph_db) == ["a"], "the new one is at work, not the old one"

    with Database(replace(graph_db.address, database="system")) as system:
        system.write(f"CALL apoc.trigger.stop('neo4j', '{OURS}Entity') YIELD name RETURN name")
    paused = triggers.look(graph_db, other)
    assert paused.state is State.PAUSED
    assert triggers.install(graph_db, other).state is State.CURRENT
    assert triggers.remove(graph_db, other)
    assert triggers.look(graph_db, other).state is State.ABSENT


def test_a_server_that_does_not_allow_triggers_is_named_with_the_setting(
    jobs_db: Database, settings: Settings
) -> None:
    """The jobs server allows none."""
    found = triggers.install(jobs_db, settings)
    assert found.state is State.OFF
    assert "apoc.trigger.enabled=true in apoc.conf" in (found.advice or "")


def test_what_does_not_fit_is_said(make_settings: Callable[..., Settings]) -> None:
    settings = make_settings()
    found = triggers.Found(State.CURRENT, "the trigger neo4j-queue:Entity marks changes")
    assert lines(found, settings, counted_on=True) == []
    ((detail, advice),) = lines(found, settings, counted_on=False)
    assert ("every five minutes" in detail, advice) == (True, "neo4j-queue init --triggers")
    ((detail, _),) = lines(found, make_settings(embed_discovery="missing"), counted_on=True)
    assert "EMBED_DISCOVERY has no `outbox`" in detail
    for state in (State.ABSENT, State.OFF, State.IMPOSSIBLE):
        gone = triggers.Found(state, "no trigger", "do something")
        assert lines(gone, settings, counted_on=False) == []
        assert len(lines(gone, settings, counted_on=True)) == 1
    for state in (State.OUTDATED, State.PAUSED):
        assert len(lines(triggers.Found(state, "x"), settings, counted_on=False)) == 1
    ((_, advice),) = lines(replace(found, others=("neo4j-queue:It's",)), settings, counted_on=True)
    assert """drop('neo4j', "neo4j-queue:It's")""" in (advice or "")
