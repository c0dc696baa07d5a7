"""The locks of jobs and leases: the heartbeat extends them, and recovery takes back what they no longer hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, rows
from neo4j_queue.jobs import FailureReason
from neo4j_queue.queue import attempts, tally
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.queue.leases import RecoveredJob, WorkerAnswer
from neo4j_queue.queue.orphans import StartedLease, orphans
from neo4j_queue.settings import Settings

# An hour after its last crash (at least ten locks) a job has none: one that kills workers does so within a lock or two.
# Else workers that are preempted, or outages of the jobs database, would fail innocent jobs in the course of weeks.
HEAL_MS = 3_600_000
HEAL_LOCKS = 10
# Jobs per transaction: their locks are held for well under a second, so no settlement waits for long.
PAGE = 1_000


class Locks:
    """The locks of one queue."""

    def __init__(self, database: Database, settings: Settings, clock: Clock = server_clock) -> None:
        self._database = database
        self._settings = settings
        self._now = clock

    def heartbeat(self, leases: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Extends the locks of started leases (token -> job ids) to their full length; a token missing in the answer is
        lost."""
        extended: dict[str, int] = {}
        for page in _pages(leases):
            found = self._database.write(
                statement("jobs/heartbeat"),
                leases=[{"token": token, "ids": list(leases[token])} for token in page],
                lock_ms=self._settings.embed_job_lock_duration_ms,
                now=self._now(),
            )
            extended |= {row["token"]: row["jobs"] for row in found}
        return extended

    def keep(self, leases: Mapping[str, Sequence[str]]) -> set[str]:
        """The tokens of these leases (token -> job ids) that are still held; extends those whose lock may run out.

        A lock that lasts for two more heartbeats is long enough, even if one of them is missed. So a batch that takes
        seconds costs no write at all.
        """
        if not leases:
            return set()
        found = self._database.read(
            statement("jobs/extendable"),
            tokens=sorted(leases),
            least_ms=2 * self._settings.embed_job_heartbeat_interval_ms,
            now=self._now(),
        )
        extended = self.heartbeat({row["token"]: leases[row["token"]] for row in found if row["due"]})
        return extended.keys() | {row["token"] for row in found if not row["due"]}

    def started(self) -> list[StartedLease]:
        """The open leases whose work has begun."""
        return [StartedLease(**row.data()) for row in self._database.read(statement("jobs/started_leases"))]

    def take_back_orphans(
        self, workers: Sequence[WorkerAnswer], executed: Collection[str], asked_at: int
    ) -> list[RecoveredJob]:
        """Takes back the jobs of started leases that their worker, which answered, does not execute: see `orphans`."""
        request_ms = self._settings.embed_request_timeout_ms
        tokens = orphans(self.started(), workers, executed, asked_at, request_ms)
        for token in tokens:
            self._database.write(statement("jobs/expire_lease"), token=token, now=self._now())
        return self.recover_stale() if tokens else []

    def recover_stale(self) -> list[RecoveredJob]:
        """Takes back every job whose lock has run out, in pages, and closes the leases that ran out."""
        recovered: list[RecoveredJob] = []
        unlocked = True
        while True:
            page = self._database.transaction(partial(self._recover_page, unlocked=unlocked))
            recovered += page
            if len(page) < PAGE:
                break
            # Each look for jobs without a lock reads all that are processing.
            unlocked = any(job.unlocked for job in page)
        self._database.transaction(self._close_expired)
        self.forget_texts(job.token for job in recovered)
        return recovered

    def _recover_page(self, tx: ManagedTransaction, *, unlocked: bool) -> list[RecoveredJob]:
        found = rows(
            tx,
            statement("jobs/recover_jobs"),
            limit=PAGE,
            max_crashes=self._settings.embed_job_max_crashes,
            heal_ms=max(HEAL_MS, HEAL_LOCKS * self._settings.embed_job_lock_duration_ms),
            unlocked=unlocked,
            met=attempts.CRASH,
            kept=attempts.KEPT,
            now=self._now(),
        )
        page = [RecoveredJob(**row.data()) for row in found]
        lost = sum(job.failed for job in page)
        tally.add(tx, {"recovered": len(page) - lost, f"failed:{FailureReason.WORKER_LOST}:TRANSIENT": lost})
        return page

    def _close_expired(self, tx: ManagedTransaction) -> None:
        expired = rows(tx, statement("jobs/recover_leases"), now=self._now())
        # What a worker asked for before it was lost is known by nobody: at most what its lease had booked.
        started = [row for row in expired if row["started"]]
        counts = {
            "leases_expired": len(expired),
            f"requests:{tally.UNCONFIRMED}": sum(r["requests"] for r in started),
        }
        tally.add(tx, counts)

    def end_emptied(self, tokens: Iterable[str | None]) -> None:
        """Ends the leases that hold no job any more, after one was taken from each of these (a token for each job)."""
        taken = Counter(token for token in tokens if token)
        if taken:
            rows = [{"token": token, "jobs": taken[token]} for token in sorted(taken)]
            self._database.write(statement("jobs/empty_leases"), taken=rows, now=self._now())

    def forget_texts(self, tokens: Iterable[str | None]) -> None:
        """The texts of these leases are no longer in hand: their twins need not wait."""
        held = sorted({token for token in tokens if token})
        if held:
            self._database.write(statement("jobs/forget_texts"), tokens=held)


def _pages(leases: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """The tokens in their order, in pages of no more than `PAGE` jobs (at least one lease)."""
    page: list[str] = []
    jobs = 0
    for token in sorted(leases):
        if page and jobs + len(leases[token]) > PAGE:
            yield page
            page, jobs = [], 0
        page.append(token)
        jobs += len(leases[token])
    if page:
        yield page
