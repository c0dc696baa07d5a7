"""The nouns of the queue, as values: what is enqueued, leased and decided.

Property names and words are those of the jobs database (docs/reference/jobs-database.md).
"""

from dataclasses import dataclass
from enum import StrEnum

PRIORITY_DEFAULT = 1
PRIORITY_HIGHEST = 9
# In the order of their leases.
PRIORITIES = tuple(range(PRIORITY_HIGHEST, -1, -1))


class Status(StrEnum):
    """The four states of a job."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


class Outcome(StrEnum):
    """How a completed job ended. Only `EMBEDDED` stands for a vector written by that job."""

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
    """A wish for one vector: this entity, this model, this content version.

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
    """The job that stands for a request, and what became of the request."""

    id: str
    entity_uid: str
    outcome: Enqueued
