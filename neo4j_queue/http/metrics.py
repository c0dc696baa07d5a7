"""The metrics, in the text format of Prometheus: true over all workers, whichever process shows them.

What stands in the jobs database is read and not counted again: jobs by state, the census, ticks, the window of
verdicts, the limits. What workers count is in `queue.tally`. Names and labels are in docs/reference/metrics.md.
"""

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

from neo4j_queue.checks.health import JobsFacts, Report
from neo4j_queue.errors import ErrorCategory, FaultKind
from neo4j_queue.jobs import FailureReason, Outcome
from neo4j_queue.queue import tally
from neo4j_queue.queue.breaker import Trouble
from neo4j_queue.queue.budget import RateLimits
from neo4j_queue.queue.leases import RateUsed
from neo4j_queue.queue.reasons import Code, HealthState
from neo4j_queue.reconcile.coverage import KnownCoverage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "neo4j_queue"
# A fault whose class nobody knows of must not make a series for each of its names.
FAULTS_SHOWN = 20
AWAY = {
    "jobs_database": (Code.JOBS_DATABASE_AWAY, Code.NOT_PREPARED, Code.JOBS_DATABASE_SLOW),
    "graph": (Code.GRAPH_AWAY, Code.GRAPH_SLOW),
    "broker": (Code.BROKER_AWAY,),
}
# Counters with one label: the beginning of their names in the tally, and the values that are shown before there is any.
LABELLED: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "jobs_completed": ("completed", "outcome", "Jobs that ended well.", tuple(Outcome)),
    "jobs_retried": (
        "retried",
        "category",
        "Failed attempts after which the job is tried again.",
        tuple(ErrorCategory),
    ),
    "jobs_released": ("released", "why", "Jobs given back without a verdict.", ("no_fault", *FaultKind)),
    "provider_requests": ("requests", "status", "Requests to the provider.", ("200",)),
    "inputs_saved": (
        "saved",
        "why",
        "Jobs that needed no input of their own.",
        ("in_batch", "cached", "other_entity", "current"),
    ),
    "pauses": ("pauses", "why", "Times that all workers were told to rest.", (*Trouble, "store", "person")),
}
PLAIN = {
    "batches": ("batches", "Batches that workers settled."),
    "jobs_lost": ("lost", "Verdicts that came after the job had another lease."),
    "jobs_recovered": ("recovered", "Jobs taken back from workers that were lost."),
    "jobs_requeued": ("requeued", "Failed jobs that were queued again as if new."),
    "leases_expired": ("leases_expired", "Leases that ran out."),
    "leases_lost": ("leases_lost", "Batches whose lease had run out when they were settled."),
    "stale_messages": ("stale_messages", "Messages whose lease was over, or had been started before."),
    "inputs_sent": ("inputs", "Texts, or parts of texts, that were sent to the provider."),
    "halts": ("halts", "Times that the queue was halted."),
}
BY_MODEL = {
    "tokens": ("tokens", "Model tokens, as the provider counted them; as estimated where it did not say."),
    "cost_dollars": ("dollars", "US dollars, at the price of the time, of tokens whose price is known."),
    "unpriced_tokens": ("unpriced_tokens", "Model tokens whose price is not known."),
}
HISTOGRAMS = {
    "batch_seconds": (tally.BATCH_S, "From a worker's start of a batch to its settlement."),
    "provider_request_seconds": (tally.REQUEST_S, "One request to the provider, whatever became of it."),
    "enqueue_to_vector_seconds": (tally.WAITED_S, "From when a job was queued to its vector."),
}


@dataclass(frozen=True, slots=True)
class Scrape:
    """What is shown. None: not known now, so that it is left out."""

    report: Report
    counts: Sequence[tally.Counted] | None
    used: RateUsed | None
    limits: RateLimits
    coverage: KnownCoverage | None

    def collect(self) -> Iterator[Metric]:
        """All families, as prometheus_client asks for them."""
        yield _build()
        yield from _of_health(self.report)
        if self.report.facts is not None:
            yield from _of_jobs(self.report.facts)
            yield from _dead_letters(self.report.facts, self.report.alert)
        if self.used is not None:
            yield from _of_budget(self.used, self.limits)
        if self.coverage is not None:
            yield from _of_coverage(self.coverage)
        if self.counts is not None:
            yield from _of_counts(self.counts)


def text(scrape: Scrape) -> bytes:
    """The exposition."""
    return generate_latest(scrape)


def _gauge(name: str, said: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", said, value=value)


def _labelled(name: str, said: str, label: str, values: Iterable[tuple[str, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", said, labels=[label])
    for key, value in values:
        family.add_metric([key], value)
    return family


@cache
def _build() -> Metric:
    try:
        ours = version("neo4j-queue")
    except PackageNotFoundError:  # it runs from its sources
        ours = "sources"
    family = GaugeMetricFamily(f"{PREFIX}_build_info", "What runs here.", labels=["version", "python"])
    family.add_metric([ours, platform.python_version()], 1)
    return family


def _of_health(report: Report) -> Iterator[Metric]:
    there = {cause.code for cause in report.health.causes}
    up = ((part, float(there.isdisjoint(codes))) for part, codes in AWAY.items())
    yield _labelled("up", "Whether a part can be used.", "part", up)
    states = ((str(state), float(report.health.state is state)) for state in HealthState)
    yield _labelled("health", "The state of the health: 1 for the one that it has.", "state", states)
    reasons = ((str(code), float(code in there)) for code in Code)
    yield _labelled("health_reason", "The reasons of the health: 1 for each that there is.", "code", reasons)


def _of_jobs(facts: JobsFacts) -> Iterator[Metric]:
    status, window = facts.status, facts.window
    states = {
        "due": status.pending,
        "delayed": status.delayed,
        "processing": status.processing,
        "completed": status.completed,
        "failed": status.failed,
    }
    yield _labelled("jobs", "Jobs by state.", "status", states.items())
    yield _gauge("jobs_started", "Jobs whose batch a worker has begun.", status.started)
    age_s = status.oldest_pending_seconds or 0
    yield _gauge("oldest_due_seconds", "How long the oldest due job has waited; 0 if none is due.", age_s)
    yield _gauge("workers", "Embed workers that answered lately.", len(status.workers))
    slots = sum(worker.slots for worker in status.workers)
    yield _gauge("worker_slots", "Batches that they can run at once.", slots)
    leases = sum(worker.leases for worker in status.workers)
    yield _gauge("worker_leases", "Batches that they ran when they answered last.", leases)
    yield _gauge("workers_silent", "Workers that missed their last heartbeat.", len(status.silent))
    ages = {"beat": facts.ages.beat_ms, "lease": facts.ages.lease_ms, "heartbeat": facts.ages.heartbeat_ms}
    known = ((tick, age / 1000) for tick, age in ages.items() if age is not None)
    yield _labelled("tick_age_seconds", "How long ago a recurring act was done.", "tick", known)
    yield _gauge("halted", "1 while the queue is halted.", float(status.halted))
    left_s = 0.0 if status.paused_until is None else max(0, status.paused_until - status.now) / 1000
    yield _gauge("paused_seconds", "How much longer the queue is paused.", left_s)
    rests = ((str(trouble), float(status.trouble == trouble)) for trouble in Trouble)
    yield _labelled(
        "provider_trouble", "1 for why the queue rests because of the provider.", "trouble", rests
    )
    yield _gauge("consecutive_failures", "Failed verdicts in a row.", window.consecutive_failures)
    if window.success_rate is not None:
        yield _gauge("success_rate", "Successes among the last 100 verdicts.", window.success_rate)
    if window.last_success_at is not None:
        at = window.last_success_at / 1000
        yield _gauge("last_success_timestamp_seconds", "When a vector was made last.", at)


def _dead_letters(facts: JobsFacts, alert: int) -> Iterator[Metric]:
    yield _gauge("dead_letters", "Jobs that have failed for good.", facts.status.failed)
    yield _gauge("dead_letter_alert", "EMBED_DEAD_LETTER_ALERT; 0 = never.", alert)
    shown = dict(list(facts.dead_letters.items())[:FAULTS_SHOWN])
    rest = sum(facts.dead_letters.values()) - sum(shown.values())
    if rest:
        shown["other"] = rest
    yield _labelled("dead_letters_latest", "Of what the latest thousand failed.", "fault", shown.items())


def _of_budget(used: RateUsed, limits: RateLimits) -> Iterator[Metric]:
    spent = {"requests": used.requests, "tokens": used.tokens}
    yield _labelled("budget_used", "Used of the rate limits in their interval.", "of", spent.items())
    allowed = {"requests": limits.requests, "tokens": limits.tokens}
    known = ((what, float(limit)) for what, limit in allowed.items() if limit is not None)
    yield _labelled("budget_limit", "The rate limits that are set; none = unlimited.", "of", known)
    yield _gauge("budget_interval_seconds", "Their interval.", limits.interval_ms / 1000)


def _of_coverage(coverage: KnownCoverage) -> Iterator[Metric]:
    counted = {"fresh": coverage.fresh, "stale": coverage.stale, "missing": coverage.missing}
    known = ((state, float(count)) for state, count in counted.items() if count is not None)
    yield _labelled("entities", "Entities by their vector, as of the time below.", "state", known)
    yield _gauge("outbox", "Entities whose change waits for its vector.", coverage.outbox)
    times = {
        "coverage_timestamp_seconds": ("When the entities were counted.", coverage.as_of),
        "compared_timestamp_seconds": (
            "When all texts were compared with their vectors.",
            coverage.compared_at,
        ),
        "oldest_stale_timestamp_seconds": (
            "When the oldest stale vector was made.",
            coverage.oldest_stale_at,
        ),
    }
    for name, (said, at) in times.items():
        if at is not None:
            yield _gauge(name, said, at / 1000)


def _of_counts(counted: Sequence[tally.Counted]) -> Iterator[Metric]:
    counts = tally.total(counted)
    for name, (of, said) in PLAIN.items():
        yield CounterMetricFamily(f"{PREFIX}_{name}", said, value=counts[of])
    for name, (of, label, said, always) in LABELLED.items():
        family = CounterMetricFamily(f"{PREFIX}_{name}", said, labels=[label])
        for value, count in _values(counts, of, always):
            family.add_metric([value], count)
        yield family
    yield _failed(counts)
    for name, (of, said) in BY_MODEL.items():
        family = CounterMetricFamily(f"{PREFIX}_{name}", said, labels=["provider", "model"])
        for each in counted:
            if each.model is not None:
                family.add_metric([each.provider or "", each.model], each.counts.get(of, 0))
        yield family
    for name, (histogram, said) in HISTOGRAMS.items():
        yield _histogram(name, said, histogram, counts)


def _values(counts: Mapping[str, float], of: str, always: Iterable[str]) -> Iterator[tuple[str, float]]:
    found = {name.partition(":")[2]: count for name, count in counts.items() if name.startswith(f"{of}:")}
    yield from {**{str(value): 0 for value in always}, **found}.items()


def _failed(counts: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(
        f"{PREFIX}_jobs_failed", "Jobs that failed for good.", labels=["reason", "category"]
    )
    usual = (
        f"{FailureReason.PERMANENT_ERROR}:{ErrorCategory.PERMANENT}",
        f"{FailureReason.MAX_RETRIES_EXCEEDED}:{ErrorCategory.TRANSIENT}",
        f"{FailureReason.WORKER_LOST}:{ErrorCategory.TRANSIENT}",
    )
    for value, count in _values(counts, "failed", usual):
        family.add_metric(value.split(":"), count)
    return family


def _histogram(name: str, said: str, histogram: tally.Histogram, counts: Mapping[str, float]) -> Metric:
    below = 0.0
    buckets = []
    for bound, bucket in zip((*histogram.bounds, math.inf), histogram.buckets, strict=True):
        below += counts.get(bucket, 0)
        buckets.append(("+Inf" if math.isinf(bound) else str(float(bound)), below))
    seconds = counts.get(histogram.sum_name, 0)
    return HistogramMetricFamily(f"{PREFIX}_{name}", said, buckets=buckets, sum_value=seconds)
