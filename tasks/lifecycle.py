"""A worker's first and last acts."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from celery import signals
from celery.worker import state as worker_state
from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue import log as logs
from neo4j_queue.database import Database
from neo4j_queue.jobs import Worker
from neo4j_queue.log import get_logger
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.settings import Settings
from tasks import resources
from tasks.app import app, fingerprint

# First acts that waited this long in the broker were done by someone else.
FIRST_ACT_EXPIRES_S = 60.0
# How often a stopping worker looks whether its batches have finished.
LOOK_EVERY_S = 0.1

log = get_logger()


@signals.celeryd_after_setup.connect
def take_name(sender: str, **_: Any) -> None:
    """Every log line carries the node name."""
    logs.set_worker_id(sender)


@signals.worker_init.connect
def warm_up(**_: Any) -> None:
    """Loads the model or the client's code once, before the pool forks, and not while a lease is waiting."""
    if _serves("embed"):
        resources.embedder().warm_up()


@signals.worker_process_init.connect
def warm_up_process(**_: Any) -> None:
    """Opens this pool process's clients before its first task, which would wait for them up to a second.

    What needs the network is done in a thread: a database that is away must not hold up the pool, which takes a
    process for dead that is not up within seconds. The task that comes then meets the fault itself.
    """
    databases = [resources.queue().database]
    if _serves("embed"):
        resources.embedder()
        databases.append(resources.graph().database)
    threading.Thread(target=_connect, args=(databases,), name="warm-up", daemon=True).start()


def _connect(databases: Sequence[Database]) -> None:
    for database in databases:
        try:
            database.autocommit("RETURN 1")
        except (Neo4jError, DriverError) as error:
            log.debug("warm_up_failed", database=database.address.database, error=str(error))


@signals.worker_ready.connect
def begin(sender: Any, **_: Any) -> None:
    """Tells the census that we are here, and takes back what a dead predecessor left."""
    if _serves("embed"):
        # By ourselves: the heartbeat's question may come before we can hear it.
        slots = Worker(sender.hostname, slots=sender.pool.limit, fingerprint=fingerprint())
        _tell_census("hello", lambda queue: queue.record_census([slots]))
    # Before the recovery: work that outlived our absence still has its lock extended. An embed worker has none yet.
    first_acts = ["tasks.upkeep.heartbeat"] if _serves("control") else []
    if Settings.lenient().embed_job_recovery_interval:
        first_acts.append("tasks.upkeep.recover_stale")
    for name in [*first_acts, "tasks.dispatch.lease_batch"]:
        app.send_task(name, expires=FIRST_ACT_EXPIRES_S)
    _Shutdown.pool = sender.pool


class _Shutdown:
    """The pool of this worker, for the release of batches at its end."""

    pool: Any = None


@signals.worker_shutting_down.connect
def release_after_grace(how: str, **_: Any) -> None:
    """SIGTERM waits for running batches, but not for ever: what has not finished by then is released.

    Celery by itself would wait without an end. The batches get `SystemExit`, and the pipeline gives their jobs
    back. (SIGQUIT does the same through `worker_soft_shutdown_timeout`.)
    """
    if how == "Warm":
        threading.Thread(target=_cancel_after_grace, name="grace", daemon=True).start()


def _cancel_after_grace() -> None:
    deadline = time.monotonic() + Settings.lenient().embed_shutdown_grace_ms / 1000
    while time.monotonic() < deadline:
        if not worker_state.active_requests:
            return
        time.sleep(LOOK_EVERY_S)
    for request in tuple(worker_state.active_requests):
        log.warning("batch_cancelled", task_id=request.id, reason="shutdown grace is over")
        request.cancel(_Shutdown.pool, emit_retry=False)


@signals.worker_shutdown.connect
def say_good_bye(sender: Any, **_: Any) -> None:
    """Takes our slots out of the census, so that nothing is leased for us any more."""
    _tell_census("good_bye", lambda queue: queue.forget_worker(sender.hostname))


def _tell_census(what: str, tell: Callable[[EmbedQueue], object]) -> None:
    """Tells the census about this worker. A jobs database that is away is no reason to wait: the census finds out."""
    settings = Settings.lenient()
    try:
        with Database(settings.jobs_address(), retry_time_s=0) as database:
            tell(EmbedQueue(database, settings))
    except (Neo4jError, DriverError) as error:
        log.info(f"{what}_unheard", error=str(error))


def _serves(queue: str) -> bool:
    return queue in app.amqp.queues.consume_from
