"""What is leased, decided and counted, as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neo4j_queue.errors import Fault
from neo4j_queue.jobs import FailureReason, Outcome
from neo4j_queue.queue.health import HealthChange
from neo4j_queue.queue.tally import Measured


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job under a live lease, as the worker sees it. `attempts` counts the verdicts so far."""

    id: str
    entity_uid: str
    model: str
    version: str
    attempts: int
    max_attempts: int
    est_tokens: int = 0
    max_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """One dispatched batch. `token` is the fence: `<seq>-<8 random hex digits>`, never issued twice. `backfill`: no
    person waits for any of its jobs."""

    token: str
    job_ids: tuple[str, ...]
    est_tokens: int = 0
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """The verdict that a job is done. `copied`: its vector came from elsewhere than the provider."""

    job_id: str
    outcome: Outcome
    copied: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The verdict that a job met a fault of its own or of the provider; counts one attempt.

    `max_batch`: the most jobs that its next batch may hold; None = as many as any.
    """

    job: LeasedJob
    fault: Fault
    max_batch: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """The leases of one lease transaction; `reason` says why there is none.

    `more`: the transaction was bounded (`most_jobs`), and the next one may give more leases.
    """

    leases: tuple[Lease, ...]
    reason: str | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """The answer to a start: the jobs to work on, or why there is none (`halted`, `paused`, `expired`, `lost`).

    `probe`: the lease finds out whether the provider works again.
    """

    jobs: tuple[LeasedJob, ...]
    refused: str | None = None
    probe: bool = False


@dataclass(frozen=True, slots=True)
class PutOff:
    """Why one released job stands back, and for how long."""

    fault: Fault
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts on a lease's jobs. Released ones were not judged: `release_fault` is noted on them, and they are due
    again after `release_delay_ms`. By id, `max_batch` bounds the next batch of some, and `put_off` has reasons of
    their own."""

    completed: Sequence[Completion] = ()
    failed: Sequence[Failure] = ()
    released: Sequence[str] = ()
    release_fault: Fault | None = None
    release_delay_ms: int = 0
    max_batch: Mapping[str, int] = field(default_factory=dict)
    put_off: Mapping[str, PutOff] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.completed) + len(self.failed) + len(self.released)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a lease really asked of the provider. `sent_ms_ago`: since its last request was sent (None = no request).

    `inputs` were sent, `saved` is the number of jobs that needed none. `measured`: what is counted of the batch; None =
    there was none.
    """

    requests: int = 0
    est_tokens: int = 0
    sent_ms_ago: int | None = None
    inputs: int = 0
    saved: int = 0
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class RateUsed:
    """Requests and model tokens of the current window, waiting and running leases among them; `ends_at`: when the
    oldest request leaves the window (epoch ms; None = there is none)."""

    requests: int
    tokens: int
    ends_at: int | None


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A verdict as it was stored. `retry_at` (epoch ms) is None if the job failed for good, with its reason."""

    failure: Failure
    attempts: int
    retry_at: int | None
    reason: FailureReason | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a settlement changed. Jobs in `lost` had another token by then: nothing was written to them.

    `troubled`: failures of the provider are on record, so that a success is news. `more_due`: jobs are due and
    few leases wait, so that more should be leased now; None if this settlement did not end the lease.
    """

    completed: frozenset[str]
    failed: tuple[FailedJob, ...]
    released: frozenset[str]
    lost: frozenset[str]
    health: HealthChange | None = None
    troubled: bool = False
    more_due: bool | None = None


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """A job taken back from a lease that ran out; `unlocked`: it was `processing` without a lock."""

    id: str
    entity_uid: str
    token: str | None
    owner: str | None
    started: bool
    crashes: int
    failed: bool
    unlocked: bool = False


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A running job and the lease that holds it. `worker` is None until its work begins; `since`: epoch ms."""

    id: str
    entity_uid: str
    token: str
    worker: str | None
    since: int


@dataclass(frozen=True, slots=True)
class Worker:
    """An embed worker as the census knows it: how many batches it can run at once, how many leases it runs.

    `fingerprint`: that of its settings (`neo4j_queue.checks.fingerprint`); None from a worker that does not tell it.
    """

    name: str
    slots: int
    leases: int = 0
    seen_ms_ago: int = 0
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """A worker that has not answered for `silent_ms`; it ran `leases` when it last did, and holds `holds` now."""

    name: str
    silent_ms: int
    leases: int = 0
    holds: int = 0


@dataclass(frozen=True, slots=True)
class WorkerAnswer(Worker):
    """What a worker said of itself a moment ago. `up_ms`: how long it has been up; None from one that does not say."""

    up_ms: int | None = None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The queue in numbers. `pending` = due now, `delayed` = waiting for a back-off, `started` of `processing`.

    `found_inputs`: the most texts of a request, if a larger one was refused (`inputs_refused`) or too slow.
    `locked_seconds`: the time after which every job that is `processing` now is free again, unless its worker extends
    its lock. None = no lease is open. `trouble`: why the queue rests because of the provider (`breaker.Trouble`).
    `silent`: workers that missed their last heartbeat; those of a short silence are among `workers` too. `now`: when
    this was, epoch ms by the server's clock.
    """

    pending: int
    delayed: int
    processing: int
    started: int
    completed: int
    failed: int
    total: int
    oldest_pending_seconds: float | None
    halted: bool
    halted_reason: str | None
    paused_until: int | None
    pause_reason: str | None
    workers: tuple[Worker, ...]
    locked_seconds: float | None = None
    now: int = 0
    halted_at: int | None = None
    found_inputs: int | None = None
    inputs_refused: bool = False
    trouble: str | None = None
    silent: tuple[Silent, ...] = ()

    @property
    def unfinished(self) -> int:
        """Jobs that have not ended."""
        return self.pending + self.delayed + self.processing


def ids_of(jobs: Sequence[LeasedJob]) -> list[str]:
    """The ids of some leased jobs, in their order."""
    return [job.id for job in jobs]
