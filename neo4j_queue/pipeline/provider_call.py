"""Asking the provider for vectors: each text once, and one bad text does not hurt the others.

A refused request is halved until the texts to blame are alone (bisection). A text is to blame only if another one
passes: a text of the same request, or the sibling, a harmless text that every provider takes. When the sibling is
refused too, the endpoint is at fault and no text is judged.

A part that may not be asked now (the budget is used up, or the requests of this lease are) is news of nothing: its
texts stay unjudged, and their jobs are marked with the size of the part (`max_batch`), so that the next leases go on
with the halving.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from neo4j_queue.embedders import Answer, Embedder
from neo4j_queue.embedders.sent import last_sent
from neo4j_queue.errors import Fault, FaultKind, classify
from neo4j_queue.errors.rate_headers import RateHeaders
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Spent
from neo4j_queue.queue.tally import INTERRUPTED, Measured, status_of
from neo4j_queue.text import estimate_tokens

# The request was refused: one of its texts may be to blame, or all of them together.
REFUSALS = frozenset({FaultKind.REQUEST, FaultKind.UNKNOWN, FaultKind.ITEM})
# The provider did not do its work. While it works for others, one of the texts may be to blame for that too.
FAILURES = frozenset({FaultKind.OUTAGE, FaultKind.ANSWER})
# Key, address, model or dialect, if a second request says the same: one replica of a gateway may be misconfigured, and
# a firewall may dislike one text. Below 300 it is no refusal but an answer that contradicts the settings.
DOUBTED_SETTINGS = frozenset({FaultKind.CONFIGURATION, FaultKind.DIALECT})
CONFIRMED_FROM_STATUS = 300
FORBIDDEN = 403
# Gateways say by these that the server behind them did not answer in time, as our own deadline does.
TIMEOUT_STATUS = frozenset({408, 504, 524})
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
    # When the last request was sent: from then on it counts for the provider.
    last_at: float | None = None
    # Status and seconds of each request, in their order.
    asked: list[tuple[str, float]] = field(default_factory=list)
    # The latest that the provider said of its budgets.
    rate: RateHeaders | None = None

    def spent(self, now: float, saved: int = 0, measured: Measured | None = None) -> Spent:
        """The same for the lease's record, with the number of inputs that were `saved`, and what else was `measured`.

        `now` and `last_at` are readings of one monotonic clock, in seconds.
        """
        ago = None if self.last_at is None else max(0, round((now - self.last_at) * 1000))
        return Spent(self.requests, self.est_tokens, ago, self.inputs, saved, measured)


@dataclass(frozen=True, slots=True)
class TextResult:
    """What became of one text: its vector, or the fault that it met, or neither (`UNJUDGED`).

    `copied`: the vector was had without a request. `proven`: what failed for this text passed for others.
    `max_batch`: the most jobs that the next batch of its job may hold; None = as many as any.
    """

    vector: Vector | None = None
    fault: Fault | None = None
    copied: bool = False
    proven: bool = False
    max_batch: int | None = None


UNJUDGED = TextResult()


@dataclass(slots=True)
class ProviderMemory:
    """What one process knows of its provider from the requests before. `works`: the last news were good; `doubts`:
    refusals of single texts in a row; `max_inputs`: the size of a request that it took after it refused a larger one.
    """

    works: bool = False
    doubts: int = 0
    max_inputs: int | None = None


@dataclass(frozen=True, slots=True)
class FoundSize:
    """What was found out about the inputs of one request: more were `refused`, or are too `slow` for the deadline."""

    refused: int | None = None
    slow: int | None = None


class _Part(Enum):
    """What became of a part of a request that was not refused."""

    PASSED = "passed"
    NOT_ASKED = "not asked"


@dataclass(slots=True)
class ProviderCall:
    """The requests of one lease (that of a `probe`?), booked on its rate budget.

    `last_attempt`: a failure is final for one of its jobs. `most_inputs`: the most that a request may hold, after one
    of these jobs was refused or too slow; a text in parts has as many inputs. `rest` is the fault because of which
    further texts stay unjudged; `found_size` is None unless a request was too large. `interruptions` are no faults, and
    are raised.
    """

    embedder: Embedder
    queue: EmbedQueue
    token: str
    probe: bool
    sent: Sent
    memory: ProviderMemory
    monotonic: Callable[[], float]
    interruptions: tuple[type[BaseException], ...] = ()
    last_attempt: bool = False
    most_inputs: int | None = None
    rest: Fault | None = None
    found_size: FoundSize | None = None
    _results: dict[str, TextResult] = field(default_factory=dict)
    _allowed: int = 0
    _sibling: Fault | _Part = _Part.NOT_ASKED

    def ask(self, texts: Sequence[str]) -> dict[str, TextResult]:
        """A result for each of `texts` that was judged or marked; duplicates are asked for once.

        The lease has booked one request. Texts that would not fit into it stay unjudged (their sizes were planned
        at the lease, so this is rare); parts of a refused request are booked first, and so is a second call.
        """
        if self.rest is None:
            wanted = self._fitting(list(dict.fromkeys(texts)))
            if not self.sent.requests or self._book(wanted):
                self._ask(wanted)
        return {text: self._results[text] for text in texts if text in self._results}

    def probe_without_text(self) -> None:
        """Asks for the sibling alone: a probe whose jobs need no request says nothing about the provider."""
        fault = self._ask_sibling()
        if not isinstance(fault, Fault):
            return
        if _is_doubted(fault):
            self._sibling = _Part.NOT_ASKED
            self._confirm([SIBLING], fault)
        else:
            self.rest = fault if fault.kind not in REFUSALS | FAILURES else fault.as_outage()

    def _ask_sibling(self, *, reconnect: bool = False) -> Fault | _Part:
        """Asks for the sibling, at most once for a lease: PASSED, its fault, or NOT_ASKED when there is no budget."""
        if self._sibling is _Part.NOT_ASKED and (not self.sent.requests or self._book([SIBLING])):
            if reconnect:
                self.embedder.reconnect()
            self._sibling = self._request([SIBLING])
            if self._sibling is not _Part.PASSED:
                self.memory.works = False
        return self._sibling

    # -- one request ---------------------------------------------------------------------------------------

    def _book(self, texts: Sequence[str]) -> bool:
        """Books one more request; False when the budget is used up, or the queue rests."""
        return self.queue.reserve(self.token, est_tokens=sum(map(estimate_tokens, texts)), probe=self.probe)

    def _fitting(self, texts: list[str]) -> list[str]:
        profile, total = self.embedder.profile, 0
        bounds = (profile.max_inputs, self.memory.max_inputs, self.most_inputs)
        most = min(bound for bound in bounds if bound is not None)
        for n, text in enumerate(texts[:most]):
            total += estimate_tokens(text)
            if n and total > profile.max_request_tokens:
                return texts[:n]
        return texts[:most]

    def _request(self, texts: Sequence[str]) -> Fault | _Part:
        """One provider request: PASSED, with the vectors among the results, or its fault."""
        self.sent.requests += 1
        self.sent.inputs += len(texts)
        estimated = sum(map(estimate_tokens, texts))
        self.sent.est_tokens += estimated
        began, status = self.monotonic(), INTERRUPTED
        try:
            answer = self.embedder.embed(texts)
            status = status_of(None)
        except self.interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the provider: every error becomes a fault
            fault = classify(error)
            status = status_of(fault)
            self.sent.rate = fault.rate or self.sent.rate
            return fault
        finally:
            self.sent.last_at = last_sent(began)
            self.sent.asked.append((status, self.monotonic() - began))
        self.sent.requests += answer.requests - 1
        self._count(answer, estimated)
        self.memory.works, self.memory.doubts = True, 0
        self._results |= {
            text: TextResult(vector) for text, vector in zip(texts, answer.vectors, strict=True)
        }
        return _Part.PASSED

    def _count(self, answer: Answer, estimated: int) -> None:
        """Books what the answer says of the request: the provider's own count of tokens in place of our estimate."""
        self.sent.answers += 1
        self.sent.rate = answer.rate or self.sent.rate
        if answer.total_tokens:
            self.sent.estimated += estimated
            self.sent.charged += answer.total_tokens
            self.sent.est_tokens += answer.total_tokens - estimated

    # -- the judgement -------------------------------------------------------------------------------------

    def _ask(self, texts: Sequence[str]) -> None:
        # A single bad text among n is found within 2 log2(n) requests, and one more asks for the sibling.
        self._allowed = 2 * math.ceil(math.log2(max(2, len(texts)))) + 1
        fault = self._request(texts)
        if isinstance(fault, Fault):
            self._judge(texts, fault)

    def _judge(self, texts: Sequence[str], fault: Fault) -> None:
        if _is_doubted(fault):
            self._confirm(texts, fault)
        elif fault.kind not in REFUSALS | FAILURES:
            self.rest = fault
        elif len(texts) == 1:
            self._judge_one(texts[0], fault)
        elif fault.kind in REFUSALS:
            self._bisect(texts, fault)
        elif self._works_for_others(fault):
            self._divide_failed(texts, fault)
        else:
            max_batch = _half(texts) if is_timeout(fault) else None
            self._results |= dict.fromkeys(texts, TextResult(fault=fault, max_batch=max_batch))

    def _works_for_others(self, fault: Fault) -> bool:
        """True if the provider failed for these texts alone. Not asked while there is no sign of that and no job at
        its last attempt: in an outage, requests should be as few as attempts."""
        if not (self.memory.works or self.last_attempt):
            return False
        passed = self._ask_sibling() is _Part.PASSED
        if not passed and fault.kind is FaultKind.ANSWER and self._sibling is not _Part.NOT_ASKED:
            self.rest = fault.as_outage()
        return passed

    def _divide_failed(self, texts: Sequence[str], fault: Fault) -> None:
        """The provider works, but not for this request: it is halved, at once or, where that would wait for further
        deadlines, by the next leases."""
        if is_timeout(fault):
            self.found_size = FoundSize(slow=_half(texts))
            self._set_apart(texts, _half(texts))
        else:
            self._bisect(texts, fault)

    def _judge_one(self, text: str, fault: Fault) -> None:
        """A request of one text has no others to be compared with. One refusal is taken for the text's own; from the
        second in a row on, and for a probe, the sibling decides."""
        if fault.kind in REFUSALS:
            self.memory.doubts += 1
        asked: Fault | _Part = _Part.NOT_ASKED
        if self.memory.doubts > 1 or (self.probe and fault.kind is not FaultKind.OUTAGE):
            asked = self._ask_sibling()
        if isinstance(asked, Fault):
            self.rest = fault.as_outage()
        else:
            self._results[text] = TextResult(fault=fault, proven=asked is _Part.PASSED, max_batch=1)

    def _confirm(self, texts: Sequence[str], fault: Fault) -> None:
        """Asks for the sibling on a new connection. If it is refused alike the settings are wrong, else the request is
        tried again in parts."""
        sibling = self._ask_sibling(reconnect=True)
        if sibling is _Part.PASSED:
            self._bisect(texts, fault)
        elif isinstance(sibling, Fault):
            self.rest = fault.as_configuration() if sibling.kind is fault.kind else sibling.as_outage()
            if sibling.kind in (FaultKind.RATE_LIMIT, FaultKind.QUOTA):
                self.rest = sibling
        else:
            # No budget for the sibling: all rest, and a probe is the second request.
            self.rest = fault.as_configuration() if self.probe else fault.as_outage()

    # -- bisection -----------------------------------------------------------------------------------------

    def _bisect(self, texts: Sequence[str], fault: Fault) -> None:
        """Halves a refused request until the texts to blame are alone. `fault` is what refused all of `texts`."""
        blamed: dict[str, Fault] = {}
        # The first part is the whole again, if it is one text: what refused it may have passed.
        parts: list[tuple[Sequence[str], Fault]] = []
        halves = [texts] if len(texts) == 1 else _halves(texts)
        passed, refused, whole = 0, len(texts), True
        while self.rest is None:
            found = [(half, self._ask_part(half)) for half in halves]
            for half, answer in found:
                if answer is _Part.PASSED:
                    passed = max(passed, len(half))
                elif answer is _Part.NOT_ASKED:
                    self._set_apart(half, len(half))
                    whole = False
                elif len(half) == 1:
                    blamed[half[0]] = answer
                else:
                    refused = min(refused, len(half))
                    parts.append((half, answer))
            if not passed and any(isinstance(answer, Fault) for _, answer in found):
                self._ask_sibling_of(fault)
            if not parts:
                break
            halves = _halves(parts.pop()[0])
        if self.rest is not None:
            return
        if passed or self._sibling is _Part.PASSED:
            self._results |= {
                text: TextResult(fault=_own(why), proven=True, max_batch=1) for text, why in blamed.items()
            }
        else:
            self._set_apart(list(blamed), 1)
        # A server that numbers no vectors gives those of single texts: that is a limit of its size too.
        if whole and passed and not blamed and fault.kind in (FaultKind.REQUEST, FaultKind.DIALECT):
            self._note_size(fault, passed, refused)

    def _ask_sibling_of(self, fault: Fault) -> None:
        """No part has passed: if the sibling is refused as well, the endpoint is at fault."""
        if isinstance(self._ask_sibling(), Fault):
            self.rest = fault.as_outage()

    def _ask_part(self, texts: Sequence[str]) -> Fault | _Part:
        if self.rest is not None or self._allowed <= 0 or not self._book(texts):
            return _Part.NOT_ASKED
        self._allowed -= 1
        answer = self._request(texts)
        if isinstance(answer, Fault) and answer.kind not in REFUSALS | FAILURES | DOUBTED_SETTINGS:
            self.rest = answer
            return _Part.NOT_ASKED
        return answer

    def _set_apart(self, texts: Sequence[str], max_batch: int) -> None:
        """Leaves texts unjudged, to be asked for in smaller batches."""
        self._results |= dict.fromkeys(texts, TextResult(max_batch=max_batch))

    def _note_size(self, fault: Fault, passed: int, refused: int) -> None:
        """Every text passed in parts, so that the size was refused. Parts of `passed` inputs are taken, `refused` are
        not; a limit between them is often named in the message. Sums of tokens are no number of inputs."""
        if "token" in fault.message.lower():
            return
        named = [int(digits) for digits in re.findall(r"\b\d{1,6}\b", fault.message)]
        most = max((n for n in named if passed < n < refused), default=passed)
        self.memory.max_inputs = most
        self.found_size = FoundSize(refused=most)


def _is_doubted(fault: Fault) -> bool:
    """True for what would halt the queue, if a second request met it too."""
    return fault.kind is FaultKind.DIALECT or (
        fault.kind is FaultKind.CONFIGURATION and (fault.status or 0) >= CONFIRMED_FROM_STATUS
    )


def is_timeout(fault: Fault) -> bool:
    """True if an answer did not come in time: a smaller request may be answered."""
    return fault.kind is FaultKind.OUTAGE and (
        "Timeout" in fault.error_type or fault.status in TIMEOUT_STATUS
    )


def _own(fault: Fault) -> Fault:
    """The fault as a verdict about one text. A firewall may forbid a text (403); key, address and model are the same
    for all texts, so that another status of that kind is tried again."""
    if fault.kind is not FaultKind.CONFIGURATION:
        return fault
    return fault.as_verdict() if fault.status == FORBIDDEN else fault.as_outage()


def _halves(texts: Sequence[str]) -> list[Sequence[str]]:
    middle = len(texts) // 2
    return [texts[:middle], texts[middle:]]


def _half(texts: Sequence[str]) -> int:
    return max(1, math.ceil(len(texts) / 2))
