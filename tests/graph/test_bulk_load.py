"""Hundreds of thousands of entities and relations: in pages, within bounds, and to be begun again."""

import itertools
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.bulk_load import PAGE_CHARACTERS, PAGE_ENTRIES, Loaded, pages
from neo4j_queue.graph.entity_graph import EntityInput
from neo4j_queue.queue import EmbedQueue
from tests.conftest import MakeSettings
from tests.waiting import wait_until

COUNT = 2 * PAGE_ENTRIES + 500


def entities(count: int, *, edited: bool = False) -> Iterator[EntityInput]:
    text = "another text" if edited else "a text"
    return (EntityInput(f"e{n:06}", "thing", [f"{text} of {n}"]) for n in range(count))


def test_a_load_is_in_pages_and_says_what_became_of_the_entries(
    queued_graph: EntityGraph, queue: EmbedQueue
) -> None:
    seen: list[Loaded] = []
    loaded = queued_graph.load_entities(entities(COUNT), progress=seen.append)
    assert (loaded.entries, loaded.created, loaded.queued, loaded.deferred) == (COUNT, COUNT, COUNT, 0)
    assert [each.entries for each in seen] == [PAGE_ENTRIES, 2 * PAGE_ENTRIES, COUNT]
    assert seen[-1] == loaded
    assert queue.status().pending == COUNT
    # What people edit meanwhile goes first.
    assert {job["priority"] for job in queue.jobs(limit=5)} == {0}
    again = queued_graph.load_entities(entities(COUNT))
    assert (again.unchanged, again.created, again.updated) == (COUNT, 0, 0)
    assert queue.status().total == COUNT
    more = queued_graph.load_entities([*entities(3, edited=True), EntityInput("new")])
    assert (more.updated, more.created, more.unchanged) == (3, 1, 0)


def test_no_more_than_three_pages_of_a_generator_are_read_ahead(graph: EntityGraph) -> None:
    """Guard: a list made of the generator, as `create_entities` makes one."""
    read = 0

    def counted() -> Iterator[EntityInput]:
        nonlocal read
        for entity in entities(3 * PAGE_ENTRIES):
            read += 1
            yield entity

    ahead: list[int] = []
    graph.load_entities(counted(), progress=lambda so_far: ahead.append(read - so_far.entries))
    assert max(ahead) <= 2 * PAGE_ENTRIES


def test_an_entity_of_two_pages_has_what_the_later_one_says(graph: EntityGraph) -> None:
    """Guard: `next` of `_Course` waits for the page before. Without it the two transactions run at once."""
    first = (EntityInput(f"e{n}", "thing", ["early"]) for n in range(PAGE_ENTRIES))
    second = (EntityInput(f"e{n}", "thing", ["late"]) for n in range(PAGE_ENTRIES))
    loaded = graph.load_entities(itertools.chain(first, second))
    assert (loaded.created, loaded.updated) == (PAGE_ENTRIES, PAGE_ENTRIES)
    assert graph.get_entity("e0").properties["observations"] == ["late"]


def test_an_interruption_of_a_load_waits_for_nothing_and_leaves_a_whole_page(
    queued_graph: EntityGraph, graph_db: Database
) -> None:
    """Guard: the daemon threads of `started`. A pool's threads keep the program until the statement ends."""

    def interrupted() -> Iterator[EntityInput]:
        yield from entities(PAGE_ENTRIES)
        yield from entities(10)
        raise KeyboardInterrupt

    lock = graph_db.driver().session(database=graph_db.address.database)
    holder = lock.begin_transaction()
    holder.run("CREATE (:Entity {name: 'e000500'})").consume()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        queued_graph.load_entities(interrupted())
    assert time.monotonic() - began < 3, "it waited for the page, and that for the lock"
    holder.rollback()
    lock.close()
    wait_until(
        lambda: queued_graph.known().outbox == PAGE_ENTRIES,
        within_s=10,
        what="the page that was being written",
    )


def test_an_error_of_the_generator_leaves_what_was_being_written(graph: EntityGraph) -> None:
    def broken() -> Iterator[tuple[str, str, str]]:
        yield from ((f"e{n:06}", "NEXT", f"e{n + 1:06}") for n in range(150))
        raise OSError("the file ends here")

    graph.load_entities(entities(200))
    with pytest.raises(OSError, match="the file ends here"):
        graph.load_relations(broken())
    assert graph.database.read("MATCH ()-[r:NEXT]->() RETURN count(r) AS found")[0]["found"] == 100


def test_pages_are_bounded_by_their_texts_too() -> None:
    body = "x" * (PAGE_CHARACTERS // 4)
    sizes = [len(page) for page in pages({"name": str(n), "body": body} for n in range(10))]
    assert sizes == [4, 4, 2]
    observed = (EntityInput(str(n), "thing", [body]) for n in range(5))
    assert [len(page) for page in pages(observed)] == [4, 1]
    assert [len(page) for page in pages(range(5), 2)] == [2, 2, 1]
    assert list(pages([])) == []


def test_the_memory_of_a_load_does_not_grow_with_it(graph: EntityGraph) -> None:
    peaks = []
    for count in (PAGE_ENTRIES, 6 * PAGE_ENTRIES):
        tracemalloc.start()
        graph.load_entities({"name": f"e{n}"} for n in range(count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.5 * peaks[0], peaks


def test_a_wrong_entry_says_how_many_are_written_and_leaves_its_page_out(
    queued_graph: EntityGraph, queue: EmbedQueue, graph_db: Database
) -> None:
    def with_a_wrong_one() -> Iterator[EntityInput]:
        yield from entities(PAGE_ENTRIES + 10)
        yield EntityInput("")

    with pytest.raises(ValueError, match="needs a text or a whole number") as caught:
        queued_graph.load_entities(with_a_wrong_one())
    assert caught.value.__notes__ == [
        "1,000 entries before it are written; the same call again passes over them quickly"
    ]
    assert graph_db.read("MATCH (n:Entity) RETURN count(n) AS found")[0]["found"] == PAGE_ENTRIES
    assert queue.status().pending == PAGE_ENTRIES


def test_an_error_of_the_generator_itself_is_raised_as_it_is(graph: EntityGraph) -> None:
    def broken() -> Iterator[EntityInput]:
        yield from entities(PAGE_ENTRIES)
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        graph.load_entities(broken())
    assert graph.coverage().entities == PAGE_ENTRIES


def test_a_queue_that_is_down_does_not_hold_up_a_load(
    graph_db: Database, make_settings: MakeSettings
) -> None:
    def down(_: object) -> None:
        raise ConnectionError("the jobs database is away")

    told: list[int] = []
    graph = EntityGraph.from_settings(
        make_settings(),
        enqueue=down,  # type: ignore[arg-type]
        database=graph_db,
        on_deferred=lambda count, _: told.append(count),
    )
    loaded = graph.load_entities(entities(COUNT))
    assert (loaded.created, loaded.queued, loaded.deferred) == (COUNT, 0, COUNT)
    assert sum(told) == COUNT
    assert graph.known().outbox == COUNT


def test_relations_are_loaded_in_pages(graph: EntityGraph, graph_db: Database) -> None:
    graph.load_entities(entities(COUNT))
    seen: list[int] = []
    wanted = ((f"e{n:06}", "NEXT", f"e{n + 1:06}") for n in range(COUNT - 1))
    assert graph.load_relations(wanted, progress=seen.append) == COUNT - 1
    assert seen == [100, 100 + PAGE_ENTRIES, 100 + 2 * PAGE_ENTRIES, COUNT - 1]
    assert graph_db.read("MATCH ()-[r:NEXT]->() RETURN count(r) AS found")[0]["found"] == COUNT - 1
    with pytest.raises(EntityNotFound, match="nobody"):
        graph.load_relations([("e000001", "NEXT", "nobody")])


@pytest.mark.parametrize("relation", [("a", "KNOWS"), ("a", "KNOWS", "b", "c"), "abc", None, {"source": "a"}])
def test_what_is_no_relation_is_named(graph: EntityGraph, relation: object) -> None:
    """Seen failing before: an error of Python's about arguments of `__init__`."""
    with pytest.raises(ValueError, match=r"a relation is a Relation or \(source, type, target\), not "):
        graph.create_relations([relation])  # type: ignore[list-item]


@pytest.mark.parametrize("key", [" ", "\t\n", "\u00a0", "\u200b", "\x00", "\x1b\x07"])
def test_a_key_that_no_command_could_name_is_refused(graph: EntityGraph, key: str) -> None:
    with pytest.raises(ValueError, match=r"`name` .* is blank: commands and tasks could not name") as caught:
        graph.create_entities([EntityInput(key)])
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="is blank"):
        graph.load_entities([{"name": key}])


def test_a_nul_character_in_a_key_is_refused_and_others_are_shown_escaped(graph: EntityGraph) -> None:
    with pytest.raises(ValueError, match=r"the `name` 'a\\x00b' holds a nul character"):
        graph.create_entities([EntityInput("a\x00b")])
    graph.create_entities([EntityInput("two\nlines")])
    assert graph.get_entity("two\nlines").uid == "two\nlines"
