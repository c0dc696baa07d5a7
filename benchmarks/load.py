"""How fast entities are loaded, beside a batched MERGE of the same entities by plain Cypher."""

import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.entities import entity
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, wipe_jobs
from neo4j_queue.database import Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput
from neo4j_queue.queue import EmbedQueue

PARTS = ("load",)

ENTITIES = 30_000
QUICK_ENTITIES = 2_000
PAGE = 1_000
# What a program without this library would send.
MERGE = "UNWIND $rows AS row MERGE (n:Entity {name: row.name}) SET n += row"
MERGE_RELATIONS = """
UNWIND $rows AS row
MATCH (a:Entity {name: row.source}) MATCH (b:Entity {name: row.target})
MERGE (a)-[:NEXT]->(b)
"""
WIPE = "MATCH (n:Entity) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS"
# The least of plain Cypher's speed that a load is to have.
LEAST = 0.5

Seconds = dict[str, list[float]]


def run(stage: Stage, options: Options) -> Report:
    """Each way in turn, into an empty graph with all of its indexes: entities, then relations from each to the next."""
    report = Report("load", options.shown())
    count = QUICK_ENTITIES if options.quick else ENTITIES
    settings = stage.settings(neo4j_vector_dimensions=256)
    with (
        EmbedQueue.connect(settings) as queue,
        EntityGraph.from_settings(settings, queue.enqueue) as graph,
    ):
        stage.prepare_jobs(queue.database)
        stage.prepare_graph(graph.database, settings)
        ways: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "plain Cypher": (lambda: _merge(graph.database, count), lambda: _relate(graph.database, count)),
            "load_entities, load_relations": (
                lambda: _load(graph, count),
                lambda: graph.load_relations(_relations(count)) and None,
            ),
            "load_entities, no queue": (lambda: _without_queue(stage, count), lambda: None),
        }
        taken: dict[str, Seconds] = {name: {"entities": [], "relations": []} for name in ways}
        for turn in range(options.rounds + 1):
            for name, (load, relate) in ways.items():
                graph.database.autocommit(WIPE, timeout_s=600)
                wipe_jobs(queue.database)
                seconds = (_timed(load), _timed(relate))
                if turn:  # the first one is for plans and caches
                    taken[name]["entities"].append(seconds[0])
                    taken[name]["relations"].append(seconds[1])
            stage.say(f"load: round {turn} of {options.rounds}")
        _show(report, taken, count)
        graph.database.autocommit(WIPE, timeout_s=600)
        wipe_jobs(queue.database)
    return report


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _entities(count: int) -> Iterator[EntityInput]:
    return (entity(n) for n in range(count))


def _relations(count: int) -> Iterator[tuple[str, str, str]]:
    return ((str(entity(n).name), "NEXT", str(entity(n + 1).name)) for n in range(count - 1))


def _load(graph: EntityGraph, count: int) -> None:
    loaded = graph.load_entities(_entities(count))
    if loaded.created != count:
        raise AssertionError(f"{loaded.created} of {count} were created")


def _without_queue(stage: Stage, count: int) -> None:
    with EntityGraph.from_settings(stage.settings(neo4j_vector_dimensions=256)) as graph:
        _load(graph, count)


def _merge(database: Database, count: int) -> None:
    rows = []
    for n in range(count):
        made = entity(n)
        rows.append(
            {"name": made.name, "entityType": made.entity_type, "observations": list(made.observations or ())}
        )
        if len(rows) == PAGE or n == count - 1:
            database.write(MERGE, rows=rows)
            rows = []


def _relate(database: Database, count: int) -> None:
    rows = []
    for n in range(count - 1):
        rows.append({"source": entity(n).name, "target": entity(n + 1).name})
        if len(rows) == PAGE or n == count - 2:
            database.write(MERGE_RELATIONS, rows=rows)
            rows = []


def _show(report: Report, taken: dict[str, Seconds], count: int) -> None:
    columns = {
        "way": "way",
        "entities": "entities/s",
        "of_plain": "x plain",
        "relations": "relations/s",
        "of": "x plain",
    }
    baseline = f"{PAGE:,} rows in a statement: {MERGE}"
    table = Table(f"{count:,} entities of some fifty words, medians", columns, baseline)
    plain = {what: median(seconds) for what, seconds in taken["plain Cypher"].items()}
    for way, seconds in taken.items():
        entities, relations = median(seconds["entities"]), median(seconds["relations"])
        related = (
            {"relations": count / relations, "of": plain["relations"] / relations} if relations > 0.01 else {}
        )
        table.add(way=way, entities=count / entities, of_plain=plain["entities"] / entities, **related)
    report.tables.append(table)
    ours = taken["load_entities, load_relations"]
    report.targets += [
        Target(
            "load_entities, share of plain Cypher",
            plain["entities"] / median(ours["entities"]),
            LEAST,
            at_least=True,
        ),
        Target(
            "load_relations, share of plain Cypher",
            plain["relations"] / median(ours["relations"]),
            LEAST,
            at_least=True,
        ),
    ]
