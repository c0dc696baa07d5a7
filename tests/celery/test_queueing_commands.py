"""Commands that queue, on real databases: `enqueue` and `repair`, their dry runs, and what they refuse."""

import re

import pytest

from tests.celery.conftest import REFUSED, Run, World


@pytest.mark.parametrize("command", [["enqueue", "--all"], ["enqueue", "e1"], ["repair", "e1"]], ids=" ".join)
def test_a_broker_that_takes_no_message_is_said(world: World, run: Run, command: list[str]) -> None:
    """The jobs are queued nevertheless."""
    world.graph_db.write("CREATE (:Entity {name: 'e1', entityType: 'thing'})")
    said = run(*command, both=True, CELERY_BROKER_URL="redis://127.0.0.1:1/0")
    assert "warning: the broker does not answer" in said
    assert world.queue.status().pending == 1
    assert "broker" not in run(*command, both=True)


def test_enqueue_queues_what_other_programs_wrote(world: World, run: Run) -> None:
    world.graph_db.write("UNWIND range(1, 25) AS n CREATE (:Entity {name: 'own' + n, entityType: 'thing'})")
    assert run("enqueue", "--missing", "--json")["queued"] == 25
    assert run("enqueue", "--all", "--json") == {
        "seen": 25, "fresh": 0, "queued": 0, "standing": 25, "missing": 25, "deleted": 0, "refused": 0,
        "without_key": 0, "failed": 0, "oldest_stale_at": None,
    }  # fmt: skip
    (one,) = run("enqueue", "own7", "--json")
    assert (one["entity"], one["outcome"]) == ("own7", "duplicate")
    run("enqueue", "own8", "nobody", code=1)


def test_enqueue_names_what_failed_before(world: World, run: Run) -> None:
    world.create(5)
    world.jobs_db.write("MATCH (j:EmbedJob) WITH j LIMIT 3 SET j.status = 'failed'")
    answer = run("enqueue", "--all", "--json")
    assert (answer["seen"], answer["standing"], answer["failed"]) == (5, 2, 3)
    said = "5 entities looked at: 0 queued, 2 queued before, 0 fresh"
    failed = "3 failed before (`neo4j-queue retry` is for them)"
    assert run("enqueue", "--missing").strip() == f"{said}, {failed}."


@pytest.mark.parametrize("command", [["enqueue", "--all"], ["repair"], ["doctor"]], ids=" ".join)
def test_entities_without_a_usable_key_are_counted_with_what_to_do(
    world: World, run: Run, command: list[str]
) -> None:
    world.graph_db.write("CREATE (:Entity {name: 'good'}), (:Entity {name: 7.5}), (:Entity {name: true})")
    said = run(*command, both=True, code=1 if command == ["doctor"] else 0)
    assert said.count("2 :Entity without a text or a whole number in `name`") == 1
    # What to do stands where people look for it, and not behind each command that they repeat.
    assert ("EMBED_ENTITY_KEY=uid" in said) is (command == ["doctor"])


@pytest.mark.parametrize("command", [["enqueue", "--missing"], ["repair"], ["init", "--check"]], ids=" ".join)
def test_a_label_that_no_node_has_is_named(world: World, run: Run, command: list[str]) -> None:
    world.graph_db.write("CREATE (:Entity {name: 'good'})")
    # A label without indexes: that is said too.
    said = run(*command, both=True, code=REFUSED, EMBED_ENTITY_LABEL="Entitty")
    assert "EMBED_ENTITY_LABEL=Entitty: no node of the graph has this label; did you mean Entity?" in said


@pytest.mark.parametrize("command", ["enqueue --all", "enqueue --all --dry-run", "repair"])
def test_where_there_is_no_entity_at_all_is_said(world: World, run: Run, command: str) -> None:
    assert re.search(
        r"EMBED_ENTITY_LABEL=Entity: the graph \S+ \(\S+\) has no node at all", said_by(run, command)
    )
    world.graph_db.write("CREATE (:Entity {name: 'gone', validTo: 1})")
    assert "EMBED_ENTITY_LABEL=Entity: every :Entity has a `validTo`" in said_by(run, command)
    world.graph_db.write("CREATE (:Entity {name: 'here'})")
    assert "warning" not in said_by(run, command)


def said_by(run: Run, command: str) -> str:
    return str(run(*command.split(), both=True))


def test_repair_by_name_and_in_bulk(world: World, run: Run) -> None:
    world.graph_db.write("UNWIND range(1, 5) AS n CREATE (:Entity {name: 'own' + n, entityType: 'thing'})")
    assert run("repair", "own3", "--json")["mode"] == "specific"
    answer = run("repair", "--limit", "3", "--json")
    assert (answer["mode"], answer["limit"], answer["newly_scheduled"]) == ("batch", 3, 3)
    # The task takes ten in the place of a limit that is none (D6); a person is told.
    for given in ("0", "-3", "many", "1001"):
        assert "--limit" in run("repair", "--limit", given, both=True, code=2)
    assert run("repair", "nobody", code=1) == ""
    assert "is blank" in run("repair", "", both=True, code=2)
    assert "is blank" in run("enqueue", "own1", " ", both=True, code=2)


def test_a_dry_run_says_what_every_selection_would_cost_and_queues_nothing(world: World, run: Run) -> None:
    world.graph_db.write("UNWIND range(1, 45) AS n CREATE (:Entity {name: 'own' + n, entityType: 'thing'})")
    everything = run("enqueue", "--all", "--dry-run", "--json")
    assert (everything["seen"], everything["to_embed"], everything["requests"]) == (45, 45, 3)
    assert (everything["money_usd"], everything["limited_by"], everything["minutes"]) == (0.0, None, None)
    assert run("enqueue", "--missing", "--dry-run", "--json")["to_embed"] == 45
    assert run("enqueue", "own1", "own2", "--dry-run", "--json")["to_embed"] == 2
    assert run("enqueue", "own1", "nobody", "--dry-run", "--json", code=1)["to_embed"] == 1
    assert run("repair", "own3", "--dry-run", "--json")["to_embed"] == 1
    assert run("repair", "--limit", "7", "--dry-run", "--json")["to_embed"] == 7
    assert run("repair", "nobody", "--dry-run", code=1) == ""
    priced = run(
        "enqueue", "--all", "--dry-run",
        EMBEDDING_PRICE_PER_MILLION_TOKENS="1000000", EMBEDDING_RATE_LIMIT_TOKENS="2",
    )  # fmt: skip
    assert f"{everything['model_tokens']:,}.00 USD" in priced
    assert "at least 1 min at 2 requests per 60 s" in priced
    world.graph_db.write("MATCH (n:Entity) WHERE n.name <> 'own1' SET n.description = 'some words'")
    blank = run("enqueue", "--all", "--dry-run", EMBED_TEXT_PROPERTIES="description")
    assert re.search(r"to queue +45 *\n", blank)
    assert re.search(r"blank +1 text: their jobs will fail without a request *\n", blank)
    assert re.search(r"to embed +44 *\n", blank)
    one = run("repair", "own1", "--dry-run", "--json", EMBED_TEXT_PROPERTIES="description")
    assert (one["to_queue"], one["blank"], one["to_embed"]) == (1, 1, 0)
    assert world.queue.status().total == 0


@pytest.mark.parametrize(
    "command", ["enqueue --all", "enqueue --missing", "enqueue e1", "repair", "repair e1"]
)
def test_nothing_is_queued_before_init(world: World, run: Run, command: str) -> None:
    """Without the constraints two at once could make two jobs of one, or two nodes."""
    world.graph_db.write("CREATE (:Entity {name: 'e1'}), (:Uninitialised {name: 'e1'})")
    said = run(*command.split(), code=REFUSED, EMBED_ENTITY_LABEL="Uninitialised")
    assert said.strip() == "neo4j-queue: no index on (:Uninitialised {name}): run neo4j-queue init"
    world.jobs_db.autocommit("MATCH (n) DETACH DELETE n")
    said = run(*command.split(), code=REFUSED)
    assert re.fullmatch(
        r"neo4j-queue: the jobs database \S+ is not prepared; .*: run neo4j-queue init\n", said
    )
    assert world.jobs_db.read("MATCH (j:EmbedJob) RETURN count(*) AS n")[0]["n"] == 0
