"""The back-off of a job: when it is tried again after a failed attempt."""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from neo4j_queue.settings import Settings


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a job is tried, and how long it rests in between. The settlement counts (`settle`), against the
    `max_attempts` that stand on the job.

    The delay after the n-th failed attempt is `base * multiplier^(n-1)`, at most `max_delay_ms`, spread by
    ± `jitter_factor` of itself so that jobs that failed together do not come back together.
    """

    max_attempts: int
    base_delay_ms: int
    max_delay_ms: int
    multiplier: float
    jitter_factor: float

    @classmethod
    def from_settings(cls, settings: "Settings") -> Self:
        """The policy of `EMBED_JOB_MAX_RETRIES` and `EMBED_JOB_RETRY_*`."""
        return cls(
            max_attempts=settings.embed_job_max_retries,
            base_delay_ms=settings.embed_job_retry_base_delay_ms,
            max_delay_ms=settings.embed_job_retry_max_delay_ms,
            multiplier=settings.embed_job_retry_multiplier,
            jitter_factor=settings.embed_job_retry_jitter_factor,
        )

    def delay_ms(self, attempt: int, random: Random) -> int:
        """Milliseconds to rest after failed attempt number `attempt` (from 1); 0 to `max_delay_ms`."""
        if self.base_delay_ms == 0:
            return 0
        try:
            delay = self.base_delay_ms * float(self.multiplier) ** (max(attempt, 1) - 1)
        except OverflowError:  # 2.0 ** 1024 and beyond: far above any maximum
            delay = float(self.max_delay_ms)
        delay = min(delay, float(self.max_delay_ms))
        spread = self.jitter_factor * random.uniform(-1.0, 1.0) if self.jitter_factor else 0.0
        return min(self.max_delay_ms, max(0, round(delay * (1.0 + spread))))
