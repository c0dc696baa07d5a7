"""What was really asked of the provider lately: the figures to lay beside the estimate of a dry run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database

# Ended leases are kept for a day, and the clean-up that removes them runs once a day.
KEPT_HOURS = 24
HOURS_MAX = 2 * KEPT_HOURS
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over the leases of one provider and model whose last request began in the window. Times in epoch ms.

    `price`: US dollars per million model tokens as noted when a lease began; None = not known then, or not noted.
    `model_tokens` as the provider counted them, as estimated where it did not say. `searches`: requests of searches,
    which are in all sums. `unconfirmed`: requests of leases that ran out, which may not have been sent.
    """

    provider: str | None
    model: str | None
    price: float | None
    batches: int
    jobs: int
    requests: int
    model_tokens: int
    searches: int
    unconfirmed: int
    first_at: int | None
    last_at: int | None

    @property
    def money(self) -> float | None:
        """US dollars, if the price is known."""
        return None if self.price is None else self.model_tokens * self.price / MILLION


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The usage of each provider, model and price, and the sums over all. `now`: epoch ms, server clock."""

    parts: Sequence[Usage]
    now: int

    @property
    def batches(self) -> int:
        """Batches of jobs."""
        return self._sum("batches")

    @property
    def jobs(self) -> int:
        """Jobs in these batches."""
        return self._sum("jobs")

    @property
    def requests(self) -> int:
        """Requests, those of searches among them."""
        return self._sum("requests")

    @property
    def model_tokens(self) -> int:
        """Model tokens of all requests."""
        return self._sum("model_tokens")

    @property
    def searches(self) -> int:
        """Requests of searches."""
        return self._sum("searches")

    @property
    def unconfirmed(self) -> int:
        """Requests of leases that ran out, which may not have been sent."""
        return self._sum("unconfirmed")

    @property
    def first_at(self) -> int | None:
        """When the last request of the first lease began."""
        return min(self._known("first_at"), default=None)

    @property
    def last_at(self) -> int | None:
        """When the last request began."""
        return max(self._known("last_at"), default=None)

    @property
    def unpriced_tokens(self) -> int:
        """Model tokens whose price is not known; they are not in `money`."""
        return sum(part.model_tokens for part in self.parts if part.price is None)

    @property
    def money(self) -> float | None:
        """US dollars for all tokens with a known price; None if there is no such price."""
        known = [part.money for part in self.parts if part.money is not None]
        return sum(known) if known else None

    def _sum(self, name: str) -> int:
        return sum(map(attrgetter(name), self.parts))

    def _known(self, name: str) -> Iterable[int]:
        return (value for value in map(attrgetter(name), self.parts) if value is not None)


def read(database: Database, hours: float, *, now: int | None = None) -> UsageReport:
    """The usage of the last `hours`; what is older than a day may have been cleaned up. One look at an index."""
    window_ms = round(timedelta(hours=hours).total_seconds() * 1000)
    found = [row.data() for row in database.read(statement("jobs/usage"), window_ms=window_ms, now=now)]
    at = int(found[0]["now"])
    parts = [{name: value for name, value in row.items() if name != "now"} for row in found]
    return UsageReport([Usage(**part) for part in parts if part["last_at"] is not None], at)
