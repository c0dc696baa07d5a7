"""The state of one leased batch while it is worked on, and what is told of it afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from neo4j_queue.errors import Fault
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import Outcome
from neo4j_queue.pipeline.provider_call import Sent
from neo4j_queue.pipeline.vector_sources import Saved
from neo4j_queue.queue.leases import Completion, Failure, LeasedJob, Settlement, Start
from neo4j_queue.queue.settle import SettleTransaction


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of one batch, in numbers of jobs; `refused` when the work was not begun.

    `inputs` were sent (parts of a refused request again); `saved_*` are the jobs that needed none (see `Saved`).
    `wanted`: whether more should be leased now, as far as is known.
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
class BatchRun:
    """The state of one batch between its steps. A job in `open` has no verdict yet.

    `rest` is the fault because of which the open ones stay so, `unproven` are those that failed while nothing passed:
    the fault may be everybody's. `current` has the texts that superseded others, by entity.
    """

    token: str
    began: float
    jobs: dict[str, LeasedJob] = field(default_factory=dict)
    probe: bool = False
    open: dict[str, LeasedJob] = field(default_factory=dict)
    rest: Fault | None = None
    texts: dict[str, EntityText] = field(default_factory=dict)
    completed: list[Completion] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    unproven: set[str] = field(default_factory=set)
    current: dict[str, Sequence[EntityText]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    sent: Sent = field(default_factory=Sent)
    saved: Saved = field(default_factory=Saved)
    # Of the jobs whose vector was wanted: did it come from elsewhere than the provider?
    copied: dict[str, bool] = field(default_factory=dict)

    # The settlement that was begun (it may have been interrupted), and whether it is stored.
    settling: SettleTransaction | None = None
    settled: bool = False

    def begin(self, start: Start) -> None:
        """The jobs were won."""
        self.jobs = {job.id: job for job in start.jobs}
        self.open = dict(self.jobs)
        self.probe = start.probe

    def complete(self, job: LeasedJob, outcome: Outcome) -> None:
        """The job is done, in this way."""
        del self.open[job.id]
        self.completed.append(Completion(job.id, outcome, self.copied.get(job.id, False)))

    def supersede(self, job: LeasedJob, current: Sequence[EntityText]) -> None:
        """The job is done, for the entity has this text now."""
        self.complete(job, Outcome.SUPERSEDED)
        self.current[job.entity_uid] = current

    def fail(self, job: LeasedJob, fault: Fault, *, proven: bool = True) -> None:
        """The job met a fault that counts an attempt. `proven`: what failed for it passed for others."""
        del self.open[job.id]
        self.failed.append(Failure(job, fault))
        if not proven:
            self.unproven.add(job.id)

    @property
    def doubt(self) -> Fault | None:
        """The first fault that may be everybody's."""
        return next((failure.fault for failure in self.failed if failure.job.id in self.unproven), None)

    def acquit(self) -> None:
        """Takes the verdicts back that are not proven: their jobs are open again."""
        acquitted = [failure.job for failure in self.failed if failure.job.id in self.unproven]
        self.failed = [failure for failure in self.failed if failure.job.id not in self.unproven]
        self.open |= {job.id: job for job in acquitted}

    def summary(self, settlement: Settlement, duration_ms: int, *, queued: bool) -> Summary:
        """What became of it, as it was stored; `queued`: it queued jobs afterwards."""
        ended = [c.outcome for c in self.completed if c.job_id in settlement.completed]
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
            requests=self.sent.requests,
            inputs=self.sent.inputs,
            saved_in_batch=self.saved.in_batch,
            saved_cached=self.saved.cached,
            saved_other_entity=self.saved.other_entity,
            saved_current=self.saved.current,
            duration_ms=duration_ms,
            wanted=queued or settlement.more_due is not False,
        )
