"""What no verdict shows: whatever stands still although every process may answer."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from neo4j_queue.queue.health import Health
from neo4j_queue.queue.leases import Silent
from neo4j_queue.queue.reasons import Code, HealthState, Reason

# A pause of five minutes is longer than any rest after an outage or a rate limit of a minute.
LONG_PAUSE_S = 300.0
# Due jobs start within a second of a free slot. When the oldest waits for ten minutes and no vector was made in them,
# something stands still that no verdict shows.
STANDSTILL_S = 600.0
# Beat asks for a lease each second. A control worker may be busy for two or three with a turn of a sweep or of the
# clean-up; ten are no turn.
NO_TICK_MS = 10_000


def observed(
    found: Health,
    *,
    unfinished: int,
    workers: int,
    silent: Sequence[Silent] = (),
    broker: str | None,
    disagreement: str | None = None,
    pause: tuple[float, str | None] | None = None,
    request_limit: int | None = None,
    oldest_due_s: float | None = None,
    success_s_ago: float | None = None,
    missing: Sequence[Reason] | None = None,
    unwritable: str | None = None,
    tick_ms: int | None = None,
    jobs_end: bool = False,
) -> Health:
    """The health with what no verdict shows: jobs without a worker, a broker out of reach (`broker`: why), workers that
    disagree with one another (`disagreement`: how), a long `pause` (seconds left, and why), a `request_limit` of 0, and
    due jobs that wait while no vector is made (`success_s_ago` None = never). `missing`: who is; None = not asked.
    `silent`: workers that missed their last heartbeat.
    `unwritable`: why the jobs database takes no writes. `tick_ms`: since a lease tick of beat was run; None = never.
    `jobs_end`: some ended in the last `STANDSTILL_S`, with a vector or without.

    A queue without jobs needs no worker. The stored state, whose changes are logged, is not touched by this.
    """
    causes: list[Reason] = []
    if (
        pause is not None
        and pause[0] > LONG_PAUSE_S
        and not any(str(pause[1]) in why for why in found.reasons)
    ):
        left = timedelta(seconds=round(pause[0]))
        causes.append(Reason(Code.PAUSED, f"paused for another {left}: {pause[1] or 'no reason given'}"))
    if request_limit == 0:
        sentence = "no request is allowed: EMBEDDING_RATE_LIMIT_TOKENS is 0"
        causes.append(Reason(Code.NO_REQUEST_ALLOWED, sentence))
    causes += _absent(unfinished, workers, missing, tick_ms)
    causes += [_silent(worker) for worker in silent if worker.holds]
    if broker is not None:
        causes.append(broker_away(broker))
    if disagreement is not None:
        causes.append(Reason(Code.SETTINGS_DISAGREE, disagreement))
    if unwritable is not None:
        sentence = f"the jobs database takes no writes, so nothing is queued or leased: {unwritable}"
        causes.append(Reason(Code.JOBS_DATABASE_READ_ONLY, sentence, HealthState.CRITICAL))
    # A vector that is copied, or that was there, is no verdict, and progress all the same.
    quiet = not jobs_end and (success_s_ago is None or success_s_ago > STANDSTILL_S)
    if not (causes or found.causes) and oldest_due_s is not None and oldest_due_s > STANDSTILL_S and quiet:
        sentence = (
            f"jobs have been due for {timedelta(seconds=round(oldest_due_s))}, and no vector was made in the last "
            f"{STANDSTILL_S / 60:.0f} minutes"
        )
        causes.append(Reason(Code.STANDSTILL, sentence))
    return found.with_causes(causes)


def _silent(worker: Silent) -> Reason:
    """The reason for a worker that holds jobs and does not answer: it died, hangs, or is cut off."""
    silence = timedelta(seconds=round(worker.silent_ms / 1000))
    batches = "a batch" if worker.holds == 1 else f"{worker.holds} batches"
    return Reason(
        Code.WORKER_SILENT,
        f"{worker.name} has not answered for {silence} and holds {batches}: these jobs come back when their locks run "
        "out, and at once by this command",
    )


def broker_away(why: str) -> Reason:
    """The reason for a broker that cannot be used."""
    return Reason(Code.BROKER_AWAY, f"the broker cannot be reached, so no worker hears of jobs: {why}")


def _absent(
    unfinished: int, workers: int, missing: Sequence[Reason] | None, tick_ms: int | None
) -> Iterator[Reason]:
    """Who is missing. Those who were asked tell it best; where all answer, or could not be asked, the ticks tell
    whether leases are given: a process may answer and do nothing."""
    if unfinished and missing:
        yield from missing
        return
    if tick_ms is not None and tick_ms > NO_TICK_MS:
        # Beat ran once, so it is meant to run: with an empty queue too nothing is swept, recovered or cleaned up.
        yield Reason(
            Code.NO_LEASE_TICK,
            f"no lease tick of beat was run for {timedelta(seconds=round(tick_ms / 1000))}: beat or the control worker "
            "does nothing, so that nothing is leased in time, recovered or swept",
        )
    if unfinished and not workers and missing is None:
        yield Reason(
            Code.EMBED_WORKER_MISSING,
            f"{unfinished:,} jobs to do and no embed worker answered lately: one is missing "
            "(`celery -A tasks worker`), or a control worker and beat, who ask",
        )
