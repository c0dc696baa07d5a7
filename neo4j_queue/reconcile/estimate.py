"""What a selection of entities would cost, found out without queueing or writing anything.

The entities come in pages and are forgotten after they were counted; requests are planned as a lease plans them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from neo4j_queue.embedders import profile_of
from neo4j_queue.errors import UnembeddableText
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import Status
from neo4j_queue.pipeline.truncation import LongTexts
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.batching import Batch, Bounds, Candidate, plan
from neo4j_queue.queue.prices import price_of
from neo4j_queue.queue.provider_limits import ProviderReport
from neo4j_queue.reconcile.pace import pace
from neo4j_queue.settings import Settings
from neo4j_queue.text import estimate_tokens

STANDING = frozenset({Status.PENDING, Status.PROCESSING})

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Estimate:
    """`seen` = `fresh` + `queued_before` + `failed_before` + `repeated` + `to_queue`, and `to_queue` = `to_embed` +
    `blank` + `too_long`; the other figures are about `to_embed`.

    queued_before: their jobs stand in the queue already. failed_before: the job of that very text failed for good and
    is left alone. repeated: nodes that share key and text with another one, and so its job. blank, too_long: the run
    queues them too, and their jobs fail for good without a request: there is no word to embed, or more than the model
    takes and nothing may be cut.
    truncated: cut at the model's limit. inputs: the different texts, each sent once, and the parts of long ones;
    characters: of what is sent.
    est_tokens: UTF-8 bytes / 4; model_tokens: as the provider counts them (`token_factor`). requests: at the least.
    minutes: the least that the limits leave (None = no limit, or one of 0); money_usd None = the price is not known.

    Texts whose vector stands on another entity already are counted, though the run will copy it: looking all of them
    up would cost more than the estimate is worth.
    """

    seen: int
    fresh: int
    queued_before: int
    failed_before: int
    repeated: int
    to_queue: int
    blank: int
    too_long: int
    to_embed: int
    truncated: int
    characters: int
    est_tokens: int
    token_factor: float
    model_tokens: int
    inputs: int
    requests: int
    minutes: float | None
    limited_by: str | None
    price_per_million_usd: float | None
    price_source: str | None
    money_usd: float | None


def estimate(
    pages: Iterable[Sequence[EntityText]],
    queue: EmbedQueue,
    settings: Settings,
    model: str,
    *,
    leave_failed: bool,
    progress: Progress = lambda _: None,
) -> Estimate:
    """Reads all pages and says what embedding them would take; `progress` gets the number of entities seen.

    `leave_failed`: as sweeps do, entities whose job failed for good are not queued again. Nothing is written.
    """
    found = queue.control.provider_report()
    long_texts = LongTexts(profile_of(settings).max_input_tokens, settings.embed_long_texts)
    planner = _Planner(queue.bounds, found.token_factor)
    counting = _Counting(queue, model, planner, long_texts, leave_failed)
    for page in pages:
        counting.take(page)
        progress(counting.seen)
    return counting.estimate(settings, found)


class _Counting:
    """The sums so far."""

    def __init__(
        self, queue: EmbedQueue, model: str, planner: "_Planner", long_texts: LongTexts, leave_failed: bool
    ) -> None:
        self._queue = queue
        self._model = model
        self._planner = planner
        self._long_texts = long_texts
        self._leave_failed = leave_failed
        # Some hundred bytes for each different text: 1 GB would be ten million of them.
        self._texts: set[str] = set()
        self.seen = self._fresh = self._queued = self._failed = self._blank = self._repeated = 0
        self._to_queue = self._too_long = self._to_embed = self._truncated = self._characters = 0

    def take(self, page: Sequence[EntityText]) -> None:
        """Counts a page."""
        texts = [text for text in page if not text.deleted]
        stale = [text for text in texts if not text.fresh]
        # One job stands for all nodes of one key and text.
        wanted = {(text.uid, text.version): text for text in stale}
        states = self._queue.states_of([text.request(self._model) for text in wanted.values()])
        kept: list[EntityText] = []
        for key, text in wanted.items():
            state = states.get(key)
            if state in STANDING:
                self._queued += 1
            elif state == Status.FAILED and self._leave_failed:
                self._failed += 1
            else:
                kept.append(text)
        self.seen += len(texts)
        self._fresh += len(texts) - len(stale)
        self._repeated += len(stale) - len(wanted)
        self._keep(kept)

    def _keep(self, texts: Sequence[EntityText]) -> None:
        planned: list[Planned] = []
        self._to_queue += len(texts)
        for text in texts:
            if text.blank:
                self._blank += 1
                continue
            try:
                sent = self._long_texts.fitted(text)
            except UnembeddableText:
                self._too_long += 1
                continue
            self._to_embed += 1
            self._truncated += sent.truncated
            # Whatever entities share a text, it is sent once.
            if text.version in self._texts:
                continue
            self._texts.add(text.version)
            self._characters += sum(map(len, sent.inputs))
            # A job carries the size of its whole text, and is planned by that.
            tokens = sum(map(estimate_tokens, sent.inputs))
            planned.append(Planned(text.version, text.est_tokens, tokens, len(sent.inputs)))
        self._planner.add(planned)

    def estimate(self, settings: Settings, found: ProviderReport) -> Estimate:
        """What came together."""
        planner = self._planner
        planner.close()
        tokens = math.ceil(planner.est_tokens * found.token_factor)
        shortest = pace(planner.requests, tokens, self._queue.limits, found)
        price = price_of(settings)
        return Estimate(
            seen=self.seen,
            fresh=self._fresh,
            queued_before=self._queued,
            failed_before=self._failed,
            repeated=self._repeated,
            to_queue=self._to_queue,
            blank=self._blank,
            too_long=self._too_long,
            to_embed=self._to_embed,
            truncated=self._truncated,
            characters=self._characters,
            est_tokens=planner.est_tokens,
            token_factor=found.token_factor,
            model_tokens=tokens,
            inputs=planner.inputs,
            requests=planner.requests,
            minutes=None if shortest.seconds is None else round(shortest.seconds / 60, 2),
            limited_by=shortest.limited_by,
            price_per_million_usd=price.per_million if price else None,
            price_source=price.source if price else None,
            money_usd=round(price.of(tokens), 6) if price else None,
        )


class Planned(NamedTuple):
    """A text to plan for: its version, the estimated tokens of its job and of what is sent of it, and its inputs."""

    version: str
    job_tokens: int
    sent_tokens: int
    inputs: int = 1


class _Planner:
    """Plans requests for different texts as leases do, page after page; holds no more than the one being filled."""

    def __init__(self, bounds: Bounds, token_factor: float) -> None:
        self._bounds = bounds
        self._factor = token_factor
        self._filling: list[Candidate] = []
        self._sizes: dict[str, Planned] = {}
        self.requests = self.inputs = self.est_tokens = 0

    def add(self, texts: Iterable[Planned]) -> None:
        """Further texts, in the order in which their jobs will be due."""
        candidates = list(self._filling)
        for text in texts:
            self._sizes[text.version] = text
            candidates.append(Candidate(text.version, self._bounds.charge(text.job_tokens, self._factor)))
        batches = plan(candidates, self._bounds)
        if not batches:
            return
        for batch in batches[:-1]:
            self._count(batch)
        last = batches[-1]
        self._filling = candidates[len(candidates) - len(last.ids) :]
        self._sizes = {version: self._sizes[version] for version in last.ids}

    def close(self) -> None:
        """Counts the request that was still being filled."""
        for batch in plan(self._filling, self._bounds):
            self._count(batch)
        self._filling = []

    def _count(self, batch: Batch) -> None:
        inputs = sum(self._sizes[version].inputs for version in batch.ids)
        tokens = sum(self._sizes[version].sent_tokens for version in batch.ids)
        self.requests += 1
        if inputs > len(batch.ids):
            # Texts in parts go on in further requests.
            full = (inputs / self._bounds.inputs, tokens / (self._bounds.tokens or math.inf))
            self.requests += max(0, math.ceil(max(full)) - 1)
        self.inputs += inputs
        self.est_tokens += tokens
