"""The log lines of embedding; the events are those of docs/reference/log-events.md.

A line names entities but never carries their text, unless `EMBED_LOG_CONTENT` allows the first characters of it
in errors.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from neo4j_queue.errors import Fault, classify
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import Outcome
from neo4j_queue.log import get_logger
from neo4j_queue.pipeline.batch_run import BatchRun, Summary
from neo4j_queue.pipeline.provider_call import FoundSize
from neo4j_queue.queue import health
from neo4j_queue.queue.breaker import Trouble
from neo4j_queue.queue.leases import FailedJob, LeasedJob, RateUsed, Settlement, Verdicts

# As much of a text as EMBED_LOG_CONTENT puts into an error line.
CONTENT_CHARS = 200
# After these the entity has the vector of its text.
WITH_VECTOR = frozenset({Outcome.EMBEDDED, Outcome.ALREADY_CURRENT})

log = get_logger()


class JobLog:
    """Writes what happens to leased jobs. `model`, `dimensions` and `rate_limiter` are the same on all lines."""

    def __init__(
        self, model: str, dimensions: int, *, rate_limiter: str = "", log_content: bool = False
    ) -> None:
        self._model = model
        self._dimensions = dimensions
        self._rate_limiter = rate_limiter
        self._log_content = log_content

    def dropped(self, token: str, jobs: int) -> None:
        """A message whose lease is over, or had been started before."""
        log.info("stale_message_dropped", lease_token=token, jobs=jobs)

    def started(self, token: str, jobs: Sequence[LeasedJob]) -> None:
        """One line per job."""
        for job in jobs:
            log.info(
                "embedding_job_started",
                job_id=job.id,
                entity_name=job.entity_uid,
                lease_token=token,
                attempt=job.attempts + 1,
                max_attempts=job.max_attempts,
            )

    def released(
        self, token: str, job_ids: Collection[str], why: str, jobs: Mapping[str, LeasedJob] | None = None
    ) -> None:
        """Jobs given back unjudged, with their entities when they were known (the batch had started)."""
        if job_ids:
            ids = sorted(job_ids)
            log.info(
                "embedding_job_released",
                lease_token=token,
                count=len(ids),
                ids=ids,
                entities=[jobs[job_id].entity_uid for job_id in ids] if jobs else None,
                reason=why,
            )

    def rate_unknown(self, error: Exception) -> None:
        """What is used of the rate limits could not be read for the lines that follow."""
        log.debug("rate_unknown", error=classify(error).message)

    def dead_letters_unknown(self, error: Exception) -> None:
        """Whether the dead letters became too many is told by the next heartbeat."""
        log.debug("dead_letters_unknown", error=classify(error).message)

    def not_given_back(self, token: str, error: Exception) -> None:
        """A batch was interrupted, and the jobs database did not hear of it: its lease runs out by itself."""
        log.warning("jobs_not_given_back", lease_token=token, error=classify(error).message)

    def left_to_sweep(self, entities: int, error: Exception) -> None:
        """The graph did not answer after the settlement: outbox and superseded jobs are looked at by the sweep."""
        log.warning("left_to_sweep", entities=entities, error=classify(error).message)

    def truncated(self, uid: str, kept: int, whole: int) -> None:
        """A text is longer than the model takes: its beginning is embedded. Both lengths are in characters."""
        log.warning("embedding_text_truncated", entity_name=uid, characters_kept=kept, characters=whole)

    def write_retried(self, vectors: int, fault: Fault, rest_s: float) -> None:
        """The graph did not take the vectors; they are kept and offered again."""
        log.warning("vector_write_retried", vectors=vectors, error=fault.message, rest_s=rest_s)

    def halted(self, fault: Fault) -> None:
        """The queue stops until a person resumes it."""
        log.critical(
            "queue_halted",
            reason=fault.kind,
            error_type=fault.category,
            error=fault.message,
            provider_status=fault.status,
        )

    def paused(self, rest_s: float, fault: Fault) -> None:
        """All workers rest."""
        log.warning(
            "queue_paused",
            seconds=rest_s,
            reason=fault.kind,
            error=fault.message,
            provider_status=fault.status,
            request_id=fault.request_id,
        )

    def size_found(self, token: str, size: FoundSize) -> None:
        """The provider refuses, or is too slow for, requests of more inputs than that."""
        log.warning(
            "request_size_found",
            lease_token=token,
            max_inputs=size.refused or size.slow,
            reason="refused" if size.refused else "timeout",
            advice="set EMBED_BATCH_SIZE to this" if size.refused else None,
        )

    def recovered(self, trouble: Trouble) -> None:
        """The provider works again."""
        log.info("provider_recovered", trouble=trouble)

    def settled(
        self,
        run: BatchRun,
        verdicts: Verdicts,
        settlement: Settlement,
        *,
        duration_ms: int,
        because: str | None,
        used: RateUsed | None = None,
    ) -> None:
        """One line per verdict, one per group of released or lost jobs, one per change of health."""
        token = run.token
        for done in verdicts.completed:
            if done.job_id in settlement.completed:
                job = run.jobs[done.job_id]
                log.info(
                    "embedding_job_completed",
                    job_id=job.id,
                    entity_name=job.entity_uid,
                    lease_token=token,
                    attempt=job.attempts + 1,
                    max_attempts=job.max_attempts,
                    outcome=done.outcome,
                    duration_ms=duration_ms,
                    embedding_size=self._dimensions if done.outcome in WITH_VECTOR else None,
                    cache=_cache(run.ledger.copied.get(job.id)),
                )
        told: dict[str | None, str] = {}
        for failed in settlement.failed:
            job_id, stack = failed.failure.job.id, failed.failure.fault.stack
            first = told.setdefault(stack, job_id)
            if stack is not None and first != job_id:
                stack = _told_before(stack, first)
            self._failed(
                token, failed, stack, run.ledger.texts.get(job_id), run.ledger.copied.get(job_id), used
            )
        self.released(token, settlement.released, because or "not finished", run.jobs)
        if settlement.lost:
            log.warning(
                "lease_lost", lease_token=token, count=len(settlement.lost), ids=sorted(settlement.lost)
            )
        health.announce(settlement.health)

    def batch_done(self, summary: Summary) -> None:
        """The batch in numbers."""
        counts = {
            name: value
            for name, value in asdict(summary).items()
            if name not in ("token", "refused", "wanted")
        }
        log.info("embedding_batch_done", lease_token=summary.token, **counts)

    def _failed(
        self,
        token: str,
        failed: FailedJob,
        stack: str | None,
        text: EntityText | None,
        copied: bool | None,
        used: RateUsed | None,
    ) -> None:
        job, fault = failed.failure.job, failed.failure.fault
        # One that is tried again needs nobody yet.
        tell = log.error if failed.retry_at is None else log.warning
        tell(
            "embedding_job_failed",
            job_id=job.id,
            entity_name=job.entity_uid,
            lease_token=token,
            attempt=failed.attempts,
            max_attempts=job.max_attempts,
            will_retry=failed.retry_at is not None,
            retry_at=_iso(failed.retry_at),
            failure_reason=failed.reason,
            error_type=fault.category,
            error=fault.message,
            error_class=fault.error_type,
            stack=stack,
            model=self._model,
            provider_status=fault.status,
            request_id=fault.request_id,
            rate_limiter=self._rate_limiter,
            rate_requests=used.requests if used else None,
            rate_tokens=used.tokens if used else None,
            rate_window_ends=_iso(used.ends_at) if used else None,
            cache=_cache(copied),
            **self._content(text),
        )

    def _content(self, text: EntityText | None) -> dict[str, Any]:
        if text is None:
            return {"observations": None}
        content = {"text": text.text[:CONTENT_CHARS]} if self._log_content else {}
        log.debug("embedding_job_text", entity_name=text.uid, text=text.text)
        return {"observations": text.text.count("\n- "), **content}


def _told_before(stack: str, job_id: str) -> str:
    """The stack of a job that failed by the same request as another one: its 8,000 characters would say nothing new."""
    return f"as of job {job_id}: {stack.strip().rpartition(chr(10))[2]}"


def _cache(copied: bool | None) -> str | None:
    """Whether the vector was had without a request; None if none was looked for."""
    return None if copied is None else "hit" if copied else "miss"


def _iso(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()
