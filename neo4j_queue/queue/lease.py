"""The lease transaction: judge, read the candidates, plan the batches, grant the leases."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import packed, rows
from neo4j_queue.jobs import PRIORITIES, PRIORITY_BACKFILL, PRIORITY_DEFAULT
from neo4j_queue.queue.batching import Batch, Bounds, Candidate, plan
from neo4j_queue.queue.budget import (
    FAIR_EVERY,
    NO_BUDGET,
    TEXTS_APART,
    Allowance,
    LeaseFacts,
    RateBudget,
    RateLimits,
    judge,
    order_for_probes,
    order_of_priorities,
)
from neo4j_queue.queue.leases import Lease, LeaseResult

NOTHING_DUE = "nothing due"
# All due jobs have texts that another lease holds.
TWINS_RUN = "the same texts are being embedded"
# A few jobs are due, and the requests of the window are scarce: they wait a little for others to share a request.
GATHERING = "gathering"

# Look-ahead, as a multiple of the batch: jobs whose text another lease holds are skipped, so that ten thousand
# duplicates at the head do not block the rest, and the cost stays bounded.
REACH = 4


@dataclass(slots=True)
class LeaseTransaction:
    """One attempt to lease. `free` is the number of slots the caller vouches for; None = ask the census. `most_jobs`
    bounds the jobs of this transaction (at least one batch; None = all that the slots take).

    `planned` keeps the leases of the last run, because the answer to a commit can be lost.
    """

    owner: str
    limits: RateLimits
    bounds: Bounds
    free: int | None
    worker_ttl_ms: int
    request_ms: int
    deadline_ms: int
    now: int | None
    most_jobs: int | None = None
    mark: str | None = None
    planned: list[Lease] = field(default_factory=list)

    def run(self, tx: ManagedTransaction) -> LeaseResult:
        """The work of the transaction, under the control lock that the first statement takes."""
        self.planned.clear()
        facts = self._facts(tx)
        if facts.found_inputs is not None:
            self.bounds = self.bounds.within(facts.found_inputs)
        allowance = judge(facts, self.limits, self.free)
        if allowance.batches <= 0:
            return LeaseResult((), allowance.reason)
        allowed = allowance.batches
        if self.most_jobs is not None:
            allowance = replace(allowance, batches=min(allowed, max(1, self.most_jobs // self.bounds.inputs)))
        due, waiting = self._due(tx, facts, allowance)
        if not due:
            return LeaseResult((), TWINS_RUN if waiting else allowance.backfill_reason or NOTHING_DUE)
        if allowance.tokens is not None:
            due = _affordable(due, allowance, idle=facts.spent_tokens == 0)
        batches = self._chosen(due, allowance)
        if not batches:
            return LeaseResult((), NO_BUDGET if due else allowance.backfill_reason or NO_BUDGET)
        jobs = {candidate.id: candidate for candidate in due}
        if len(batches) == 1 and self._may_linger([jobs[n] for n in batches[0].ids], facts.now, allowance):
            return LeaseResult((), GATHERING)
        self.planned += [
            Lease(
                f"{facts.seq + n}-{secrets.token_hex(4)}",
                batch.ids,
                batch.est_tokens,
                backfill=all(jobs[job_id].backfill for job_id in batch.ids),
            )
            for n, batch in enumerate(batches, start=1)
        ]
        more = len(batches) == allowance.batches < allowed
        return LeaseResult(self._grant(tx, facts, allowance, batches), more=more)

    def _facts(self, tx: ManagedTransaction) -> LeaseFacts:
        budget = RateBudget(self.limits, self.worker_ttl_ms, self.request_ms, self.now)
        return budget.facts(tx, texts=True, mark=self.mark)

    def _due(
        self, tx: ManagedTransaction, facts: LeaseFacts, allowance: Allowance
    ) -> tuple[list[Candidate], int]:
        """The jobs that can be leased, and how many jobs were skipped because another lease holds their text.

        A text in hand is not requested a second time: its twins find the vector afterwards.
        """
        limit = 1 if allowance.probe else allowance.batches * self.bounds.inputs
        busy = facts.texts_in_hand
        seen = self._candidates(tx, facts, allowance, limit=limit, reach=limit)
        due = _placed([candidate for candidate in seen if candidate.text not in busy], self.bounds)
        waiting = len(seen) - len(due)
        if waiting and len(seen) == limit:
            passed = busy.union(candidate.text for candidate in seen)
            due += self._candidates(
                tx, facts, allowance, limit=waiting, reach=limit * REACH, passed=sorted(passed)
            )
        return due, waiting

    def _chosen(self, due: Sequence[Candidate], allowance: Allowance) -> list[Batch]:
        """The batches to lease, in the order of their first jobs; those beyond `allowance.backfills` of edits alone."""
        batches = plan(due, self.bounds)[: allowance.batches]
        if allowance.backfills is None:
            return batches
        chosen = batches[: allowance.backfills]
        taken = {job_id for batch in chosen for job_id in batch.ids}
        edits = [each for each in due if not each.backfill and each.id not in taken]
        return chosen + plan(edits, self.bounds)[: allowance.batches - len(chosen)]

    def _may_linger(self, jobs: Sequence[Candidate], now: int, allowance: Allowance) -> bool:
        """True if this one batch has room, and its jobs can wait a little for others to share its request."""
        if len(jobs) >= self.bounds.inputs_after(jobs[0].crashes):
            return False
        if any(job.priority > PRIORITY_DEFAULT for job in jobs):
            return False
        return now - min(job.due_at for job in jobs) < allowance.linger_ms

    def _candidates(
        self,
        tx: ManagedTransaction,
        facts: LeaseFacts,
        allowance: Allowance,
        *,
        limit: int,
        reach: int,
        passed: Sequence[str] = (),
    ) -> list[Candidate]:
        """The first `limit` due jobs of other texts than `passed`, among the first `reach` of each priority."""
        order = order_of_priorities(facts.turn + 1)
        if allowance.probe:
            order = order_for_probes(facts.trouble_rounds)
        if allowance.backfills == 0:
            order = tuple(priority for priority in order if priority > PRIORITY_BACKFILL)
        found = packed(
            tx,
            statement("jobs/lease_candidates"),
            priorities=list(order),
            limit=limit,
            reach=reach,
            passed=passed,
            now=facts.now,
        )
        charge = self.bounds.charge
        return [
            Candidate(
                row["id"],
                charge(row["est_tokens"], facts.token_factor),
                row["crashes"],
                row["text"],
                row["priority"],
                row["due_at"],
                row["max_batch"],
            )
            for row in found
        ]

    def _grant(
        self, tx: ManagedTransaction, facts: LeaseFacts, allowance: Allowance, batches: Sequence[Batch]
    ) -> tuple[Lease, ...]:
        planned = [
            {
                "token": lease.token,
                "ids": list(lease.job_ids),
                "requests": 1,
                "est_tokens": lease.est_tokens,
                "texts": TEXTS_APART.join(batch.texts),
                "backfill": lease.backfill or None,
            }
            for lease, batch in zip(self.planned, batches, strict=True)
        ]
        granted = rows(
            tx,
            statement("jobs/lease_grant"),
            leases=planned,
            owner=self.owner,
            deadline_ms=self.deadline_ms,
            probe=allowance.probe or None,
            turn=(facts.turn + 1) % (FAIR_EVERY * len(PRIORITIES)),
            now=facts.now,
        )
        ids = {row["token"]: tuple(row["ids"]) for row in granted}
        return tuple(replace(lease, job_ids=ids[lease.token]) for lease in self.planned if lease.token in ids)


def _placed(candidates: list[Candidate], bounds: Bounds) -> list[Candidate]:
    """The candidates that a plan has room for: all but twins that do not fit into the batch of their text."""
    if len({candidate.text for candidate in candidates}) == len(candidates):
        return candidates
    placed = {job_id for batch in plan(candidates, bounds) for job_id in batch.ids}
    return [candidate for candidate in candidates if candidate.id in placed]


def _affordable(candidates: Sequence[Candidate], allowance: Allowance, *, idle: bool) -> list[Candidate]:
    """The leading candidates that the allowed model tokens cover; a text is charged once, however many share it.

    A text that exceeds the whole budget by itself goes alone when nothing else counts (`idle`), for it would wait
    without an end: the provider decides whether to take it.
    """
    chosen: list[Candidate] = []
    charged: set[str] = set()
    tokens = allowance.tokens or 0
    for candidate in candidates:
        cost = 0 if candidate.text in charged else candidate.est_tokens
        alone = idle and not chosen
        if cost > tokens and not alone:
            break
        if candidate.backfill and cost > tokens - allowance.kept_tokens and not alone:
            continue
        chosen.append(candidate)
        tokens -= cost
        if candidate.text:
            charged.add(candidate.text)
    return chosen
