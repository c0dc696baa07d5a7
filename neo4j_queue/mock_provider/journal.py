"""What the server saw: each request as a value, and counts that stay small however long it runs."""

import hashlib
import math
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOKENS_PER_BYTE = 0.25  # what the real provider's size check counts
MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was seen. Times are of `ProviderServer.clock`; `concurrency` counts it too; requests
    with the same `client_port` came over one connection. `path` is that of the address with its query, `fields` the
    whole body but for the texts.

    `status` and `finished_at` are None while it is under way, and for ever if it was never answered.
    """

    number: int
    at: float
    inputs: tuple[str, ...]
    model: str
    encoding_format: str | None
    dimensions: int | None
    concurrency: int
    headers: Mapping[str, str]
    client_port: int
    path: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    status: int | None = None
    finished_at: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens by the provider's own rule of thumb."""
        return sum(tokens_of(text) for text in self.inputs)


@dataclass(frozen=True, slots=True)
class Counts:
    """Everything so far in numbers. `tokens` are of all inputs, whatever became of their requests.

    `unanswered`: requests that have no answer yet, or never got one; `most_in_a_minute`: the most requests in any
    sliding minute.
    """

    requests: int
    inputs: int
    unique_inputs: int
    tokens: int
    answers: int
    rate_limited: int
    server_errors: int
    other_errors: int
    unanswered: int
    most_in_a_minute: int

    @property
    def inputs_per_unique_text(self) -> float | None:
        """How often a text was sent on the average; 1.0 = nothing was paid for twice. None before the first."""
        return self.inputs / self.unique_inputs if self.unique_inputs else None


class Counter:
    """Counts as requests come and end. Of a text only a digest stays: some 100 MB for a million different ones."""

    def __init__(self) -> None:
        self._requests = self._inputs = self._tokens = 0
        self._answered = {"answers": 0, "rate_limited": 0, "server_errors": 0, "other_errors": 0}
        self._texts: set[int] = set()
        self._minute: deque[float] = deque()
        self._most = 0

    def came(self, request: Request) -> None:
        """A request has come."""
        self._requests += 1
        self._inputs += len(request.inputs)
        self._tokens += request.tokens
        self._texts.update(map(_digest, request.inputs))
        self._minute.append(request.at)
        while self._minute[0] <= request.at - MINUTE_S:
            self._minute.popleft()
        self._most = max(self._most, len(self._minute))

    def answered(self, status: int) -> None:
        """A request was answered with this status."""
        self._answered[_kind(status)] += 1

    def counts(self) -> Counts:
        """The state now."""
        return Counts(
            requests=self._requests,
            inputs=self._inputs,
            unique_inputs=len(self._texts),
            tokens=self._tokens,
            unanswered=self._requests - sum(self._answered.values()),
            most_in_a_minute=self._most,
            **self._answered,
        )


def _kind(status: int) -> str:
    match status:
        case 200:
            return "answers"
        case 429:
            return "rate_limited"
        case _:
            return "server_errors" if status >= 500 else "other_errors"


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(_bytes(text), digest_size=8).digest(), "little")


def tokens_of(text: str) -> int:
    """About what the provider charges for a text."""
    return math.ceil(len(_bytes(text)) * TOKENS_PER_BYTE)


def vector_for(text: str, dimensions: int) -> list[float]:
    """The vector that this server gives for a text: unit length, single precision, unlike any other's."""
    digest = hashlib.shake_256(_bytes(text)).digest(2 * dimensions)
    numbers = [number + 0.5 for number in struct.unpack(f"<{dimensions}h", digest)]
    norm = math.hypot(*numbers)
    return list(
        struct.unpack(f"<{dimensions}f", struct.pack(f"<{dimensions}f", *(n / norm for n in numbers)))
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
