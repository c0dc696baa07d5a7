"""The answer to "why has this entity no fresh vector?", as values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from neo4j_queue.graph.look import VectorState
from neo4j_queue.queue.listing import Job
from neo4j_queue.queue.standing import Ahead
from neo4j_queue.times import iso


class Reason(StrEnum):
    """Why, in a word for programs."""

    FRESH = "fresh"
    # No entity in scope.
    NOT_FOUND = "not_found"
    SOFT_DELETED = "soft_deleted"
    OTHER_LABEL = "other_label"
    OTHER_PROPERTY = "other_property"
    UNUSABLE_KEY = "unusable_key"
    # An entity that cannot be embedded as it is.
    EMPTY_TEXT = "empty_text"
    TEXT_TOO_LONG = "text_too_long"
    NO_JOB_POSSIBLE = "no_job_possible"
    # No job works on it.
    NOT_QUEUED = "not_queued"
    FAILED = "failed"
    EARLIER_JOB = "earlier_job"
    # A job waits.
    SETTINGS_NOT_IN_FORCE = "settings_not_in_force"
    HALTED = "halted"
    RESTING = "resting"
    PAUSED = "paused"
    NO_WORKER = "no_worker"
    WORKERS_DISPLACED = "workers_displaced"
    NO_REQUEST_ALLOWED = "no_request_allowed"
    BACK_OFF = "back_off"
    RATE_LIMIT = "rate_limit"
    BEHIND_OTHERS = "behind_others"
    NOTHING_LEASES = "nothing_leases"
    NEXT = "next"
    # A worker has it.
    DISPATCHED = "dispatched"
    RUNNING = "running"
    LEASE_RAN_OUT = "lease_ran_out"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that keeps the vector from being fresh.

    `by_itself`: it passes without a person. `command`: one that helps, as it is typed; `advice`: what helps, in words.
    """

    reason: Reason
    why: str
    by_itself: bool
    command: str | None = None
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The text as it would be sent. `sent_characters`: less than `characters` if it is cut to what the model takes.

    `hash`: SHA-256 of the whole text, `version` its beginning, by which a job is for this text.
    """

    text: str = field(repr=False)
    characters: int
    est_tokens: int
    hash: str
    version: str
    cut: bool
    sent_characters: int


@dataclass(frozen=True, slots=True)
class Vector:
    """The vector that the entity carries. `embedded_at` in epoch ms; `truncated`: of its text's beginning only."""

    state: VectorState
    model: str | None
    width: int | None
    hash: str | None
    embedded_at: int | None
    truncated: bool


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of the entity. `current`: it is for the text as it is now. Times in epoch ms.

    `owner`: the worker that has it, or who leased it; of any other job the worker of its last verdict.
    """

    id: str
    version: str
    model: str
    current: bool
    status: str
    outcome: str | None
    priority: int
    created_at: int
    available_at: int
    started_at: int | None
    ended_at: int | None
    lock_until: int | None
    owner: str | None
    attempts: int
    max_attempts: int
    crashes: int
    error: str | None
    error_category: str | None
    error_type: str | None
    error_status: int | None
    # The attempts that failed and the workers that were lost, the last of them (`queue.attempts.Attempt.as_json`).
    history: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, job: Job, current: Mapping[str, str]) -> "JobRecord":
        """From the properties of a job; `current`: the model and the versions for which a job is current."""
        return cls(
            id=job["id"],
            version=job["version"],
            model=job["model"],
            current=current.get(job["version"]) == job["model"],
            status=job["status"],
            outcome=job.get("outcome") or job.get("failure_reason"),
            priority=job["priority"],
            created_at=job["created_at"],
            available_at=job["available_at"],
            started_at=job.get("started_at"),
            ended_at=job.get("processed_at"),
            lock_until=job.get("lock_until"),
            owner=job.get("holder") or job.get("worker") or job.get("lock_owner"),
            attempts=job.get("attempts") or 0,
            max_attempts=job.get("max_attempts") or 0,
            crashes=job.get("crashes") or 0,
            error=job.get("error"),
            error_category=job.get("error_category"),
            error_type=job.get("error_type"),
            error_status=job.get("error_status"),
            history=tuple(job.get("history") or ()),
        )


# Of a job and of a vector, in epoch ms.
TIMES = frozenset(
    {"created_at", "available_at", "started_at", "ended_at", "lock_until", "embedded_at", "ready_at"}
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an entity has no fresh vector, or that it has one.

    `well`: its vector is fresh, or will be without help; else a person is needed. `causes`: what keeps it, the decisive
    one first. `nodes`: how many nodes of the label have the key and are not soft-deleted (`more_nodes`: at least);
    text, vector and causes are those of the one that is in need. `ahead`: due jobs that are leased before its own.
    `ready_at`: about when its vector will be fresh (epoch ms), None = not known. `now`: when this was, by the jobs
    database.
    """

    name: str
    label: str
    key: str
    model: str
    now: int
    well: bool
    causes: tuple[Cause, ...]
    nodes: int = 0
    more_nodes: bool = False
    text: Prepared | None = None
    vector: Vector | None = None
    in_outbox: bool = False
    jobs: tuple[JobRecord, ...] = ()
    more_jobs: bool = False
    ahead: Ahead | None = None
    ready_at: int | None = None

    @property
    def reason(self) -> Reason:
        """The decisive cause, in a word."""
        return self.causes[0].reason

    @property
    def in_scope(self) -> bool:
        """True if there is an entity that should have a vector."""
        return self.nodes > 0

    @property
    def command(self) -> str | None:
        """The command that helps, as it is typed; None if none does, or none is needed."""
        return next((cause.command for cause in self._in_need() if cause.command), None)

    @property
    def advice(self) -> str | None:
        """What helps, in words."""
        return next((cause.advice for cause in self._in_need() if cause.advice), None)

    def _in_need(self) -> list[Cause]:
        """What needs a person before what passes by itself."""
        return sorted(self.causes, key=lambda cause: cause.by_itself)

    def as_json(self, *, text: bool = False) -> dict[str, Any]:
        """For programs: plain values, times as ISO 8601 in UTC, no vector; the text itself only with `text`."""
        prepared = self.text and _plain(asdict(self.text))
        if prepared and not text:
            del prepared["text"]
        return {
            "entity": self.name,
            "label": self.label,
            "key": self.key,
            "model": self.model,
            "well": self.well,
            "reason": str(self.reason),
            "why": self.causes[0].why,
            "waits_for": [cause.why for cause in self.causes] if self._waits() else [],
            "ready_at": iso(self.ready_at),
            "ahead": self.ahead and asdict(self.ahead),
            "command": self.command,
            "advice": self.advice,
            "in_scope": self.in_scope,
            "nodes": self.nodes,
            "more_nodes": self.more_nodes,
            "in_outbox": self.in_outbox,
            "text": prepared,
            "vector": self.vector and _plain(asdict(self.vector)),
            "jobs": [_plain(asdict(job)) for job in self.jobs],
            "more_jobs": self.more_jobs,
            "now": iso(self.now),
        }

    def _waits(self) -> bool:
        return any(job.current and job.status in ("pending", "processing") for job in self.jobs)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: iso(value) if name in TIMES else value for name, value in values.items()}
