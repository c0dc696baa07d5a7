"""The health of embedding: a window of the last verdicts, shared by all workers in the jobs database."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog
from neo4j import ManagedTransaction, Record

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows, the_row
from neo4j_queue.queue.breaker import PROBED, Trouble
from neo4j_queue.queue.reasons import SEVERITY, Code, HealthState, Reason

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

OK = "ok"

log = structlog.get_logger(__name__)


LEVEL = {
    HealthState.HEALTHY: logging.INFO,
    HealthState.DEGRADED: logging.WARNING,
    HealthState.CRITICAL: logging.ERROR,
    HealthState.UNAVAILABLE: logging.ERROR,
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
    causes: tuple[Reason, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences of the causes."""
        return tuple(cause.sentence for cause in self.causes)

    def with_causes(self, more: Iterable[Reason]) -> "Health":
        """The same with further causes: the worst of all is the state."""
        added = tuple(more)
        state = max((self.state, *(cause.state for cause in added)), key=SEVERITY.__getitem__)
        return replace(self, state=state, causes=(*self.causes, *added))


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
    halted_at: int | None = None,
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
    causes: list[Reason] = []
    if not aged and rate is not None and len(verdicts) >= RATE_NEEDS and rate < DEGRADED_RATE:
        sentence = f"only {rate:.0%} of the last {len(verdicts)} attempts succeeded"
        causes.append(Reason(Code.SUCCESS_RATE_LOW, sentence))
    if not aged and streak >= DEGRADED_STREAK:
        state = HealthState.CRITICAL if streak >= CRITICAL_STREAK else HealthState.DEGRADED
        causes.append(Reason(Code.FAILURES_IN_A_ROW, f"{streak} failures in a row", state))
    if trouble in PROBED:
        # Nothing is embedded, and a quota that is used up leaves no verdict.
        code = Code.QUOTA_USED_UP if trouble == Trouble.QUOTA else Code.PROVIDER_OUTAGE
        causes.append(Reason(code, f"at rest, a probe goes out by itself: {pause_reason or trouble}"))
    elif trouble is not None and trouble_rounds >= RATE_LIMIT_ROUNDS:
        sentence = f"rate limited {trouble_rounds} times in a row: {pause_reason or trouble}"
        causes.append(Reason(Code.RATE_LIMITED, sentence))
    if halted:
        sentence = f"halted: {halted_reason or 'no reason given'}"
        causes.append(Reason(Code.HALTED, sentence, HealthState.CRITICAL, halted_at))
    found = Health(
        state=HealthState.HEALTHY,
        consecutive_failures=streak,
        success_rate=rate,
        verdicts=len(verdicts),
        last_success_at=last_success_at,
        error_patterns=dict(Counter(failures).most_common()),
    )
    return found.with_causes(causes)


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
        halted_at=row["halted_at"],
        trouble=row["trouble"],
        trouble_rounds=row["trouble_rounds"],
        pause_reason=row["pause_reason"],
        last_success_at=row["last_success_at"],
        aged=row["last_verdict_at"] is not None and row["now"] - row["last_verdict_at"] > WINDOW_AGES_MS,
    )
