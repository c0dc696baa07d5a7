"""The queue: one public method per transition of a job, each in one transaction on the jobs database.

The state machine and its invariants are drawn in docs/design/state-machine.md. Every change of a job after its
lease is fenced by the lease token: zero rows changed means that the lease was lost, and the caller stops quietly.
"""

import random
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from neo4j.exceptions import DriverError, IncompleteCommit, Neo4jError

from neo4j_queue import pauses
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, the_row
from neo4j_queue.embedders import profile_of
from neo4j_queue.errors import Fault
from neo4j_queue.errors.explain import explain
from neo4j_queue.jobs import EnqueueResult, JobRequest, Outcome
from neo4j_queue.queue import health, listing, retention, tally
from neo4j_queue.queue.backoff import RetryPolicy
from neo4j_queue.queue.batching import Bounds
from neo4j_queue.queue.budget import RateBudget, RateLimits
from neo4j_queue.queue.census import Census
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.queue.control import Control, Resumed
from neo4j_queue.queue.dead_letters import DeadLetters
from neo4j_queue.queue.enqueue import EnqueueTransaction, Key, key_of, merged, one_for_each, pages
from neo4j_queue.queue.failed_jobs import Selection
from neo4j_queue.queue.lease import LeaseTransaction
from neo4j_queue.queue.leases import (
    Completion,
    Failure,
    LeasedJob,
    LeaseResult,
    QueueStatus,
    RateUsed,
    RecoveredJob,
    Settlement,
    Spent,
    Start,
    Verdicts,
)
from neo4j_queue.queue.locks import Locks
from neo4j_queue.queue.prices import tariff_of
from neo4j_queue.queue.retry_failed import Retried
from neo4j_queue.queue.settle import SettleTransaction
from neo4j_queue.queue.ticks import Ticks
from neo4j_queue.settings import Settings

T = TypeVar("T")

# Jobs per transaction where a call may carry any number: the round trip is long paid for at a thousand, and the
# locks are held for well under a second.
PAGE = 1_000


class EmbedQueue:
    """The jobs database as a queue.

    `mark`: the fingerprint of the settings (`checks.in_force`); None = not compared. While others are in force, nothing
    is leased or started. `clock` is for tests: it gives the epoch ms that all statements of a call use instead of the
    server's clock.
    Methods raise the driver's errors when the database is away; nothing waits longer than `database` allows.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        clock: Clock = server_clock,
        rng: random.Random | None = None,
        mark: str | None = None,
    ) -> None:
        self.mark = mark
        self.database = database
        self.control = Control(database, clock)
        self.locks = Locks(database, settings, clock)
        self.dead = DeadLetters(database, settings, clock)
        self.census = Census(database, settings.embed_job_heartbeat_interval_ms, clock)
        self._clock = clock
        self._random = rng or random.Random()
        self._retry = RetryPolicy.from_settings(settings)
        self.limits = RateLimits(
            settings.embedding_rate_limit_tokens,
            settings.embedding_rate_limit_model_tokens,
            settings.embedding_rate_limit_interval,
            settings.embedding_provider_window,
        )
        self.bounds = Bounds.of(
            profile_of(settings),
            settings.embed_job_max_crashes,
            in_parts=settings.embed_long_texts == "average",
        )
        self.ticks = Ticks(database, self.limits, clock)
        self._tariff = tariff_of(settings)
        self.settings = settings

    @classmethod
    def connect(cls, settings: Settings, *, mark: str | None = None) -> Self:
        """A queue with a driver of its own; use it as a context manager, or `close` it."""
        return cls(Database(settings.jobs_address()), settings, mark=mark)

    def close(self) -> None:
        """Closes the driver."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- into the queue ------------------------------------------------------------------------------------

    def enqueue(
        self,
        requests: JobRequest | Iterable[JobRequest],
        *,
        leave_failed: bool = False,
        keep_priority: bool = False,
    ) -> list[EnqueueResult]:
        """One result per request, in their order: `created`, `requeued` or `duplicate`, with the job's id.

        Takes one or thousands. A job that failed is queued again as if new (with `leave_failed` it stays, and the
        answer is `left_failed`), a completed one only with `force`; a priority is raised, never lowered (with
        `keep_priority` only that of a job that is queued again). Requests that repeat a key within the call get the
        first one's job. Raises ValueError, and writes nothing, when there can be no job for a request: see
        `JobRequest.refusal`.
        """
        asked = [requests] if isinstance(requests, JobRequest) else list(requests)
        for request in asked:
            if refusal := request.refusal():
                raise ValueError(refusal)
        found: dict[Key, EnqueueResult] = {}
        for page in pages(merged(asked), PAGE):
            enqueueing = EnqueueTransaction(
                page, self._retry.max_attempts, leave_failed, keep_priority, self._clock()
            )
            # A repeat answers as the first would have: the ids were drawn before.
            stored = _repeatable(partial(self.database.transaction, enqueueing.run))
            found.update(zip(map(key_of, page), stored, strict=True))
        return one_for_each(asked, found)

    # -- lease and start -----------------------------------------------------------------------------------

    def lease(self, owner: str, *, batches: int | None = None, most_jobs: int | None = None) -> LeaseResult:
        """Leases due jobs, one `Lease` per planned provider request.

        `batches` is the number of free slots that the caller vouches for; without it the census decides. `most_jobs`
        bounds one transaction: `more` of the result asks for the next. Halt, pause and the rate budget are judged in
        the same transaction, under the control lock.
        """
        leasing = LeaseTransaction(
            owner=owner,
            limits=self.limits,
            bounds=self.bounds,
            free=batches,
            worker_ttl_ms=self.census.worker_ttl_ms,
            request_ms=self.settings.embed_request_timeout_ms,
            deadline_ms=self.settings.embed_job_start_deadline_ms,
            now=self._clock(),
            most_jobs=most_jobs,
            mark=self.mark,
        )
        try:
            return self.database.transaction(leasing.run)
        except IncompleteCommit:
            # The answer to the commit was lost: the tokens, which no other call can have drawn, tell.
            given = tuple(
                lease
                for lease in leasing.planned
                if self.database.read(statement("jobs/lease"), leader=True, token=lease.token)
            )
            if not given:
                raise
            return LeaseResult(given)

    def start(
        self, token: str, job_ids: Sequence[str], *, worker: str = "", start_id: str | None = None
    ) -> Start:
        """Begins the work of a lease; only the first start of an open lease wins.

        `refused` is `lost` (not ours any more, or started before); with `halted`, `paused`, `expired` and
        `other settings` the lease is to be given back. A start whose answer was lost may be repeated with the same
        `start_id`.
        """
        begin = partial(
            self.database.write,
            statement("jobs/start"),
            token=token,
            ids=list(job_ids),
            lock_ms=self.settings.embed_job_lock_duration_ms,
            worker=worker,
            mark=self.mark,
            tariff=self._tariff,
            start_id=start_id or secrets.token_hex(8),
            now=self._clock(),
        )
        found = _repeatable(begin)  # the lease knows by the start_id whose start took place
        if not found:
            self.database.transaction(lambda tx: tally.add(tx, {"stale_messages": 1}))
            return Start((), "lost")
        row = found[0]
        if row["blocked"]:
            return Start((), row["blocked"])
        return Start(tuple(LeasedJob(**job) for job in row["jobs"]), probe=row["probe"])

    def displaced(self) -> bool:
        """True if other settings than ours are in force: then none of our entities is this queue's business."""
        in_force = the_row(self.database.read(statement("control/look_in_force")))["in_force"]
        return None not in (self.mark, in_force) and in_force != self.mark

    def heartbeat(self, leases: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """See `Locks.heartbeat`."""
        return self.locks.heartbeat(leases)

    def reserve(self, token: str, requests: int = 1, *, est_tokens: int = 0, probe: bool = False) -> bool:
        """Books further provider requests on a running lease, if the rate budget allows all of them now; while the
        provider is in trouble, only on that of a `probe`."""
        return self.database.transaction(
            lambda tx: self._rate_budget().more(tx, token, requests, est_tokens, probe=probe)
        )

    def book_query(self, est_tokens: int) -> bool:
        """Books the provider request of a search on the rate budget, before all leases; False = no room now.

        Where nothing is limited, by settings or by what the provider said, it is only noted: to judge it would mean to
        wait for the lock of the lease transactions.
        """
        budget = self._rate_budget()
        if self.limits.unlimited and self.control.provider_report().unlimited:
            self.database.transaction(lambda tx: budget.note_query(tx, est_tokens))
            return True
        return self.database.transaction(lambda tx: budget.query(tx, est_tokens))

    def rate_used(self) -> RateUsed:
        """What has been used of the rate limits in the last interval, for people to see."""
        found = self.database.read(
            statement("jobs/rate_used"), interval_ms=self.limits.window_ms, now=self._clock()
        )
        return RateUsed(**the_row(found).data())

    def _rate_budget(self) -> RateBudget:
        request_ms = self.settings.embed_request_timeout_ms
        return RateBudget(self.limits, self.census.worker_ttl_ms, request_ms, self._clock(), self._tariff)

    # -- the end of a lease --------------------------------------------------------------------------------

    def complete(self, token: str, completions: Sequence[Completion | str]) -> Settlement:
        """Ends jobs as `completed`; a bare id means outcome `embedded`."""
        done = [c if isinstance(c, Completion) else Completion(c, Outcome.EMBEDDED) for c in completions]
        return self.settle(token, Verdicts(completed=done), final=False)

    def fail(self, token: str, failures: Sequence[Failure]) -> Settlement:
        """Counts an attempt against jobs: back to `pending` after their back-off, or `failed`."""
        return self.settle(token, Verdicts(failed=failures), final=False)

    def release(self, token: str, job_ids: Sequence[str], fault: Fault | None = None) -> int:
        """Gives own jobs back unjudged, due at once; returns how many. No ids, no query."""
        if not job_ids:
            return 0
        return len(self.settle(token, Verdicts(released=job_ids, release_fault=fault), final=False).released)

    def settle(
        self, token: str, verdicts: Verdicts, *, spent: Spent | None = None, final: bool = True
    ) -> Settlement:
        """Stores everything that became of a lease in one transaction: verdicts, the lease's end, health.

        `final` ends the lease even when some of its jobs had no verdict (they were lost). `spent` says what was
        really requested; None keeps what the lease had reserved.
        """
        return self.settling(token, verdicts, spent=spent, final=final).store(self.database)

    def settling(
        self, token: str, verdicts: Verdicts, *, spent: Spent | None = None, final: bool = True
    ) -> SettleTransaction:
        """A settlement that is not stored yet, for a caller who may be interrupted while it is."""
        return SettleTransaction(
            token,
            verdicts,
            spent,
            final,
            self.census.worker_ttl_ms,
            self._retry,
            self._random,
            self._clock(),
            self._tariff,
        )

    # -- recovery and operators ----------------------------------------------------------------------------

    def recover_stale(self) -> list[RecoveredJob]:
        """See `Locks.recover_stale`."""
        return self.locks.recover_stale()

    def release_jobs(self, job_ids: Sequence[str], tokens: Collection[str] | None = None) -> list[str]:
        """Takes running jobs back (an operator's act) from any holder, or from the leases `tokens` only; their ids."""
        held = None if tokens is None else sorted(tokens)
        released: list[str] = []
        for page in pages(sorted(set(job_ids)), PAGE):
            rows = self.database.write(statement("jobs/release_jobs"), ids=page, tokens=held)
            self.locks.end_emptied(row["token"] for row in rows)
            released += [row["id"] for row in rows]
        return released

    def retry_failed(
        self,
        category: str | None = None,
        reason: str | None = None,
        status: int | None = None,
        limit: int | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """How many jobs `retry` queued again."""
        return self.retry(category, reason, status, limit, ids).jobs

    def retry(
        self,
        category: str | None = None,
        reason: str | None = None,
        status: int | None = None,
        limit: int | None = None,
        ids: Sequence[str] | None = None,
    ) -> Retried:
        """Queues failed jobs again as if new, by error category, failure reason, HTTP status or id.

        `dead.replay` selects by more, and `dead` looks through them.
        """
        return self.dead.replay(Selection(category, reason, status), limit, ids)

    def cleanup(self, most: int | None = None) -> retention.CleanupReport:
        """Removes ended jobs past `EMBED_JOB_RETENTION_DAYS`; see `retention.cleanup`."""
        days = self.settings.embed_job_retention_days
        if days is None:
            raise ValueError("EMBED_JOB_RETENTION_DAYS is not set")
        return retention.cleanup(
            self.database,
            retention_days=days,
            archive_days=self.settings.embed_job_archive_days,
            most=most,
            now=self._clock(),
        )

    def pause(self, seconds: float, reason: str) -> int:
        """See `Control.pause`. Raises `ValueError` for more than a year."""
        return self.control.pause(pauses.allowed(seconds), reason)

    def halt(self, reason: str) -> bool:
        """See `Control.halt`."""
        return self.control.halt(reason)

    def resume(self, *, halt: bool = True, pause: bool = True) -> Resumed:
        """See `Control.resume`."""
        return self.control.resume(halt=halt, pause=pause)

    # -- looking -------------------------------------------------------------------------------------------

    def status(self) -> QueueStatus:
        """The queue in numbers, plain integers; zeros on an empty database."""
        (row,) = self.database.read(statement("jobs/status"), now=self._clock())
        control = self.control.state()
        oldest, last_lock = row["oldest_due_at"], row["last_lock_until"]
        counts = {
            name: int(row[name])
            for name in ("pending", "delayed", "processing", "started", "completed", "failed", "total")
        }
        return QueueStatus(
            **counts,
            oldest_pending_seconds=None if oldest is None else (row["now"] - oldest) / 1000,
            halted=control.halted,
            halted_reason=control.halted_reason,
            halted_at=control.halted_at if control.halted else None,
            paused_until=control.paused_until if control.paused else None,
            pause_reason=control.pause_reason if control.paused else None,
            workers=tuple(self.census.workers()),
            locked_seconds=None if last_lock is None else max(0, last_lock - row["now"]) / 1000,
            now=row["now"],
            found_inputs=control.found_inputs,
            inputs_refused=control.found_inputs is not None
            and control.found_inputs == control.refused_inputs,
            trouble=control.trouble,
            silent=tuple(self.census.silent()),
        )

    def unwritable(self) -> str | None:
        """Why the jobs database takes no writes (it is read-only, or its disk is full); None if it takes them."""
        try:
            self.database.write(statement("server/try_write"))
        except (Neo4jError, DriverError) as error:
            return explain(error)
        return None

    def ended_within(self, lately_ms: int) -> bool:
        """True if a batch ended jobs within so many ms, in whatever way."""
        found = self.database.read(statement("health/ended_lately"), lately_ms=lately_ms, now=self._clock())
        return bool(the_row(found)["found"])

    def health(self) -> health.Health:
        """See `health.read`."""
        return health.read(self.database, self._clock())

    def jobs(
        self, *, status: str | None = None, entity_uid: str | None = None, limit: int = 50, since: int = 0
    ) -> list[listing.Job]:
        """Jobs with all their properties, newest first: see `listing.jobs`."""
        return listing.jobs(self.database, status, entity_uid, limit, since)

    def job(self, job_id: str) -> dict[str, Any] | None:
        """One job with all its properties."""
        found = self.database.read(statement("jobs/get"), id=job_id)
        return listing.public(found[0]["job"]) if found else None

    def states_of(self, requests: Sequence[JobRequest]) -> dict[tuple[str, str], str]:
        """The status of the jobs that stand for these requests, by (entity_uid, version)."""
        if not requests:
            return {}
        keys = [{"entity_uid": r.entity_uid, "model": r.model, "version": r.version} for r in requests]
        found = self.database.read_packed(statement("jobs/of_entities"), leader=True, keys=keys)
        return {(row["entity_uid"], row["version"]): row["status"] for row in found}


def _repeatable(act: Callable[[], T]) -> T:
    """Does what may be done twice: again, when it is not known whether the commit took place."""
    try:
        return act()
    except IncompleteCommit:
        return act()
