"""One leased batch from start to finish, as a sequence of named steps.

start (fenced) -> read the texts -> sort out what needs no request -> get the vectors of the rest, each text once, from
the provider if nobody else has them -> write the vectors (fenced by the text) -> settle (fenced). Four transactions
for a batch of any size, one more where other entities have its texts; nothing is held open across the provider's
answer.

Vector and completion are commits in two databases. The vector goes first: after a crash in between, the next
attempt finds it fresh and completes without a request.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from neo4j_queue.embedders import Embedder
from neo4j_queue.embedders.vector_cache import VectorCache
from neo4j_queue.errors import Fault, FaultKind, UnembeddableText, classify
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText, VectorWrite
from neo4j_queue.jobs import Outcome
from neo4j_queue.pipeline.batch_run import BatchRun, Summary
from neo4j_queue.pipeline.finish import Finish
from neo4j_queue.pipeline.isolation import EVERYBODYS, Isolated, fault_of_graph, isolate
from neo4j_queue.pipeline.job_log import JobLog
from neo4j_queue.pipeline.provider_call import ProviderCall
from neo4j_queue.pipeline.truncation import LongTexts
from neo4j_queue.pipeline.vector_sources import Vector, VectorSources
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import LeasedJob, Spent, Verdicts

# Vectors in hand are paid for: a graph that does not take them is asked again before they are given up.
WRITE_RETRIES_S = (0.5, 1.0, 2.0)

Interruptions = tuple[type[BaseException], ...]
# The texts of a job's entity, and those that have their vector.
Wanted = list[tuple[LeasedJob, list[EntityText]]]
InHand = list[tuple[LeasedJob, list[EntityText], Vector]]
Texts = dict[str, list[EntityText]]
R = TypeVar("R")


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
        self._log = JobLog(
            embedder.model, embedder.dimensions, rate_limiter=str(queue.limits), log_content=log_content
        )
        self._ending = Finish(queue, graph, embedder, self._log, monotonic, interruptions)
        self._long_texts = LongTexts(embedder.profile.max_input_tokens, cut=cut_long_texts)
        self._sourcing = VectorSources(
            cache or VectorCache(0),
            self._copies,
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
        work = BatchRun(token, self._monotonic())
        # Whoever is interrupted while he waits for the answer to his start finds out by this whether he won it.
        start_id = secrets.token_hex(8)
        try:
            return self._run(work, job_ids, start_id)
        except self._interruptions as interruption:
            self._give_back(work, job_ids, start_id, type(interruption).__name__)
            raise

    def _run(self, work: BatchRun, job_ids: Sequence[str], start_id: str) -> Summary:
        refused, released = self._start(work, job_ids, start_id)
        if refused == "lost":
            self._log.dropped(work.token, len(job_ids))
        if refused:
            return Summary(work.token, len(job_ids), refused=refused, released=released)
        self._log.started(work.token, list(work.jobs.values()))
        work.rest = self._work(work)
        settlement = self._ending.settle(work)
        queued = self._ending.look_again(work)
        summary = work.summary(settlement, self._ending.elapsed_ms(work), queued=queued)
        self._log.batch_done(summary)
        return summary

    def _start(
        self, work: BatchRun, job_ids: Sequence[str], start_id: str, because: str | None = None
    ) -> tuple[str | None, int]:
        """Begins the work; else says why it is refused, and how many jobs were given back for that."""
        start = self._queue.start(work.token, job_ids, worker=self._worker, start_id=start_id)
        if start.refused is None:
            work.begin(start)
            return None, 0
        if start.refused == "lost":
            return start.refused, 0
        released = self._queue.settle(work.token, Verdicts(released=job_ids), spent=Spent()).released
        self._log.released(work.token, released, because or start.refused)
        return start.refused, len(released)

    def _give_back(self, work: BatchRun, job_ids: Sequence[str], start_id: str, because: str) -> None:
        """Ends a batch that was interrupted, wherever that was: stores its verdicts, releases the rest.

        What was on its way then may have taken place: everything is asked for again, under the same token.
        """
        try:
            if not work.jobs and self._start(work, job_ids, start_id, because)[0]:
                return
            if not work.settled:
                self._ending.settle(work, because)
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the interruption goes on; the lease runs out by itself
            self._log.not_given_back(work.token, error)

    # -- the steps -----------------------------------------------------------------------------------------

    def _work(self, work: BatchRun) -> Fault | None:
        """Gives each open job a verdict, or returns the fault because of which the rest stays open."""
        texts, rest = self._read(work, list(work.open.values()))
        if rest is not None:
            return rest
        wanted, blank = self._sort_out(work, texts)
        rest = self._end_blank(work, blank)
        if rest is not None or not wanted or not self._still_ours(work):
            return rest
        reserve = partial(self._queue.reserve, work.token, probe=work.probe)
        asking = ProviderCall(
            self._embedder, reserve, self._monotonic, work.sent, work.probe, self._interruptions
        )
        try:
            answer = self._sourcing.get([texts[0] for _, texts in wanted], asking, work.saved)
        except self._interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - the provider's faults are in the answer: this is the graph's
            away = fault_of_graph(error)
            return away if away.kind in EVERYBODYS else away.as_outage()
        in_hand = []
        for n, (job, fitted) in enumerate(wanted):
            work.copied[job.id] = answer.copied[n]
            if (fault := answer.faults[n]) is not None:
                proven = fault.kind is not FaultKind.OUTAGE and work.sent.answers > 0
                work.fail(job, fault, proven=proven)
            elif (vector := answer.vectors[n]) is not None:
                in_hand.append((job, fitted, vector))
        return self._write(work, in_hand) or answer.rest

    def _narrowly(
        self, work: BatchRun, act: Callable[[Sequence[LeasedJob]], R], jobs: Sequence[LeasedJob]
    ) -> Isolated[LeasedJob, R]:
        """Does something on the graph for all of the jobs; those whose entities it fails for have failed."""
        done = isolate(act, jobs, self._interruptions)
        for job, fault in done.refused:
            work.fail(job, fault, proven=done.proven)
        return done

    def _read(self, work: BatchRun, jobs: Sequence[LeasedJob]) -> tuple[Texts, Fault | None]:
        """The current texts by entity, in one query: an entry for each that could be read.

        An entity may stand for several nodes of the same name.
        """
        done = self._narrowly(work, self._texts, jobs)
        texts: Texts = {}
        for part, found in done.passed:
            texts |= {job.entity_uid: found.get(job.entity_uid, []) for job in part}
        return texts, done.rest

    def _texts(self, jobs: Sequence[LeasedJob]) -> Texts:
        versions: dict[str, list[str]] = {}
        for job in jobs:
            versions.setdefault(job.entity_uid, []).append(job.version)
        by_uid: Texts = {}
        for text in self._graph.read_wanted(versions):
            by_uid.setdefault(text.uid, []).append(text)
        return by_uid

    def _copies(self, hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Vectors that entities carry. One that cannot be read is asked for."""
        done = isolate(self._graph.copies, hashes, self._interruptions)
        if done.error is not None:
            raise done.error
        return {digest: vector for _, found in done.passed for digest, vector in found.items()}

    def _sort_out(self, work: BatchRun, texts: Texts) -> tuple[Wanted, Wanted]:
        """Ends what needs no request (deleted, superseded, already current); returns the rest, and what is blank."""
        wanted: Wanted = []
        blank: Wanted = []
        for job in [job for job in work.open.values() if job.entity_uid in texts]:
            current = [text for text in texts[job.entity_uid] if not text.deleted]
            matching = [text for text in current if text.version == job.version]
            if not current:
                work.complete(job, Outcome.ENTITY_DELETED)
            elif not matching or job.model != self._embedder.model:
                work.supersede(job, current)
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
        return wanted, blank

    def _end_blank(self, work: BatchRun, blank: Wanted) -> Fault | None:
        """There is nothing to embed, and the vector of what was there before must not be found any more."""
        texts_of = {job.id: texts for job, texts in blank}

        def remove(jobs: Sequence[LeasedJob]) -> set[tuple[str, str]]:
            return self._graph.remove_vectors([text for job in jobs for text in texts_of[job.id]])

        done = self._narrowly(work, remove, [job for job, _ in blank])
        late = []
        for part, removed in done.passed:
            for job in part:
                if any((text.uid, text.content_hash) in removed for text in texts_of[job.id]):
                    work.fail(job, classify(UnembeddableText("the text is empty")))
                else:
                    late.append(job)
        return done.rest or self._end_late(work, late)

    def _fitted(self, texts: Sequence[EntityText]) -> list[EntityText]:
        """The texts as they go to the provider: no longer than the model takes, and said so if that is less."""
        fitted = [self._long_texts.fitted(text) for text in texts]
        if fitted[0].truncated:
            self._log.truncated(texts[0].uid, kept=len(fitted[0].text), whole=len(texts[0].text))
        return fitted

    def _still_ours(self, work: BatchRun) -> bool:
        """Asks for the lease once more when much of its lock has passed since the start (a frozen process)."""
        if self._monotonic() - work.began < self._lock_s / 2:
            return True
        return work.token in self._queue.heartbeat({work.token: list(work.open)})

    def _write(self, work: BatchRun, in_hand: InHand) -> Fault | None:
        """Writes vectors whose text is still the entity's; the others are superseded, or their entity is gone."""
        if not in_hand or not self._still_ours(work):
            return None
        writes_of = {
            job.id: [
                VectorWrite(text.uid, text.source, text.content_hash, vector, text.truncated)
                for text in texts
            ]
            for job, texts, vector in in_hand
        }

        def write(jobs: Sequence[LeasedJob]) -> set[tuple[str, str]]:
            return self._write_patiently([write for job in jobs for write in writes_of[job.id]])

        done = self._narrowly(work, write, [job for job, _, _ in in_hand])
        late = []
        for part, written in done.passed:
            for job in part:
                if any((each.uid, each.content_hash) in written for each in writes_of[job.id]):
                    work.complete(job, Outcome.EMBEDDED)
                else:
                    late.append(job)
        return done.rest or self._end_late(work, late)

    def _write_patiently(self, writes: Sequence[VectorWrite]) -> set[tuple[str, str]]:
        for rest_s in WRITE_RETRIES_S:
            try:
                return self._graph.write_vectors(writes)
            except self._interruptions:
                raise
            except Exception as error:
                fault = fault_of_graph(error)
                if fault.kind is not FaultKind.STORE:
                    raise
                self._log.write_retried(len(writes), fault, rest_s)
                self._sleep(rest_s)
        return self._graph.write_vectors(writes)

    def _end_late(self, work: BatchRun, jobs: Sequence[LeasedJob]) -> Fault | None:
        """Jobs whose text changed, or whose entity went away, between the reading and the writing.

        Where the text has changed back since, the job stays open: it is the one for the current text.
        """
        texts, rest = self._read(work, jobs)
        for job in [job for job in jobs if job.id in work.open and job.entity_uid in texts]:
            current = [text for text in texts[job.entity_uid] if not text.deleted]
            if not current:
                work.complete(job, Outcome.ENTITY_DELETED)
            elif job.version not in {text.version for text in current}:
                work.supersede(job, current)
        return rest
