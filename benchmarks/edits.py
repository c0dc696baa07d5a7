"""How long the edit of a person takes while a backfill writes vectors of 1,536 numbers."""

import random
import threading
import time
from collections.abc import Sequence
from statistics import median, quantiles
from typing import Self

from neo4j.exceptions import DriverError, Neo4jError

from benchmarks.entities import Corpus
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from benchmarks.workers import Workers
from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import PRIORITY_BACKFILL

PARTS = ("edits",)

DIMENSIONS = 1_536
# The largest request of the default provider: what a write of vectors must not follow.
REQUEST = 2_048
JOBS = 20_000
QUICK_JOBS = 4_096
SLOTS = 4
# A few edits in a second: it is the backfill that is to be busy.
PAUSE_S = 0.05
QUIET_EDITS = 40
EDITS_PER_LOOK = 10
# Edits whose vector is waited for on the idle system.
LOOKS = 15
LOOK_EVERY_S = 0.02
STORED = "MATCH (n:Entity {name: $name}) RETURN n.embedding_hash AS hash"
DEADLINE_S = 900.0


def run(stage: Stage, options: Options) -> Report:
    """Edits of random entities: on the idle system first, then from the start of the backfill to its end."""
    # celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.client import open_graph

    report = Report("edits", options.shown())
    corpus = Corpus(stage, DIMENSIONS, QUICK_JOBS if options.quick else JOBS)
    changed = {"neo4j_vector_dimensions": DIMENSIONS, "embed_batch_size": REQUEST}
    try:
        corpus.create()
        workers = Workers(stage.environment(**changed), stage.directory / "edit-workers", SLOTS)
        with workers, open_graph(stage.settings(**changed)) as graph:
            workers.wait_ready(corpus.queue)
            quiet = Edits(graph, corpus.count)
            for _ in range(QUIET_EDITS):
                quiet.one()
            idle = [seen for _ in range(LOOKS) if (seen := _seen_after(graph, corpus.count)) is not None]
            stage.say(f"edits: a backfill of {corpus.count} entities, {REQUEST} in a request")
            corpus.enqueue(corpus.count, priority=PRIORITY_BACKFILL)
            busy = Edits(graph, corpus.count)
            with Looks(graph, corpus.count) as looks:
                deadline = time.monotonic() + DEADLINE_S
                while corpus.queue.status().unfinished:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"the backfill has not ended after {DEADLINE_S:.0f} s")
                    for _ in range(EDITS_PER_LOOK):
                        busy.one()
                during = looks.taken()
            _show(report, quiet, busy)
            _show_seen(report, idle, during)
    finally:
        corpus.close()
    return report


class Edits:
    """The time of each edit (ms), and how many were refused."""

    def __init__(self, graph: EntityGraph, count: int) -> None:
        self._graph = graph
        self._count = count
        self.taken: list[float] = []
        self.refused = 0

    def one(self) -> None:
        """Edits an entity, no matter which, and waits a moment."""
        time.sleep(PAUSE_S)
        name = f"entity-{random.randrange(self._count):06}"
        began = time.perf_counter()
        try:
            self._graph.update_entity(name, {"observations": [f"edited at {time.time()}"]})
        except (Neo4jError, DriverError):
            self.refused += 1
        self.taken.append((time.perf_counter() - began) * 1000)


class Looks:
    """Edits one entity after the other in a thread of its own, and measures when each vector is there (ms)."""

    def __init__(self, graph: EntityGraph, count: int) -> None:
        self._graph = graph
        self._count = count
        self._taken: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def taken(self) -> list[float]:
        """What was measured so far: an edit whose vector comes when the backfill has ended is none of these."""
        return list(self._taken)

    def _run(self) -> None:
        while not self._ended.is_set():
            seen = _seen_after(self._graph, self._count, self._ended)
            if seen is not None:
                self._taken.append(seen)


def _seen_after(graph: EntityGraph, count: int, ended: threading.Event | None = None) -> float | None:
    """Milliseconds from the begin of an edit until the vector of its text is stored; None = `ended` before that."""
    name = f"entity-{random.randrange(count):06}"
    began = time.perf_counter()
    graph.update_entity(name, {"observations": [f"to be seen since {time.time()}"]})
    wanted = graph.get_text(name).content_hash
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        (row,) = graph.database.read(STORED, name=name)
        if row["hash"] == wanted:
            return (time.perf_counter() - began) * 1000
        if ended is not None and ended.is_set():
            return None
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"the vector of {name} has not come within {DEADLINE_S:.0f} s")


def _show_seen(report: Report, idle: Sequence[float], during: Sequence[float]) -> None:
    table = Table(
        "From an edit to its vector",
        {"what": "what", "p50": "p50, ms", "max": "longest, ms", "samples": "samples"},
        "no backfill",
    )
    for what, taken in (("no backfill", idle), ("during a backfill", during)):
        table.add(what=what, p50=median(taken), max=max(taken), samples=len(taken))
    report.tables.append(table)
    later = median(during) - median(idle)
    report.targets.append(
        Target("vector of an edit during a backfill, later than idle (ms, p50)", later, 2_000)
    )


def _show(report: Report, quiet: Edits, busy: Edits) -> None:
    columns = {
        "what": "what",
        "p50": "p50, ms",
        "p99": "p99, ms",
        "max": "longest, ms",
        "refused": "refused",
        "samples": "samples",
    }
    table = Table(f"update_entity, {DIMENSIONS:,} dimensions, {REQUEST:,} texts in a request", columns)
    for what, edits in (("no backfill", quiet), ("during a backfill", busy)):
        table.add(
            what=what,
            p50=median(edits.taken),
            p99=_p99(edits),
            max=max(edits.taken),
            refused=edits.refused,
            samples=len(edits.taken),
        )
    report.tables.append(table)
    report.targets += [
        Target("update_entity during a backfill, p99 (ms)", _p99(busy), 500),
        Target("update_entity refused during a backfill", busy.refused, 0),
    ]


def _p99(edits: Edits) -> float:
    return quantiles(edits.taken, n=100, method="inclusive")[-1]
