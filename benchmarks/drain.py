"""How fast a full queue drains through real Celery workers, beside what the databases alone could do.

Everything is measured in turn (A B C D, A B C D, …), so that a disturbance of the machine hits all alike, and each
run starts from the same state: entities without vectors, an empty vector index that is online, warm servers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.bare import STATEMENT_THREADS, WRITE_BATCH, WRITERS, bare_statements, bare_writes
from benchmarks.entities import Corpus
from benchmarks.machine import ProcessorTime
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from benchmarks.workers import Workers

PARTS = ("256", "1536", "peer", "slots")

# The best numbers of slots on two processors; `--only slots` measures them again.
SLOTS_AT_0_MS = 4
SLOTS_AT_200_MS = 8
CANDIDATES = {0: (2, 3, 4, 6), 200: (4, 8, 12)}
LATENCY_MS = 200
# Vectors of 1,536 numbers take four times as long to write; half as many jobs show the same.
SHARE = {256: 1.0, 1536: 0.5}

# pgai 0.12 on PostgreSQL, two processors, without any vector index (rows per second). Figures of another day and
# machine, quoted for their order of magnitude: at 0 ms, and at 200 ms with four requests of 50 inputs at once. What it
# does beside ours in the same hour, with and without an index, is in docs/reference/benchmarks.md.
PEER_0_MS = 2_340
PEER_200_MS = 756
PEER_BATCH = 50
PEER_SLOTS = 4

# The same work until it no longer gets faster, and not less than this: the first ten thousand jobs of a fresh JVM
# take five times as long as later ones.
WARM_UP_JOBS = 100_000
WARM_UP_ROUNDS = 8
STILL_FASTER = 1.1

# Looking costs the jobs database time that the drain would have; the end of the run is read from the jobs afterwards.
POLL_S = 1.0
LOOK = """
UNWIND ['pending', 'processing'] AS status
MATCH (j:EmbedJob) WHERE j.status = status AND j.priority >= 0 AND j.available_at >= 0
RETURN j.id AS id LIMIT 1
"""
STALL_S = 120.0
BOOT_PAUSE_S = 3_600


@dataclass(slots=True)
class Runs:
    """The runs of one contestant: jobs (or vectors) per second, processor seconds per 1,000 jobs by process."""

    name: str
    once: Callable[[], tuple[float, Mapping[str, float]]]
    rates: list[float] = field(default_factory=list)
    processor: list[Mapping[str, float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median."""
        return median(self.rates)


@dataclass(frozen=True, slots=True)
class Shape:
    """A drain: the provider's latency, slots of the embed worker, texts per request (None = the product's own)."""

    latency_ms: int
    slots: int
    batch: int | None = None

    @property
    def name(self) -> str:
        """For tables."""
        batch = f", requests of {self.batch}" if self.batch else ""
        return f"drain, {self.latency_ms} ms, {self.slots} slots{batch}"


def run(stage: Stage, options: Options) -> Report:
    """Measures the parts that are wanted."""
    report = Report("drain", options.shown())
    if options.wants("slots", default=False):
        _slots(stage, options, report)
    for dimensions in (256, 1536):
        if options.wants(str(dimensions)):
            _dimensions(stage, options, report, dimensions)
    if options.wants("peer"):
        _peer(stage, options, report)
    return report


def _dimensions(stage: Stage, options: Options, report: Report, dimensions: int) -> None:
    count = round(options.jobs * SHARE[dimensions])
    shapes = [Shape(0, SLOTS_AT_0_MS), Shape(LATENCY_MS, SLOTS_AT_200_MS)]
    corpus = _corpus(stage, options, dimensions, count)
    try:
        writes = [_bare_write(corpus, count, writers) for writers in WRITERS]
        statements = _bare_statements(corpus, count)
        drains = [_drain(corpus, count, shape) for shape in shapes]
        _in_turn(stage, [*writes, statements, *drains], options.rounds)
    finally:
        corpus.close()
    best_write = max(writes, key=lambda runs: runs.rate)
    table = _table(f"Drain of {count:,} jobs, {dimensions} dimensions", statements.name)
    for runs in (*writes, statements, *drains):
        _row(table, runs, {"of_statements": statements, "of_write": best_write})
    title = f"Processor seconds per 1,000 jobs, {dimensions} dimensions"
    report.tables += [table, _processor_table(title, [statements, best_write, *drains])]
    fast, slow = drains
    ratio = _ratio(fast, statements)
    if dimensions == 256:
        report.targets.append(Target("drain at 0 ms / bare statements (256)", ratio, 0.85, at_least=True))
    report.targets.append(
        Target(f"drain at 200 ms / drain at 0 ms ({dimensions})", _ratio(slow, fast), 0.6, at_least=True)
    )
    report.notes.append(
        f"{dimensions} dimensions: drain at 0 ms is {ratio:.0%} of the bare statements and "
        f"{_ratio(fast, best_write):.0%} of the bare vector write ({best_write.name})."
    )


def _peer(stage: Stage, options: Options, report: Report) -> None:
    shapes = [Shape(0, SLOTS_AT_0_MS), Shape(LATENCY_MS, PEER_SLOTS, PEER_BATCH)]
    corpus = _corpus(stage, options, 256, options.jobs)
    try:
        drains = [_drain(corpus, options.jobs, shape) for shape in shapes]
        _in_turn(stage, drains, options.rounds)
    finally:
        corpus.close()
    table = Table(
        "Beside pgai 0.12 (PostgreSQL, no vector index; ours with the vector index online)",
        {"what": "shape", "rate": "rows/s", "peer": "pgai rows/s", "of_peer": "x"},
        "pgai's figures were measured on another day",
    )
    for runs, peer in zip(drains, (PEER_0_MS, PEER_200_MS), strict=True):
        table.add(what=runs.name, rate=runs.rate, peer=peer, of_peer=runs.rate / peer)
    report.tables.append(table)


def _slots(stage: Stage, options: Options, report: Report) -> None:
    count = options.jobs // 2
    corpus = _corpus(stage, options, 256, count)
    try:
        for latency_ms, candidates in CANDIDATES.items():
            drains = [_drain(corpus, count, Shape(latency_ms, slots)) for slots in candidates]
            _in_turn(stage, drains, options.rounds)
            best = max(drains, key=lambda runs: runs.rate)
            table = Table(
                f"Slots at {latency_ms} ms, {count:,} jobs, 256 dimensions",
                {"what": "shape", "rate": "jobs/s", "of_best": "of the best"},
                f"the best of them ({best.name})",
            )
            for runs in drains:
                table.add(what=runs.name, rate=runs.rate, of_best=runs.rate / best.rate)
            report.tables.append(table)
    finally:
        corpus.close()


# -- the contestants -------------------------------------------------------------------------------------------


def _bare_write(corpus: Corpus, count: int, writers: int) -> Runs:
    def once() -> tuple[float, Mapping[str, float]]:
        corpus.reset()
        spent = ProcessorTime(corpus.stage.pids())
        rate = bare_writes(corpus, count, writers)
        return rate, _per_thousand(spent, count)

    return Runs(f"bare vector write, {writers} writers x {WRITE_BATCH}", once)


def _bare_statements(corpus: Corpus, count: int) -> Runs:
    def once() -> tuple[float, Mapping[str, float]]:
        corpus.reset()
        spent = ProcessorTime(corpus.stage.pids())
        rate = bare_statements(corpus, count)
        return rate, _per_thousand(spent, count)

    return Runs(f"bare statements, {STATEMENT_THREADS} threads, no Celery, no Redis, no logs", once)


def _drain(corpus: Corpus, count: int, shape: Shape) -> Runs:
    return Runs(shape.name, lambda: drain(corpus, count, shape))


def drain(corpus: Corpus, count: int, shape: Shape) -> tuple[float, Mapping[str, float]]:
    """Jobs per second from the moment that the queue may lease until the last job has ended, by the server's clock.

    The workers are up and idle by then, the queue is paused while it is filled.
    """
    corpus.reset()
    changed: dict[str, int] = {
        "neo4j_vector_dimensions": corpus.dimensions,
        "mock_embedding_latency_ms": shape.latency_ms,
    }
    if shape.batch:
        changed["embed_batch_size"] = shape.batch
    stage, queue = corpus.stage, corpus.queue
    queue.pause(BOOT_PAUSE_S, "a benchmark is being prepared")
    corpus.enqueue(count)
    with Workers(stage.environment(**changed), stage.directory / "workers", shape.slots) as workers:
        workers.wait_ready(queue)
        spent = ProcessorTime({**stage.pids(), **workers.pids()})
        began = queue.control.state().now
        queue.resume()
        _nudge()
        _wait_drained(corpus, workers)
        per_thousand = _per_thousand(spent, count)
    ended = corpus.queue.database.read(
        "MATCH (j:EmbedJob) WHERE j.status = 'completed' RETURN max(j.processed_at) AS at, count(j) AS jobs"
    )[0]
    if ended["jobs"] != count or corpus.with_vector() != count:
        raise RuntimeError(
            f"{ended['jobs']} jobs ended well, {corpus.with_vector()} vectors are there, not {count}"
        )
    return count / ((ended["at"] - began) / 1000), per_thousand


def _nudge() -> None:
    # celeryconfig reads the environment when it is imported, and the stage has set it by now.
    from tasks.app import app

    app.send_task("tasks.dispatch.lease_batch")


def _wait_drained(corpus: Corpus, workers: Workers) -> None:
    left, moved_at = -1, time.monotonic()
    while corpus.queue.database.read(LOOK):
        workers.check()
        now = time.monotonic()
        if now - moved_at > STALL_S:
            before, left = left, corpus.queue.status().unfinished
            if left == before:
                raise RuntimeError(f"{left:,} jobs are left and nothing moved for {STALL_S:.0f} s")
            moved_at = now
        time.sleep(POLL_S)


# -- order and tables ------------------------------------------------------------------------------------------


def _corpus(stage: Stage, options: Options, dimensions: int, count: int) -> Corpus:
    """A corpus on warm servers."""
    corpus = Corpus(stage, dimensions, count)
    stage.say(f"{count:,} entities, vectors of {dimensions} numbers: creating, then warming up")
    corpus.create()
    fastest, done = 0.0, 0
    for _ in range(WARM_UP_ROUNDS):
        corpus.reset()
        rate = bare_statements(corpus, count)
        stage.say(f"  warm-up: {rate:,.0f} jobs/s")
        done += count
        if rate < fastest * STILL_FASTER and (done >= WARM_UP_JOBS or options.quick):
            break
        fastest = max(fastest, rate)
    # The workers plan and lease several batches at once, which the bare statements have not warmed.
    rate, _ = drain(corpus, count, Shape(0, SLOTS_AT_0_MS))
    stage.say(f"  warm-up, with workers: {rate:,.0f} jobs/s")
    return corpus


def _in_turn(stage: Stage, contestants: Sequence[Runs], rounds: int) -> None:
    for n in range(rounds):
        for runs in contestants:
            rate, processor = runs.once()
            runs.rates.append(rate)
            runs.processor.append(processor)
            stage.say(f"  {n + 1}/{rounds} {runs.name}: {rate:,.0f}/s")


def _per_thousand(spent: ProcessorTime, count: int) -> dict[str, float]:
    return {name: seconds * 1000 / count for name, seconds in spent.seconds().items()}


def _ratio(one: Runs, other: Runs) -> float:
    """The median of the ratios of each round: what disturbs a round disturbs both."""
    return median(a / b for a, b in zip(one.rates, other.rates, strict=True))


def _table(title: str, baseline: str) -> Table:
    columns = {
        "what": "what",
        "rate": "per s (median)",
        "rates": "of each round",
        "of_statements": "x bare statements",
        "of_write": "x bare write",
    }
    return Table(title, columns, f"{baseline}; ratios are medians of the rounds")


def _row(table: Table, runs: Runs, others: Mapping[str, Runs]) -> None:
    table.add(
        what=runs.name,
        rate=runs.rate,
        rates=" ".join(f"{rate:,.0f}" for rate in runs.rates),
        **{key: _ratio(runs, other) for key, other in others.items()},
    )


def _processor_table(title: str, contestants: Sequence[Runs]) -> Table:
    names = list(dict.fromkeys(name for runs in contestants for name in runs.processor[0]))
    columns = {"what": "what", "total": "in all", **{name: name for name in names}}
    table = Table(title, columns, contestants[0].name)
    for runs in contestants:
        spent = {name: median(each[name] for each in runs.processor) for name in runs.processor[0]}
        table.add(what=runs.name, total=sum(spent.values()), **spent)
    return table
