"""The state of one leased batch while it is worked on, and what is told of it afterwards."""

from dataclasses import dataclass, field

from neo4j_queue.asking import Sent
from neo4j_queue.entities import EntityText
from neo4j_queue.errors import Fault, FaultKind
from neo4j_queue.jobs import Completion, Failure, LeasedJob, Outcome, Settlement
from neo4j_queue.sourcing import Saved


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of one batch, in numbers of jobs; `refused` when the work was not begun.

    `inputs` were sent (parts of a refused request again); `saved_*` are the jobs that needed none (see `Saved`).
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


@dataclass(slots=True)
class Work:
    """The state of one batch between its steps. A job in `open` has no verdict yet."""

    token: str
    jobs: dict[str, LeasedJob]
    began: float
    open: dict[str, LeasedJob] = field(init=False)
    texts: dict[str, EntityText] = field(default_factory=dict)
    completed: list[Completion] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    outdated: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    sent: Sent = field(default_factory=Sent)
    saved: Saved = field(default_factory=Saved)
    # Of the jobs whose vector was wanted: did it come from elsewhere than the provider?
    copied: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open = dict(self.jobs)

    def complete(self, job: LeasedJob, outcome: Outcome) -> None:
        """The job is done, in this way."""
        del self.open[job.id]
        self.completed.append(Completion(job.id, outcome, self.copied.get(job.id, False)))

    def fail(self, job: LeasedJob, fault: Fault) -> None:
        """The job met a fault that counts an attempt."""
        del self.open[job.id]
        self.failed.append(Failure(job, fault))

    def acquit(self, kind: FaultKind) -> None:
        """Takes verdicts of this kind back: their jobs are open again."""
        self.open |= {failure.job.id: failure.job for failure in self.failed if failure.fault.kind is kind}
        self.failed = [failure for failure in self.failed if failure.fault.kind is not kind]

    def summary(self, settlement: Settlement, duration_ms: int) -> Summary:
        """What became of it, as it was stored."""
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
        )
