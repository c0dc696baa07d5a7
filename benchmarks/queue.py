"""The queue alone, on the jobs database: jobs in, jobs out, and the depth between them."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from statistics import median
from typing import Any

from neo4j.exceptions import Neo4jError

from benchmarks import depth
from benchmarks.entities import pages
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, fill_jobs, wipe_jobs
from neo4j_queue.jobs import JobRequest, Outcome
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Completion, Verdicts

PARTS = ("enqueue", "work", "depth", "doubles")

# (jobs per call, jobs in all): small batches cost a round trip each, and would take minutes for as many jobs.
ENQUEUE = ((1, 500), (100, 10_000), (1_000, 20_000))
BATCHES = (50, 256, 1_000)
THREADS = (1, 4, 16)
WORK_JOBS = 12_000
DOUBLES_JOBS = 20_000
DOUBLES_THREADS = 16
DOUBLES_BATCH = 50
# The first ten thousand jobs of a fresh JVM take five times as long as all later ones.
WARM_UP_JOBS = 20_000

# The least that puts a job into the same indexes: no look for one that stands, no answer for each.
CREATE = """
UNWIND $rows AS row
CREATE (j:EmbedJob {id: row.id, entity_uid: row.entity_uid, model: row.model, version: row.version, status: 'pending',
  priority: 1, created_at: timestamp(), available_at: timestamp(), attempts: 0, max_attempts: 3, crashes: 0})
"""
# How a queue is written at first: read what is pending, then mark it. Two readers see the same rows.
NAIVE_LEASE = """
MATCH (j:EmbedJob) WHERE j.status = 'pending' AND j.priority = 1 AND j.available_at <= timestamp()
WITH j LIMIT $size
SET j.status = 'processing'
RETURN j.id AS id
"""
NAIVE_COMPLETE = """
UNWIND $ids AS id
MATCH (j:EmbedJob {id: id})
SET j.status = 'completed', j.processed_at = timestamp()
"""


def run(stage: Stage, options: Options) -> Report:
    """Measures the parts that are wanted."""
    report = Report("queue", options.shown())
    with EmbedQueue.connect(stage.settings()) as queue:
        stage.prepare_jobs(queue.database)
        stage.say("queue: warming up")
        _warm_up(queue, 2_000 if options.quick else WARM_UP_JOBS)
        parts: dict[str, Callable[[], None]] = {
            "enqueue": lambda: _enqueue(queue, options, report),
            "work": lambda: _work(stage, queue, options, report),
            "doubles": lambda: _doubles(stage, queue, options, report),
            "depth": lambda: depth.measure(stage, options, report),
        }
        for name, part in parts.items():
            if options.wants(name):
                stage.say(f"queue: {name}")
                part()
    return report


# -- in --------------------------------------------------------------------------------------------------------


def _enqueue(queue: EmbedQueue, options: Options, report: Report) -> None:
    table = Table(
        "Enqueue, one thread",
        {"batch": "jobs per call", "rate": "jobs/s", "bare": "bare CREATE, jobs/s", "ratio": "x bare"},
        "a bare CREATE of the same nodes in the same batches",
    )
    for batch, count in ENQUEUE:
        count = max(batch, count // 10) if options.quick else count
        rates: list[tuple[float, float]] = []
        for _ in range(options.rounds):
            wipe_jobs(queue.database)
            ours = _rate(count, partial(_enqueued, queue, batch, count))
            bare = _rate(count, partial(_created, queue, batch, count))
            rates.append((ours, bare))
        table.add(
            batch=batch,
            rate=median(ours for ours, _ in rates),
            bare=median(bare for _, bare in rates),
            ratio=median(ours / bare for ours, bare in rates),
        )
    wipe_jobs(queue.database)
    report.tables.append(table)


def _enqueued(queue: EmbedQueue, batch: int, count: int) -> None:
    run_id = uuid.uuid4().hex
    for page in pages(range(count), batch):
        queue.enqueue([JobRequest(f"{run_id}-{n}", "mock-256", f"v{n}", est_tokens=20) for n in page])


def _created(queue: EmbedQueue, batch: int, count: int) -> None:
    run_id = uuid.uuid4().hex
    for page in pages(range(count), batch):
        rows = [
            {"id": str(uuid.uuid4()), "entity_uid": f"{run_id}-{n}", "model": "mock-256", "version": f"v{n}"}
            for n in page
        ]
        queue.database.write(CREATE, rows=rows)


# -- through ---------------------------------------------------------------------------------------------------


def _work(stage: Stage, queue: EmbedQueue, options: Options, report: Report) -> None:
    """Lease, start and complete; beside it what the naive statements do with one thread."""
    table = Table(
        "Lease, start and complete",
        {
            "batch": "jobs per lease",
            **{f"threads_{n}": f"{n} threads, jobs/s" if n > 1 else "1 thread, jobs/s" for n in THREADS},
            "naive": "naive, 1 thread",
            "ratio": "1 thread x naive",
        },
        "naive statements (no lock, no lease, no fence: they give jobs out twice), one thread",
    )
    count = 2_000 if options.quick else WORK_JOBS
    for batch in BATCHES:
        measured: dict[str, list[float]] = {
            name: [] for name in [*(f"threads_{n}" for n in THREADS), "naive"]
        }
        with EmbedQueue.connect(stage.settings(embed_batch_size=batch)) as own:
            for _ in range(options.rounds):
                for threads in THREADS:
                    rate = _worked(own, count, partial(_one_lease, own), threads)
                    measured[f"threads_{threads}"].append(rate)
                naive = _worked(own, count, partial(_one_naive, own, batch), 1)
                measured["naive"].append(naive)
        ratio = median(a / b for a, b in zip(measured["threads_1"], measured["naive"], strict=True))
        table.add(batch=batch, ratio=ratio, **{name: median(rates) for name, rates in measured.items()})
    wipe_jobs(queue.database)
    report.tables.append(table)


def _worked(queue: EmbedQueue, count: int, once: Callable[[], int], threads: int) -> float:
    """Jobs per second; `once` works on one batch and says how many jobs it had (0: none is left)."""
    wipe_jobs(queue.database)
    fill_jobs(queue.database, count)

    def work() -> int:
        done = 0
        while jobs := once():
            done += jobs
        return done

    return _rate(count, lambda: _expect(sum(_together(work, threads)), count))


def _one_lease(queue: EmbedQueue) -> int:
    done = 0
    for lease in queue.lease("benchmark", batches=1).leases:
        jobs = queue.start(lease.token, lease.job_ids).jobs
        verdicts = Verdicts(completed=[Completion(job.id, Outcome.EMBEDDED) for job in jobs])
        done += len(queue.settle(lease.token, verdicts).completed)
    return done


def _one_naive(queue: EmbedQueue, size: int) -> int:
    ids = [row["id"] for row in queue.database.write(NAIVE_LEASE, size=size)]
    queue.database.write(NAIVE_COMPLETE, ids=ids)
    return len(ids)


# -- no job twice ----------------------------------------------------------------------------------------------


def _doubles(stage: Stage, queue: EmbedQueue, options: Options, report: Report) -> None:
    """Many threads lease everything; counts the jobs that were given out more than once."""
    count = 2_000 if options.quick else DOUBLES_JOBS
    table = Table(
        f"{DOUBLES_THREADS} threads lease {count:,} jobs, {DOUBLES_BATCH} at a time",
        {
            "what": "statement",
            "given": "given out",
            "distinct": "distinct",
            "doubles": "doubles",
            "rate": "jobs/s",
        },
        "the naive statement (read, then mark) with as many threads",
    )
    with EmbedQueue.connect(stage.settings(embed_batch_size=DOUBLES_BATCH)) as own:

        def ours() -> list[str]:
            return [i for lease in own.lease("benchmark", batches=1).leases for i in lease.job_ids]

        def naive() -> list[str]:
            return [row["id"] for row in own.database.write(NAIVE_LEASE, size=DOUBLES_BATCH)]

        found: dict[str, int] = {}
        for what, lease in (("lease", ours), ("naive", naive)):
            wipe_jobs(queue.database)
            fill_jobs(queue.database, count)
            began = time.perf_counter()
            parts = _together(partial(_until_empty, lease), DOUBLES_THREADS)
            ids = list(chain.from_iterable(parts))
            seconds = time.perf_counter() - began
            found[what] = len(ids) - len(set(ids))
            table.add(
                what=what,
                given=len(ids),
                distinct=len(set(ids)),
                doubles=found[what],
                rate=len(set(ids)) / seconds,
            )
    wipe_jobs(queue.database)
    report.tables.append(table)
    report.targets += [
        Target("jobs leased twice", found["lease"], 0),
        Target("jobs leased twice by the naive statement", found["naive"], 1, at_least=True),
    ]


def _until_empty(lease: Callable[[], list[str]]) -> list[str]:
    given: list[str] = []
    while True:
        try:
            ids = lease()
        except Neo4jError:  # the naive statement meets deadlocks for longer than the driver repeats it
            continue
        if not ids:
            return given
        given += ids


# -- tools of this file ----------------------------------------------------------------------------------------


def _warm_up(queue: EmbedQueue, count: int) -> None:
    _enqueued(queue, 1_000, count)
    _worked(queue, count, lambda: _one_lease(queue), 4)
    for _ in range(200):
        _created(queue, 1, 1)
        _enqueued(queue, 1, 1)
    _worked(queue, count // 2, lambda: _one_naive(queue, 100), 1)
    wipe_jobs(queue.database)


def _together(work: Callable[[], Any], threads: int) -> list[Any]:
    """What each of `threads` threads, started at one moment, returns."""
    barrier = threading.Barrier(threads)

    def one() -> Any:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(one) for _ in range(threads)]
        return [future.result() for future in futures]


def _rate(count: int, work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def _expect(done: int, count: int) -> None:
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were done: the measurement means nothing")
