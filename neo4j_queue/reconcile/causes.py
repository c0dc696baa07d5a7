"""What keeps a job from being done, judged from what is known of it and of the queue. Pure functions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from neo4j_queue.jobs import FailureReason, Outcome, Status
from neo4j_queue.queue.breaker import PROBED, Trouble
from neo4j_queue.queue.leases import QueueStatus
from neo4j_queue.queue.listing import Job
from neo4j_queue.queue.outlook import Outlook, displaced
from neo4j_queue.queue.standing import Ahead
from neo4j_queue.reconcile.commands import command
from neo4j_queue.reconcile.explanation import Cause, Reason

# Beat asks for leases each second, and a worker at the end of each batch. A job that has been due for so long on an
# idle queue, while nobody asked, waits for a person.
UNASKED_MS = 30_000
# As much of an error as one sentence bears; the job has the rest.
ERROR_CHARS = 200
WORKER = "celery -A tasks worker"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The queue as it is now.

    `refusal`: why the settings of the caller are not those in force; None = they are. `entities`: which ones those in
    force mean, as jobs carry it. `leased_ms_ago`: since leases were last asked for, None = never. `recovery`: jobs of
    dead workers are taken back by themselves.
    """

    status: QueueStatus
    outlook: Outlook
    refusal: str | None
    entities: str | None
    beat_is_missing: bool
    leased_ms_ago: int | None
    recovery: bool

    @property
    def now(self) -> int:
        """When this was, epoch ms."""
        return self.status.now


def of_queue(around: Surroundings) -> Iterator[Cause]:
    """What keeps every job from being leased or started, the decisive one first."""
    status = around.status
    if around.refusal is not None:
        yield Cause(Reason.SETTINGS_NOT_IN_FORCE, around.refusal, False, command("init"))
    if status.halted:
        since = f" since {moment(status.halted_at, around.now)}" if status.halted_at else ""
        yield Cause(
            Reason.HALTED,
            f"the queue is halted{since}: {status.halted_reason or 'no reason given'}",
            False,
            command("resume"),
            "mend what the reason names first",
        )
    yield from _pause(around)
    if not status.workers:
        why = "no embed worker answered lately: one is missing, or a control worker and beat, who ask"
        yield Cause(Reason.NO_WORKER, why, False, WORKER)
    elif displaced(status, around.outlook.in_force):
        why = "every worker runs with other settings than those in force"
        advice = "restart the workers with the settings in force, or run `neo4j-queue init` with theirs"
        yield Cause(Reason.WORKERS_DISPLACED, why, False, None, advice)
    if around.outlook.limit == 0:
        why = "EMBEDDING_RATE_LIMIT_TOKENS is 0, which allows no request"
        advice = (
            "set EMBEDDING_RATE_LIMIT_TOKENS to a number above 0, or to `unlimited`, and restart the workers"
        )
        yield Cause(Reason.NO_REQUEST_ALLOWED, why, False, None, advice)


def _pause(around: Surroundings) -> Iterator[Cause]:
    status = around.status
    until = None if status.paused_until is None else moment(status.paused_until, around.now)
    if status.trouble in PROBED:
        rest = f"rests until {until}, then a probe" if until else "waits for a probe, which"
        why = f"the provider is in trouble ({status.pause_reason or status.trouble}): the queue {rest} "
        why += "finds out whether it works again"
        quota = status.trouble == Trouble.QUOTA
        advice = "the provider's account needs credit; `neo4j-queue resume` tries at once" if quota else None
        yield Cause(Reason.RESTING, why, not quota, command("resume"), advice)
    elif until is not None:
        why = f"the queue is paused until {until}: {status.pause_reason or 'no reason given'}"
        reason = Reason.RESTING if status.trouble is not None else Reason.PAUSED
        yield Cause(reason, why, True, command("resume"))


def of_pending(name: str, job: Job, ahead: Ahead, around: Surroundings) -> list[Cause]:
    """What a job that is not leased waits for."""
    causes = list(of_queue(around))
    if job["available_at"] > around.now:
        causes.append(_back_off(name, job, around.now))
    elif around.outlook.used_up is not None:
        causes.append(Cause(Reason.RATE_LIMIT, f"its job waits for {around.outlook.used_up}", True))
    if not causes and _nobody_leases(job, around):
        causes.append(_nothing_leases(around))
    if ahead.jobs:
        noun = "job" if ahead.jobs == 1 and not ahead.more else "jobs"
        why = f"{ahead} due {noun} of a higher priority, or due earlier, are leased before its job"
        causes.append(Cause(Reason.BEHIND_OTHERS, why, True, command("repair", name)))
    if not causes:
        causes.append(Cause(Reason.NEXT, "its job is due and the next to be leased", True))
    return causes


def _nobody_leases(job: Job, around: Surroundings) -> bool:
    due_ms = around.now - job["available_at"]
    asked = around.leased_ms_ago
    return around.status.processing == 0 and due_ms > UNASKED_MS and (asked is None or asked > UNASKED_MS)


def _nothing_leases(around: Surroundings) -> Cause:
    since = (
        "never"
        if around.leased_ms_ago is None
        else f"not since {moment(around.now - around.leased_ms_ago, around.now)}"
    )
    why = f"its job is due, and leases were asked for {since}: a control worker is missing, or beat"
    missing = "celery -A tasks beat" if around.beat_is_missing else WORKER
    advice = "`neo4j-queue doctor` asks all of them and names who is missing"
    return Cause(Reason.NOTHING_LEASES, why, False, missing, advice)


def _back_off(name: str, job: Job, now: int) -> Cause:
    tried = f" after attempt {job['attempts']} of {job['max_attempts']}" if job["attempts"] else ""
    error = f": {error_of(job)}" if job.get("error") else ""
    why = f"its job waits until {moment(job['available_at'], now)}{tried}{error}"
    return Cause(Reason.BACK_OFF, why, True, command("repair", name))


def of_processing(job: Job, around: Surroundings) -> list[Cause]:
    """What is going on with a job that a lease holds."""
    until, owner = job.get("lock_until"), job.get("holder") or job.get("lock_owner") or "a worker"
    if until is None or until < around.now:
        ended = f" at {moment(until, around.now)}" if until else ""
        why = f"its lease ran out{ended}, held by {owner}: the recovery takes the job back"
        return [Cause(Reason.LEASE_RAN_OUT, why, around.recovery, command("release", job["id"]))]
    back = f"if that worker is dead, the job comes back by {moment(until, around.now)}"
    if job.get("started_at") is not None:
        why = f"{owner} has worked on its job since {moment(job['started_at'], around.now)}; {back}"
        return [Cause(Reason.RUNNING, why, True, command("release", "--orphaned"))]
    why = f"its job was leased at {moment(job['leased_at'], around.now)} and starts when a slot is free; "
    why += f"it comes back by {moment(until, around.now)} if its message was lost"
    return [*of_queue(around), Cause(Reason.DISPATCHED, why, True)]


def of_earlier(name: str, job: Job, ahead: Ahead, around: Surroundings) -> list[Cause]:
    """What is to come where no job stands for the text as it is now, but one for an earlier text, or another model: it
    ends without a vector, and its worker queues the text as it is then."""
    pending = job["status"] == Status.PENDING
    waits = of_pending(name, job, ahead, around) if pending else of_processing(job, around)
    why = "its job is for another text or model than now: it ends as superseded, and its worker queues what is right"
    causes = [
        Cause(Reason.EARLIER_JOB, why, True),
        *(each for each in waits if each.reason is not Reason.NEXT),
    ]
    return sorted(causes, key=lambda cause: cause.by_itself)


def of_failed(name: str, job: Job, *, refusal: str | None, foreign: bool) -> list[Cause]:
    """Why a job failed for good. `foreign`: it was made for other entities than those in force; `retry` leaves it."""
    again = command("repair", name) if foreign else command("retry", job["id"])
    at = moment(job.get("processed_at"), None)
    match job.get("failure_reason"):
        case FailureReason.WORKER_LOST:
            why = f"its job failed at {at}: {job.get('crashes')} workers died while they worked on it"
            advice = "look at the workers' memory and logs first"
        case FailureReason.MAX_RETRIES_EXCEEDED:
            why = f"its job failed at {at} after {job['attempts']} attempts: {error_of(job)}"
            advice = "see that the cause is gone first"
        case _:
            why = f"its job failed at {at}: {error_of(job)}"
            advice = "mend what the error names first"
    causes = [Cause(Reason.FAILED, why, False, again, advice)]
    if refusal is not None:
        causes.append(Cause(Reason.SETTINGS_NOT_IN_FORCE, refusal, False, command("init")))
    return causes


def ended_before(job: Job) -> str:
    """How the job for the text as it is now has ended, where the vector is not fresh all the same."""
    at = moment(job.get("processed_at"), None)
    match job.get("outcome"):
        case Outcome.ENTITY_DELETED:
            # Under other settings its worker looked among other entities; which were in force then is not kept.
            why = "the entity was not there then, or other settings were in force (graph, label or key)"
            return f"its job ended at {at} without a vector: {why}"
        case Outcome.SUPERSEDED:
            return f"its job ended at {at} as superseded, and the text has changed back since"
        case outcome:
            return f"its job ended at {at} ({outcome}), and the vector was changed or removed since"


def error_of(job: Job) -> str:
    """The last error of a job in one line: category, type, status, message."""
    kind = " ".join(str(job[part]) for part in ("error_category", "error_type") if job.get(part))
    status = f" (HTTP {job['error_status']})" if job.get("error_status") else ""
    message = " ".join(str(job.get("error") or "no message").split())[:ERROR_CHARS]
    return f"{kind}{status}: {message}" if kind else message


def moment(at: int | None, now: int | None) -> str:
    """A time for people, and how far away it is: `12:03:04 UTC (in 40 s)`; with the date where no `now` is given."""
    if at is None:
        return "a time that is not known"
    when = datetime.fromtimestamp(at / 1000, UTC)
    if now is None:
        return f"{when:%Y-%m-%d %H:%M:%S} UTC"
    day = "" if abs(at - now) < 43_200_000 else f"{when:%Y-%m-%d} "
    seconds = round((at - now) / 1000)
    far = f"in {_duration(seconds)}" if seconds > 0 else f"{_duration(-seconds)} ago"
    return f"{day}{when:%H:%M:%S} UTC ({far})"


def _duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{round(seconds / 60)} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def is_unfinished(job: Job | None) -> bool:
    """True if the job will still be done."""
    return job is not None and job["status"] in (Status.PENDING, Status.PROCESSING)
