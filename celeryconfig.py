"""Every Celery setting. Intervals and limits follow the product's own settings (docs/reference/settings.md).

This file is imported by every `celery` command, `--help` and Flower included, so it must not fail: a wrong
setting has its default here, and the boot check of worker and beat reports it.
"""

from celery.schedules import crontab

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
        "tasks.repair.force_generate_embedding",
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
beat_scheduler = "tasks.ticks:BoundedScheduler"
beat_max_loop_interval = 1


def _every(task: str, seconds: float) -> dict[str, object]:
    """A tick. It expires before the next one, so that a worker that was away runs none that is out of date."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds * 0.9}}


def _daily(task: str, hour: int, **kwargs: object) -> dict[str, object]:
    return {
        "task": task,
        "schedule": crontab(hour=hour, minute=17),
        "kwargs": kwargs,
        "options": {"expires": 3600},
    }


beat_schedule = {
    "lease": _every(routes.LEASE_BATCH, 1.0),
    "heartbeat": _every(routes.HEARTBEAT, _settings.embed_job_heartbeat_interval_ms / 1000),
    "reconcile": _every(routes.RECONCILE, 300.0),
    "cleanup": _daily(routes.CLEANUP, hour=3),
    # A quota that was exceeded in other ways than a pause shows (402) may be full again a day later.
    "retry-quota": _daily(routes.RETRY_FAILED, hour=4, status=402),
}
if _settings.embed_job_recovery_interval:
    beat_schedule["recover"] = _every(routes.RECOVER_STALE, _settings.embed_job_recovery_interval / 1000)
