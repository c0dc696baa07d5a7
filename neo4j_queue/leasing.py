"""The lease transaction: judge, read the candidates, plan the batches, grant the leases."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from neo4j import ManagedTransaction

from neo4j_queue.batching import Bounds, Candidate, plan
from neo4j_queue.booking import Booking
from neo4j_queue.control import (
    FAIR_EVERY,
    NO_BUDGET,
    PRIORITIES,
    Allowance,
    LeaseFacts,
    Limits,
    judge,
    order_for_probes,
    order_of_priorities,
)
from neo4j_queue.cypher import statement
from neo4j_queue.database import rows
from neo4j_queue.jobs import Lease, LeaseResult

NOTHING_DUE = "nothing due"


@dataclass(slots=True)
class Leasing:
    """One attempt to lease. `free` is the number of slots the caller vouches for; None = ask the census. `most_jobs`
    bounds the jobs of this transaction (at least one batch; None = all that the slots take).

    `planned` keeps the leases of the last run, for the case that the answer to its commit is lost.
    """

    owner: str
    limits: Limits
    bounds: Bounds
    free: int | None
    worker_ttl_ms: int
    deadline_ms: int
    now: int | None
    most_jobs: int | None = None
    planned: list[Lease] = field(default_factory=list)

    def run(self, tx: ManagedTransaction) -> LeaseResult:
        """Everything under the control lock that the first statement takes; nothing is written if none is due."""
        self.planned.clear()
        facts = self._facts(tx)
        allowance = judge(facts, self.limits, self.free)
        if allowance.batches <= 0:
            return LeaseResult((), allowance.reason)
        wanted = allowance.batches
        if self.most_jobs is not None:
            allowance = replace(allowance, batches=min(wanted, max(1, self.most_jobs // self.bounds.inputs)))
        due = self._candidates(tx, facts, allowance)
        if not due:
            return LeaseResult((), NOTHING_DUE)
        if allowance.tokens is not None:
            due = _affordable(due, allowance.tokens, idle=facts.spent_tokens == 0)
        batches = plan(due, self.bounds)[: allowance.batches]
        if not batches:
            return LeaseResult((), NO_BUDGET)
        self.planned += [
            Lease(f"{facts.seq + n}-{secrets.token_hex(4)}", batch.ids, batch.est_tokens)
            for n, batch in enumerate(batches, start=1)
        ]
        more = len(batches) == allowance.batches < wanted
        return LeaseResult(self._grant(tx, facts, allowance), more=more)

    def _facts(self, tx: ManagedTransaction) -> LeaseFacts:
        return Booking(self.limits, self.worker_ttl_ms, self.now).facts(tx)

    def _candidates(self, tx: ManagedTransaction, facts: LeaseFacts, allowance: Allowance) -> list[Candidate]:
        order = order_of_priorities(facts.turn + 1)
        if allowance.probe:
            order = order_for_probes(facts.trouble_rounds)
        found = rows(
            tx,
            statement("jobs/lease_candidates"),
            priorities=list(order),
            limit=1 if allowance.probe else allowance.batches * self.bounds.inputs,
            now=facts.now,
        )
        charge = self.bounds.charge
        return [
            Candidate(row["id"], charge(row["est_tokens"], facts.token_factor), row["crashes"])
            for row in found
        ]

    def _grant(self, tx: ManagedTransaction, facts: LeaseFacts, allowance: Allowance) -> tuple[Lease, ...]:
        wanted = [
            {"token": lease.token, "ids": list(lease.job_ids), "requests": 1, "est_tokens": lease.est_tokens}
            for lease in self.planned
        ]
        granted = rows(
            tx,
            statement("jobs/lease_grant"),
            leases=wanted,
            owner=self.owner,
            deadline_ms=self.deadline_ms,
            probe=allowance.probe or None,
            turn=(facts.turn + 1) % (FAIR_EVERY * len(PRIORITIES)),
            now=facts.now,
        )
        ids = {row["token"]: tuple(row["ids"]) for row in granted}
        return tuple(
            Lease(lease.token, ids[lease.token], lease.est_tokens)
            for lease in self.planned
            if lease.token in ids
        )


def _affordable(candidates: Sequence[Candidate], tokens: int, *, idle: bool) -> list[Candidate]:
    """The leading candidates that a budget of model tokens covers.

    A text that is over the whole budget by itself would wait for ever. It goes alone, when nothing else counts
    (`idle`): whether the provider takes it is for the provider to say.
    """
    chosen: list[Candidate] = []
    for candidate in candidates:
        if candidate.est_tokens > tokens and not (idle and not chosen):
            break
        chosen.append(candidate)
        tokens -= candidate.est_tokens
    return chosen
