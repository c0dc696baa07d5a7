"""The plan of provider requests: due jobs cut into batches by count, by estimated model tokens and by lost workers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT
from neo4j_queue.providers import Profile


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one provider request may carry; `tokens` None = not bounded.

    `crashes` is the number of lost workers that a job survives (`EMBED_JOB_MAX_CRASHES`); `input_tokens` the most that
    one text is charged: of a longer one no more is sent in one request.
    """

    inputs: int
    tokens: int | None = None
    crashes: int = 3
    input_tokens: int | None = None

    @classmethod
    def of(cls, profile: Profile, crashes: int, *, in_parts: bool = False) -> Self:
        """The bounds of a provider's profile. `in_parts`: longer texts are embedded in parts, so that a lease is
        charged all that its first request may hold; further ones are booked when they are sent."""
        tokens = profile.max_request_tokens
        return cls(profile.max_inputs, tokens, crashes, tokens if in_parts else profile.max_input_tokens)

    def within(self, inputs: int) -> Self:
        """The same with no more than so many inputs."""
        return replace(self, inputs=min(self.inputs, inputs))

    def charge(self, est_tokens: int, factor: float) -> int:
        """The model tokens to plan for a text, where the provider charges `factor` tokens for each estimated one.

        A factor below 1 counts as 1: an estimate that is too high only costs a little room.
        """
        charged = math.ceil(est_tokens * max(1.0, factor))
        return charged if self.input_tokens is None else min(charged, self.input_tokens)

    def inputs_after(self, crashes: int) -> int:
        """How many jobs that lost this many workers may share a batch.

        Any of them may be the one that kills workers. The batch shrinks with each crash, to a single job at the last
        one: the culprit ends alone, and its neighbours never reach the limit.
        """
        if crashes <= 0:
            return self.inputs
        left = max(0, self.crashes - crashes)
        return max(1, math.floor(self.inputs ** (left / self.crashes))) if self.crashes else 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A due job, as the plan sees it. `text` is the content version of its text; "" is equal to no other. `due_at` in
    epoch ms, server clock.

    `max_batch`: the most jobs that its batch may hold, after a request that held it was refused; None = as many as any.
    """

    id: str
    est_tokens: int = 0
    crashes: int = 0
    text: str = ""
    priority: int = PRIORITY_DEFAULT
    due_at: int = 0
    max_batch: int | None = None

    @property
    def suspect(self) -> tuple[int, int | None]:
        """Jobs share a batch only if these agree: the workers they lost, and the bound on their batch."""
        return self.crashes, self.max_batch

    @property
    def backfill(self) -> bool:
        """True if no person waits for it."""
        return self.priority <= PRIORITY_BACKFILL


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of one request in the order in which they were due, and their different texts."""

    ids: tuple[str, ...]
    est_tokens: int
    texts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Open:
    """A batch that is being filled."""

    crashes: int
    max_batch: int | None = None
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    est_tokens: int = 0

    def add(self, candidate: Candidate) -> None:
        self.ids.append(candidate.id)
        self.est_tokens += candidate.est_tokens
        if candidate.text:
            self.texts.append(candidate.text)

    def takes(self, candidate: Candidate, bounds: Bounds) -> bool:
        if not self.has_room(bounds):
            return False
        return bounds.tokens is None or self.est_tokens + candidate.est_tokens <= bounds.tokens

    def has_room(self, bounds: Bounds) -> bool:
        """Jobs of one text are one input, but each is a job to lock and to write, so every one counts."""
        most = bounds.inputs_after(self.crashes)
        return len(self.ids) < (most if self.max_batch is None else min(most, self.max_batch))

    def closed(self) -> Batch:
        return Batch(tuple(self.ids), self.est_tokens, tuple(self.texts))


def plan(candidates: Iterable[Candidate], bounds: Bounds) -> list[Batch]:
    """Cuts candidates into batches within `bounds`, keeping their order among those that may share one.

    The batches come in the order of their first jobs: when only some of them can be leased, the job that was due first
    is among them, suspect or not. A text over the token bound is a batch of its own: the provider decides whether it
    takes the text.

    Jobs of the same text go into one batch, where the text is asked for once. One that finds no room there, or may
    not share that batch, is in none: it waits until the vector is stored.
    """
    batches: list[_Open] = []
    filling: dict[tuple[int, int | None], _Open] = {}
    holding: dict[str, _Open] = {}
    for candidate in candidates:
        twins = holding.get(candidate.text) if candidate.text else None
        if twins is not None:
            if (twins.crashes, twins.max_batch) == candidate.suspect and twins.has_room(bounds):
                twins.ids.append(candidate.id)
            continue
        batch = filling.get(candidate.suspect)
        if batch is None or not batch.takes(candidate, bounds):
            batch = filling[candidate.suspect] = _Open(*candidate.suspect)
            batches.append(batch)
        batch.add(candidate)
        if candidate.text:
            holding[candidate.text] = batch
    return [batch.closed() for batch in batches]
