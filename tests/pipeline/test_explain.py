"""Why has this entity no fresh vector? The reasons that the graph gives, each planted; and how it is told."""

import json
import subprocess
from collections.abc import Callable

import pytest

from neo4j_queue.reconcile.explain import explain
from neo4j_queue.reconcile.explanation import Reason
from tests.pipeline.conftest import Bench, MakeBench
from tests.pipeline.explaining import at_work, cypher, why


@pytest.fixture
def working(bench: Bench) -> Bench:
    return at_work(bench)


# --- No entity in scope -------------------------------------------------------------------------------------


def test_not_found_with_a_name_that_was_meant(working: Bench) -> None:
    working.create("Ada Lovelace")
    found = why(working, "ada lovelace ")
    assert (found.reason, found.well, found.in_scope) == (Reason.NOT_FOUND, False, False)
    assert 'did you mean "Ada Lovelace"?' in found.causes[0].why
    assert found.command == "neo4j-queue explain 'Ada Lovelace'"
    assert why(working, "somebody else").command is None


def test_a_name_that_is_composed_otherwise_is_meant(working: Bench) -> None:
    """The same word to a person, another key to the database. Fails without the forms of `near_keys`."""
    composed, parts = "Élan", "E\u0301lan"
    working.create(composed)
    assert f'did you mean "{composed}"?' in why(working, parts).causes[0].why


def test_soft_deleted(working: Bench) -> None:
    working.create("a")
    working.graph.delete_entity("a", soft=True)
    found = why(working)
    assert (found.reason, found.well, found.nodes) == (Reason.SOFT_DELETED, False, 0)
    assert "`validTo`" in found.causes[0].why


@pytest.mark.parametrize("indexed", [True, False])
def test_another_label_has_it(working: Bench, indexed: bool) -> None:
    cypher(working, "CREATE (:`Ein Buch` {name: 'a'}), (:Thing {name: 'b'})")
    if indexed:
        working.graph.database.autocommit("CREATE INDEX books IF NOT EXISTS FOR (b:`Ein Buch`) ON (b.name)")
        working.graph.database.autocommit("CALL db.awaitIndexes(30)")
    found = why(working)
    assert (found.reason, found.well) == (Reason.OTHER_LABEL, False)
    assert ":Ein Buch" in found.causes[0].why
    assert found.command == "EMBED_ENTITY_LABEL='Ein Buch' neo4j-queue explain a"
    working.graph.database.autocommit("DROP INDEX books IF EXISTS")


def test_a_key_that_is_a_decimal_number(working: Bench) -> None:
    cypher(working, "CREATE (:Entity {name: 42.5, observations: ['x']}), (:Entity {name: 'a'})")
    found = why(working, "42.5")
    assert (found.reason, found.well) == (Reason.UNUSABLE_KEY, False)
    assert "number" in found.causes[0].why
    assert found.advice is not None
    assert found.advice.startswith("give it a text or a whole number in `name`")
    assert "1 :Entity" not in found.advice, "there may be more"


@pytest.mark.parametrize("name", ["00005", "5.0", "+5", " 5", "5e0"])
@pytest.mark.parametrize("deleted", [False, True])
def test_another_writing_of_a_whole_number_is_one_that_was_meant(
    working: Bench, name: str, deleted: bool
) -> None:
    """Seen failing without `_number`: the key was said to be a decimal, and a new key for all entities was advised."""
    cypher(
        working,
        "CREATE (n:Entity {name: 5, observations: ['x']}) SET n.validTo = $at",
        at=1 if deleted else None,
    )
    found = why(working, name)
    assert (found.reason, found.well) == (Reason.NOT_FOUND, False)
    assert found.causes[0].why == "no :Entity has this `name`; did you mean 5?"
    assert (found.command, found.advice) == ("neo4j-queue explain 5", None)


def test_a_key_that_is_a_whole_number_is_explained_like_any_other(working: Bench) -> None:
    cypher(
        working, "CREATE (:Entity {name: 42, observations: ['x']}), (:Other {name: 7}), (:Entity {title: 9})"
    )
    found = explain(working.graph, working.queue, working.settings, 42)
    assert (found.reason, found.nodes) == (Reason.NOT_QUEUED, 1)
    assert found.text is not None
    assert found.text.text.startswith("Name: 42\n")
    assert why(working, "7").reason is Reason.OTHER_LABEL
    assert why(working, "9").reason is Reason.UNUSABLE_KEY


@pytest.mark.parametrize("name", ["", "  ", "\n"])
def test_a_blank_key(working: Bench, name: str) -> None:
    assert why(working, name).reason is Reason.UNUSABLE_KEY


def test_a_node_without_a_key_is_found_by_another_property(working: Bench) -> None:
    cypher(working, "CREATE (:Entity {title: 'a'})")
    found = why(working)
    assert found.reason is Reason.UNUSABLE_KEY
    assert "the `title` of a :Entity without a text or a whole number in `name`" in found.causes[0].why


def test_a_name_that_is_not_the_key(working: Bench) -> None:
    cypher(working, "CREATE (:Entity {name: 'isbn-1', title: 'a'})")
    found = why(working)
    assert (found.reason, found.command) == (Reason.OTHER_PROPERTY, "neo4j-queue explain isbn-1")


# --- An entity that cannot be embedded as it is -------------------------------------------------------------


def test_an_empty_text(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embed_text_properties="summary"))
    bench.graph.create_entities([{"name": "a", "summary": "  "}])
    bench.step()
    found = why(bench)
    assert (found.reason, found.well) == (Reason.EMPTY_TEXT, False)
    assert found.advice == "write a text into one of `summary`"


def test_a_text_over_the_models_limit(make_bench: MakeBench) -> None:
    bench = at_work(make_bench(embed_long_texts="fail", embed_input_tokens=100))
    bench.create("a", text="word " * 1_000 + "{}")
    found = why(bench)
    assert (found.reason, found.well) == (Reason.TEXT_TOO_LONG, False)
    assert "the model takes 100" in found.causes[0].why
    bench.step()
    assert why(bench).reason is Reason.TEXT_TOO_LONG, "its job failed: for that reason"
    cut = why(bench, embed_long_texts="truncate")
    assert cut.text is not None
    assert cut.text.cut
    assert 0 < cut.text.sent_characters < cut.text.characters


# --- Fresh, or not queued -----------------------------------------------------------------------------------


def test_fresh(working: Bench) -> None:
    working.create("a")
    working.step()
    found = why(working)
    assert (found.reason, found.well, found.command) == (Reason.FRESH, True, None)
    assert found.vector is not None
    assert (found.vector.state, found.vector.width) == ("fresh", 256)
    (job,) = found.jobs
    assert (job.current, job.status, job.outcome) == (True, "completed", "embedded")


def test_fresh_is_fresh_whatever_the_queue_does(bench: Bench) -> None:
    bench.create("a")
    bench.step()
    bench.queue.halt("the key is wrong")
    assert (why(bench).reason, why(bench).well) == (Reason.FRESH, True)


def test_edited_by_another_program_and_not_queued_yet(working: Bench) -> None:
    """The default sweeps do not find it: a person is told what does. With the sweep of all it comes by itself."""
    working.create("a")
    working.step()
    cypher(working, "MATCH (n:Entity {name: 'a'}) SET n.observations = ['edited']")
    found = why(working)
    assert (found.reason, found.well) == (Reason.NOT_QUEUED, False)
    assert found.vector is not None
    assert found.vector.state == "stale"
    assert found.command == "neo4j-queue enqueue a"
    by_sweep = why(working, embed_discovery=("outbox", "all"))
    assert (by_sweep.reason, by_sweep.well) == (Reason.NOT_QUEUED, True)
    assert "`all` finds it, every 24 h" in by_sweep.causes[0].why


@pytest.mark.parametrize(
    ("edited", "found"),
    [
        ("datetime()", True),
        ("localdatetime({timezone: 'UTC'})", True),
        ("timestamp()", True),
        ("timestamp() / 1000 + 1", True),
        ("date() + duration({days: 1})", True),
        ("datetime() - duration({days: 1})", False),
        ("'today'", False),
        ("null", False),
    ],
)
def test_an_edit_with_a_timestamp_is_found_by_the_sweep_of_changes(
    working: Bench, edited: str, found: bool
) -> None:
    """Where the timestamp is not newer than the vector, no sweep will look. Guard: `_changed` of the discovery."""
    working.create("a")
    working.step()
    cypher(working, f"MATCH (n:Entity {{name: 'a'}}) SET n.observations = ['edited'], n.updated = {edited}")
    discovery = ("outbox", "changed:updated")
    answer = why(working, embed_discovery=discovery)
    assert (answer.reason, answer.well) == (Reason.NOT_QUEUED, found)
    assert ("`changed:updated` finds it, every 30 s" in answer.causes[0].why) is found
    # A sweep that began long after that time has passed it, and found nothing: the text was changed again since.
    working.queue.database.write(
        "CREATE (:EmbedSweep {scope: 'changed:updated', began_at: timestamp() + 2 * 86400000})"
    )
    assert not why(working, embed_discovery=discovery).well


def test_missing_and_not_queued_is_found_by_a_sweep_while_beat_ticks(working: Bench) -> None:
    """Guard: `beat_is_missing`. Without it a sweep is promised that does not run."""
    cypher(working, "CREATE (:Entity {name: 'a', observations: ['x']})")
    found = why(working)
    assert (found.reason, found.well) == (Reason.NOT_QUEUED, True)
    assert "`missing` finds it, every 60 min" in found.causes[0].why
    working.skip(60)
    found = why(working)
    assert (found.reason, found.well, found.command) == (Reason.NOT_QUEUED, False, "neo4j-queue enqueue a")
    assert "`celery -A tasks beat`" in found.causes[0].why


def test_a_vector_of_another_model(working: Bench) -> None:
    working.create("a")
    working.step()
    cypher(working, "MATCH (n:Entity {name: 'a'}) SET n.embedding_model = 'other-model'")
    found = why(working)
    assert (found.reason, found.well) == (Reason.NOT_QUEUED, False)
    assert found.vector is not None
    assert (found.vector.state, found.vector.model) == ("other_model", "other-model")
    assert "its job ended" in found.causes[0].why


@pytest.mark.parametrize(
    ("vector", "state"),
    [
        ("[i IN range(1, 8) | 1.0]", "other_width"),
        ("[i IN range(1, 256) | 0.0]", "damaged"),
        ("[i IN range(1, 256) | 0.0 / 0.0]", "damaged"),
        ("'not a list'", "damaged"),
    ],
)
def test_a_damaged_vector(working: Bench, vector: str, state: str) -> None:
    working.create("a")
    working.step()
    cypher(working, f"MATCH (n:Entity {{name: 'a'}}) SET n.embedding = {vector}")
    found = why(working)
    assert found.vector is not None
    assert (found.vector.state, found.reason, found.well) == (state, Reason.NOT_QUEUED, False)
    assert found.command == f"neo4j-queue {'repair' if state == 'damaged' else 'enqueue'} a"


def test_deleted_and_created_again_by_another_program(working: Bench) -> None:
    working.create("a")
    cypher(working, "MATCH (n:Entity {name: 'a'}) DETACH DELETE n")
    working.step()
    cypher(working, "CREATE (:Entity {name: 'a', observations: ['text of a']})")
    found = why(working)
    assert found.reason is Reason.NOT_QUEUED
    assert "the entity was not there then" in found.causes[0].why


def test_a_job_that_ended_under_other_settings(working: Bench, make_bench: MakeBench) -> None:
    """`init --force` has put another label in force, whose worker found no such entity. Seen failing with the old
    words: the entity was said not to have been there."""
    working.create("a")
    make_bench(embed_entity_label="Author").step()
    found = why(working)
    assert found.reason is Reason.NOT_QUEUED
    assert (
        "without a vector: the entity was not there then, or other settings were in force"
        in found.causes[0].why
    )


# --- Several nodes, odd names, and what is told -------------------------------------------------------------


def test_a_key_that_several_nodes_share(working: Bench, without_constraint: Callable[[], None]) -> None:
    """The one in need is told of. Fails where the first of them stands for all: it is fresh."""
    without_constraint()
    cypher(working, "CREATE (:Entity {name: 'a', observations: ['one']})")
    working.graph.touch(["a"])
    working.step()
    cypher(working, "CREATE (:Entity {name: 'a', observations: ['two']})")
    found = why(working)
    assert (found.nodes, found.more_nodes, found.reason) == (2, False, Reason.NOT_QUEUED)
    assert found.text is not None
    assert "two" in found.text.text
    cypher(working, "UNWIND range(1, 30) AS n CREATE (:Entity {name: 'a', observations: ['two']})")
    assert (why(working).nodes, why(working).more_nodes) == (20, True)


@pytest.mark.parametrize("name", ["-x", "it's", 'say "hi"', "a\nb", "$HOME", "`id`", "x; rm -rf y", "\\"])
def test_any_name_stands_in_its_command_as_one_word(working: Bench, name: str) -> None:
    """Seen to fail with the name as it is: a shell takes it apart."""
    cypher(working, "CREATE (:Entity {name: $name, observations: ['x'], embedding: [1.0]})", name=name)
    command = why(working, name).command
    assert command is not None
    shown = command.replace("neo4j-queue", "printf '%s\\0'", 1)
    words = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True).stdout.split(
        "\0"
    )
    assert words[:-1] == (["enqueue", "--", name] if name.startswith("-") else ["enqueue", name])


def test_the_text_is_told_only_when_it_is_asked_for(working: Bench) -> None:
    working.create("a", text="secret of {}")
    found = why(working)
    assert "secret" not in json.dumps(found.as_json())
    assert found.as_json(text=True)["text"]["text"].endswith("- secret of a")
    assert found.text is not None
    assert found.text.hash == working.text("a").content_hash
    assert "embedding" not in json.dumps(found.as_json()), "and no vector ever"


def test_nothing_is_written(working: Bench) -> None:
    working.create("a", "b")
    working.step()
    nodes = "MATCH (n) RETURN properties(n) AS properties ORDER BY elementId(n)"
    before = [working.queue.database.read(nodes), working.graph.database.read(nodes)]
    for name in ("a", "c"):
        why(working, name)
    assert [working.queue.database.read(nodes), working.graph.database.read(nodes)] == before
