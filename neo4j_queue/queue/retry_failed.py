"""The retry transaction: failed jobs that a person names, or describes, go back to `pending`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import rows


@dataclass(frozen=True, slots=True)
class RetryTransaction:
    """One page of a retry; see `EmbedQueue.retry_failed`. `ids` None: any `limit` jobs of which `wanted` is true."""

    wanted: Mapping[str, Any]
    ids: Sequence[str] | None
    limit: int
    now: int | None

    def run(self, tx: ManagedTransaction) -> tuple[int, int]:
        """How many were looked at, and how many of them went back."""
        ids = self.ids
        if ids is None:
            found = rows(tx, statement("jobs/failed"), **self.wanted, limit=self.limit)
            ids = [row["id"] for row in found]
        if not ids:
            return 0, 0
        return len(ids), len(
            rows(tx, statement("jobs/retry_failed"), **self.wanted, ids=list(ids), now=self.now)
        )
