"""The queue in plain Python: what the state machine test expects of the real one.

It knows the rules of docs/design/state-machine.md and nothing of Cypher. What the real queue is free to choose
(ids, tokens, which of several due jobs) it takes over after checking that the choice is allowed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Rules:
    """The settings that the model needs. Times in ms."""

    batch_size: int
    max_attempts: int
    max_crashes: int
    lock_ms: int
    start_deadline_ms: int
    base_delay_ms: int
    max_delay_ms: int
    retention_ms: int
    # So long after its last crash a job has none any more.
    heal_ms: int
    # Every n-th lease transaction may begin with any priority.
    fair_every: int


@dataclass
class Job:
    """A job node, without what the rules do not touch."""

    id: str
    key: str
    priority: int
    available_at: int
    status: str = "pending"
    attempts: int = 0
    crashes: int = 0
    crashed_at: int | None = None
    lease_token: str | None = None
    lock_owner: str | None = None
    lock_until: int | None = None
    started_at: int | None = None
    processed_at: int | None = None
    outcome: str | None = None
    failure_reason: str | None = None
    error_category: str | None = None

    def pending(self) -> None:
        """Waits again: nobody holds it."""
        self.status = "pending"
        self._let_go()

    def ended(self, status: str, now: int) -> None:
        """Done, one way or the other."""
        self.status, self.processed_at = status, now
        self._let_go(keep_start=status == "completed")

    def as_new(self, now: int) -> None:
        """Queued again: the past is forgotten."""
        self.pending()
        self.available_at = now
        self.attempts = self.crashes = 0
        self.crashed_at = None
        self.processed_at = self.outcome = self.failure_reason = self.error_category = None

    def _let_go(self, keep_start: bool = False) -> None:
        self.lease_token = self.lock_owner = self.lock_until = None
        if not keep_start:
            self.started_at = None


@dataclass
class Lease:
    """A lease node."""

    token: str
    owner: str
    left: int
    lock_until: int
    open: bool = True
    started_at: int | None = None
    finished_at: int | None = None


@dataclass(frozen=True)
class Wish:
    """A request for a job."""

    key: str
    priority: int
    force: bool


class NotAllowed(AssertionError):
    """The real queue did what the rules forbid."""


@dataclass
class QueueModel:
    """All jobs and leases, the switches, and the clock."""

    rules: Rules
    now: int
    jobs: dict[str, Job] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    archived: set[str] = field(default_factory=set)
    halted: bool = False
    paused_until: int = 0
    turn: int = 0
    last_seq: int = -1

    # -- into the queue --------------------------------------------------------------------------------------

    def enqueue(self, wishes: Sequence[Wish], answers: Sequence[tuple[str, str]]) -> None:
        """`answers`: the id and the outcome that the real queue gave for each wish."""
        merged: dict[str, Wish] = {}
        for wish in wishes:
            known = merged.setdefault(wish.key, wish)
            merged[wish.key] = Wish(wish.key, max(known.priority, wish.priority), known.force or wish.force)
        ids = {wish.key: answer_id for wish, (answer_id, _) in zip(wishes, answers, strict=True)}
        expected = {key: self._enqueue_one(wish, ids[key]) for key, wish in merged.items()}
        seen: set[str] = set()
        for wish, (answer_id, outcome) in zip(wishes, answers, strict=True):
            wanted = "duplicate" if wish.key in seen else expected[wish.key]
            allow(outcome == wanted, f"{wish} was {outcome}, not {wanted}")
            allow(self.jobs[answer_id].key == wish.key, f"{wish} got the job of another key")
            seen.add(wish.key)

    def _enqueue_one(self, wish: Wish, job_id: str) -> str:
        job = next((job for job in self.jobs.values() if job.key == wish.key), None)
        if job is None:
            self.jobs[job_id] = Job(job_id, wish.key, wish.priority, self.now)
            return "created"
        job.priority = max(job.priority, wish.priority)
        if job.status == "failed" or (job.status == "completed" and wish.force):
            job.as_new(self.now)
            return "requeued"
        return "duplicate"

    # -- lease, start, heartbeat -----------------------------------------------------------------------------

    def due(self) -> list[Job]:
        """What may be leased now."""
        return [job for job in self.jobs.values() if job.status == "pending" and job.available_at <= self.now]

    def is_begun(self, token: str) -> bool:
        """Is a lease open, and its work being done?"""
        lease = self.leases.get(token)
        return lease is not None and lease.open and lease.started_at is not None

    def running(self) -> list[Job]:
        """What somebody holds."""
        return [job for job in self.jobs.values() if job.status == "processing"]

    def lease(self, owner: str, batches: int, given: Sequence[tuple[str, Sequence[str]]]) -> None:
        """`given`: token and job ids of each lease that the real queue made."""
        if self.halted or self.paused_until > self.now:
            allow(not given, "leased while halted or paused")
            return
        due = self.due()
        allow(bool(given) == bool(due), f"{len(due)} due jobs, {len(given)} leases")
        allow(len(given) <= batches, "more leases than slots")
        if not given:
            return
        self.turn += 1
        taken = [job_id for _, ids in given for job_id in ids]
        allow(len(set(taken)) == len(taken), "a job leased twice")
        allow(set(taken) <= {job.id for job in due}, "leased what was not due")
        for _, ids in given:
            self._check_batch([self.jobs[job_id] for job_id in ids])
        if self.turn % self.rules.fair_every:
            self._check_order([self.jobs[job_id] for job_id in taken], due)
        for token, ids in given:
            self._take(token, owner, ids)

    def _check_batch(self, jobs: Sequence[Job]) -> None:
        allow(0 < len(jobs) <= self.rules.batch_size, "a batch of the wrong size")
        crashes = {job.crashes for job in jobs}
        allow(len(crashes) == 1, "suspects of a worker's death among others")
        allow(len(jobs) == 1 or crashes.pop() < self.rules.max_crashes, "the last chance is taken alone")

    def _check_order(self, taken: Sequence[Job], due: Sequence[Job]) -> None:
        """Among jobs with as many crashes, nobody is passed over by one that is less urgent or was due later."""
        ids = {job.id for job in taken}
        for left in due:
            if left.id not in ids:
                worse = [
                    job
                    for job in taken
                    if job.crashes == left.crashes
                    and (-job.priority, job.available_at) > (-left.priority, left.available_at)
                ]
                allow(not worse, f"{left} was passed over for {worse}")

    def _take(self, token: str, owner: str, ids: Sequence[str]) -> None:
        seq = int(token.split("-")[0])
        allow(seq > self.last_seq, f"token {token} does not rise above {self.last_seq}")
        allow(token not in self.leases, "a token given twice")
        self.last_seq = seq
        until = self.now + self.rules.start_deadline_ms
        self.leases[token] = Lease(token, owner, len(ids), until)
        for job_id in ids:
            job = self.jobs[job_id]
            job.status, job.lease_token, job.lock_owner, job.lock_until = "processing", token, owner, until

    def start(self, token: str, ids: Sequence[str]) -> tuple[str | None, set[str]]:
        """Why it is refused (or None), and the jobs that may be worked on."""
        lease = self.leases.get(token)
        if lease is None or not lease.open or lease.started_at is not None:
            return "lost", set()
        if self.halted:
            return "halted", set()
        if self.paused_until > self.now:
            return "paused", set()
        if lease.lock_until < self.now:
            return "expired", set()
        lease.started_at, lease.lock_until = self.now, self.now + self.rules.lock_ms
        held = self._held(token, ids)
        for job in held:
            job.started_at, job.lock_until = self.now, lease.lock_until
        return None, {job.id for job in held}

    def heartbeat(self, beats: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """How many jobs of each living lease have their locks extended."""
        extended: dict[str, int] = {}
        for token, ids in beats.items():
            lease = self.leases.get(token)
            if lease is None or not lease.open or lease.started_at is None:
                continue
            lease.lock_until = self.now + self.rules.lock_ms
            held = self._held(token, ids)
            for job in held:
                job.lock_until = lease.lock_until
            if held:
                extended[token] = len(held)
        return extended

    def _held(self, token: str, ids: Iterable[str]) -> list[Job]:
        jobs = (self.jobs.get(job_id) for job_id in ids)
        return [job for job in jobs if job and job.status == "processing" and job.lease_token == token]

    # -- the end of a lease ----------------------------------------------------------------------------------

    def settle(
        self,
        token: str,
        completed: Sequence[str],
        failed: Sequence[tuple[str, str]],
        released: Sequence[str],
        *,
        final: bool,
    ) -> set[str]:
        """The ids of the jobs that took what was given; `failed` says id and category."""
        lease = self.leases.get(token)
        if lease is None:
            return set()
        changed: set[str] = set()
        for job in self._started(token, completed):
            job.ended("completed", self.now)
            job.outcome, job.error_category = "embedded", None
            changed.add(job.id)
        categories = dict(failed)
        for job in self._started(token, categories):
            self._fail(job, categories[job.id])
            changed.add(job.id)
        for job in self._held(token, released):
            job.pending()
            changed.add(job.id)
        if lease.open:
            lease.left -= len(changed)
            if final or lease.left <= 0:
                lease.open, lease.finished_at = False, self.now
        return changed

    def _started(self, token: str, ids: Iterable[str]) -> list[Job]:
        return [job for job in self._held(token, ids) if job.started_at is not None]

    def _fail(self, job: Job, category: str) -> None:
        job.attempts += 1
        job.crashes, job.crashed_at = 0, None
        job.error_category = category
        if category == "PERMANENT" or job.attempts >= self.rules.max_attempts:
            job.ended("failed", self.now)
            job.failure_reason = "permanent_error" if category == "PERMANENT" else "max_retries_exceeded"
            return
        job.pending()
        delay = self.rules.base_delay_ms * 2 ** (job.attempts - 1)
        job.available_at = self.now + min(delay, self.rules.max_delay_ms)

    # -- recovery and operators ------------------------------------------------------------------------------

    def recover(self) -> dict[str, bool]:
        """The ids of the jobs taken back, and whether each had started."""
        recovered: dict[str, bool] = {}
        for job in self.jobs.values():
            if job.status != "processing" or job.lock_until is None or job.lock_until >= self.now:
                continue
            recovered[job.id] = job.started_at is not None
            if job.crashed_at is not None and job.crashed_at < self.now - self.rules.heal_ms:
                job.crashes = 0
            if recovered[job.id]:
                job.crashes, job.crashed_at = job.crashes + 1, self.now
            if recovered[job.id] and job.crashes > self.rules.max_crashes:
                job.ended("failed", self.now)
                job.failure_reason = "worker_lost"
            else:
                job.pending()
        for lease in self.leases.values():
            if lease.open and lease.lock_until < self.now:
                lease.open, lease.finished_at = False, self.now
        return recovered

    def release_jobs(self, ids: Iterable[str]) -> set[str]:
        """The ids of the jobs that were running."""
        jobs = [job for job in map(self.jobs.get, ids) if job and job.status == "processing"]
        for job in jobs:
            lease = self.leases.get(job.lease_token or "")
            job.pending()
            if lease is not None and lease.open:
                lease.left -= 1
        for lease in self.leases.values():
            if lease.open and lease.left <= 0:
                lease.open, lease.finished_at = False, self.now
        return {job.id for job in jobs}

    def retry_failed(self, category: str | None) -> int:
        """How many failed jobs are queued again."""
        failed = [
            job
            for job in self.jobs.values()
            if job.status == "failed" and category in (None, job.error_category)
        ]
        for job in failed:
            job.as_new(self.now)
        return len(failed)

    def cleanup(self) -> int:
        """How many jobs are removed."""
        cutoff = self.now - self.rules.retention_ms
        old = [
            job for job in self.jobs.values() if job.processed_at is not None and job.processed_at < cutoff
        ]
        for job in old:
            allow(job.status in ("completed", "failed"), "an unfinished job has an end")
            if job.status == "failed":
                self.archived.add(job.id)
            del self.jobs[job.id]
        for lease in list(self.leases.values()):
            if lease.finished_at is not None and lease.finished_at < self.now - DAY_MS:
                del self.leases[lease.token]
        return len(old)

    # -- as the database shows it ----------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """Everything, in the shape of the test's snapshot of the database."""
        return {
            "jobs": {job.id: asdict(replace(job)) for job in self.jobs.values()},
            "leases": {lease.token: asdict(lease) for lease in self.leases.values()},
            "archived": set(self.archived),
            "halted": self.halted,
        }


def allow(condition: bool, otherwise: str) -> None:
    """Raises `NotAllowed` unless the condition holds."""
    if not condition:
        raise NotAllowed(otherwise)
