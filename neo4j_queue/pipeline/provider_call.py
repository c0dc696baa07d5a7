"""Asking the provider for vectors: each text once, and one bad text does not hurt the others.

A refused request is halved until the texts to blame are alone (bisection). A text is to blame only if a sibling of the
same request passes; when nothing passes, the endpoint is at fault and no text is judged. The one text of a probe has no
sibling: it is given one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from neo4j_queue.embedders import Answer, Embedder
from neo4j_queue.errors import Fault, FaultKind, classify
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Spent
from neo4j_queue.text import estimate_tokens

# Faults that are a verdict about the texts of the request: an attempt is counted.
JUDGING = frozenset(
    {FaultKind.ITEM, FaultKind.OUTAGE, FaultKind.ANSWER, FaultKind.DIALECT, FaultKind.UNKNOWN}
)
# A text that every provider takes.
SIBLING = "hello"

Vector = Sequence[float]


@dataclass(slots=True)
class Sent:
    """What really went to the provider for one lease: the facts of its rate budget."""

    requests: int = 0
    inputs: int = 0
    # Model tokens by our estimate, and as the provider charged them (of the requests that it said it of).
    est_tokens: int = 0
    estimated: int = 0
    charged: int = 0
    # Requests that were answered with vectors.
    answers: int = 0
    last_at: float | None = None
    # The latest that the provider said of its budgets.
    rate: RateHeaders | None = None

    def spent(self, now: float, saved: int = 0) -> Spent:
        """The same for the lease's record, with the number of inputs that were `saved`.

        `now` and `last_at` are readings of one monotonic clock, in seconds.
        """
        ago = None if self.last_at is None else max(0, round((now - self.last_at) * 1000))
        return Spent(self.requests, self.est_tokens, ago, self.inputs, saved)


@dataclass(frozen=True, slots=True)
class TextResult:
    """What became of one text: its vector, or the fault that it met, or neither (`UNJUDGED`).

    `copied`: the vector was had without a request. `proven`: what failed for this text passed for others.
    """

    vector: Vector | None = None
    fault: Fault | None = None
    copied: bool = False
    proven: bool = False


UNJUDGED = TextResult()


@dataclass(slots=True)
class ProviderCall:
    """The requests of one lease (that of a `probe`?), booked on its rate budget.

    `rest` is the fault because of which further texts stay unjudged. `interruptions` are no faults, and are raised.
    """

    embedder: Embedder
    queue: EmbedQueue
    token: str
    probe: bool
    sent: Sent
    monotonic: Callable[[], float]
    interruptions: tuple[type[BaseException], ...] = ()
    rest: Fault | None = None
    _vectors: dict[str, list[float]] = field(default_factory=dict)
    _faults: dict[str, Fault] = field(default_factory=dict)
    _allowed: int = 0

    def ask(self, texts: Sequence[str]) -> dict[str, TextResult]:
        """A result for each of `texts` that was judged; duplicates are asked for once.

        The lease has booked one request. Texts that would not fit into it stay unjudged (their sizes were planned
        at the lease, so this is rare); parts of a refused request are booked first, and so is a second call.
        """
        if self.rest is None and (not self.sent.requests or self._book()):
            self._ask(self._fitting(list(dict.fromkeys(texts))))
        return {text: result for text in texts if (result := self._result(text)) is not UNJUDGED}

    def _result(self, text: str) -> TextResult:
        if (fault := self._faults.get(text)) is not None:
            proven = fault.kind is not FaultKind.OUTAGE and self.sent.answers > 0
            return TextResult(fault=fault, proven=proven)
        vector = self._vectors.get(text)
        return UNJUDGED if vector is None else TextResult(vector)

    def _book(self) -> bool:
        """Books one more request; False when the budget is used up, or the queue rests."""
        return self.queue.reserve(self.token, probe=self.probe)

    def _ask(self, texts: Sequence[str]) -> None:
        # A single bad text among n is found within 2 log2(n) requests; a few more find out that all are refused.
        self._allowed = 2 * math.ceil(math.log2(max(2, len(texts)))) + 1
        refused = self._request(texts)
        if refused is not None:
            self._bisect(texts, refused)
        if self.probe and any(fault.kind is not FaultKind.OUTAGE for fault in self._faults.values()):
            self._ask_sibling()

    def _ask_sibling(self) -> None:
        """Finds out whether the text of a probe is to blame, or the provider still: a harmless text is refused by the
        provider alone.

        Without it, two texts that are refused for good would keep the queue closed, for none has another to be tried
        with.
        """
        if not self._book():
            return
        self._request([SIBLING])
        if self.rest is not None:
            self._faults.clear()

    def _fitting(self, texts: list[str]) -> list[str]:
        profile, total = self.embedder.profile, 0
        for n, text in enumerate(texts[: profile.max_inputs]):
            total += estimate_tokens(text)
            if n and total > profile.max_request_tokens:
                return texts[:n]
        return texts[: profile.max_inputs]

    def _request(self, texts: Sequence[str]) -> Fault | None:
        """One provider request. Returns the fault of a refused one that is to be bisected, else keeps the result."""
        self.sent.requests += 1
        self.sent.inputs += len(texts)
        estimated = sum(map(estimate_tokens, texts))
        self.sent.est_tokens += estimated
        self.sent.last_at = self.monotonic()
        try:
            answer = self.embedder.embed(texts)
        except self.interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the provider: every error becomes a fault
            fault = classify(error)
            self.sent.rate = fault.rate or self.sent.rate
        else:
            self.sent.requests += answer.requests - 1
            self._count(answer, estimated)
            self._vectors.update(zip(texts, answer.vectors, strict=True))
            return None
        if fault.kind is FaultKind.REQUEST:
            return fault
        if fault.kind in JUDGING:
            self._faults.update(dict.fromkeys(texts, fault))
        else:
            self.rest = fault
        return None

    def _count(self, answer: Answer, estimated: int) -> None:
        """Books what the answer says of the request: the provider's own count of tokens in place of our estimate."""
        self.sent.answers += 1
        self.sent.rate = answer.rate or self.sent.rate
        if answer.total_tokens:
            self.sent.estimated += estimated
            self.sent.charged += answer.total_tokens
            self.sent.est_tokens += answer.total_tokens - estimated

    def _bisect(self, texts: Sequence[str], fault: Fault) -> None:
        """Halves a refused request until the texts to blame are alone. `fault` is what refused all of `texts`."""
        if len(texts) == 1:
            self._faults[texts[0]] = fault
            return
        blamed: list[tuple[str, Fault]] = []
        parts: list[tuple[Sequence[str], Fault]] = [(texts, fault)]
        while parts and self.rest is None:
            part, why = parts.pop()
            if len(part) == 1:
                blamed.append((part[0], why))
                continue
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                refused = self._ask_part(half)
                if refused is not None:
                    parts.append((half, refused))
        if any(text in self._vectors for text in texts):
            self._faults.update(blamed)
        elif self.rest is None:
            self.rest = fault.as_outage()

    def _ask_part(self, texts: Sequence[str]) -> Fault | None:
        if self.rest is not None:
            return None
        if self._allowed <= 0 or not self._book():
            return None
        self._allowed -= 1
        return self._request(texts)
