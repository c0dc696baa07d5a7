"""The end of a batch: what all workers are told of it, the settlement, and what follows from that."""

from collections.abc import Callable, Iterable

from neo4j_queue.embedders import Embedder
from neo4j_queue.errors import Fault, FaultKind
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.jobs import JobRequest
from neo4j_queue.pipeline.batch_run import BatchRun
from neo4j_queue.pipeline.job_log import JobLog
from neo4j_queue.queue import EmbedQueue, dead_letters
from neo4j_queue.queue.breaker import FAILURES_TO_OPEN, TROUBLE_OF, reason_of
from neo4j_queue.queue.leases import RateUsed, Settlement, Verdicts
from neo4j_queue.queue.provider_limits import Reporter
from neo4j_queue.queue.tally import Measured

# How long all workers rest, in seconds, after the graph was away for longer than its driver and we tried again.
STORE_REST_S = 2.0
# Faults that stop the queue until a person resumes it.
HALTING = frozenset({FaultKind.CONFIGURATION, FaultKind.STORE_BROKEN})


class Finish:
    """Ends the batches of one pipeline, in the same way whether they are finished or were interrupted."""

    def __init__(
        self,
        queue: EmbedQueue,
        graph: EntityGraph,
        embedder: Embedder,
        log: JobLog,
        monotonic: Callable[[], float],
        interruptions: tuple[type[BaseException], ...],
    ) -> None:
        self._queue = queue
        self._graph = graph
        self._model = embedder.model
        self._log = log
        self._monotonic = monotonic
        self._interruptions = interruptions
        self._reporter = Reporter(queue.limits.provider_window_ms)

    def settle(self, run: BatchRun, because: str | None = None) -> Settlement:
        """Stores what became of the jobs; open ones are released, after the queue was told to rest or to halt.

        It may be repeated when it was interrupted: everything in it is fenced, or harmless when it is done twice.
        """
        if run.ledger.settling is None:
            self._enqueue_current(run)
            fault, delay_ms = self._report(run)
            verdicts = Verdicts(
                run.ledger.completed,
                run.ledger.failed,
                tuple(run.ledger.open),
                fault,
                delay_ms,
                run.ledger.max_batch,
                run.ledger.put_off,
            )
            measured = Measured(
                self.elapsed_ms(run) / 1000, tuple(run.ledger.sent.asked), run.ledger.saved.by_reason()
            )
            spent = run.ledger.sent.spent(self._monotonic(), run.ledger.saved.total, measured)
            run.ledger.settling = self._queue.settling(run.token, verdicts, spent=spent)
        settlement = run.ledger.settling.store(self._queue.database)
        run.ledger.settled = True
        fault = run.ledger.settling.verdicts.release_fault
        self._log.settled(
            run,
            run.ledger.settling.verdicts,
            settlement,
            duration_ms=self.elapsed_ms(run),
            because=because or (fault.kind.value if fault else None),
            used=self._rate_used() if settlement.failed else None,
        )
        if any(failed.retry_at is None for failed in settlement.failed):
            self._tell_dead_letters()
        if settlement.troubled and run.ledger.sent.answers and not run.ledger.unproven:
            ended = self._queue.control.provider_works(run.token)
            if ended is not None:
                self._log.recovered(ended)
        report = self._reporter.worth_telling(run.ledger.sent, self._monotonic())
        if report is not None:
            self._queue.control.provider_reported(report)
        self._note_size(run)
        return settlement

    def _rate_used(self) -> RateUsed | None:
        """For the lines of failed jobs, which are written without it when the database does not answer."""
        try:
            return self._queue.rate_used()
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the verdicts are stored: nothing else depends on this
            self._log.rate_unknown(error)
            return None

    def _tell_dead_letters(self) -> None:
        """At once where they become too many; the heartbeat tells it where the database does not answer now."""
        try:
            dead_letters.tell(self._queue.dead.crossing())
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the verdicts are stored: nothing else depends on this
            self._log.dead_letters_unknown(error)

    def _note_size(self, run: BatchRun) -> None:
        """Tells all workers what a request may hold. A batch that is a part of a slow one tells nothing: its text may
        be what is slow."""
        size = run.ledger.found_size
        if size is not None and (size.refused is not None or run.whole):
            self._queue.control.size_found(size.refused, size.slow)
            self._log.size_found(run.token, size)

    def elapsed_ms(self, run: BatchRun) -> int:
        """How long the batch has been worked on."""
        return round((self._monotonic() - run.began) * 1000)

    # -- superseded jobs -----------------------------------------------------------------------------------

    def _enqueue_current(self, run: BatchRun) -> None:
        """Queues a job for each text that superseded one of ours, before the superseded job is ended: a job stands for
        every entity, whatever dies or is interrupted in between."""
        ours = {(job.entity_uid, job.model, job.version) for job in run.jobs.values()}
        requests = self._requests(text for texts in run.ledger.successors.values() for text in texts)
        self._enqueue([r for r in requests if (r.entity_uid, r.model, r.version) not in ours])

    def look_again(self, run: BatchRun) -> bool:
        """After the settlement: takes entities out of the outbox, and reads those of superseded jobs once more. True if
        it queued any.

        A text may have changed back since it was read (A -> B -> A), while its old job still ran: the change queued
        nothing then, for a job stood. A change from now on finds that job ended and queues it again. When the graph
        does not answer, the sweep does all this.
        """
        try:
            texts = self._graph.read_texts(sorted(run.ledger.successors))
            self._graph.clear_pending(sorted(run.ledger.fresh))
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the jobs are settled, whatever this is
            self._log.left_to_sweep(len(run.ledger.successors) + len(run.ledger.fresh), error)
            return False
        requests = self._requests(texts)
        self._enqueue(requests)
        return bool(requests)

    def _requests(self, texts: Iterable[EntityText]) -> list[JobRequest]:
        return [text.request(self._model) for text in texts if text.needs_vector]

    def _enqueue(self, requests: list[JobRequest]) -> None:
        if requests:
            self._queue.enqueue(requests)

    # -- what all workers are told -------------------------------------------------------------------------

    def _report(self, run: BatchRun) -> tuple[Fault | None, int]:
        """Tells the queue what happened to this lease, as far as it concerns all workers.

        Returns the fault because of which open jobs are released, and the delay (ms) after which they are due. A batch
        that lost its lease must not pause the queue: its error may already be fixed.
        """
        fault = run.ledger.rest
        if fault is None:
            return self._report_doubt(run, run.ledger.doubt)
        if fault.kind in TROUBLE_OF:
            # Nothing passed, or the provider said so itself: one such answer is enough.
            return self._report_trouble(run, fault, to_open=1)
        if run.token in self._queue.heartbeat({run.token: list(run.jobs)}):
            self._restrain(fault)
        return fault, 0

    def _report_doubt(self, run: BatchRun, doubt: Fault | None) -> tuple[Fault | None, int]:
        """Failures that may be the provider's are verdicts about their jobs as long as there are few in a row.

        While the provider is in trouble they count as its own: so does a failed probe, whatever it failed of.
        """
        if doubt is None:
            return None, 0
        fault, delay_ms = self._report_trouble(run, doubt.as_outage(), to_open=FAILURES_TO_OPEN)
        return (None, 0) if run.ledger.doubt else (fault, delay_ms)

    def _report_trouble(self, run: BatchRun, fault: Fault, *, to_open: int) -> tuple[Fault, int]:
        news = self._queue.control.provider_failed(run.token, list(run.jobs), fault, to_open=to_open)
        if news is None:
            return fault, 0
        if news.begins:
            self._log.paused(news.wait_ms / 1000, fault)
        if fault.kind is FaultKind.OUTAGE and not news.charged:
            run.ledger.acquit()
        return fault, news.release_delay_ms

    def _restrain(self, fault: Fault) -> None:
        reason = reason_of(fault)
        if fault.kind in HALTING:
            if self._queue.halt(reason):
                self._log.halted(fault)
        elif fault.kind is FaultKind.STORE:
            self._queue.pause(STORE_REST_S, f"{fault.kind.value}: {reason}")
            self._log.paused(STORE_REST_S, fault)
