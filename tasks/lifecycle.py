"""A worker's first and last acts."""

import gc
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from celery import signals
from celery.worker import state as worker_state
from neo4j.exceptions import DriverError, Neo4jError

from neo4j_queue import log as logs
from neo4j_queue.database import Database
from neo4j_queue.log import get_logger
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.leases import Worker
from neo4j_queue.settings import Settings
from tasks import census, deployment, resources
from tasks.app import app, fingerprint
from tasks.broker import PUBLISH_ERRORS, is_crowded
from tasks.routes import CONTROL, EMBED, HEARTBEAT, LEASE_BATCH, RECONCILE, RECOVER_STALE

# The outbox is not swept for each of many workers that start together.
FIRST_SWEEP_EVERY_S = 30.0
# Rest between two tries to register in the census.
HELLO_AGAIN_S = 5.0
# How often a stopping worker looks whether its batches have finished.
LOOK_EVERY_S = 0.1
# Objects between two collections. A batch makes some ten thousand that all go with it, and every collection in the
# middle of one walks over all numbers of its vectors: with Python's 700 that was a tenth of a pool process's work.
COLLECT_EVERY = 20_000

log = get_logger()


@signals.celeryd_after_setup.connect
def take_name(sender: str, **_: Any) -> None:
    """Every log line carries the node name."""
    logs.set_worker_id(sender)


@signals.worker_init.connect
def warm_up(**_: Any) -> None:
    """Loads the model or the client's code once, before the pool forks, and not while a lease is waiting.

    What is loaded by then stays: no collection looks at it again, and the pool processes share its memory.
    """
    with Database(Settings.lenient().jobs_address(), retry_time_s=0) as jobs:
        try:
            deployment.learn(jobs)
        except (Neo4jError, DriverError) as error:
            log.info("deployment_unknown", error=str(error))
    if _serves(EMBED):
        resources.embedder().warm_up()
    # Celery looks through all installed packages for it, at a process's first task.
    _ = app.backend
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)


@signals.worker_process_init.connect
def warm_up_process(**_: Any) -> None:
    """Opens this pool process's clients before its first task, which would wait for them up to a second.

    What needs the network is done in a thread: a database that is away must not hold up the pool, which takes a
    process for dead that is not up within seconds. The task that comes then meets the fault itself.
    """
    databases = [resources.queue().database]
    if _serves(EMBED):
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
    """Registers in the census, and recovers what a dead predecessor left."""
    _Shutdown.pool = sender.pool
    if _serves(EMBED):
        # By this worker itself: the heartbeat's question may come before it listens.
        slots = Worker(sender.hostname, slots=census.slots_of(sender), fingerprint=fingerprint())
        if not _say_hello(slots):
            threading.Thread(target=_say_hello_again, args=(slots,), name="hello", daemon=True).start()
    settings = Settings.lenient()
    first_acts: dict[str, dict[str, object]] = {}
    if _serves(CONTROL):
        first_acts[HEARTBEAT] = {}
    if settings.embed_job_recovery_interval:
        first_acts[RECOVER_STALE] = {}
    if _serves(CONTROL) and "outbox" in settings.embed_discovery:
        first_acts[RECONCILE] = {"scope": "outbox", "at_most_every_s": FIRST_SWEEP_EVERY_S}
    for name, arguments in [*first_acts.items(), (LEASE_BATCH, {})]:
        if not is_crowded(app.conf.broker_url, name):
            _ask_for(name, arguments)


def _ask_for(task: str, arguments: Mapping[str, object]) -> None:
    """A first act that the broker does not take is what beat asks for with its next tick."""
    try:
        app.send_task(task, kwargs=dict(arguments))
    except PUBLISH_ERRORS as error:
        log.warning("first_act_not_sent", task=task, error=str(error))


class _Shutdown:
    """The pool of this worker, for the release of batches at its end, and whether that has come."""

    pool: Any = None
    leaving = threading.Event()
    # Held while the census is told: a hello must not come after the good-bye.
    telling = threading.Lock()


def _say_hello(slots: Worker) -> bool:
    return _tell_census("hello", lambda queue: queue.census.record([slots]))


def _say_hello_again(slots: Worker) -> None:
    while not _Shutdown.leaving.wait(HELLO_AGAIN_S):
        with _Shutdown.telling:
            if _Shutdown.leaving.is_set() or _say_hello(slots):
                return


@signals.worker_shutting_down.connect
def release_after_grace(how: str, **_: Any) -> None:
    """SIGTERM waits for running batches for the grace period; what has not finished by then is released.

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
    """Takes this worker's slots out of the census, so that nothing more is leased for it."""
    _Shutdown.leaving.set()
    with _Shutdown.telling:
        _tell_census("good_bye", lambda queue: queue.census.forget(sender.hostname))


def _tell_census(what: str, tell: Callable[[EmbedQueue], object]) -> bool:
    """Writes to the census; True if it was written. A jobs database that is away is no reason to wait."""
    settings = Settings.lenient()
    try:
        with Database(settings.jobs_address(), retry_time_s=0) as database:
            tell(EmbedQueue(database, settings))
    except (Neo4jError, DriverError) as error:
        log.info(f"{what}_unheard", error=str(error))
        return False
    return True


def _serves(queue: str) -> bool:
    return queue in app.amqp.queues.consume_from
