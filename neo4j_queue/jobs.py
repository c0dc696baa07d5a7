"""Jobs, as values: their states, their outcomes, and what is enqueued.

Property names and words are those of the jobs database (docs/reference/jobs-database.md).
"""

from dataclasses import dataclass
from enum import StrEnum

# For work that no person waits for: sweeps, `enqueue --all` and `--missing`, new generations. An edit raises it.
PRIORITY_BACKFILL = 0
PRIORITY_DEFAULT = 1
PRIORITY_HIGHEST = 9
# In the order in which they are leased.
PRIORITIES = tuple(range(PRIORITY_HIGHEST, -1, -1))

# Bytes of entity, model and version together. A range index of Neo4j 5.26 takes 8,158 over three texts; one byte more
# fails the whole transaction.
KEY_BYTES_MAX = 8_150
# Characters of a key in a message.
SHOWN = 40


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
    """What `enqueue` did with a request. `LEFT_FAILED` is only answered where the caller asked to leave failed jobs."""

    CREATED = "created"
    REQUEUED = "requeued"
    DUPLICATE = "duplicate"
    LEFT_FAILED = "left_failed"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request for one vector: of this entity, by this model, for this content version.

    `version` is the first 16 hex digits of the SHA-256 of the prepared text; `est_tokens` the estimated size of
    that text in model tokens; `priority` 0 to 9, 9 first. `force` runs a completed job again: the graph side
    sets it whenever the stored vector is not the vector of the current text. `due_now` ends the back-off of a job that
    waits for it.
    """

    entity_uid: str
    model: str
    version: str
    priority: int = PRIORITY_DEFAULT
    est_tokens: int = 0
    force: bool = False
    due_now: bool = False

    def refusal(self) -> str | None:
        """Why no job can stand for this request, in a line that names the entity; None if one can."""
        try:
            key, *others = (len(part.encode()) for part in (self.entity_uid, self.model, self.version))
        except UnicodeEncodeError:
            return f"{shown(self.entity_uid)} is no text: its key or model has half of a character (a lone surrogate)"
        most = KEY_BYTES_MAX - sum(others)
        if key <= most:
            return None
        return f"the key {shown(self.entity_uid)} has {key:,} bytes: a job can be queued for at most {most:,}"


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    """The job of a request, and whether it was created, queued again or there already."""

    id: str
    entity_uid: str
    outcome: Enqueued


def shown(uid: str) -> str:
    """A key in quotes for a message: its beginning if it is long, and nothing that a terminal or a file cannot take."""
    return ascii(uid) if len(uid) <= SHOWN else f"{uid[:SHOWN]!a}..."
