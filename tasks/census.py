"""The census: which workers are alive, how many batches they can run at once, and which leases they execute."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from celery.worker import state as worker_state
from celery.worker.control import inspect_command

from neo4j_queue.log import get_logger
from neo4j_queue.queue.leases import WorkerAnswer
from neo4j_queue.queue.ticks import CLOCKS_TOLD, FOREIGN_TOLD
from tasks import deployment, resources
from tasks.app import app, fingerprint
from tasks.broker import BROKER_ERRORS
from tasks.routes import EMBED, EMBED_BATCH

# Workers answer from their main process, also while every slot is busy; a second is ten times what they need.
ANSWER_TIMEOUT_S = 1.0
# A question to all workers lasts the whole second, and this slot gives no lease meanwhile: once a minute, for a worker
# whose hello was lost or that was silent for long. Known workers are asked by name, which ends with the last answer.
EVERYBODY_EVERY_S = 60.0
# With no worker known, a lease transaction asks again at most this often. Where the census forgets sooner (a short
# heartbeat), it asks as often as that: else a lease that was asked for in between would be given to no worker, and
# without beat nothing would ask again.
REFRESH_EVERY_S = 5.0
# Beyond this, times in logs and tables stop making sense to people (as in the doctor's look at the databases).
CLOCK_SKEW_MS = 2_000
# Often enough to be read.
CLOCKS_EVERY_MS = FOREIGN_EVERY_MS = 300_000

log = get_logger()
_refreshed_at = float("-inf")
# Imported by a worker as it starts: what an earlier one of its name began, it began before.
_up_since = time.monotonic()


@inspect_command()
def embed_census(state: Any) -> dict[str, Any]:
    """`celery -A tasks inspect embed_census`: this worker's slots, the leases that it executes, its settings."""
    consumer = state.consumer
    serves = {queue.name for queue in consumer.task_consumer.queues}
    leases = dict(
        request.args[:2] for request in tuple(worker_state.active_requests) if request.name == EMBED_BATCH
    )
    return {
        "slots": slots_of(consumer) if EMBED in serves else 0,
        "leases": leases,
        "fingerprint": fingerprint(),
        "queues": sorted(serves),
        "clock_ms": round(time.time() * 1000),
        "up_ms": round((time.monotonic() - _up_since) * 1000),
        "deployment": deployment.mark(),
    }


def slots_of(consumer: Any) -> int:
    """How many batches a worker can run at once: with `--autoscale` the most that its pool grows to."""
    return int(getattr(consumer.controller, "max_concurrency", None) or consumer.pool.limit)


def take() -> tuple[list[WorkerAnswer], dict[str, list[str]]] | None:
    """Asks the workers: those that serve the queue `embed`, and the leases in execution (token -> job ids).

    None when the broker went away meanwhile: the lack of answers says nothing then.
    """
    queue = resources.queue()
    known = [worker.name for worker in queue.census.workers()]
    everybody = queue.census.may_ask_all(EVERYBODY_EVERY_S) or not known
    asked_ms, asked_at = queue.ticks.now_ms(), time.monotonic()
    try:
        answers = app.control.broadcast(
            "embed_census",
            destination=None if everybody else known,
            reply=True,
            timeout=ANSWER_TIMEOUT_S,
        )
    except BROKER_ERRORS as error:
        log.warning("census_not_taken", error=str(error), error_class=type(error).__name__)
        return None
    answers = _without_foreign(answers or [])
    _tell_clocks(answers, asked_ms, asked_ms + round((time.monotonic() - asked_at) * 1000))
    workers: list[WorkerAnswer] = []
    leases: dict[str, list[str]] = {}
    for answer in answers:
        for name, said in answer.items():
            if "slots" not in said:
                log.warning("census_answer_unreadable", worker=name, answer=str(said)[:200])
                continue
            leases |= said["leases"]
            if said["slots"]:
                mark = said.get("fingerprint")
                up_ms = said.get("up_ms")
                workers.append(
                    WorkerAnswer(name, said["slots"], len(said["leases"]), fingerprint=mark, up_ms=up_ms)
                )
    return workers, leases


def foreign(said: Mapping[str, Any], own: str | None) -> bool:
    """True if this answer is that of another deployment's worker, which shares our Redis database."""
    return None not in (own, said.get("deployment")) and said["deployment"] != own


def _without_foreign(answers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    own = deployment.mark()
    names = [name for answer in answers for name, said in answer.items() if foreign(said, own)]
    if names and resources.queue().ticks.take(FOREIGN_TOLD, FOREIGN_EVERY_MS):
        log.warning("foreign_workers", workers=sorted(names), advice=deployment.ADVICE)
    return [{name: said for name, said in answer.items() if name not in names} for answer in answers]


def _tell_clocks(answers: Sequence[Mapping[str, Any]], asked_ms: int, answered_ms: int) -> None:
    """Names the workers whose clock is not the database's. It harms no lease, and misleads people who read logs."""
    off = {}
    for answer in answers:
        for name, said in answer.items():
            if "clock_ms" in said:
                ahead_ms = max(said["clock_ms"] - answered_ms, 0) - max(asked_ms - said["clock_ms"], 0)
                if abs(ahead_ms) > CLOCK_SKEW_MS:
                    off[name] = round(ahead_ms / 1000, 1)
    if off and resources.queue().ticks.take(CLOCKS_TOLD, CLOCKS_EVERY_MS):
        log.warning("worker_clock_off", ahead_s=off, advice="set the clocks by NTP")


def refresh() -> bool:
    """Takes and records the census unless that was just done; True if an embed worker answered."""
    global _refreshed_at
    queue = resources.queue()
    if time.monotonic() - _refreshed_at < min(REFRESH_EVERY_S, queue.census.worker_ttl_ms / 1000):
        return False
    _refreshed_at = time.monotonic()
    taken = take()
    if taken is None:
        return False
    workers, _ = taken
    queue.census.record(workers)
    return bool(workers)
