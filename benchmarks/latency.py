"""How long after the writing of an entity its vector is there, while nothing else is to be done."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median, quantiles
from typing import Any

from benchmarks.bare import bare_statements
from benchmarks.entities import Corpus
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, wipe_jobs
from benchmarks.workers import Workers
from neo4j_queue.database import Database
from neo4j_queue.embedders.mock import vector_of
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityInput, VectorWrite
from neo4j_queue.jobs import Outcome
from neo4j_queue.queue.leases import Completion, Verdicts

PARTS = ("idle", "create")

SAMPLES = 150
CREATE_SIZE = 50
CREATE_SAMPLES = 40
# In batches first, which compiles most statements, then one by one on the very path that is measured.
WARM_UP_JOBS = 10_000
QUICK_SAMPLES = 10
# Between two samples, in seconds: longer than the pause between two nudges, and spread over the second of beat, so
# that the samples are not all taken at the same moment of it.
REST_S = (0.15, 0.45)
# The look for the vector costs a millisecond of a processor that the workers need.
POLL_S = 0.003
DEADLINE_S = 30.0
SLOTS = 2

HAS_VECTOR = "MATCH (n:Entity {name: $uid}) RETURN n.embedding IS NOT NULL AS there"
STEPS = """
MATCH (j:EmbedJob {entity_uid: $uid})
RETURN j.created_at AS created, j.leased_at AS leased, j.started_at AS started, j.processed_at AS processed
"""
# The least that the graph and the jobs database must do for some entities and their jobs.
BARE_ENTITIES = """
UNWIND $rows AS row
MERGE (n:Entity {name: row.uid})
SET n.entityType = 'Benchmark', n.observations = row.observations, n:EmbedPending
"""
BARE_JOBS = """
UNWIND $rows AS row
MERGE (j:EmbedJob {entity_uid: row.uid, model: 'mock-256', version: 'v'})
SET j.id = row.uid, j.status = 'completed', j.priority = 1, j.created_at = timestamp(), j.available_at = timestamp()
"""


def run(stage: Stage, options: Options) -> Report:
    """Measures the parts that are wanted, with real workers and the mock provider at 0 ms."""
    report = Report("latency", options.shown())
    corpus = Corpus(stage, 256, 1_000 if options.quick else WARM_UP_JOBS)
    samples = QUICK_SAMPLES if options.quick else SAMPLES
    try:
        _warm_up(stage, corpus, samples)
        # Half of the baseline before the workers come and half after they have gone: servers that get faster in the
        # meantime count on both sides.
        bare = [_bare_vector(corpus) for _ in range(samples // 2)]
        seen = _with_workers(stage, corpus, options, report, samples)
        bare += [_bare_vector(corpus) for _ in range(samples - samples // 2)]
    finally:
        corpus.close()
    if seen:
        _show_idle(report, seen, bare)
    return report


def _warm_up(stage: Stage, corpus: Corpus, samples: int) -> None:
    stage.say("latency: warming up")
    corpus.create()
    bare_statements(corpus, corpus.count)
    wipe_jobs(corpus.queue.database)
    for _ in range(samples):
        _bare_vector(corpus)


def _with_workers(
    stage: Stage, corpus: Corpus, options: Options, report: Report, samples: int
) -> list[Mapping[str, float]]:
    """Single entities (returned) and fifty at a time (a table of the report), with workers that are warm and idle."""
    # Not at the top: celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.client import open_graph

    seen: list[Mapping[str, float]] = []
    workers = Workers(stage.environment(), stage.directory / "workers", SLOTS)
    with workers, open_graph(corpus.settings) as graph:
        workers.wait_ready(corpus.queue)
        for _ in range(samples):
            _vector(graph, corpus)
        if options.wants("idle"):
            stage.say(f"latency: {samples} entities, one by one")
            for _ in range(samples):
                time.sleep(random.uniform(*REST_S))
                seen.append(_vector(graph, corpus))
        if options.wants("create"):
            _create(stage, graph, corpus, report, min(samples, CREATE_SAMPLES))
    return seen


# -- one entity ------------------------------------------------------------------------------------------------


def _show_idle(report: Report, seen: Sequence[Mapping[str, float]], bare: Sequence[float]) -> None:
    baseline = "the same statements one after the other in one process, no Celery, no Redis"
    table = _table("One entity on an idle system: from the call until its vector is visible", baseline)
    _row(table, "the statements alone", bare)
    p50, p95 = _row(table, "create_entities until the vector is visible", [each["visible"] for each in seen])
    steps = _table("Of that", "")
    for name, what in (
        ("created", "create_entities returns (entity and job are stored)"),
        ("lease", "job stored until leased"),
        ("start", "leased until started"),
        ("finish", "started until completed"),
    ):
        _row(steps, what, [each[name] for each in seen])
    report.tables += [table, steps]
    report.targets += [
        Target("vector visible, p50 (ms)", p50, 100),
        Target("vector visible, p95 (ms)", p95, 200),
    ]


def _vector(graph: EntityGraph, corpus: Corpus) -> Mapping[str, float]:
    """Writes one entity and waits for its vector; milliseconds."""
    entity = _new()
    began = time.perf_counter()
    graph.create_entities([entity])
    created = time.perf_counter()
    _until(lambda: _there(graph.database, entity.name), f"the vector of {entity.name}")
    visible = time.perf_counter()
    steps = _steps(corpus, entity.name)
    return {
        "created": (created - began) * 1000,
        "visible": (visible - began) * 1000,
        "lease": steps["leased"] - steps["created"],
        "start": steps["started"] - steps["leased"],
        "finish": steps["processed"] - steps["started"],
    }


def _steps(corpus: Corpus, uid: str) -> dict[str, Any]:
    """The times on the job's node (epoch ms), once it has ended: the vector is visible a moment earlier."""
    found: dict[str, Any] = {}

    def ended() -> bool:
        found.update(corpus.queue.database.read(STEPS, uid=uid)[0].data())
        return found["processed"] is not None

    _until(ended, f"the end of the job of {uid}")
    return found


def _bare_vector(corpus: Corpus) -> float:
    """The same statements in this process, one after the other; milliseconds."""
    entity, graph, queue = _new(), corpus.graph, corpus.queue
    began = time.perf_counter()
    graph.create_entities([entity])
    (text,) = graph.read_texts([entity.name])
    queue.enqueue(text.request(graph.model))
    (lease,) = queue.lease("bare", batches=1).leases
    (job,) = queue.start(lease.token, lease.job_ids).jobs
    (text,) = graph.read_texts([entity.name])
    graph.write_vectors(
        [VectorWrite(text.uid, text.source, text.content_hash, vector_of(text.text, corpus.dimensions))]
    )
    visible = (time.perf_counter() - began) * 1000
    queue.settle(lease.token, Verdicts(completed=[Completion(job.id, Outcome.EMBEDDED)]))
    return visible


# -- fifty entities --------------------------------------------------------------------------------------------


def _create(stage: Stage, graph: EntityGraph, corpus: Corpus, report: Report, samples: int) -> None:
    """`create_entities` of fifty: how long the caller waits, and whether each has exactly one job."""
    stage.say(f"latency: {samples} times {CREATE_SIZE} entities")
    ours, bare = [], []
    for _ in range(samples):
        entities = [_new() for _ in range(CREATE_SIZE)]
        bare.append(_milliseconds(partial(_bare_create, corpus)))
        ours.append(_milliseconds(partial(graph.create_entities, entities)))
        for entity in entities:
            _until(partial(_there, graph.database, entity.name), f"the vector of {entity.name}")
            if (jobs := len(corpus.queue.jobs(entity_uid=entity.name))) != 1:
                raise RuntimeError(f"{entity.name} has {jobs} jobs, not one")
    table = _table(f"create_entities of {CREATE_SIZE} entities and their jobs", "two bare MERGE statements")
    _row(table, "two bare MERGE statements (entities, jobs)", bare)
    p50, _ = _row(table, "create_entities", ours)
    report.tables.append(table)
    report.targets.append(Target(f"create_entities of {CREATE_SIZE}, median (ms)", p50, 100))


def _bare_create(corpus: Corpus) -> None:
    rows = [
        {"uid": entity.name, "observations": entity.observations}
        for entity in (_new() for _ in range(CREATE_SIZE))
    ]
    corpus.graph.database.write(BARE_ENTITIES, rows=rows)
    corpus.queue.database.write(BARE_JOBS, rows=rows)


# -- tools of this file ----------------------------------------------------------------------------------------


def _new() -> EntityInput:
    name = f"latency-{random.getrandbits(64):016x}"
    return EntityInput(name, "Benchmark", [f"{name} was made to be waited for.", "It has two observations."])


def _there(graph: Database, uid: str) -> bool:
    return bool(graph.read(HAS_VECTOR, uid=uid)[0]["there"])


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} is not there after {DEADLINE_S:.0f} s")
        time.sleep(POLL_S)


def _milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _table(title: str, baseline: str) -> Table:
    columns = {"what": "what", "p50": "p50, ms", "p95": "p95, ms", "max": "longest, ms", "samples": "samples"}
    return Table(title, columns, baseline)


def _row(table: Table, what: str, taken: Sequence[float]) -> tuple[float, float]:
    p50, p95 = median(taken), quantiles(taken, n=20, method="inclusive")[-1]
    table.add(what=what, p50=p50, p95=p95, max=max(taken), samples=len(taken))
    return p50, p95
