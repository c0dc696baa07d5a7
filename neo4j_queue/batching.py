"""How due jobs become provider requests: by count and by estimated model tokens."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one provider request may carry; `tokens` None = not bounded."""

    inputs: int
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The jobs of one request, in the order in which they were due."""

    ids: tuple[str, ...]
    est_tokens: int


def plan(candidates: Iterable[tuple[str, int]], bounds: Bounds) -> list[Batch]:
    """Cuts (id, estimated tokens) pairs into batches within `bounds`, keeping their order.

    A text that is over the token bound by itself is a batch of its own: whether the provider takes it is for
    the provider to say.
    """
    batches: list[Batch] = []
    ids: list[str] = []
    total = 0
    for job_id, tokens in candidates:
        full = len(ids) >= bounds.inputs or (bounds.tokens is not None and total + tokens > bounds.tokens)
        if ids and full:
            batches.append(Batch(tuple(ids), total))
            ids, total = [], 0
        ids.append(job_id)
        total += tokens
    if ids:
        batches.append(Batch(tuple(ids), total))
    return batches
