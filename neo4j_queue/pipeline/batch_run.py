"""One leased batch: what it is (`BatchRun`), what became of its jobs so far (`Ledger`), and the same in numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from neo4j_queue.errors import Fault
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import Outcome
from neo4j_queue.pipeline.provider_call import FoundSize, Sent
from neo4j_queue.queue.leases import Completion, Failure, LeasedJob, PutOff, Settlement
from neo4j_queue.queue.settle import SettleTransaction


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of one batch, in numbers of jobs; `refused`: why it was not started.

    `inputs` were sent (parts of a refused request again); `saved_*` are the jobs that needed none (see `Saved`).
    `wanted`: more may be leased now.
    """

    token: str
    jobs: int
    refused: str | None = None
    embedded: int = 0
    already_current: int = 0
    superseded: int = 0
    entity_deleted: int = 0
    failed: int = 0
    retried: int = 0
    released: int = 0
    lost: int = 0
    requests: int = 0
    inputs: int = 0
    saved_in_batch: int = 0
    saved_cached: int = 0
    saved_other_entity: int = 0
    saved_current: int = 0
    duration_ms: int = 0
    wanted: bool = True


@dataclass(slots=True)
class Saved:
    """Jobs that needed no input of their own, by why: their text was another job's of the batch, its vector was still
    in this process, or stood on another entity; or the entity's own vector was fresh."""

    in_batch: int = 0
    cached: int = 0
    other_entity: int = 0
    current: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_reason().values())

    def by_reason(self) -> dict[str, int]:
        """Each number by its name."""
        return asdict(self)


@dataclass(slots=True)
class Ledger:
    """What became of the jobs of a batch. A job in `open` has no verdict yet; `rest` is the fault that keeps it so."""

    open: dict[str, LeasedJob]
    rest: Fault | None = None
    completed: list[Completion] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    # Jobs that failed while nothing passed: the fault may be the provider's or the graph's, and not theirs.
    unproven: set[str] = field(default_factory=set)

    # The texts that superseded others, by entity (none of a deleted one); the entities whose vector was found fresh.
    successors: dict[str, Sequence[EntityText]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)

    # By job id: the text that a vector was looked for, and whether the vector was had without a request.
    texts: dict[str, EntityText] = field(default_factory=dict)
    copied: dict[str, bool] = field(default_factory=dict)
    # The most jobs that the next batch may hold, of jobs that stay open; jobs put off for a reason of their own.
    max_batch: dict[str, int] = field(default_factory=dict)
    put_off: dict[str, PutOff] = field(default_factory=dict)
    found_size: FoundSize | None = None
    sent: Sent = field(default_factory=Sent)
    saved: Saved = field(default_factory=Saved)

    # The settlement that was begun (it may have been interrupted), and whether it is stored.
    settling: SettleTransaction | None = None
    settled: bool = False

    def complete(self, job: LeasedJob, outcome: Outcome) -> None:
        """The job is done, in this way."""
        del self.open[job.id]
        self.completed.append(Completion(job.id, outcome, self.copied.get(job.id, False)))

    def gone(self, job: LeasedJob) -> None:
        """The job is done, for its entity is deleted."""
        self.complete(job, Outcome.ENTITY_DELETED)
        self.successors.setdefault(job.entity_uid, ())

    def supersede(self, job: LeasedJob, current: Sequence[EntityText]) -> None:
        """The job is done, for the entity has these texts now."""
        self.complete(job, Outcome.SUPERSEDED)
        self.successors[job.entity_uid] = current

    def fail(
        self, job: LeasedJob, fault: Fault, *, proven: bool = True, max_batch: int | None = None
    ) -> None:
        """The job met a fault that counts an attempt. `proven`: what failed for it passed for others."""
        del self.open[job.id]
        self.failed.append(Failure(job, fault, max_batch))
        if not proven:
            self.unproven.add(job.id)

    @property
    def doubt(self) -> Fault | None:
        """The first fault that may not be the job's own."""
        return next((failure.fault for failure in self.failed if failure.job.id in self.unproven), None)

    def acquit(self) -> None:
        """Takes back the verdicts that are not proven: their jobs are open again."""
        acquitted = [failure.job for failure in self.failed if failure.job.id in self.unproven]
        self.failed = [failure for failure in self.failed if failure.job.id not in self.unproven]
        self.open |= {job.id: job for job in acquitted}


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The work on one started lease. `probe`: it is to find out whether the provider works again; `began`: seconds of
    the pipeline's monotonic clock."""

    token: str
    jobs: Mapping[str, LeasedJob]
    probe: bool
    began: float
    ledger: Ledger

    @classmethod
    def of(cls, token: str, jobs: Sequence[LeasedJob], *, probe: bool, began: float) -> "BatchRun":
        """A run in which no job has a verdict yet."""
        by_id = {job.id: job for job in jobs}
        return cls(token, by_id, probe, began, Ledger(dict(by_id)))

    @property
    def last_attempt(self) -> bool:
        """True if a failure is final for one of the jobs."""
        return any(job.attempts + 1 >= job.max_attempts for job in self.jobs.values())

    @property
    def most_inputs(self) -> int | None:
        """The most inputs that a request may hold, after one of these jobs was refused or too slow; None = any."""
        return min((job.max_batch for job in self.jobs.values() if job.max_batch is not None), default=None)

    @property
    def whole(self) -> bool:
        """True if the batch is as large as the limits and the jobs that are due make it."""
        return all(job.max_batch is None for job in self.jobs.values())

    def summary(self, settlement: Settlement, duration_ms: int, *, queued: bool) -> Summary:
        """What became of it, as it was stored; `queued`: jobs were queued after the settlement."""
        ledger = self.ledger
        ended = [c.outcome for c in ledger.completed if c.job_id in settlement.completed]
        for_good = sum(stored.reason is not None for stored in settlement.failed)
        return Summary(
            token=self.token,
            jobs=len(self.jobs),
            embedded=ended.count(Outcome.EMBEDDED),
            already_current=ended.count(Outcome.ALREADY_CURRENT),
            superseded=ended.count(Outcome.SUPERSEDED),
            entity_deleted=ended.count(Outcome.ENTITY_DELETED),
            failed=for_good,
            retried=len(settlement.failed) - for_good,
            released=len(settlement.released),
            lost=len(settlement.lost),
            requests=ledger.sent.requests,
            inputs=ledger.sent.inputs,
            saved_in_batch=ledger.saved.in_batch,
            saved_cached=ledger.saved.cached,
            saved_other_entity=ledger.saved.other_entity,
            saved_current=ledger.saved.current,
            duration_ms=duration_ms,
            wanted=queued or settlement.more_due is not False,
        )
