"""What the tools answer, in the words of the contract and of the reference memory server."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """The answer of a tool, also what of it is not declared: other parts of the product may know more one day."""

    model_config = ConfigDict(extra="allow")


class FoundEntity(Answer):
    """A hit. `score`: what hits are ordered by; `semantic`, `keyword`: that of each half, null: it did not find it."""

    entity: str | int
    score: float
    semantic: float | None
    keyword: float | None
    found_by: list[str]
    stale: bool
    labels: list[str]
    properties: dict[str, Any]


class FoundEntities(Answer):
    """`search_type`: how was searched; `fallback_reason`: why not as asked for, null: it was."""

    search_type: Literal["semantic", "keyword", "hybrid"]
    fallback_reason: str | None
    coverage: dict[str, Any]
    hits: list[FoundEntity]


class QueuedJob(Answer):
    """What became of one entity. `job_id` is null where there is no job."""

    entity: str | int
    job_id: str | None
    outcome: str
    error: str | None = None


class ForcedEmbedding(Answer):
    """The contract's answer of `force_generate_embedding`, in both modes."""

    success: bool
    mode: Literal["specific", "batch"]
    entity: str | int | None = Field(default=None, description="specific: the entity")
    job_id: str | None = Field(default=None, description="specific: its job")
    outcome: str | None = Field(default=None, description="specific: created, requeued or duplicate")
    did: str | None = Field(default=None, description="specific: what was done, in words")
    limit: int | None = Field(default=None, description="batch: at most so many were looked for")
    discovered: int | None = Field(default=None, description="batch: entities without a vector")
    queued: int | None = Field(default=None, description="batch: those that have a job now")
    newly_scheduled: int | None = Field(
        default=None, description="batch: those whose job was not there before"
    )
    failed: int | None = Field(default=None, description="batch: those for which no job is possible")
    jobs: list[QueuedJob] | None = Field(default=None, description="batch: one for each discovered entity")


class WithoutEmbedding(Answer):
    """An entity that has no vector. `text` is the beginning of what would be embedded."""

    entity: str | int
    text: str
    est_tokens: int


class EntitiesWithoutEmbeddings(Answer):
    """Current entities without a vector, whose job neither waits, runs nor has failed for good."""

    limit: int
    entities: list[WithoutEmbedding]


class ExplainedEntity(Answer):
    """The same as `neo4j-queue explain --json`. `well`: its vector is fresh, or will be without help."""

    entity: str | int
    in_scope: bool
    well: bool
    reason: str
    why: str
    waits_for: list[str]
    ready_at: str | None
    command: str | None
    advice: str | None
    text: dict[str, Any] | None
    vector: dict[str, Any] | None
    jobs: list[dict[str, Any]]
    now: str | None


class EntityShown(Answer):
    """An entity in the shape of the memory server."""

    name: str | int
    entityType: str | None = None  # noqa: N815
    observations: list[str] = []


class CreatedEntities(Answer):
    """`entities`: those that were created. `existing`: those that were there already and were left as they are.

    `jobs`: outcome `created` or `requeued`, `current` (its vector is fresh) or `deferred` (queued by the next sweep,
    for the jobs database or its settings do not allow it now). `note`: what was written and can never be found by
    meaning, since the texts are made of other properties.
    """

    entities: list[EntityShown]
    existing: list[str | int]
    jobs: list[QueuedJob]
    note: str | None = None


class ObservationsAdded(Answer):
    """The observations of one entity that were not there before."""

    entityName: str | int  # noqa: N815
    addedObservations: list[str]  # noqa: N815


class AddedObservations(Answer):
    """One result for each entry of the call."""

    results: list[ObservationsAdded]
    note: str | None = None


class ObservationsDeleted(Answer):
    """The observations of one entity that were there and are deleted."""

    entityName: str | int  # noqa: N815
    deletedObservations: list[str]  # noqa: N815


class DeletedObservations(Answer):
    """One result for each entity that was found."""

    success: bool
    message: str
    results: list[ObservationsDeleted]
    notFound: list[str | int]  # noqa: N815


class RelationShown(Answer):
    """A relation in the shape of the memory server."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    source: str | int = Field(alias="from")
    to: str | int
    relationType: str  # noqa: N815


class CreatedRelations(Answer):
    """The relations that stand now; those that were there before are among them."""

    relations: list[RelationShown]


class DeletedEntities(Answer):
    """Names of those that were deleted, and of those that were not there."""

    success: bool
    message: str
    deleted: list[str | int]
    notFound: list[str | int]  # noqa: N815


class Retried(Answer):
    """How many failed jobs are queued again."""

    retried: int


class QueueStatus(Answer):
    """The same as `neo4j-queue status --json`. `coverage` is null while the graph does not answer."""

    pending: int
    delayed: int
    processing: int
    started: int
    completed: int
    failed: int
    total: int
    oldest_pending_seconds: float | None
    halted: bool
    paused_until: str | None
    workers: list[dict[str, Any]]
    coverage: dict[str, Any] | None
    waiting_for: str | None
    done_at: str | None
    limits: dict[str, Any]
    silent_workers: list[dict[str, Any]]


class QueueHealth(Answer):
    """The same as `neo4j-queue health --json`."""

    state: Literal["HEALTHY", "DEGRADED", "CRITICAL", "UNAVAILABLE"]
    consecutive_failures: int
    success_rate: float | None
    verdicts: int
    last_success_at: str | None
    error_patterns: dict[str, int]
    reasons: list[str]
    workers: int
    silent_workers: list[str]
    causes: list[dict[str, Any]]
    dead_letters: dict[str, Any]
