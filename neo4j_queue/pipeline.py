"""One leased batch from start to finish, as a sequence of named steps.

start (fenced) -> read the texts -> sort out what needs no request -> get the vectors of the rest, each text once, from
the provider if nobody else has them -> write the vectors (fenced by the text) -> settle (fenced). Five round trips for
a batch of any size, one more where other entities have its texts; nothing is held open across the provider's answer.

Vector and completion are commits in two databases. The vector goes first: after a crash in between, the next
attempt finds it fresh and completes without a request.
"""

import time
from collections.abc import Callable, Sequence

from neo4j_queue.asking import Asking
from neo4j_queue.breaker import FAILURES_TO_OPEN, TROUBLE_OF, FailureNews
from neo4j_queue.embedders import Embedder
from neo4j_queue.entities import EntityText, VectorWrite
from neo4j_queue.errors import Fault, FaultKind, UnembeddableText, classify
from neo4j_queue.graph import EntityGraph
from neo4j_queue.jobs import LeasedJob, Outcome, Settlement, Spent, Verdicts
from neo4j_queue.journal import Journal
from neo4j_queue.long_texts import LongTexts
from neo4j_queue.provider_report import Reporter
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.sourcing import Sourcing, Vector
from neo4j_queue.vector_cache import VectorCache
from neo4j_queue.work import Summary, Work

# How long all workers rest, in seconds, after the graph was away for longer than its driver and we tried again.
STORE_REST_S = 2.0
# Vectors in hand are paid for: a graph that does not take them is asked again before they are given up.
WRITE_RETRIES_S = (0.5, 1.0, 2.0)
# Faults that stop the queue until a person has looked, and faults that only make it rest. Both charge nothing.
HALTING = frozenset({FaultKind.CONFIGURATION, FaultKind.STORE_BROKEN})

Interruptions = tuple[type[BaseException], ...]
Wanted = list[tuple[LeasedJob, list[EntityText]]]


class Pipeline:
    """Runs leased batches. `interruptions` are exceptions that end the process or the task: what has no verdict
    by then is released, and the exception goes on. `cut_long_texts`: embed the beginning of a text that is longer
    than the model takes, instead of failing its job. `cache` is that of the process; None = none."""

    def __init__(
        self,
        queue: EmbedQueue,
        graph: EntityGraph,
        embedder: Embedder,
        *,
        worker: str = "",
        interruptions: Interruptions = (SystemExit, KeyboardInterrupt),
        log_content: bool = False,
        cut_long_texts: bool = True,
        lock_ms: int = 300_000,
        request_ms: int = 30_000,
        cache: VectorCache | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue = queue
        self._graph = graph
        self._embedder = embedder
        self._worker = worker
        self._interruptions = interruptions
        self._journal = Journal(embedder.model, embedder.dimensions, log_content=log_content)
        self._reporter = Reporter()
        self._long_texts = LongTexts(embedder.profile.max_input_tokens, cut=cut_long_texts)
        self._sourcing = Sourcing(
            cache or VectorCache(0),
            graph.copies,
            model=embedder.model,
            dimensions=embedder.dimensions,
            wait_s=request_ms / 1000,
        )
        self._lock_s = lock_ms / 1000
        self._monotonic = monotonic
        self._sleep = sleep

    def run(self, token: str, job_ids: Sequence[str]) -> Summary:
        """Does the work of one lease, or finds that it is not to be done.

        Every fault becomes a verdict, a release, a pause or a halt; only the jobs database being away (then the
        lease runs out by itself) and `interruptions` are raised.
        """
        began = self._monotonic()
        start = self._queue.start(token, job_ids, worker=self._worker)
        if start.refused == "lost":
            self._journal.dropped(token, len(job_ids))
            return Summary(token, len(job_ids), refused="lost")
        if start.refused:
            released = self._queue.settle(token, Verdicts(released=job_ids), spent=Spent()).released
            self._journal.released(token, released, start.refused)
            return Summary(token, len(job_ids), refused=start.refused, released=len(released))
        work = Work(token, {job.id: job for job in start.jobs}, began)
        self._journal.started(token, start.jobs)
        try:
            fault = self._work(work)
        except self._interruptions as interruption:
            self._settle(work, None, because=type(interruption).__name__)
            raise
        settlement = self._settle(work, fault)
        self._make_current(work.outdated)
        self._graph.clear_pending(sorted(work.fresh))
        summary = work.summary(settlement, self._elapsed_ms(work))
        self._journal.batch_done(summary)
        return summary

    # -- the steps -----------------------------------------------------------------------------------------

    def _work(self, work: Work) -> Fault | None:
        """Gives each open job a verdict, or returns the fault because of which the rest stays open."""
        try:
            wanted = self._sort_out(work, self._read(work))
        except Exception as error:  # noqa: BLE001 - any fault of the graph is classified and acted on
            return classify(error)
        if not wanted:
            return None
        if not self._still_ours(work):
            return None
        asking = Asking(self._embedder, lambda: self._queue.reserve(work.token), self._monotonic, work.sent)
        try:
            answer = self._sourcing.get([texts[0] for _, texts in wanted], asking, work.saved)
        except Exception as error:  # noqa: BLE001 - the provider's faults are in the answer: this is the graph's
            return classify(error)
        in_hand = []
        for n, (job, texts) in enumerate(wanted):
            work.copied[job.id] = answer.copied[n]
            if (fault := answer.faults[n]) is not None:
                work.fail(job, fault)
            elif (vector := answer.vectors[n]) is not None:
                in_hand.append((job, texts, vector))
        return self._write(work, in_hand) or answer.rest

    def _read(self, work: Work) -> dict[str, list[EntityText]]:
        """The current texts by entity, in one query. An entity may stand for several nodes of the same name."""
        versions: dict[str, list[str]] = {}
        for job in work.open.values():
            versions.setdefault(job.entity_uid, []).append(job.version)
        by_uid: dict[str, list[EntityText]] = {}
        for text in self._graph.read_wanted(versions):
            by_uid.setdefault(text.uid, []).append(text)
        return by_uid

    def _sort_out(self, work: Work, texts: dict[str, list[EntityText]]) -> Wanted:
        """Ends what needs no request (deleted, superseded, already current, blank); returns the rest."""
        wanted: Wanted = []
        blank: Wanted = []
        for job in list(work.open.values()):
            current = [text for text in texts.get(job.entity_uid, ()) if not text.deleted]
            matching = [text for text in current if text.version == job.version]
            if not current:
                work.complete(job, Outcome.ENTITY_DELETED)
            elif not matching or job.model != self._embedder.model:
                work.complete(job, Outcome.SUPERSEDED)
                work.outdated.add(job.entity_uid)
            elif all(text.fresh for text in matching):
                work.complete(job, Outcome.ALREADY_CURRENT)
                work.saved.current += 1
                work.fresh.add(job.entity_uid)
            elif matching[0].blank:
                blank.append((job, matching))
            else:
                work.texts[job.id] = matching[0]
                try:
                    wanted.append((job, self._fitted([text for text in matching if not text.fresh])))
                except UnembeddableText as reason:
                    work.fail(job, classify(reason))
        self._end_blank(work, blank)
        return wanted

    def _end_blank(self, work: Work, blank: Wanted) -> None:
        """There is nothing to embed, and the vector of what was there before must not be found any more."""
        removed = self._graph.remove_vectors([text for _, texts in blank for text in texts])
        for job, texts in blank:
            if any((text.uid, text.content_hash) in removed for text in texts):
                work.fail(job, classify(UnembeddableText("the text is empty")))
            else:
                work.complete(job, Outcome.SUPERSEDED)
                work.outdated.add(job.entity_uid)

    def _fitted(self, texts: Sequence[EntityText]) -> list[EntityText]:
        """The texts as they go to the provider: no longer than the model takes, and said so if that is less."""
        fitted = [self._long_texts.fitted(text) for text in texts]
        if fitted[0].truncated:
            self._journal.truncated(texts[0].uid, kept=len(fitted[0].text), whole=len(texts[0].text))
        return fitted

    def _still_ours(self, work: Work) -> bool:
        """Asks for the lease once more when much of its lock has passed since the start (a frozen process)."""
        if self._monotonic() - work.began < self._lock_s / 2:
            return True
        return work.token in self._queue.heartbeat({work.token: list(work.open)})

    def _write(
        self, work: Work, in_hand: Sequence[tuple[LeasedJob, list[EntityText], Vector]]
    ) -> Fault | None:
        """Writes vectors whose text is still the entity's; the others are superseded, or their entity is gone."""
        if not in_hand or not self._still_ours(work):
            return None
        writes = [
            VectorWrite(text.uid, text.source, text.content_hash, vector, text.truncated)
            for _, texts, vector in in_hand
            for text in texts
        ]
        try:
            written = self._write_patiently(writes)
        except Exception as error:  # noqa: BLE001 - any fault of the graph is classified and acted on
            return classify(error)
        late = []
        for job, texts, _ in in_hand:
            if any((text.uid, text.content_hash) in written for text in texts):
                work.complete(job, Outcome.EMBEDDED)
            else:
                late.append(job)
        return self._end_late(work, late)

    def _write_patiently(self, writes: Sequence[VectorWrite]) -> set[tuple[str, str]]:
        for rest_s in WRITE_RETRIES_S:
            try:
                return self._graph.write_vectors(writes)
            except Exception as error:
                if classify(error).kind is not FaultKind.STORE:
                    raise
                self._journal.write_retried(len(writes), classify(error), rest_s)
                self._sleep(rest_s)
        return self._graph.write_vectors(writes)

    def _end_late(self, work: Work, jobs: Sequence[LeasedJob]) -> Fault | None:
        """Jobs whose text changed, or whose entity went away, between the reading and the writing."""
        if not jobs:
            return None
        try:
            texts = self._graph.read_texts(sorted({job.entity_uid for job in jobs}))
        except Exception as error:  # noqa: BLE001 - any fault of the graph is classified and acted on
            return classify(error)
        alive = {text.uid for text in texts if not text.deleted}
        for job in jobs:
            work.complete(job, Outcome.SUPERSEDED if job.entity_uid in alive else Outcome.ENTITY_DELETED)
        work.outdated |= {job.entity_uid for job in jobs} & alive
        return None

    # -- the end -------------------------------------------------------------------------------------------

    def _settle(self, work: Work, fault: Fault | None, because: str | None = None) -> Settlement:
        """Stores what became of the jobs; open ones are released, after the queue was told to rest or to halt."""
        fault, delay_ms = self._report(work, fault)
        verdicts = Verdicts(work.completed, work.failed, tuple(work.open), fault, delay_ms)
        spent = work.sent.spent(self._monotonic(), work.saved.total)
        settlement = self._queue.settle(work.token, verdicts, spent=spent)
        self._journal.settled(
            work.token,
            work.jobs,
            work.texts,
            work.copied,
            verdicts,
            settlement,
            duration_ms=self._elapsed_ms(work),
            because=because or (fault.kind.value if fault else None),
        )
        if settlement.troubled and work.sent.answers:
            ended = self._queue.control.provider_works(work.token)
            if ended is not None:
                self._journal.recovered(ended)
        report = self._reporter.worth_telling(work.sent, self._monotonic())
        if report is not None:
            self._queue.control.provider_reported(report)
        return settlement

    def _report(self, work: Work, fault: Fault | None) -> tuple[Fault | None, int]:
        """Tells the queue what happened to this lease, as far as it concerns all workers.

        Returns the fault because of which open jobs are released, and the delay (ms) after which they are due.
        Whoever lost the lease restrains nobody: his news may be older than the repair of what he met.
        """
        if fault is None:
            failed = (failure.fault for failure in work.failed)
            outage = next((fault for fault in failed if fault.kind is FaultKind.OUTAGE), None)
            return self._report_outage(work, outage) if outage else (None, 0)
        if fault.kind in TROUBLE_OF:
            # Nothing passed, or the provider said so itself: one such answer is enough.
            news = self._provider_failed(work, fault, to_open=1)
            return fault, news.release_delay_ms if news else 0
        if work.token in self._queue.heartbeat({work.token: list(work.jobs)}):
            self._restrain(fault)
        return fault, 0

    def _report_outage(self, work: Work, outage: Fault) -> tuple[Fault | None, int]:
        """An outage that is known already, or that a probe met, is no verdict about its jobs."""
        news = self._provider_failed(work, outage, to_open=FAILURES_TO_OPEN)
        if news is None or news.charged:
            return None, 0
        work.acquit(FaultKind.OUTAGE)
        return outage, news.release_delay_ms

    def _provider_failed(self, work: Work, fault: Fault, *, to_open: int) -> FailureNews | None:
        news = self._queue.control.provider_failed(work.token, list(work.jobs), fault, to_open=to_open)
        if news is not None and news.begins:
            self._journal.paused(news.wait_ms / 1000, fault)
        return news

    def _restrain(self, fault: Fault) -> None:
        reason = f"{fault.error_type}: {fault.message[:200]}"
        if fault.kind in HALTING:
            if self._queue.halt(reason):
                self._journal.halted(fault)
        elif fault.kind is FaultKind.STORE:
            self._queue.pause(STORE_REST_S, f"{fault.kind.value}: {reason}")
            self._journal.paused(STORE_REST_S, fault)

    def _make_current(self, uids: set[str]) -> None:
        """Sees to a job for the current text of entities whose job was superseded.

        Done after the settlement: whoever changes the text later finds the old job ended, and queues his own.
        """
        if not uids:
            return
        texts = self._graph.read_texts(sorted(uids))
        model = self._embedder.model
        self._queue.enqueue([text.request(model) for text in texts if not text.fresh and not text.deleted])

    def _elapsed_ms(self, work: Work) -> int:
        return round((self._monotonic() - work.began) * 1000)
