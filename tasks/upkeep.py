"""What beat fires besides leasing. All of it is idempotent, and safe with two beats or late ones."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from neo4j_queue.checks import fingerprint
from neo4j_queue.log import get_logger
from neo4j_queue.queue import dead_letters, ticks
from neo4j_queue.queue.failed_jobs import Selection
from neo4j_queue.queue.leases import RecoveredJob, Worker, WorkerAnswer
from neo4j_queue.reconcile.sweep import Scope
from neo4j_queue.reconcile.turns import Sweeps
from neo4j_queue.reconcile.watermark import Changed
from neo4j_queue.settings import Settings
from tasks import arguments, census, resources
from tasks.app import app
from tasks.broker import PUBLISH_ERRORS
from tasks.refusal import refused
from tasks.routes import CLEANUP, LAST, RECONCILE

# Ids in one log line; a mass recovery is written as several lines.
IDS_PER_LINE = 500
# Removed in a second or two; then other tasks have their turn.
CLEANED_PER_TURN = 20_000
# Often enough to be read; a line with each heartbeat would bury the others. A worker that misses one heartbeat is no
# new disagreement.
DISAGREEMENT_EVERY_S = 300.0

# A recovery waits for a heartbeat when the last one is this many intervals ago: one was missed.
LATE_HEARTBEAT = 1.5
# Payment required, too many requests (a job fails for good with it only for a quota, since a rate limit counts no
# attempt), and whatever else a provider says in words of money.
OF_QUOTA = Selection(quota=True)
# A sweep that cannot be done is due every half a minute; why it cannot is told every five minutes.
IMPOSSIBLE_EVERY_MS = 300_000
JUST_DONE = {"skipped": "done already"}
# Sweeps that come once an hour or less.
RARE = (Scope.MISSING, Scope.ALL)

log = get_logger()


@app.task
def heartbeat(at_most_every_s: float | None = None) -> dict[str, Any]:
    """Asks the live workers which leases they execute, extends those whose lock may run out, takes back those that
    their worker does not execute, and records the census."""
    if not _take(ticks.HEARTBEAT, at_most_every_s):
        return JUST_DONE
    return _heartbeat()


def _heartbeat() -> dict[str, Any]:
    queue = resources.queue()
    asked_at = queue.census.time()
    taken = census.take()
    if taken is None:
        return {"skipped": "the broker is away"}
    workers, leases = taken
    held = queue.locks.keep(leases)
    _tell_recovered(_orphans_taken_back(workers, leases, asked_at))
    silent = queue.census.record(workers)
    for token in leases.keys() - held:
        log.info("lease_lost", lease_token=token, reason="it ended, or was recovered")
    # A worker that registered since the last heartbeat has missed none.
    late = [name for name, silent_ms in silent.items() if silent_ms >= queue.census.heartbeat_ms]
    told = queue.census.may_tell_silence(late) if late else {}
    left_behind = Counter(lease.worker for lease in queue.locks.started()) if told else Counter()
    for name, silent_ms in told.items():
        log.warning("worker_silent", worker=name, silent_ms=silent_ms, leases=left_behind[name])
    _tell_disagreement(workers)
    dead_letters.tell(queue.dead.crossing())
    done = {
        "workers": len(workers),
        "leases": len(leases),
        "held": len(held),
        "silent": sorted(silent),
    }
    log.debug("heartbeat_done", **done)
    return done


@app.task
def recover_stale() -> dict[str, Any]:
    """Jobs whose lock has run out go back to `pending`, or fail after too many lost workers.

    A heartbeat goes before it when none came lately: work that outlived the absence of the control workers still runs,
    and only the heartbeat can tell.
    """
    queue = resources.queue()
    heartbeat_ms = queue.ticks.ages().heartbeat_ms
    if heartbeat_ms is None or heartbeat_ms > queue.census.heartbeat_ms * LATE_HEARTBEAT:
        queue.ticks.take(ticks.HEARTBEAT, 0)
        if "skipped" in _heartbeat():
            return {"skipped": "no heartbeat before it: the broker is away"}
    recovered = queue.recover_stale()
    _tell_recovered(recovered)
    lost = sum(job.failed for job in recovered)
    return {"recovered": len(recovered) - lost, "failed": lost}


def _orphans_taken_back(
    workers: Sequence[WorkerAnswer], leases: Collection[str], asked_at: int
) -> list[RecoveredJob]:
    """None while recovery is off: then nothing comes back by itself."""
    if not Settings.lenient().embed_job_recovery_interval:
        return []
    return resources.queue().locks.take_back_orphans(workers, leases, asked_at)


def _tell_recovered(recovered: Sequence[RecoveredJob]) -> None:
    for first in range(0, len(recovered), IDS_PER_LINE):
        part = recovered[first : first + IDS_PER_LINE]
        log.warning(
            "stale_jobs_recovered",
            count=len(part),
            ids=[job.id for job in part],
            owners=sorted({job.owner or "?" for job in part}),
            started=sum(job.started for job in part),
            failed=[job.id for job in part if job.failed],
        )
    if recovered:
        resources.nudge()()


@app.task
def cleanup(at_most_every_s: float | None = None) -> dict[str, Any]:
    """Removes ended jobs past the retention, so many at a time; failed ones leave an archive record."""
    if not _take(ticks.CLEANUP, at_most_every_s):
        return JUST_DONE
    report = asdict(resources.queue().cleanup(most=CLEANED_PER_TURN))
    log.info("cleanup_done", **report)
    if report["more"]:
        _go_on(CLEANUP)
    return report


@app.task
def retry_quota(at_most_every_s: float | None = None) -> dict[str, Any]:
    """Queues the jobs again that failed because a quota was used up: it may be full again a day later."""
    if not _take(ticks.RETRY_QUOTA, at_most_every_s):
        return JUST_DONE
    retried = resources.queue().dead.replay(OF_QUOTA).jobs
    if retried:
        log.info("quota_failures_retried", count=retried)
        resources.nudge()()
    return {"retried": retried}


@app.task
def reconcile(
    scope: str = "outbox", token: str | None = None, at_most_every_s: float | None = None
) -> dict[str, Any]:
    """Finds entities without a fresh vector and queues them; `scope` is `outbox`, `missing`, `changed:PROPERTY` or
    `all`.

    A call sweeps for about half a second; it goes on in further calls, which carry the `token` of the one before.
    """
    try:
        wanted = arguments.scope(scope)
    except arguments.BadArgument as error:
        return refused("reconcile", error)
    if resources.queue().displaced():
        return {"scope": scope, "skipped": "other settings are in force"}
    sweeps = resources.sweeps()
    every_ms = None if at_most_every_s is None else sweeps.due(wanted, round(at_most_every_s * 1000))
    if at_most_every_s is not None and every_ms is None:
        return JUST_DONE
    waits = _impossible(sweeps, wanted)
    # What a person calls for, and what is under way, waits for nothing.
    if not waits and token is None and every_ms is not None:
        waits = sweeps.not_now(wanted)
    # A sweep that waits does not use up its turn.
    if not waits and token is None:
        every_s = None if every_ms is None else every_ms / 1000
        if not _take(ticks.SWEEPS.format(wanted), every_s):
            return JUST_DONE
    turn = None if waits else sweeps.take_turn(wanted, token)
    if token is None:
        # Sweeps whose next turn was lost with the broker's messages, or with a worker.
        for stranded, last in sweeps.stranded():
            _go_on(RECONCILE, scope=str(stranded), token=last)
    if turn is None:
        return {"scope": scope, "skipped": waits or ("under way" if token is None else "taken over")}
    if turn.done.queued:
        resources.nudge()()
    report = {"scope": scope, **asdict(turn.done)}
    if turn.token is not None:
        log.debug("reconcile_goes_on", **report)
        _go_on(RECONCILE, scope=scope, token=turn.token)
    elif not turn.lost:
        # Sweeps that come every few seconds would bury what they find.
        tell = log.info if turn.done.queued or wanted in RARE else log.debug
        tell("reconcile_done", **report)
    return report


def _impossible(sweeps: Sweeps, scope: Scope | Changed) -> str | None:
    """Why there can be no such sweep, which the log is told now and then; None if there can."""
    reason = sweeps.impossible(scope)
    if reason is not None and resources.queue().ticks.take(ticks.IMPOSSIBLE_TOLD, IMPOSSIBLE_EVERY_MS):
        log.warning("sweep_impossible", scope=str(scope), reason=reason)
    return reason


def _take(act: str, at_most_every_s: float | None) -> bool:
    """True if the act may be done now. What a person calls for (None) is always done, and noted."""
    return resources.queue().ticks.take(act, round((at_most_every_s or 0) * 1000)) or at_most_every_s is None


def _tell_disagreement(workers: Sequence[Worker]) -> None:
    """Workers with different settings end each other's jobs without a vector, and without an error."""
    split = fingerprint.split(workers)
    if split is None:
        return
    if resources.queue().census.may_tell_disagreement(" ".join(split.parts), DISAGREEMENT_EVERY_S):
        log.warning("workers_disagree", differ=list(split.parts), workers=split.groups, problem=str(split))


def _go_on(task: str, **arguments: object) -> None:
    """Asks for the next turn, when nothing else waits. If the broker is away, beat's next tick does the rest."""
    try:
        app.send_task(task, kwargs=arguments, priority=LAST, retry=False)
    except PUBLISH_ERRORS as error:
        log.warning("next_turn_not_sent", task=task, error=str(error))
