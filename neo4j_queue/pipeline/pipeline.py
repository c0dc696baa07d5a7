"""One leased batch from start to finish, as a sequence of named steps.

start (fenced) -> read the texts -> end the jobs that need no request -> get the vectors of the rest, each text once,
from the provider if no other source has them -> write the vectors (fenced by the text) -> settle (fenced). Four
transactions for a batch of any size, one more where other entities have its texts; nothing is held open across the
provider's answer.

Vector and completion are commits in two databases. The vector goes first: after a crash in between, the next
attempt finds it fresh and completes without a request.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neo4j_queue.embedders import Embedder
from neo4j_queue.embedders.vector_cache import VectorCache
from neo4j_queue.errors import UnembeddableText, classify
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText, VectorWrite
from neo4j_queue.jobs import Outcome
from neo4j_queue.pipeline.batch_run import BatchRun, Summary
from neo4j_queue.pipeline.finish import Finish
from neo4j_queue.pipeline.graph_calls import COMMON, GraphCalls, Isolated, Written, fault_of_graph
from neo4j_queue.pipeline.job_log import JobLog
from neo4j_queue.pipeline.provider_call import UNJUDGED, ProviderCall, ProviderMemory, TextResult
from neo4j_queue.pipeline.truncation import LongText, LongTexts
from neo4j_queue.pipeline.vector_sources import VectorSources
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import LeasedJob, PutOff, Spent, Start, Verdicts

# The rest of a job whose entity is locked: an import holds its locks for minutes, and each attempt holds up the other
# writes of its batch by one wait (five seconds on servers of ours).
LOCKED_REST_MS = 15_000

Interruptions = tuple[type[BaseException], ...]


def uptime() -> float:
    """Seconds of a clock that goes on while the machine is suspended, as a lease does; where there is none (macOS), of
    the monotonic one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class JobTexts:
    """A job with the current texts of its version; several when nodes share the key."""

    job: LeasedJob
    texts: Sequence[EntityText]

    def in_any(self, done: Written) -> bool:
        """True if one of the texts is among those that a statement was done for."""
        return any((text.uid, text.content_hash) in done for text in self.texts)


@dataclass(frozen=True, slots=True)
class Message:
    """What a worker was told to do. `start_id` stands for this delivery: the lease knows by it whose start won."""

    token: str
    job_ids: Sequence[str]
    start_id: str
    received: float


class Pipeline:
    """Runs leased batches. `interruptions` are exceptions that end the process or the task: what has no verdict
    by then is released, and the exception goes on. `long_texts`: what becomes of a text that is longer than the model
    takes (`EMBED_LONG_TEXTS`). `cache` is that of the process; None = none."""

    def __init__(
        self,
        queue: EmbedQueue,
        graph: EntityGraph,
        embedder: Embedder,
        *,
        worker: str = "",
        interruptions: Interruptions = (SystemExit, KeyboardInterrupt),
        log_content: bool = False,
        long_texts: str = LongText.TRUNCATE,
        lock_ms: int = 300_000,
        request_ms: int = 30_000,
        cache: VectorCache | None = None,
        monotonic: Callable[[], float] = uptime,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue = queue
        self._embedder = embedder
        self._worker = worker
        self._interruptions = interruptions
        self._log = JobLog(
            embedder.model, embedder.dimensions, rate_limiter=str(queue.limits), log_content=log_content
        )
        self._graph = GraphCalls(graph, self._log, interruptions, sleep)
        self._finish = Finish(queue, graph, embedder, self._log, monotonic, interruptions)
        self._long_texts = LongTexts(embedder.profile.max_input_tokens, long_texts)
        self._sources = VectorSources(
            cache or VectorCache(0),
            self._graph,
            model=embedder.model,
            dimensions=embedder.dimensions,
            wait_s=request_ms / 1000,
            parts_s=lock_ms / 2000,
        )
        self._lock_s = lock_ms / 1000
        self._monotonic = monotonic
        self._memory = ProviderMemory()

    def run(self, token: str, job_ids: Sequence[str]) -> Summary:
        """Does the work of one lease, or finds that it is not to be done.

        Every fault becomes a verdict, a release, a pause or a halt; only the jobs database being away (then the
        lease runs out by itself) and `interruptions` are raised.
        """
        message = Message(token, job_ids, secrets.token_hex(8), self._monotonic())
        run: BatchRun | None = None
        try:
            start = self._queue.start(token, job_ids, worker=self._worker, start_id=message.start_id)
            if start.refused is not None:
                return self._refused(message, start.refused)
            run = self._begun(message, start)
            return self._run(run)
        except self._interruptions as interruption:
            self._give_back(message, run, type(interruption).__name__)
            raise

    def _run(self, run: BatchRun) -> Summary:
        self._log.started(run.token, list(run.jobs.values()))
        self._work(run)
        settlement = self._finish.settle(run)
        queued = self._finish.look_again(run)
        summary = run.summary(settlement, self._finish.elapsed_ms(run), queued=queued)
        self._log.batch_done(summary)
        return summary

    def _begun(self, message: Message, start: Start) -> BatchRun:
        return BatchRun.of(message.token, start.jobs, probe=start.probe, began=message.received)

    def _refused(self, message: Message, why: str, because: str | None = None) -> Summary:
        """Gives back what must not be started now; a lost lease is another worker's."""
        token, jobs = message.token, len(message.job_ids)
        if why == "lost":
            self._log.dropped(token, jobs)
            return Summary(token, jobs, refused=why)
        released = self._queue.settle(token, Verdicts(released=message.job_ids), spent=Spent()).released
        self._log.released(token, released, because or why)
        return Summary(token, jobs, refused=why, released=len(released))

    def _give_back(self, message: Message, run: BatchRun | None, because: str) -> None:
        """Ends a batch that was interrupted at any step: stores its verdicts, releases the rest.

        A statement that was on its way may have taken effect, so each is repeated under the same token and start id.
        """
        try:
            if run is None:
                start = self._queue.start(
                    message.token, message.job_ids, worker=self._worker, start_id=message.start_id
                )
                if start.refused is not None:
                    if start.refused != "lost":
                        self._refused(message, start.refused, because)
                    return
                run = self._begun(message, start)
            if not run.ledger.settled:
                self._finish.settle(run, because)
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the interruption goes on; the lease runs out by itself
            self._log.not_given_back(message.token, error)

    # -- the steps -----------------------------------------------------------------------------------------

    def _work(self, run: BatchRun) -> None:
        """Gives each open job a verdict; when something keeps the rest open, that is `rest` of the ledger."""
        ledger = run.ledger
        call = self._provider_call(run)
        texts = self._read(run, list(ledger.open.values()))
        if ledger.rest is not None:
            return
        unembedded, blank = self._sort_out(run, texts)
        self._end_blank(run, blank)
        if ledger.rest is not None or not self._still_ours(run):
            return
        if unembedded:
            self._write(run, unembedded, self._vectors(run, unembedded, call))
        if ledger.rest is None and run.probe and not ledger.sent.requests:
            # Tens of thousands behind them may need none either.
            call.probe_without_text()
        if ledger.rest is None:
            ledger.rest = call.rest
        ledger.found_size = call.found_size

    def _provider_call(self, run: BatchRun) -> ProviderCall:
        return ProviderCall(
            self._embedder,
            self._queue,
            run.token,
            run.probe,
            run.ledger.sent,
            self._memory,
            self._monotonic,
            self._interruptions,
            run.last_attempt,
            run.most_inputs,
        )

    def _read(self, run: BatchRun, jobs: Sequence[LeasedJob]) -> dict[str, list[EntityText]]:
        """The current texts by entity: an entry for each that could be read."""
        done = self._graph.read(jobs)
        self._refuse(run, jobs, done)
        texts: dict[str, list[EntityText]] = {uid: [] for uid in done.passed}
        for found in done.answers:
            for text in found:
                texts[text.uid].append(text)
        return texts

    def _refuse(self, run: BatchRun, jobs: Sequence[LeasedJob], done: Isolated[Any]) -> None:
        """Fails jobs whose entities a statement on the graph fails for, puts off those whose entities are locked, and
        notes what keeps others open."""
        for job in jobs:
            if (fault := done.refused.get(job.entity_uid)) is not None:
                run.ledger.fail(job, fault, proven=done.proven)
            elif (fault := done.locked.get(job.entity_uid)) is not None:
                run.ledger.put_off[job.id] = PutOff(fault, LOCKED_REST_MS)
        run.ledger.rest = done.rest

    def _sort_out(
        self, run: BatchRun, texts: Mapping[str, Sequence[EntityText]]
    ) -> tuple[list[JobTexts], list[JobTexts]]:
        """Ends what needs no request (deleted, superseded, already current); returns the rest, and what is blank."""
        ledger = run.ledger
        unembedded: list[JobTexts] = []
        blank: list[JobTexts] = []
        for job in [job for job in ledger.open.values() if job.entity_uid in texts]:
            current = [text for text in texts[job.entity_uid] if not text.deleted]
            matching = [text for text in current if text.version == job.version]
            if not current:
                ledger.gone(job)
            elif not matching or job.model != self._embedder.model:
                ledger.supersede(job, current)
            elif all(text.fresh for text in matching):
                ledger.complete(job, Outcome.ALREADY_CURRENT)
                ledger.saved.current += 1
                ledger.fresh.add(job.entity_uid)
            elif matching[0].blank:
                blank.append(JobTexts(job, matching))
            else:
                ledger.texts[job.id] = matching[0]
                try:
                    stale = [text for text in matching if not text.fresh]
                    unembedded.append(JobTexts(job, self._fitted(stale)))
                except UnembeddableText as reason:
                    ledger.fail(job, classify(reason))
        return unembedded, blank

    def _end_blank(self, run: BatchRun, blank: Sequence[JobTexts]) -> None:
        """Fails jobs of blank texts. The vector of an earlier text is removed, so that search does not find it."""
        done = self._graph.remove([text for each in blank for text in each.texts])
        removed = self._written(run, blank, done)
        for each in removed:
            run.ledger.fail(each.job, classify(UnembeddableText("the text is empty")))

    def _fitted(self, texts: Sequence[EntityText]) -> list[EntityText]:
        """The texts as they go to the provider: cut to what the model takes, or in parts; with a line in the log when
        something is left out."""
        fitted = [self._long_texts.fitted(text) for text in texts]
        if fitted[0].truncated:
            self._log.truncated(texts[0].uid, kept=sum(map(len, fitted[0].inputs)), whole=len(texts[0].text))
        return fitted

    def _still_ours(self, run: BatchRun) -> bool:
        """Asks for the lease once more when much of its lock has passed since the start (a frozen process)."""
        if self._monotonic() - run.began < self._lock_s / 2:
            return True
        return run.token in self._queue.heartbeat({run.token: list(run.ledger.open)})

    def _vectors(
        self, run: BatchRun, unembedded: Sequence[JobTexts], call: ProviderCall
    ) -> Mapping[str, TextResult]:
        """A result by content hash; the jobs whose texts met a fault have failed."""
        ledger = run.ledger
        try:
            results = self._sources.get([each.texts[0] for each in unembedded], call, ledger.saved)
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the provider's faults are in the results: this is the graph's
            away = fault_of_graph(error)
            ledger.rest = away if away.kind in COMMON else away.as_outage()
            return {}
        for each in unembedded:
            result = results.get(each.texts[0].content_hash, UNJUDGED)
            ledger.copied[each.job.id] = result.copied
            if result.fault is not None:
                ledger.fail(each.job, result.fault, proven=result.proven, max_batch=result.max_batch)
            elif result.max_batch is not None:
                ledger.max_batch[each.job.id] = result.max_batch
        return results

    def _write(
        self, run: BatchRun, unembedded: Sequence[JobTexts], results: Mapping[str, TextResult]
    ) -> None:
        """Writes vectors whose text is still the entity's; other jobs are superseded, or their entity is gone."""
        in_hand: list[JobTexts] = []
        writes: list[VectorWrite] = []
        for each in unembedded:
            vector = results.get(each.texts[0].content_hash, UNJUDGED).vector
            if vector is not None:
                in_hand.append(each)
                writes += [
                    VectorWrite(text.uid, text.source, text.content_hash, vector, text.truncated)
                    for text in each.texts
                ]
        if in_hand and self._still_ours(run):
            for each in self._written(run, in_hand, self._graph.write(writes)):
                run.ledger.complete(each.job, Outcome.EMBEDDED)

    def _written(
        self, run: BatchRun, jobs: Sequence[JobTexts], done: Isolated[Written]
    ) -> Sequence[JobTexts]:
        """The jobs whose entities were changed by a fenced statement; those that came too late are ended."""
        self._refuse(run, [each.job for each in jobs], done)
        changed: Written = set().union(*done.answers)
        late = [each for each in jobs if each.job.entity_uid in done.passed and not each.in_any(changed)]
        if run.ledger.rest is None and late:
            self._end_late(run, [each.job for each in late])
        return [each for each in jobs if each.in_any(changed)]

    def _end_late(self, run: BatchRun, jobs: Sequence[LeasedJob]) -> None:
        """Jobs whose text changed, or whose entity went away, between the reading and the writing.

        Where the text has changed back since, the job stays open: it is the one for the current text.
        """
        texts = self._read(run, jobs)
        for job in [job for job in jobs if job.id in run.ledger.open and job.entity_uid in texts]:
            current = [text for text in texts[job.entity_uid] if not text.deleted]
            if not current:
                run.ledger.gone(job)
            elif job.version not in {text.version for text in current}:
                run.ledger.supersede(job, current)
