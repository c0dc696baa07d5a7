"""Requests beyond those that a lease transaction grants: parts of a refused batch, and searches.

Both are judged like leases, under the control lock, so that all requests together stay within every window.
"""

import secrets
from dataclasses import dataclass

from neo4j import ManagedTransaction

from neo4j_queue.control import LeaseFacts, Limits, budget_of, may_ask_more, with_margin
from neo4j_queue.cypher import statement
from neo4j_queue.database import rows, the_row
from neo4j_queue.provider_report import GOOD_FOR_MS, WINDOW_MS


@dataclass(frozen=True, slots=True)
class Booking:
    """Judges by `limits`; `worker_ttl_ms` is the silence after which a worker's slots no longer count."""

    limits: Limits
    worker_ttl_ms: int
    now: int | None

    def facts(self, tx: ManagedTransaction, *, texts: bool = False) -> LeaseFacts:
        """Takes the control lock and reads what every judgement needs, and the `texts` in hand if they are wanted.

        Raises `SettingsError` when `init` never ran on the jobs database.
        """
        judged = rows(
            tx,
            statement("jobs/lease_judge"),
            interval_ms=self.limits.window_ms,
            minute_ms=with_margin(WINDOW_MS),
            good_for_ms=GOOD_FOR_MS,
            worker_ttl_ms=self.worker_ttl_ms,
            texts=texts,
            now=self.now,
        )
        return LeaseFacts(**the_row(judged).data())

    def more(self, tx: ManagedTransaction, token: str, requests: int, *, probe: bool) -> bool:
        """Books further requests on a running lease (that of a probe?), if all of them are allowed now."""
        if not may_ask_more(self.facts(tx), self.limits, requests, probe=probe):
            return False
        return bool(rows(tx, statement("jobs/reserve"), token=token, requests=requests))

    def query(self, tx: ManagedTransaction, est_tokens: int) -> bool:
        """Books the request of a search; when there is no room, notes that one is waited for."""
        facts = self.facts(tx)
        booked = not budget_of(facts, self.limits, for_query=True).used_up
        token = f"q-{secrets.token_hex(8)}" if booked else None
        rows(tx, statement("jobs/book_query"), token=token, est_tokens=est_tokens, now=facts.now)
        return booked
