"""The Celery app, its logging, and the checks before a worker or beat may work."""

import logging
from typing import Any

from billiard.util import get_logger as pool_logger
from celery import Celery, signals
from kombu.transport.redis import Channel

from neo4j_queue import log
from neo4j_queue.checks import boot
from neo4j_queue.errors import Neo4jQueueError
from neo4j_queue.errors.explain import exit_code_of
from neo4j_queue.settings import Role, Settings
from tasks import broker, config
from tasks.outage import database_outage, outage

# Celery writes a line or two for every message, and a tick comes every second: what a task did stands in its own
# line (`jobs_leased`, `embedding_job_completed`, `repair_done`, …) and in Flower.
CHATTY = ("celery.beat", "celery.worker.strategy", "celery.worker.request", "celery.app.trace")

# For the same reason as `ack_emulation` in celeryconfig.py: a channel that closes would send back what it holds, which
# a warm shutdown runs all the same, and on a connection that is lost ends in an AttributeError that is not caught.
Channel.do_restore = False

log.screen(outage.screen)
log.screen(database_outage.screen)

app = Celery("neo4j-queue", amqp=broker.PromptAMQP)
app.config_from_object("tasks.config:celeryconfig")

_fingerprint: str | None = None


def fingerprint() -> str | None:
    """That of the settings with which this worker started; None in a process that is no worker."""
    return _fingerprint


@signals.setup_logging.connect
def keep_our_logging(**_: Any) -> None:
    """Celery would set up its own logging unless a receiver answers this signal."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # The pool's own logger keeps its lines to itself, and without a handler they come out as bare text.
    pool_logger().propagate = True


@signals.task_success.connect
def say_that_the_databases_are_back(**_: Any) -> None:
    """A task that ends well has found them."""
    database_outage.back()


@signals.celeryd_init.connect
def check_worker(sender: str | None = None, **_: Any) -> None:
    """Before a worker forks: settings, services, schema."""
    global _fingerprint
    _fingerprint = _check(Role.WORKER, sender)


@signals.beat_init.connect
def check_beat(**_: Any) -> None:
    """Before beat ticks: settings, services, schema."""
    _check(Role.BEAT, None)


def _check(role: Role, name: str | None) -> str:
    """Returns the settings' fingerprint.

    Signal handlers swallow every exception but `SystemExit`, so that is what stops the boot.
    """
    process: log.Process = "beat" if role is Role.BEAT else "worker"
    log.configure(process)
    if name:
        log.set_worker_id(name)
    if (path := config.foreign()) is not None:
        log.get_logger().warning("foreign_celeryconfig", path=path, read=str(config.PLACE))
    try:
        settings = Settings.load(role)
        log.configure(process, settings)
        if name:
            log.set_worker_id(name)
        return boot.check(settings, role, ping_broker=lambda: broker.ping(settings.celery_broker_url))
    except Neo4jQueueError as error:
        for line in str(error).splitlines():
            log.get_logger().critical("boot_refused", role=role, problem=line)
        raise SystemExit(exit_code_of(error)) from None
