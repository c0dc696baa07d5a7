"""Every Celery setting. Intervals and limits follow the product's own settings (docs/reference/settings.md).

This file is imported by every `celery` command, `--help` and Flower included, so it must not fail: a wrong
setting has its default here, and the boot check of worker and beat reports it.
"""

from datetime import UTC, datetime

from neo4j_queue.queue.ticks import OUTBOX_TICK_MS, TICK_MS
from neo4j_queue.settings import Settings
from tasks import routes

_settings = Settings.lenient()
_grace_s = _settings.embed_shutdown_grace_ms / 1000
_lock_s = _settings.embed_job_lock_duration_ms / 1000
_request_s = _settings.embed_request_timeout_ms / 1000

# -- the broker: a place for messages in flight and nothing else ---------------------------------------------

broker_url = _settings.celery_broker_url
broker_connection_retry_on_startup = True
# Workers wait for the broker without an end; what they would have done is safe in the jobs database.
broker_connection_max_retries = None
# A Redis that changes its role, is full or cannot save answers with errors for a while: workers wait, as for one that
# is away. Without this such an answer ends them (celery#7946).
broker_channel_error_retry = True
broker_pool_limit = 10
# A frozen broker must not freeze its clients: without these a publish waits without an end.
broker_transport_options = {
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "retry_on_timeout": False,
    # A message is gone from Redis once a worker has it; it is a hint, and the lease in the jobs database brings work
    # back. The copies that Redis would keep until the acknowledgement came back long after their leases had run out,
    # and a Redis that died with one outstanding ended the worker.
    "ack_emulation": False,
}
result_backend = None
task_ignore_result = True

# -- messages: ids and numbers, as JSON ----------------------------------------------------------------------

task_serializer = "json"
accept_content = ["json"]
event_serializer = "json"
enable_utc = True
timezone = "UTC"

# -- queues --------------------------------------------------------------------------------------------------

task_default_queue = routes.CONTROL
task_create_missing_queues = True
task_queues = {name: {"routing_key": name} for name in (routes.CONTROL, routes.EMBED)}
task_routes = routes.ROUTES
imports = ("tasks.dispatch", "tasks.embed", "tasks.upkeep", "tasks.repair", "tasks.census", "tasks.lifecycle")

# -- workers -------------------------------------------------------------------------------------------------

# Early acknowledgement: the lease in the jobs database, not the broker, brings work back. A message that was
# delivered twice would only find its lease started.
task_acks_late = False
task_reject_on_worker_lost = False
task_publish_retry = False
worker_prefetch_multiplier = 1
# A pool process that was just forked on a busy machine may take longer than the default of four seconds.
worker_proc_alive_timeout = 60.0
worker_disable_prefetch = True
# A provider call has its own deadline and the driver its own limits; these end what hangs in spite of them.
task_soft_time_limit = _lock_s + _request_s
task_time_limit = _lock_s + _request_s + 30
# Work in pages, each of which the databases end in bounded time, is not ended for being long. An hour bounds what was
# not foreseen.
task_annotations = {
    name: {"soft_time_limit": 3600, "time_limit": 3630}
    for name in (
        routes.RECOVER_STALE,
        routes.RECONCILE,
        routes.CLEANUP,
        routes.RETRY_FAILED,
        routes.FORCE_GENERATE,
    )
}
# SIGQUIT (or SIGTERM with REMAP_SIGTERM=SIGQUIT): so long running batches may finish, then they are released.
worker_soft_shutdown_timeout = _grace_s
worker_cancel_long_running_tasks_on_connection_loss = False
# Nothing is prefetched that could be reduced after a connection was lost.
worker_enable_prefetch_count_reduction = False
worker_consumer = "tasks.consumer:Consumer"
worker_redirect_stdouts = False
worker_hijack_root_logger = False

# -- events, for Flower --------------------------------------------------------------------------------------

worker_send_task_events = True
task_send_sent_event = True
event_queue_expires = 60

# -- beat ----------------------------------------------------------------------------------------------------

# The schedule keeps no state worth keeping: everything it fires is idempotent. In memory it cannot be found corrupted
# after an unclean stop, as a schedule file can (celery#9951). And it stops ticking into a queue that no worker empties.
beat_scheduler = "tasks.beat_scheduler:BoundedScheduler"
beat_max_loop_interval = 1


def _tick(task: str, seconds: float, **kwargs: object) -> dict[str, object]:
    """A tick. It comes at beat's start too, so that a beat that is restarted often fires the rare ones as well, and has
    no expiry: that would compare the clocks of two machines. The database says whether what it asks for is due."""
    return {"task": task, "schedule": seconds, "kwargs": kwargs, "last_run_at": _LONG_AGO}


def _act(task: str, every_s: float, tick_s: float | None = None, **kwargs: object) -> dict[str, object]:
    """A tick for what is done once in `every_s`, by the database's clock."""
    tick_s = every_s if tick_s is None else tick_s
    # Half a tick early: one that comes a little soon must not wait for the next.
    return _tick(task, tick_s, at_most_every_s=every_s - tick_s / 2, **kwargs)


_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_HOUR_S, _DAY_S = 3_600.0, 86_400.0

beat_schedule = {
    "lease": _tick(routes.LEASE_BATCH, TICK_MS / 1000, beat=True),
    "heartbeat": _act(routes.HEARTBEAT, _settings.embed_job_heartbeat_interval_ms / 1000),
    # Hourly ticks: so the day's work is done on machines that run for a few hours of it, whichever they are.
    "cleanup": _act(routes.CLEANUP, _DAY_S, tick_s=_HOUR_S),
    "retry-quota": _act(routes.RETRY_QUOTA, _DAY_S, tick_s=_HOUR_S),
}
for _scope, _interval_ms in _settings.discovery().items():
    # The outbox may be due more often than the settings say: every few seconds while a trigger of the graph fills it.
    _tick_s = min(_interval_ms, OUTBOX_TICK_MS if _scope == "outbox" else _interval_ms) / 1000
    beat_schedule[f"reconcile-{_scope}"] = _act(
        routes.RECONCILE, _interval_ms / 1000, tick_s=_tick_s, scope=_scope
    )
if _settings.embed_job_recovery_interval:
    beat_schedule["recover"] = _tick(routes.RECOVER_STALE, _settings.embed_job_recovery_interval / 1000)
