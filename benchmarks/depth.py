"""The time of a lease at three depths of the queue: medians, each depth visited in every round."""

import time
from statistics import median, quantiles

from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage, fill_jobs, wipe_jobs
from neo4j_queue.queue import EmbedQueue

DEPTHS = (1_000, 100_000, 1_000_000)
QUICK_DEPTHS = (1_000, 10_000)
LEASE_JOBS = 200
# Leases measured at each depth in each round, after a few that let the planner see the new size.
LEASES = 60
UNMEASURED = 20
# A fresh JVM: the lease statements are compiled by then.
WARM_UP = 300
# Filling and wiping a million jobs takes a minute and a half; two rounds show whether the order matters.
ROUNDS = 2
BOUND = 1.5


def measure(stage: Stage, options: Options, report: Report) -> None:
    """Leases of 200 jobs at each depth; each is given back, so that the depth stays."""
    depths = QUICK_DEPTHS if options.quick else DEPTHS
    samples: dict[int, list[float]] = {depth: [] for depth in depths}
    medians: dict[int, list[float]] = {depth: [] for depth in depths}
    with EmbedQueue.connect(stage.settings(embed_batch_size=LEASE_JOBS)) as queue:
        for n in range(min(ROUNDS, options.rounds)):
            wipe_jobs(queue.database)
            filled = 0
            for depth in depths:
                fill_jobs(queue.database, depth - filled, first=filled)
                filled = depth
                _leases(queue, UNMEASURED if n or depth > depths[0] else WARM_UP)
                taken = _leases(queue, LEASES)
                samples[depth] += taken
                medians[depth].append(median(taken))
                stage.say(f"  {n + 1}: {depth:,} pending: {median(taken):.1f} ms")
        wipe_jobs(queue.database)
    table = Table(
        f"Lease of {LEASE_JOBS} jobs",
        {
            "depth": "pending",
            "p50": "p50, ms",
            "p95": "p95, ms",
            "rounds": "p50 of each round",
            "ratio": "x baseline",
        },
        f"{depths[0]:,} pending",
    )
    for depth in depths:
        ratio = median(deep / flat for deep, flat in zip(medians[depth], medians[depths[0]], strict=True))
        table.add(
            depth=depth,
            p50=median(samples[depth]),
            p95=quantiles(samples[depth], n=20, method="inclusive")[-1],
            rounds=" ".join(f"{each:.1f}" for each in medians[depth]),
            ratio=ratio,
        )
    report.tables.append(table)
    report.targets.append(Target(f"lease at {depths[-1]:,} / at {depths[0]:,} pending", ratio, BOUND))


def _leases(queue: EmbedQueue, count: int) -> list[float]:
    """Milliseconds of each of `count` leases."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        (lease,) = queue.lease("benchmark", batches=1).leases
        taken.append((time.perf_counter() - began) * 1000)
        if len(lease.job_ids) != LEASE_JOBS:
            raise RuntimeError(f"a lease of {len(lease.job_ids)} jobs: the measurement means nothing")
        queue.release(lease.token, lease.job_ids)
    return taken
