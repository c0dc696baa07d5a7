"""The health of embedding: a window of the last verdicts, shared by all workers in the jobs database."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

import structlog
from neo4j import ManagedTransaction, Record

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows, the_row
from neo4j_queue.queue.breaker import PROBED

# The rules of the contract (docs/reference/health.md): a window of 100 verdicts; 5 failures in a row, or fewer
# than half successes among at least 10, is DEGRADED; 10 in a row is CRITICAL.
WINDOW = 100
DEGRADED_STREAK = 5
CRITICAL_STREAK = 10
DEGRADED_RATE = 0.5
RATE_NEEDS = 10
# A window whose last verdict is an hour old says nothing of now: its cause may be repaired, and no job has tried.
WINDOW_AGES_MS = 3_600_000
# So many rests in a row because of a rate limit, by our own rests half a minute without an answer, are no limit that
# passes by itself.
RATE_LIMIT_ROUNDS = 5
# A success after so many failures in a row is told, also where they were too few to change the state.
RECOVERY_STREAK = 3
# A pause of five minutes is longer than any rest after an outage or a rate limit of a minute.
LONG_PAUSE_S = 300.0
# Due jobs start within a second of a free slot. When the oldest waits for ten minutes and no vector was made in them,
# something stands still that no verdict shows.
STANDSTILL_S = 600.0

OK = "ok"

log = structlog.get_logger(__name__)


class HealthState(StrEnum):
    """How well embedding works."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    CRITICAL = "CRITICAL"


LEVEL = {
    HealthState.HEALTHY: logging.INFO,
    HealthState.DEGRADED: logging.WARNING,
    HealthState.CRITICAL: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Health:
    """The health of embedding. `error_patterns` counts the failures of the window by `CATEGORY:Type`."""

    state: HealthState
    consecutive_failures: int
    success_rate: float | None
    verdicts: int
    last_success_at: int | None = None
    error_patterns: dict[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A transition, or the end of a short streak of failures (`recovered`: how many); it gets one log line."""

    before: HealthState
    after: Health
    recovered: int = 0


def judge(
    verdicts: Sequence[str],
    *,
    halted: bool = False,
    halted_reason: str | None = None,
    trouble: str | None = None,
    trouble_rounds: int = 0,
    pause_reason: str | None = None,
    last_success_at: int | None = None,
    aged: bool = False,
) -> Health:
    """The health of a window (newest verdict first). `trouble`: why the queue rests because of the provider;
    `trouble_rounds`: its rests in a row. `aged`: the window is too old to say anything of now."""
    streak = next((i for i, verdict in enumerate(verdicts) if verdict == OK), len(verdicts))
    failures = [verdict for verdict in verdicts if verdict != OK]
    rate = 1 - len(failures) / len(verdicts) if verdicts else None
    state, reasons = HealthState.HEALTHY, []
    if not aged and rate is not None and len(verdicts) >= RATE_NEEDS and rate < DEGRADED_RATE:
        state = HealthState.DEGRADED
        reasons.append(f"only {rate:.0%} of the last {len(verdicts)} attempts succeeded")
    if not aged and streak >= DEGRADED_STREAK:
        state = HealthState.CRITICAL if streak >= CRITICAL_STREAK else HealthState.DEGRADED
        reasons.append(f"{streak} failures in a row")
    if trouble in PROBED:
        # Nothing is embedded, and a quota that is used up leaves no verdict.
        state = state if state is HealthState.CRITICAL else HealthState.DEGRADED
        reasons.append(f"at rest, a probe goes out by itself: {pause_reason or trouble}")
    elif trouble is not None and trouble_rounds >= RATE_LIMIT_ROUNDS:
        state = state if state is HealthState.CRITICAL else HealthState.DEGRADED
        reasons.append(f"rate limited {trouble_rounds} times in a row: {pause_reason or trouble}")
    if halted:
        state = HealthState.CRITICAL
        reasons.append(f"halted: {halted_reason or 'no reason given'}")
    return Health(
        state=state,
        consecutive_failures=streak,
        success_rate=rate,
        verdicts=len(verdicts),
        last_success_at=last_success_at,
        error_patterns=dict(Counter(failures).most_common()),
        reasons=tuple(reasons),
    )


def observed(
    found: Health,
    *,
    unfinished: int,
    workers: int,
    broker: str | None,
    disagreement: str | None = None,
    pause: tuple[float, str | None] | None = None,
    request_limit: int | None = None,
    oldest_due_s: float | None = None,
    success_s_ago: float | None = None,
    missing: Sequence[str] | None = None,
    unwritable: str | None = None,
) -> Health:
    """The health with what no verdict shows: jobs without a worker, a broker out of reach (`broker`: why), workers that
    disagree with one another (`disagreement`: how), a long `pause` (seconds left, and why), a `request_limit` of 0, and
    due jobs that wait while no vector is made (`success_s_ago` None = never). `missing`: who is, in words; None = not
    asked. `unwritable`: why the jobs database takes no writes.

    A queue without jobs needs no worker. The stored state, whose changes are logged, is not touched by this.
    """
    reasons: list[str] = []
    if (
        pause is not None
        and pause[0] > LONG_PAUSE_S
        and not any(str(pause[1]) in why for why in found.reasons)
    ):
        reasons.append(
            f"paused for another {timedelta(seconds=round(pause[0]))}: {pause[1] or 'no reason given'}"
        )
    if request_limit == 0:
        reasons.append("no request is allowed: EMBEDDING_RATE_LIMIT_TOKENS is 0")
    if unfinished and missing:
        reasons += missing
    elif unfinished and not workers:
        reasons.append(
            f"{unfinished:,} jobs to do and no embed worker answered lately: one is missing "
            "(`celery -A tasks worker`), or a control worker and beat, who ask"
        )
    if broker is not None:
        reasons.append(f"the broker cannot be reached, so no worker hears of jobs: {broker}")
    if disagreement is not None:
        reasons.append(disagreement)
    if unwritable is not None:
        reasons.append(f"the jobs database takes no writes, so nothing is queued or leased: {unwritable}")
        found = replace(found, state=HealthState.CRITICAL)
    quiet = success_s_ago is None or success_s_ago > STANDSTILL_S
    if not (reasons or found.reasons) and oldest_due_s is not None and oldest_due_s > STANDSTILL_S and quiet:
        reasons.append(
            f"jobs have been due for {timedelta(seconds=round(oldest_due_s))}, and no vector was made in the last "
            f"{STANDSTILL_S / 60:.0f} minutes"
        )
    if not reasons:
        return found
    state = HealthState.DEGRADED if found.state is HealthState.HEALTHY else found.state
    return replace(found, state=state, reasons=(*found.reasons, *reasons))


def record(tx: ManagedTransaction, verdicts: Sequence[str], now: int | None) -> HealthChange | None:
    """Adds verdicts (oldest first) to the window inside a transaction; returns the transition, if there is one.

    The switches of the queue are judged as well: a call without verdicts finds the transition that a halt, a rest or
    its end made. The lock on the health node is held until the commit, so exactly one caller sees each transition.
    """
    newest = list(reversed(verdicts))[:WINDOW]
    recorded = rows(
        tx, statement("health/record"), verdicts=newest, window=WINDOW, ok=OK in verdicts, now=now
    )
    row = the_row(recorded)
    health = _judged(row)
    before = HealthState(row["state"])
    if health.state is not before:
        rows(tx, statement("health/set_state"), state=str(health.state))
        return HealthChange(before, health)
    recovered = _streak_ended(verdicts, row["verdicts"][len(newest) :])
    return HealthChange(before, health, recovered) if recovered >= RECOVERY_STREAK else None


def _streak_ended(verdicts: Sequence[str], older: Sequence[str]) -> int:
    """The failures in a row that the first success among `verdicts` (oldest first) ended; `older`: newest first."""
    if OK not in verdicts:
        return 0
    return verdicts.index(OK) + next((n for n, verdict in enumerate(older) if verdict == OK), len(older))


def read(database: Database, now: int | None = None) -> Health:
    """The health now; a halted queue is CRITICAL whatever the window shows."""
    return _judged(the_row(database.read(statement("health/read"), now=now)))


def announce(change: HealthChange | None) -> None:
    """Logs a transition, or a recovery."""
    if change is None:
        return
    if change.after.state is change.before:
        log.info("embedding_recovered", failures_in_a_row=change.recovered, state=change.after.state)
        return
    log.log(
        LEVEL[change.after.state],
        "health_changed",
        before=change.before,
        state=change.after.state,
        consecutive_failures=change.after.consecutive_failures,
        success_rate=change.after.success_rate,
        error_patterns=change.after.error_patterns,
        reasons=change.after.reasons,
    )


def _judged(row: Record) -> Health:
    return judge(
        row["verdicts"],
        halted=row["halted"],
        halted_reason=row["halted_reason"],
        trouble=row["trouble"],
        trouble_rounds=row["trouble_rounds"],
        pause_reason=row["pause_reason"],
        last_success_at=row["last_success_at"],
        aged=row["last_verdict_at"] is not None and row["now"] - row["last_verdict_at"] > WINDOW_AGES_MS,
    )
