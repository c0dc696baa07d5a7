"""Answers that go wrong by chance, with chances that are given and a chance that can be repeated."""

import random
from dataclasses import dataclass

from neo4j_queue.mock_provider.replies import Reply, error


@dataclass(frozen=True, slots=True)
class Mishaps:
    """Shares (0 to 1, together at most 1) of requests that are refused with 429 or 500, never answered, or slow.

    A slow one is answered after `slow_s` seconds. Raises ValueError for shares that are none.
    """

    rate_limited: float = 0.0
    failed: float = 0.0
    silent: float = 0.0
    slow: float = 0.0
    slow_s: float = 5.0

    def __post_init__(self) -> None:
        shares = (self.rate_limited, self.failed, self.silent, self.slow)
        # A sum of decimal fractions may be above 1 by a hair.
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:
            raise ValueError("shares are from 0 to 1, and together at most 1")

    def draw(self, source: random.Random) -> Reply | None:
        """What befalls the next request; None = nothing. Takes one number of the source, whatever it is."""
        drawn = source.random()
        for share, reply in (
            (self.rate_limited, error(429, message="Rate limit reached", code="rate_limit_exceeded")),
            (self.failed, error(500, message="The server had an error", type="server_error")),
            (self.silent, Reply(silent=True)),
            (self.slow, Reply(latency_s=self.slow_s)),
        ):
            if drawn < share:
                return reply
            drawn -= share
        return None
