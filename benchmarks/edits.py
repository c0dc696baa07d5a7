"""How long the edit of a person takes while a backfill writes vectors of 1,536 numbers."""

import random
import time
from statistics import median, quantiles

from neo4j.exceptions import DriverError, Neo4jError

from benchmarks.entities import Corpus
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from benchmarks.workers import Workers
from neo4j_queue.graph import EntityGraph

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
DEADLINE_S = 900.0


def run(stage: Stage, options: Options) -> Report:
    """Edits of random entities: on the idle system first, then from the start of the backfill to its end."""
    report = Report("edits", options.shown())
    corpus = Corpus(stage, DIMENSIONS, QUICK_JOBS if options.quick else JOBS)
    changed = {"neo4j_vector_dimensions": DIMENSIONS, "embed_batch_size": REQUEST}
    try:
        corpus.create()
        workers = Workers(stage.environment(**changed), stage.directory / "edit-workers", SLOTS)
        with workers, EntityGraph.from_settings(stage.settings(**changed)) as graph:
            workers.wait_ready(corpus.queue)
            quiet = Edits(graph, corpus.count)
            for _ in range(QUIET_EDITS):
                quiet.one()
            stage.say(f"edits: a backfill of {corpus.count} entities, {REQUEST} in a request")
            corpus.enqueue(corpus.count)
            busy = Edits(graph, corpus.count)
            deadline = time.monotonic() + DEADLINE_S
            while corpus.queue.status().unfinished:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the backfill has not ended after {DEADLINE_S:.0f} s")
                for _ in range(EDITS_PER_LOOK):
                    busy.one()
            _show(report, quiet, busy)
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
