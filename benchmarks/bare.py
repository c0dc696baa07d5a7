"""Baselines of the drain: the same statements without Celery, Redis and logs, and the vector writes alone."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from benchmarks.entities import Corpus
from neo4j_queue.graph.entities import VectorWrite
from neo4j_queue.jobs import Outcome
from neo4j_queue.queue.leases import Completion, Lease, Spent, Verdicts

# As many as the issue of this comparison asks for; two processors are busy with fewer.
STATEMENT_THREADS = 4
WRITERS = (1, 2, 4)
WRITE_BATCH = 256


def bare_statements(corpus: Corpus, count: int) -> float:
    """Jobs per second: one process, four threads, each with lease, start, read, write and settle in turn."""
    corpus.enqueue(count)

    def work() -> int:
        done = 0
        while leases := corpus.queue.lease("bare", batches=1).leases:
            done += sum(_one(corpus, lease) for lease in leases)
        return done

    seconds, done = _timed(work, STATEMENT_THREADS)
    _expect(done, count)
    return count / seconds


def bare_writes(corpus: Corpus, count: int, writers: int) -> float:
    """Vectors per second: nothing but the fenced write of ready vectors, by so many threads."""
    todo: SimpleQueue[list[VectorWrite]] = SimpleQueue()
    for batch in corpus.writes(count, WRITE_BATCH):
        todo.put(batch)

    def work() -> int:
        done = 0
        while True:
            try:
                batch = todo.get_nowait()
            except Empty:
                return done
            done += len(corpus.graph.write_vectors(batch))

    seconds, done = _timed(work, writers)
    _expect(done, count)
    return count / seconds


def _one(corpus: Corpus, lease: Lease) -> int:
    jobs = corpus.queue.start(lease.token, lease.job_ids, worker="bare").jobs
    texts = {
        text.uid: text for text in corpus.graph.read_wanted({job.entity_uid: [job.version] for job in jobs})
    }
    written = corpus.graph.write_vectors([corpus.write(text) for text in texts.values()])
    done = [
        Completion(job.id, Outcome.EMBEDDED)
        for job in jobs
        if (job.entity_uid, texts[job.entity_uid].content_hash) in written
    ]
    spent = Spent(1, lease.est_tokens, 0)
    return len(corpus.queue.settle(lease.token, Verdicts(completed=done), spent=spent).completed)


def _timed(work: Callable[[], int], threads: int) -> tuple[float, int]:
    """Seconds until all of `threads` have ended, and the sum of what they did."""
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        futures = [pool.submit(work) for _ in range(threads)]
        done = sum(future.result() for future in futures)
        return time.perf_counter() - began, done


def _expect(done: int, count: int) -> None:
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were done: the measurement means nothing")
