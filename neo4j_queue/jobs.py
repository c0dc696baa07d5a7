"""Jobs, as values: their states, their outcomes, and what is enqueued.

Property names and words are those of the jobs database (docs/reference/jobs-database.md).
"""

from dataclasses import dataclass
from enum import StrEnum

PRIORITY_DEFAULT = 1
PRIORITY_HIGHEST = 9
# In the order in which they are leased.
PRIORITIES = tuple(range(PRIORITY_HIGHEST, -1, -1))


class Status(StrEnum):
    """The four states of a job."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class Outcome(StrEnum):
    """How a completed job ended. Only `EMBEDDED` means that this job wrote the vector."""

    EMBEDDED = "embedded"
    ALREADY_CURRENT = "already_current"
    SUPERSEDED = "superseded"
    ENTITY_DELETED = "entity_deleted"


class FailureReason(StrEnum):
    """Why a job is `failed` (the dead-letter view)."""

    PERMANENT_ERROR = "permanent_error"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    WORKER_LOST = "worker_lost"


class Enqueued(StrEnum):
    """What `enqueue` did with a request."""

    CREATED = "created"
    REQUEUED = "requeued"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request for one vector: of this entity, by this model, for this content version.

    `version` is the first 16 hex digits of the SHA-256 of the prepared text; `est_tokens` the estimated size of
    that text in model tokens; `priority` 0 to 9, 9 first. `force` runs a completed job again: the graph side
    sets it whenever the stored vector is not the vector of the current text.
    """

    entity_uid: str
    model: str
    version: str
    priority: int = PRIORITY_DEFAULT
    est_tokens: int = 0
    force: bool = False


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """The job of a request, and whether it was created, queued again or there already."""

    id: str
    entity_uid: str
    outcome: Enqueued
