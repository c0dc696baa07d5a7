"""The rate budget: how many requests and tokens may be sent now, for leases, parts of a refused batch and searches.

The facts come from the database (`cypher/jobs/lease_judge.cypher`); the judgement is the pure function `judge`. All are
judged under the control lock, so that together they stay within every window.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from neo4j import ManagedTransaction

from neo4j_queue.cypher import statement
from neo4j_queue.database import rows, the_row
from neo4j_queue.jobs import PRIORITIES
from neo4j_queue.queue.breaker import PROBED
from neo4j_queue.queue.provider_limits import GOOD_FOR_MS, WINDOW_MS, found_inputs

# Open batches for each slot of an embed worker: one that runs and one that waits behind it, so that a worker finds its
# next batch at once. More would only age in the broker, where the start deadline runs.
OPEN_PER_SLOT = 2
# The provider counts a request when it arrives, the queue when it was sent. So a request leaves the queue's window
# later than the provider's, by the time it takes to arrive (a twentieth of a short window).
WINDOW_MARGIN_MS = 250
WINDOW_MARGIN_SHARE = 20
# A lease that has not started counts this much longer than its start deadline: a start that began in time is committed
# by then, and sends its request.
STARTING_MS = 1_000
# What a probe needs beside its request: reading the text, and the settlement. After that another one may go out.
PROBE_MARGIN_MS = 5_000
# Every n-th lease transaction begins with another priority than the highest, each in turn: so a job of any priority is
# reached within FAIR_EVERY x 10 lease transactions, however many more urgent jobs arrive.
FAIR_EVERY = 8
NO_BUDGET = "no budget"
NO_FREE_SLOTS = "no free slots"
# The settings in force (`checks.in_force`) are not the caller's.
OTHER_SETTINGS = "other settings"
# A lease keeps its texts in one property: a list of strings costs ten times as much to read.
TEXTS_APART = "\n"
# Of the requests and tokens of a window, one in twenty is kept free for edits: a backfill never uses it.
EDIT_SHARE = 20
# Edits may open this share of the slots beyond `OPEN_PER_SLOT` while backfills hold places: the message of an edit goes
# before those of backfills, so it waits for one running batch only.
EDIT_PLACES_SHARE = 4
# While the last search is younger than this, one request in twenty is kept free for searches.
SEARCHING_MS = 600_000
QUERY_SHARE = 20


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """The state that one lease transaction sees under the control lock. Times in epoch ms, server clock.

    `found_*` is what the provider names as its limits per minute, `minute_*` what was spent of them.
    """

    now: int
    seq: int
    turn: int
    halted: bool
    paused_until: int | None
    slots: int
    open_leases: int
    spent_requests: int
    spent_tokens: int
    open_backfills: int = 0
    trouble: str | None = None
    trouble_rounds: int = 0
    probing: bool = False
    found_requests: int | None = None
    found_tokens: int | None = None
    minute_requests: int = 0
    minute_tokens: int = 0
    token_factor: float = 1.0
    refused_inputs: int | None = None
    refused_inputs_at: int | None = None
    slow_inputs: int | None = None
    slow_inputs_at: int | None = None
    query_at: int | None = None
    texts: Sequence[str] = ()
    displaced: bool = False

    @property
    def found_inputs(self) -> int | None:
        """The inputs that one request may hold, if a larger one was refused or too slow."""
        return found_inputs(
            self.now, self.refused_inputs, self.refused_inputs_at, self.slow_inputs, self.slow_inputs_at
        )

    @property
    def texts_in_hand(self) -> frozenset[str]:
        """The texts (content versions) of the open leases, if `lease_judge` was asked for them."""
        return frozenset(text for texts in self.texts for text in texts.split(TEXTS_APART))

    @property
    def paused(self) -> bool:
        """True while a pause is in force."""
        return self.paused_until is not None and self.paused_until > self.now


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Provider requests and model tokens per interval, over all workers; `None` = unlimited."""

    requests: int | None
    tokens: int | None
    interval_ms: int
    # The interval of the limits that the provider names; None = by its answers.
    provider_window_ms: int | None = None

    @property
    def unlimited(self) -> bool:
        """True if the settings limit nothing."""
        return self.requests is None and self.tokens is None

    @property
    def window_ms(self) -> int:
        """How long a request counts: the interval and its margin."""
        return with_margin(self.interval_ms)

    def __str__(self) -> str:
        requests, tokens = ("unlimited" if n is None else n for n in (self.requests, self.tokens))
        return f"{requests} requests, {tokens} tokens in {self.interval_ms / 1000:g} s"


def with_margin(interval_ms: int) -> int:
    """The length for which we count a request against a window of `interval_ms`."""
    return interval_ms + min(WINDOW_MARGIN_MS, interval_ms // WINDOW_MARGIN_SHARE)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many batches may be leased, and how many model tokens (`None` = unlimited); 0 batches has a reason.

    Of the batches `backfills` may be without any edit (`None` = all; 0 has a `backfill_reason`), and backfills leave
    `kept_tokens` to edits. A single batch that is not full waits until its first job has been due for `linger_ms`.
    `probe`: one job only, which finds out whether the provider works again.
    """

    batches: int
    tokens: int | None = None
    reason: str | None = None
    probe: bool = False
    backfills: int | None = None
    backfill_reason: str | None = None
    kept_tokens: int = 0
    linger_ms: int = 0


@dataclass(frozen=True, slots=True)
class Budget:
    """What may still be sent now: requests and model tokens; `None` = unlimited."""

    requests: int | None
    tokens: int | None

    @property
    def used_up(self) -> bool:
        """True if nothing is left of either."""
        return any(left is not None and left <= 0 for left in (self.requests, self.tokens))


def budget_of(
    facts: LeaseFacts, limits: RateLimits, *, for_query: bool = False, for_backfill: bool = False
) -> Budget:
    """What is left of the configured limits and of those that the provider names, whichever is less.

    A share is kept for edits (not available `for_backfill`), and while people search, a share of the requests for
    searches (available `for_query`).
    """
    requests = [
        limit
        - spent
        - (0 if for_query else _kept_for_queries(facts, limit))
        - (kept_for_edits(limit) if for_backfill else 0)
        for limit, spent, _ in _request_limits(facts, limits)
    ]
    tokens = [
        limit - spent - (kept_for_edits(limit) if for_backfill else 0)
        for limit, spent in ((limits.tokens, facts.spent_tokens), (facts.found_tokens, facts.minute_tokens))
        if limit is not None
    ]
    return Budget(min(requests, default=None), min(tokens, default=None))


def _request_limits(facts: LeaseFacts, limits: RateLimits) -> list[tuple[int, int, int]]:
    """Each limit in force with what is spent of it and its window in ms."""
    known = (
        (limits.requests, facts.spent_requests, limits.interval_ms),
        (facts.found_requests, facts.minute_requests, WINDOW_MS),
    )
    return [(limit, spent, window_ms) for limit, spent, window_ms in known if limit is not None]


def kept_for_edits(limit: int) -> int:
    """What a backfill leaves of a limit."""
    return max(1, limit // EDIT_SHARE) if limit > 1 else 0


def linger_ms(facts: LeaseFacts, limits: RateLimits) -> int:
    """How long a batch with room waits for more jobs, so that single edits share a request while requests are scarce.

    Nothing while half of the requests are left. Then the rest is spread over half a window, each wait a quarter of the
    window at most.
    """
    waits = [
        min(window_ms // 4, window_ms // (2 * (limit - spent)))
        for limit, spent, window_ms in _request_limits(facts, limits)
        if 0 < 2 * (limit - spent) < limit
    ]
    return max(waits, default=0)


def _kept_for_queries(facts: LeaseFacts, limit: int) -> int:
    if facts.query_at is None or facts.now - facts.query_at > SEARCHING_MS:
        return 0
    return kept_for_queries(limit)


def kept_for_queries(limit: int) -> int:
    """What jobs leave of a limit while people search."""
    return max(1, limit // QUERY_SHARE) if limit > 1 else 0


def judge(facts: LeaseFacts, limits: RateLimits, batches: int | None) -> Allowance:
    """What may be leased now.

    `batches` is the number of free slots that the caller vouches for; `None` takes the free slots of the census.
    """
    if facts.displaced:
        return Allowance(0, reason=OTHER_SETTINGS)
    if facts.halted:
        return Allowance(0, reason="halted")
    if facts.paused:
        return Allowance(0, reason="paused")
    probe = facts.trouble in PROBED
    if probe and facts.probing:
        return Allowance(0, reason="probing")
    places = facts.slots * OPEN_PER_SLOT - facts.open_leases if batches is None else batches
    free = places + (_places_for_edits(facts) if batches is None else 0)
    if free <= 0:
        return Allowance(0, reason="no workers" if batches is None and facts.slots == 0 else NO_FREE_SLOTS)
    budget = budget_of(facts, limits)
    if budget.used_up:
        return Allowance(0, reason=NO_BUDGET)
    if probe:
        return Allowance(1, budget.tokens, probe=True)
    left = budget_of(facts, limits, for_backfill=True)
    backfills = 0 if left.used_up else max(0, _at_most(places, left.requests))
    allowed = _at_most(free, budget.requests)
    return Allowance(
        allowed,
        budget.tokens,
        backfills=backfills if backfills < allowed else None,
        backfill_reason=(NO_BUDGET if left.used_up else NO_FREE_SLOTS) if not backfills else None,
        kept_tokens=(budget.tokens or 0) - (left.tokens or 0),
        linger_ms=linger_ms(facts, limits),
    )


def _places_for_edits(facts: LeaseFacts) -> int:
    return min(facts.open_backfills, max(1, facts.slots // EDIT_PLACES_SHARE))


def _at_most(batches: int, requests: int | None) -> int:
    return batches if requests is None else min(batches, requests)


def may_ask_more(
    facts: LeaseFacts, limits: RateLimits, requests: int, est_tokens: int = 0, *, probe: bool = False
) -> bool:
    """True if a running lease may send `requests` more, of `est_tokens` in all; `probe`: it is a probe's."""
    if facts.halted or facts.paused or (facts.trouble in PROBED and not probe):
        return False
    left = budget_of(facts, limits)
    return (left.requests is None or left.requests >= requests) and (
        left.tokens is None or left.tokens >= est_tokens
    )


def order_for_probes(round_number: int) -> tuple[int, ...]:
    """Highest first, but each round begins with another one: the job of one probe may be what fails."""
    first = (max(1, round_number) - 1) % len(PRIORITIES)
    return PRIORITIES[first:] + PRIORITIES[:first]


def order_of_priorities(turn: int) -> tuple[int, ...]:
    """Highest first; on each fair turn another one goes first."""
    if turn % FAIR_EVERY:
        return PRIORITIES
    first = PRIORITIES[(turn // FAIR_EVERY) % len(PRIORITIES)]
    return (first, *(p for p in PRIORITIES if p != first))


@dataclass(frozen=True, slots=True)
class RateBudget:
    """Judges by `limits`; `worker_ttl_ms` is the silence after which a worker's slots no longer count, `request_ms` the
    longest time that a provider request takes. `tariff`: what a search notes (`prices.tariff_of`)."""

    limits: RateLimits
    worker_ttl_ms: int
    request_ms: int
    now: int | None
    tariff: Mapping[str, object] = field(default_factory=dict)

    def facts(self, tx: ManagedTransaction, *, texts: bool = False, mark: str | None = None) -> LeaseFacts:
        """Takes the control lock and reads the facts; with `texts`, the texts in hand as well.

        `mark`: the fingerprint of the caller's settings.

        Raises `SettingsError` when `init` never ran on the jobs database.
        """
        judged = rows(
            tx,
            statement("jobs/lease_judge"),
            interval_ms=self.limits.window_ms,
            minute_ms=with_margin(WINDOW_MS),
            good_for_ms=GOOD_FOR_MS,
            worker_ttl_ms=self.worker_ttl_ms,
            starting_ms=STARTING_MS,
            probe_ms=self.request_ms + PROBE_MARGIN_MS,
            texts=texts,
            mark=mark,
            now=self.now,
        )
        return LeaseFacts(**the_row(judged).data())

    def more(
        self, tx: ManagedTransaction, token: str, requests: int, est_tokens: int, *, probe: bool
    ) -> bool:
        """Books more requests on a running lease if all of them are allowed now; `probe`: it is a probe's."""
        if not may_ask_more(self.facts(tx), self.limits, requests, est_tokens, probe=probe):
            return False
        booked = rows(tx, statement("jobs/reserve"), token=token, requests=requests, est_tokens=est_tokens)
        return bool(booked)

    def query(self, tx: ManagedTransaction, est_tokens: int) -> bool:
        """Books the request of a search; if there is no room, notes that a search waits."""
        facts = self.facts(tx)
        booked = not budget_of(facts, self.limits, for_query=True).used_up
        token = _query_token() if booked else None
        booking = {"token": token, "est_tokens": est_tokens, "tariff": self.tariff, "now": facts.now}
        rows(tx, statement("jobs/book_query"), **booking)
        return booked

    def note_query(self, tx: ManagedTransaction, est_tokens: int) -> None:
        """Notes the request of a search that no limit holds up."""
        noted = {"token": _query_token(), "est_tokens": est_tokens, "tariff": self.tariff, "now": self.now}
        rows(tx, statement("jobs/note_query"), **noted)


def _query_token() -> str:
    return f"q-{secrets.token_hex(8)}"
