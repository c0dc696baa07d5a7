"""A full sweep over a large graph of which little needs work, while people edit: its time, its cost, their wait."""

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles

import psutil

from benchmarks.machine import ProcessorTime
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, wipe_jobs
from benchmarks.workers import Workers
from neo4j_queue.database import Bulk, Database
from neo4j_queue.graph import EntityGraph
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.text import TextRecipe

PARTS = ("full",)

ENTITIES = int(os.environ.get("SWEEP_ENTITIES", "1000000"))
QUICK_ENTITIES = 20_000
STALE = 1_000
# Few numbers: the sweep looks at their count alone, and the vector index over a million is built in minutes.
DIMENSIONS = 8
PAGE = 5_000
SLOTS = 2
IDLE_EDITS, QUICK_EDITS = 40, 5
# An edit now and then: it is the sweep that is to be busy.
PAUSE_S = (0.2, 0.6)
POLL_S = 0.01
WAIT_S = 60.0
SWEEP_WITHIN_S = 3_600.0
WATCH_S = 0.25
INDEX_WITHIN_S = 3_600.0

SEED = """
UNWIND $rows AS row
CREATE (n:Entity {name: row.name, entityType: 'Benchmark', observations: row.observations,
  embedding_model: $model, embedding_hash: row.hash, embedded_at: timestamp()})
WITH n, row
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector)
"""
MADE_STALE = "UNWIND $names AS name MATCH (n:Entity {name: name}) SET n.entityType = 'Changed'"
HASH = "MATCH (n:Entity {name: $name}) RETURN n.embedding_hash AS hash"
ENDED = """
MATCH (s:EmbedSweep {scope: 'all'})
RETURN s.began_at AS began, s.ended_at AS ended, s.seen AS seen, s.queued AS queued
"""


@dataclass(slots=True)
class Edits:
    """Edits of a person, one after the other: how long the call took, and when the vector was there (ms)."""

    graph: EntityGraph
    count: int
    called: list[float] = field(default_factory=list)
    visible: list[float] = field(default_factory=list)

    def one(self) -> None:
        """Edits an entity, no matter which, and waits for its vector."""
        time.sleep(random.uniform(*PAUSE_S))
        name = _name(random.randrange(self.count))
        before = self.graph.database.read(HASH, name=name)[0]["hash"]
        began = time.perf_counter()
        self.graph.update_entity(name, {"observations": [f"edited at {time.time()}"]})
        self.called.append((time.perf_counter() - began) * 1000)
        while self.graph.database.read(HASH, name=name)[0]["hash"] == before:
            if time.perf_counter() - began > WAIT_S:
                raise TimeoutError(f"no vector for {name} within {WAIT_S:.0f} s")
            time.sleep(POLL_S)
        self.visible.append((time.perf_counter() - began) * 1000)


def run(stage: Stage, options: Options) -> Report:
    """Edits on the idle system, then during the sweep, which real workers do in turns."""
    # Not at the top: celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.client import open_graph

    report = Report("sweep", options.shown())
    count = QUICK_ENTITIES if options.quick else ENTITIES
    changed = {"neo4j_vector_dimensions": DIMENSIONS, "embed_discovery": "outbox"}
    settings = stage.settings(**changed)
    with EmbedQueue.connect(settings) as queue, Database(settings.graph_address()) as graph_db:
        stage.prepare_jobs(queue.database)
        _seed(stage, graph_db, count, settings.embed_entity_key)
        stage.say("sweep: the vector index is built")
        stage.prepare_graph(graph_db, settings)
        graph_db.autocommit(f"CALL db.awaitIndexes({INDEX_WITHIN_S:.0f})", timeout_s=INDEX_WITHIN_S)
        workers = Workers(stage.environment(**changed), stage.directory / "sweep-workers", SLOTS)
        with workers, open_graph(settings) as graph:
            workers.wait_ready(queue)
            idle = Edits(graph, count)
            for _ in range(QUICK_EDITS if options.quick else IDLE_EDITS):
                idle.one()
            stage.say(f"sweep: {count:,} entities, {STALE:,} of them stale")
            names = random.sample(range(count), STALE)
            graph_db.write(MADE_STALE, names=Bulk(_name(n) for n in names))
            busy = Edits(graph, count)
            watched = _during(stage, workers, queue, busy)
        wipe_jobs(queue.database)
    _show(report, count, idle, busy, watched)
    return report


@dataclass(slots=True)
class Watched:
    """What the sweep took: seconds, processor seconds and the most memory (MB) of each process, entities seen."""

    seconds: float = 0.0
    seen: int = 0
    queued: int = 0
    processor: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    memory_before: dict[str, float] = field(default_factory=dict)


def _during(stage: Stage, workers: Workers, queue: EmbedQueue, edits: Edits) -> Watched:
    """Calls for the sweep, and edits until it is over."""
    from tasks.app import app

    pids = {**stage.pids(), **workers.pids()}
    watched = Watched(memory_before=_memory(pids))
    processor = ProcessorTime(pids)
    app.send_task("tasks.upkeep.reconcile", kwargs={"scope": "all"})
    deadline = time.monotonic() + SWEEP_WITHIN_S
    with _memory_watched(pids, watched):
        while not (found := queue.database.read(ENDED)) or found[0]["ended"] is None:
            if time.monotonic() > deadline:
                raise TimeoutError("the sweep has not ended")
            edits.one()
    row = found[0]
    watched.seconds, watched.seen, watched.queued = (
        (row["ended"] - row["began"]) / 1000,
        row["seen"],
        row["queued"],
    )
    watched.processor = processor.seconds()
    return watched


@contextmanager
def _memory_watched(pids: dict[str, int], watched: Watched) -> Iterator[None]:
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(WATCH_S):
            for name, megabytes in _memory(pids).items():
                watched.memory[name] = max(watched.memory.get(name, 0.0), megabytes)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _memory(pids: dict[str, int]) -> dict[str, float]:
    """Megabytes that each process has for itself, with its children."""
    found = {}
    for name, pid in pids.items():
        parent = psutil.Process(pid)
        total = 0
        for each in (parent, *parent.children(recursive=True)):
            try:
                total += each.memory_full_info().uss
            except psutil.Error:
                continue
        found[name] = total / 2**20
    return found


def _seed(stage: Stage, graph: Database, count: int, key: str) -> None:
    """Entities with the vector of their text, whatever its numbers."""
    recipe = TextRecipe.memento(key)
    for first in range(0, count, PAGE):
        rows = [_row(recipe, n) for n in range(first, min(first + PAGE, count))]
        graph.write(SEED, rows=Bulk(rows), model=f"mock-{DIMENSIONS}")
        if first % 100_000 == 0:
            stage.say(f"sweep: {first:,} entities are there")


def _row(recipe: TextRecipe, n: int) -> dict[str, object]:
    observations = [
        f"Item {n} of a catalogue that is never read, written to be as long as an observation of an agent is.",
        f"It was seen in room {n % 97} on shelf {n % 31}, between a lamp and a book about the number {n * 7919}.",
    ]
    name = _name(n)
    text = recipe.text({"name": name, "entityType": "Benchmark", "observations": observations})
    chance = random.Random(n)
    return {
        "name": name,
        "observations": observations,
        "hash": hashlib.sha256(text.encode()).hexdigest(),
        "vector": [chance.uniform(-1, 1) for _ in range(DIMENSIONS)],
    }


def _name(n: int) -> str:
    return f"entity-{n:07}"


def _show(report: Report, count: int, idle: Edits, busy: Edits, watched: Watched) -> None:
    sweep = Table(
        f"A full sweep of {count:,} entities, {STALE:,} of them stale, in turns beside everything else",
        {"what": "", "value": "figure"},
    )
    sweep.add(what="seconds", value=watched.seconds)
    sweep.add(what="entities per second", value=watched.seen / watched.seconds)
    sweep.add(what="queued by it", value=watched.queued)
    cost = Table(
        "What it took, edits included",
        {
            "what": "process",
            "share": "share of one processor",
            "memory": "most memory, MB",
            "before": "before, MB",
        },
    )
    for name, seconds in watched.processor.items():
        cost.add(
            what=name,
            share=seconds / watched.seconds,
            memory=watched.memory.get(name),
            before=watched.memory_before.get(name),
        )
    waits = Table(
        "Edits of people (update_entity), ms",
        {"what": "", "p50": "p50", "p95": "p95", "max": "longest", "samples": "samples"},
    )
    rows: list[tuple[str, Callable[[Edits], list[float]]]] = [
        ("the call", lambda edits: edits.called),
        ("until the vector is there", lambda edits: edits.visible),
    ]
    for what, of in rows:
        for when, edits in (("idle", idle), ("during the sweep", busy)):
            taken = of(edits)
            p95 = quantiles(taken, n=20, method="inclusive")[-1]
            waits.add(what=f"{what}, {when}", p50=median(taken), p95=p95, max=max(taken), samples=len(taken))
    report.tables += [sweep, cost, waits]
    report.targets += [
        Target("entities per second", watched.seen / watched.seconds, 2_000, at_least=True),
        Target("an edit until its vector during the sweep, p50 (ms)", median(busy.visible), 1_000),
    ]
