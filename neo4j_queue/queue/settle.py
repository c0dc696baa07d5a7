"""The settlement transaction: verdicts, released jobs, the end of the lease and the health, all or nothing.

The rule that counts attempts is here: a permanent fault ends its job at once, any other with the last attempt.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from neo4j import ManagedTransaction
from neo4j.exceptions import IncompleteCommit

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, Row, packed, rows
from neo4j_queue.errors import ErrorCategory, Fault, UnembeddableText
from neo4j_queue.jobs import FailureReason, Outcome
from neo4j_queue.queue import attempts, health, tally
from neo4j_queue.queue.backoff import RetryPolicy
from neo4j_queue.queue.leases import FailedJob, Failure, Settlement, Spent, Verdicts

# The fault of a text that is refused before any request.
UNASKED = UnembeddableText.__name__


@dataclass(slots=True)
class SettleTransaction:
    """The verdicts on the jobs of lease `token`, stored in one transaction; see `EmbedQueue.settle`.

    `settled` is what the last run changes with its commit, kept because the answer to a commit can be lost.
    """

    token: str
    verdicts: Verdicts
    spent: Spent | None
    final: bool
    worker_ttl_ms: int
    retry: RetryPolicy
    random: Random
    now: int | None
    tariff: Mapping[str, object] = field(default_factory=dict)
    settled: Settlement | None = field(default=None, init=False)

    @property
    def outcome(self) -> str:
        """How the lease ends, unless its jobs were lost."""
        return "completed" if self.verdicts.completed or self.verdicts.failed else "released"

    def store(self, database: Database) -> Settlement:
        """Stores the verdicts. Safe to repeat after an unknown commit: it answers as the run that took place."""
        before = self.settled
        if before is None:
            try:
                return database.transaction(self.run)
            except IncompleteCommit:  # the answer to the commit was lost
                before = self.settled
        again = database.transaction(self.run)
        if before is None or len(again.lost) < len(self.verdicts):
            return again
        # Nothing was left to do. Only the holder of the token ends its lease with this outcome: that was ours.
        leases = database.read(statement("jobs/lease"), leader=True, token=self.token)
        return before if leases and leases[0]["outcome"] == self.outcome else again

    def run(self, tx: ManagedTransaction) -> Settlement:
        """The work of the transaction. Jobs that the token no longer holds are left alone and reported as lost."""
        waited_ms = self._complete(tx)
        completed = frozenset(waited_ms)
        failed = self._fail(tx)
        released = self._release(tx)
        counts = self._counts(waited_ms, failed, len(released))
        ended = len(completed) + sum(stored.retry_at is None for stored in failed)
        troubled, more_due = self._close(tx, len(completed) + len(failed) + len(released), ended, counts)
        marks = self._marks(completed, failed)
        change = health.record(tx, marks, self.now) if marks else None
        kept = completed | released | {stored.failure.job.id for stored in failed}
        lost = frozenset(self._ids()) - kept
        self.settled = Settlement(completed, failed, released, lost, change, troubled, more_due)
        return self.settled

    def _complete(self, tx: ManagedTransaction) -> dict[str, int]:
        """The jobs that were completed, with how long each has waited (ms)."""
        given = [{"id": c.job_id, "outcome": str(c.outcome)} for c in self.verdicts.completed]
        return {row["id"]: row["waited_ms"] for row in self._store(tx, "jobs/complete", given)}

    def _fail(self, tx: ManagedTransaction) -> tuple[FailedJob, ...]:
        by_id = {failure.job.id: (failure, self._reason(failure)) for failure in self.verdicts.failed}
        given = [
            {
                "id": job_id,
                "reason": reason,
                "delay_ms": self.retry.delay_ms(failure.job.attempts + 1, self.random),
                "max_batch": failure.max_batch,
                "met": attempts.met(failure.fault),
                **_noted(failure.fault),
            }
            for job_id, (failure, reason) in by_id.items()
        ]
        return tuple(
            FailedJob(failure, row["attempts"], None if reason else row["available_at"], reason)
            for row in self._store(tx, "jobs/fail", given, kept=attempts.KEPT)
            for failure, reason in [by_id[row["id"]]]
        )

    def _release(self, tx: ManagedTransaction) -> frozenset[str]:
        fault = self.verdicts.release_fault
        noted = _noted(fault) if fault else {}
        delay_ms = self.verdicts.release_delay_ms
        given: list[dict[str, Any]] = []
        for job_id in self.verdicts.released:
            own = self.verdicts.put_off.get(job_id)
            given.append(
                {
                    "id": job_id,
                    "max_batch": self.verdicts.max_batch.get(job_id),
                    "delay_ms": max(delay_ms, own.delay_ms) if own else delay_ms,
                    "noted": _noted(own.fault) if own else noted,
                }
            )
        stored = self._store(tx, "jobs/release", given)
        return frozenset(row["id"] for row in stored)

    def _store(
        self, tx: ManagedTransaction, name: str, given: Sequence[dict[str, Any]], **more: Any
    ) -> list[Row]:
        """Runs a fenced statement over jobs, in the order of their ids (the lock order); no jobs, no query."""
        if not given:
            return []
        ordered = sorted(given, key=lambda row: str(row["id"]))
        return packed(tx, statement(name), token=self.token, rows=ordered, now=self.now, **more)

    def _close(
        self, tx: ManagedTransaction, settled: int, ended: int, counts: tally.Counts
    ) -> tuple[bool, bool | None]:
        spent = self.spent
        closed = rows(
            tx,
            statement("jobs/close_lease"),
            token=self.token,
            settled=settled,
            ended=ended,
            final=self.final,
            outcome=self.outcome if settled else "lost",
            requests=spent.requests if spent else None,
            est_tokens=spent.est_tokens if spent else None,
            inputs=spent.inputs if spent else None,
            saved=spent.saved if spent else None,
            sent_ms_ago=(spent.sent_ms_ago or 0) if spent else None,
            worker_ttl_ms=self.worker_ttl_ms,
            node=tally.node_of(self.token, self.tariff),
            counts=tally.listed(counts),
            tariff={"provider": None, "model": None, **self.tariff},
            now=self.now,
        )
        if not closed:
            if self.final and len(self.verdicts) and self.settled is None:
                # Its requests are counted where the lease was found to have run out.
                tally.add(tx, {"leases_lost": 1, "lost": len(self.verdicts)})
            return False, None
        return closed[0]["troubled"], closed[0]["more_due"]

    def _counts(
        self, waited_ms: Mapping[str, int], failed: Sequence[FailedJob], released: int
    ) -> tally.Counts:
        """What this settlement adds to the counts of all workers: what was stored, and what was asked for."""
        counts = tally.Counts()
        for done in self.verdicts.completed:
            if done.job_id in waited_ms:
                counts[f"completed:{done.outcome}"] += 1
                if done.outcome is Outcome.EMBEDDED:
                    tally.WAITED_S.count(counts, max(0, waited_ms[done.job_id]) / 1000)
        for stored in failed:
            category = stored.failure.fault.category
            counts[f"failed:{stored.reason}:{category}" if stored.reason else f"retried:{category}"] += 1
        fault = self.verdicts.release_fault
        counts[f"released:{fault.kind if fault else 'no_fault'}"] += released
        counts["lost"] += len(self.verdicts) - len(waited_ms) - len(failed) - released
        if self.spent is not None:
            counts["inputs"] += self.spent.inputs
            counts.add(tally.spending(self.spent.est_tokens, self.tariff.get("price")))
            if self.spent.measured is not None:
                self.spent.measured.count(counts)
        return counts

    def _reason(self, failure: Failure) -> FailureReason | None:
        if failure.fault.category is ErrorCategory.PERMANENT:
            return FailureReason.PERMANENT_ERROR
        if failure.job.attempts + 1 >= failure.job.max_attempts:
            return FailureReason.MAX_RETRIES_EXCEEDED
        return None

    def _marks(self, completed: frozenset[str], failed: Sequence[FailedJob]) -> list[str]:
        """The verdicts for the health window: vectors made, and attempts counted.

        Left out is what says nothing about the provider: a copied vector must not end a streak of failures, and a blank
        or too long text must not begin one.
        """
        made = sum(
            c.outcome is Outcome.EMBEDDED and not c.copied and c.job_id in completed
            for c in self.verdicts.completed
        )
        faults = [stored.failure.fault for stored in failed if stored.failure.fault.error_type != UNASKED]
        return _mixed([f"{fault.category}:{fault.error_type}" for fault in faults], [health.OK] * made)

    def _ids(self) -> Iterator[str]:
        yield from (completion.job_id for completion in self.verdicts.completed)
        yield from (failure.job.id for failure in self.verdicts.failed)
        yield from self.verdicts.released


def _mixed(*groups: Sequence[str]) -> list[str]:
    """Marks of several kinds, spread evenly: the jobs of a batch have no order, so ten bad texts among ninety good ones
    are not ten failures in a row."""
    placed = [((n + 0.5) / len(group), mark) for group in groups for n, mark in enumerate(group)]
    return [mark for _, mark in sorted(placed, key=lambda place_and_mark: place_and_mark[0])]


def _noted(fault: Fault) -> dict[str, Any]:
    return {
        "error": fault.message,
        "error_category": str(fault.category),
        "error_type": fault.error_type,
        "error_status": fault.status,
        "error_stack": fault.stack,
    }
