"""Why the health is not what it should be: a stable code, one sentence, and the command that helps."""

from dataclasses import dataclass
from enum import StrEnum


class HealthState(StrEnum):
    """How well embedding works. `UNAVAILABLE`: a database that is needed for it cannot be used."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    CRITICAL = "CRITICAL"
    UNAVAILABLE = "UNAVAILABLE"


# The worst state of several reasons is that of all of them.
SEVERITY = {state: n for n, state in enumerate(HealthState)}


class Code(StrEnum):
    """The reasons, by the names that alerts, scripts and runbooks use; none is ever renamed."""

    SUCCESS_RATE_LOW = "success_rate_low"
    FAILURES_IN_A_ROW = "failures_in_a_row"
    PROVIDER_OUTAGE = "provider_outage"
    QUOTA_USED_UP = "quota_used_up"
    RATE_LIMITED = "rate_limited"
    HALTED = "halted"
    PAUSED = "paused"
    NO_REQUEST_ALLOWED = "no_request_allowed"
    CONTROL_WORKER_MISSING = "control_worker_missing"
    EMBED_WORKER_MISSING = "embed_worker_missing"
    BEAT_MISSING = "beat_missing"
    WORKER_SILENT = "worker_silent"
    FOREIGN_WORKERS = "foreign_workers"
    NO_LEASE_TICK = "no_lease_tick"
    STANDSTILL = "standstill"
    SETTINGS_DISAGREE = "settings_disagree"
    BROKER_AWAY = "broker_away"
    JOBS_DATABASE_READ_ONLY = "jobs_database_read_only"
    JOBS_DATABASE_SLOW = "jobs_database_slow"
    JOBS_DATABASE_AWAY = "jobs_database_away"
    JOBS_SCHEMA = "jobs_schema"
    NOT_PREPARED = "not_prepared"
    GRAPH_AWAY = "graph_away"
    GRAPH_SLOW = "graph_slow"
    VECTOR_INDEX = "vector_index"
    GRAPH_SCHEMA = "graph_schema"
    DEAD_LETTERS = "dead_letters"


# What to run when there is the reason: it shows more, or repairs.
COMMANDS = {
    Code.SUCCESS_RATE_LOW: "neo4j-queue dead list",
    Code.FAILURES_IN_A_ROW: "neo4j-queue doctor",
    Code.PROVIDER_OUTAGE: "neo4j-queue doctor",
    Code.QUOTA_USED_UP: "neo4j-queue usage",
    Code.RATE_LIMITED: "neo4j-queue usage",
    # Workers read their settings at their start: `resume` alone would halt it again.
    Code.HALTED: "neo4j-queue resume  # once the reason is mended; restart the workers if it was a setting",
    Code.PAUSED: "neo4j-queue resume",
    Code.NO_REQUEST_ALLOWED: "neo4j-queue doctor",
    Code.CONTROL_WORKER_MISSING: "celery -A tasks worker -Q control",
    Code.EMBED_WORKER_MISSING: "celery -A tasks worker -Q embed",
    Code.BEAT_MISSING: "celery -A tasks beat",
    Code.WORKER_SILENT: "neo4j-queue release --orphaned",
    Code.FOREIGN_WORKERS: "neo4j-queue doctor",
    Code.NO_LEASE_TICK: "neo4j-queue doctor",
    Code.STANDSTILL: "neo4j-queue doctor",
    Code.SETTINGS_DISAGREE: "neo4j-queue doctor",
    Code.BROKER_AWAY: "neo4j-queue doctor",
    Code.JOBS_DATABASE_READ_ONLY: "neo4j-queue doctor",
    Code.JOBS_DATABASE_SLOW: "neo4j-queue doctor",
    Code.JOBS_DATABASE_AWAY: "neo4j-queue doctor",
    Code.JOBS_SCHEMA: "neo4j-queue init",
    Code.NOT_PREPARED: "neo4j-queue init",
    Code.GRAPH_AWAY: "neo4j-queue doctor",
    Code.GRAPH_SLOW: "neo4j-queue doctor",
    Code.VECTOR_INDEX: "neo4j-queue init",
    Code.GRAPH_SCHEMA: "neo4j-queue init",
    Code.DEAD_LETTERS: "neo4j-queue dead stats",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason. `state`: the health can be no better than this; `since`: epoch ms, None = not known."""

    code: Code
    sentence: str
    state: HealthState = HealthState.DEGRADED
    since: int | None = None

    @property
    def command(self) -> str:
        """What to run."""
        return COMMANDS[self.code]
