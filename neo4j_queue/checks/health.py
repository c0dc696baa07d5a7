"""Is it healthy? The one answer of command line, MCP, HTTP and doctor: the verdicts, and what stands still without one.

`Checkup.gather` asks the jobs database, the graph and the broker at the same time, each within a bounded time; `judge`
makes the report of what they said.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.checks.observed import STANDSTILL_S, broker_away, observed
from neo4j_queue.checks.unreachable import why_unreachable
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.in_time import InTime
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.health import Health
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.outlook import DISPLACED, displaced
from neo4j_queue.queue.reasons import Code, HealthState, Reason
from neo4j_queue.queue.ticks import Ages
from neo4j_queue.schema import check_graph, check_jobs, refuse_unprepared
from neo4j_queue.settings import Settings
from neo4j_queue.times import iso

# A server tells its time in milliseconds.
SLOW_S = 0.5
# What is said of graph, broker and workers is of use without the rest, so a caller who waits for the jobs database
# waits no longer than this for them: they answer in milliseconds, workers within a second or two.
OTHERS_WITHIN_S = 5.0
# The latest dead letters, by which the commonest fault is named: some milliseconds.
LATEST = 1_000
# Calls that may wait for a service that gives no answer: the next ones are told so at once.
MOST_LATE = 8

T = TypeVar("T")


class Broker(Protocol):
    """The broker, as far as the health needs it; this package knows neither Celery nor Redis."""

    def trouble(self) -> str | None:
        """Why it cannot be used, or None."""

    def missing(self) -> Sequence[Reason] | None:
        """Which workers are missing; None if they could not be asked."""


@dataclass(frozen=True, slots=True)
class JobsFacts:
    """What the jobs database tells. `unwritable`: why it takes no writes; `displaced`: every worker runs with other
    settings than those in force; `dead_letters`: of what the latest failed, the commonest first; `problems`: what its
    schema lacks; `jobs_end`: some ended lately."""

    window: Health
    status: QueueStatus
    unwritable: str | None
    displaced: bool
    ages: Ages
    dead_letters: dict[str, int]
    problems: Sequence[str] = ()
    jobs_end: bool = False


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What one part answered, or the error in its place. `clock_s`: how long it takes to tell its time, None = it did
    not."""

    answer: T | None = None
    error: Exception | None = None
    clock_s: float | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """What every part said. `broker`: why it cannot be used; `missing`: which workers are, None = not asked."""

    jobs: Asked[JobsFacts]
    graph: Asked[Sequence[Reason]]
    broker: str | None
    missing: Sequence[Reason] | None


@dataclass(frozen=True, slots=True)
class Report:
    """The health, with what it was judged by. `facts` is None, and `refusal` says why, when the jobs database could not
    be asked. `alert`: so many dead letters are no reason yet (0 = no number is)."""

    health: Health
    facts: JobsFacts | None
    refusal: Exception | None
    alert: int

    @property
    def graph_is_away(self) -> bool:
        """True if the graph cannot be used."""
        unusable = {cause.code for cause in self.health.causes if cause.state is HealthState.UNAVAILABLE}
        return not unusable.isdisjoint({Code.GRAPH_AWAY, Code.GRAPH_SLOW})


@dataclass(slots=True)
class Checkup:
    """The health of one deployment: for any number of looks, from any thread."""

    settings: Settings
    queue: EmbedQueue
    graph: Database
    broker: Broker
    _of_jobs: InTime = field(default_factory=lambda: InTime("the jobs database", most_late=MOST_LATE))
    _of_graph: InTime = field(default_factory=lambda: InTime("the graph", most_late=MOST_LATE))
    _of_broker: InTime = field(default_factory=lambda: InTime("the broker", most_late=MOST_LATE))

    def report(self, within_s: float) -> Report:
        """The health now. A part that gives no answer in time is a reason: the jobs database within `within_s` seconds,
        the others within 5 s of them."""
        return judge(self.gather(within_s), self.settings)

    def gather(self, within_s: float) -> Gathered:
        """Asks every part at the same time."""
        others_s = min(within_s, OTHERS_WITHIN_S)
        until = time.monotonic() + within_s
        jobs = _of_database(self._of_jobs, self.queue.database, lambda: read(self.queue), within_s)
        problems = lambda: graph_problems(self.graph, self.settings)  # noqa: E731
        graph = _of_database(self._of_graph, self.graph, problems, others_s)
        trouble = _begun(self._of_broker, self.broker.trouble, others_s)()
        broker = trouble.answer if trouble.error is None else str(trouble.error)
        known, missing = jobs(), None
        if broker is None and known.answer is not None and known.answer.status.unfinished:
            left_s = min(others_s, until - time.monotonic())
            missing = _begun(self._of_broker, self.broker.missing, left_s)().answer
        return Gathered(known, graph(), broker, missing)


def _begun(in_time: InTime, work: Callable[[], T], within_s: float) -> Callable[[], Asked[T]]:
    """Begins to ask; what it returns waits for the answer. Errors of services are answers too."""

    def ended() -> Asked[T]:
        try:
            return Asked(wait())
        except (TemporarilyUnavailable, SettingsError, Neo4jError, DriverError, OSError) as error:
            return Asked(error=error)

    try:
        wait = in_time.begin(work, within_s)
    except TemporarilyUnavailable as error:
        refusal: Asked[T] = Asked(error=error)
        return lambda: refusal
    return ended


def _of_database(
    in_time: InTime, database: Database, work: Callable[[], T], within_s: float
) -> Callable[[], Asked[T]]:
    """The same of a database, which is asked for its time beside it: one that is slow is not taken for one that is
    away."""
    clock = _begun(in_time, lambda: _clock_s(database), within_s)
    asked = _begun(in_time, work, within_s)
    return lambda: replace(asked(), clock_s=clock().answer)


def _clock_s(database: Database) -> float:
    """How long the database takes to tell its time. The first time may have opened a connection."""
    took: list[float] = []
    for _ in range(2):
        began = time.monotonic()
        database.read(statement("retention/clock"))
        took.append(time.monotonic() - began)
    return min(took)


def read(queue: EmbedQueue, status: QueueStatus | None = None, *, write: bool = True) -> JobsFacts:
    """Asks the jobs database for everything that the health is judged by; `status` as of a moment ago, if it is known.
    `write`: tries whether it takes a write.

    Raises `SettingsError` where it is not prepared.
    """
    refuse_unprepared(queue.database)
    status = status or queue.status()
    latest = queue.database.read(statement("health/dead_letters"), limit=LATEST) if status.failed else ()
    return JobsFacts(
        queue.health(),
        status,
        queue.unwritable() if write else None,
        displaced(status, in_force.read(queue.database)),
        queue.ticks.ages(),
        {row["pattern"]: row["jobs"] for row in latest},
        check_jobs(queue.database).problems,
        queue.ended_within(round(STANDSTILL_S * 1000)),
    )


def graph_problems(graph: Database, settings: Settings) -> Sequence[Reason]:
    """What keeps entities from being found, as far as indexes tell. One that is being built is a reason until it is
    there."""
    report = check_graph(graph, settings, count_keys=False)
    name = settings.neo4j_vector_index
    # While another one is built, only our own statements are slow.
    building = [note for note in report.notes if note.startswith(f"index {name} is being built")]
    of_vectors = ("vector index ", f"index {name} ", "NEO4J_VECTOR_INDEX=")
    return [
        Reason(Code.VECTOR_INDEX if line.startswith(of_vectors) else Code.GRAPH_SCHEMA, line)
        for line in (*report.problems, *building)
    ]


def judge(found: Gathered, settings: Settings) -> Report:
    """The report of what was gathered."""
    alert = settings.embed_dead_letter_alert
    facts, refusal = found.jobs.answer, found.jobs.error
    graph = list(_of_graph(found.graph, settings))
    if facts is None:
        unknown = Health(HealthState.UNAVAILABLE, 0, None, 0)
        causes = [_refused(found.jobs, settings), *graph]
        if found.broker is not None:
            causes.append(broker_away(found.broker))
        return Report(unknown.with_causes(causes), None, refusal, alert)
    health = judge_jobs(facts, settings, broker=found.broker, missing=found.missing)
    slow = _slow(Code.JOBS_DATABASE_SLOW, "the jobs database", found.jobs.clock_s)
    return Report(health.with_causes([*slow, *graph, *dead_letters(facts, alert)]), facts, None, alert)


def judge_jobs(
    facts: JobsFacts, settings: Settings, *, broker: str | None, missing: Sequence[Reason] | None
) -> Health:
    """The health as far as the jobs database, the broker (why it cannot be used) and the workers tell it."""
    status, window = facts.status, facts.window
    split = (
        f"no work is done: it waits for {DISPLACED}" if facts.displaced else fingerprint.split(status.workers)
    )
    found = observed(
        window,
        unfinished=status.unfinished,
        workers=len(status.workers),
        silent=status.silent,
        broker=broker,
        disagreement=None if split is None else str(split),
        pause=None
        if status.paused_until is None
        else ((status.paused_until - status.now) / 1000, status.pause_reason),
        request_limit=settings.embedding_rate_limit_tokens,
        oldest_due_s=status.oldest_pending_seconds,
        success_s_ago=None
        if window.last_success_at is None
        else (status.now - window.last_success_at) / 1000,
        missing=missing,
        unwritable=facts.unwritable,
        tick_ms=facts.ages.beat_ms,
        jobs_end=facts.jobs_end,
    )
    return found.with_causes(Reason(Code.JOBS_SCHEMA, line) for line in facts.problems)


def dead_letters(facts: JobsFacts, alert: int) -> list[Reason]:
    """One reason if more jobs have failed for good than `alert` (0 = never)."""
    count = facts.status.failed
    if not alert or count <= alert:
        return []
    commonest = next(iter(facts.dead_letters), None)
    mostly = f", of late mostly {commonest}" if commonest else ""
    sentence = f"{count:,} jobs have failed for good, more than {alert:,} (EMBED_DEAD_LETTER_ALERT){mostly}"
    return [Reason(Code.DEAD_LETTERS, sentence)]


def answer(report: Report) -> dict[str, Any]:
    """The answer that programs rely on (docs/reference/health.md); names and order are fixed. What is not known while
    the jobs database is away is null."""
    health, facts = report.health, report.facts
    known = facts is not None
    return {
        "state": str(health.state),
        "consecutive_failures": health.consecutive_failures if known else None,
        "success_rate": health.success_rate,
        "verdicts": health.verdicts if known else None,
        "last_success_at": iso(health.last_success_at),
        "error_patterns": health.error_patterns if known else None,
        "reasons": list(health.reasons),
        "workers": len(facts.status.workers) if facts else None,
        "silent_workers": [worker.name for worker in facts.status.silent] if facts else None,
        "causes": [
            {
                "code": str(cause.code),
                "state": str(cause.state),
                "reason": cause.sentence,
                "command": cause.command,
                "since": iso(cause.since),
            }
            for cause in health.causes
        ],
        "dead_letters": {"count": facts.status.failed, "alert": report.alert, "latest": facts.dead_letters}
        if facts
        else None,
    }


def _of_graph(asked: Asked[Sequence[Reason]], settings: Settings) -> Sequence[Reason]:
    if asked.answer is not None:
        return [*asked.answer, *_slow(Code.GRAPH_SLOW, "the graph", asked.clock_s)]
    if isinstance(asked.error, SettingsError):
        return [Reason(Code.GRAPH_SCHEMA, line) for line in asked.error.problems]
    return [
        _unusable(Code.GRAPH_SLOW if _is_slow(asked) else Code.GRAPH_AWAY, "the graph", asked.error, settings)
    ]


def _refused(asked: Asked[JobsFacts], settings: Settings) -> Reason:
    if isinstance(asked.error, SettingsError):
        return Reason(Code.NOT_PREPARED, "; ".join(asked.error.problems), HealthState.UNAVAILABLE)
    code = Code.JOBS_DATABASE_SLOW if _is_slow(asked) else Code.JOBS_DATABASE_AWAY
    return _unusable(code, "the jobs database", asked.error, settings)


def _is_slow(asked: Asked[Any]) -> bool:
    """True if it told its time, and the rest took too long."""
    return asked.clock_s is not None and isinstance(asked.error, TemporarilyUnavailable)


def _unusable(code: Code, what: str, error: Exception | None, settings: Settings) -> Reason:
    said = why_unreachable(error, settings) if isinstance(error, Neo4jError | DriverError) else str(error)
    return Reason(code, f"{what} cannot be used: {said}", HealthState.UNAVAILABLE)


def _slow(code: Code, what: str, clock_s: float | None) -> list[Reason]:
    if clock_s is None or clock_s < SLOW_S:
        return []
    return [Reason(code, f"{what} took {clock_s:.1f} s to tell its time, which takes milliseconds")]
