"""What people call by hand: `celery -A tasks call tasks.repair.… --args='[…]'`. Each returns its summary.

The caller never sees how such a call ends: the log and Flower do. So a wrong argument is refused before anything is
changed, with one line and a summary that name it.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from neo4j_queue.errors import EntityNotFound, SettingsError
from neo4j_queue.log import get_logger
from neo4j_queue.queue import switches
from neo4j_queue.reconcile import repair
from tasks import arguments, resources
from tasks.app import app
from tasks.arguments import BadArgument
from tasks.refusal import refused

log = get_logger()

Summary = dict[str, Any]


def by_hand(act: Callable[..., Summary]) -> Callable[..., Summary]:
    """The act as a task that logs its summary (`repair_done`), or why it was refused."""
    signature = inspect.signature(act)

    @wraps(act)
    def run(*args: object, **kwargs: object) -> Summary:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            return refused(act.__name__, f"{error}: {act.__name__}({', '.join(signature.parameters)})")
        try:
            result = act(*args, **kwargs)
        except (BadArgument, EntityNotFound, SettingsError) as error:
            return refused(act.__name__, error)
        shown = {key: value for key, value in result.items() if key != "jobs"}
        log.info("repair_done", task=act.__name__, **shown)
        return result

    # Celery compares calls with the signature, but only those of its own process: `bind` does it for all.
    task: Callable[..., Summary] = app.task(typing=False)(run)
    return task


@by_hand
def force_generate_embedding(entity_name: str | int | None = None, limit: int | str | None = 10) -> Summary:
    """One entity by name, or up to `limit` entities that have no vector; see docs/how-to/repair.md."""
    name = None if entity_name is None else arguments.entity_name(entity_name)
    _refuse_if_displaced()
    result = repair.force_generate_embedding(resources.graph(), resources.queue(), name, limit)
    resources.nudge()()
    return result


def _refuse_if_displaced() -> None:
    if resources.queue().displaced():
        raise SettingsError(
            ["the queue works with other settings than this worker: restart it with those in force"]
        )


@by_hand
def retry_failed(
    category: str | None = None,
    reason: str | None = None,
    status: int | str | None = None,
    limit: int | str | None = None,
) -> Summary:
    """Queues failed jobs again, by error category, failure reason and HTTP status."""
    wanted = (
        arguments.category(category),
        arguments.reason(reason),
        arguments.http_status(status),
        arguments.limit(limit),
    )
    done = resources.queue().retry(*wanted)
    resources.nudge()()
    return {"retried": done.jobs, "left": done.left}


@by_hand
def release(job_ids: list[str] | str) -> Summary:
    """Takes running jobs back to `pending`; their holders lose the lease. One id needs no list."""
    ids = arguments.job_ids(job_ids)
    released = resources.queue().release_jobs(ids)
    resources.nudge()()
    return {"released": len(released), "asked": len(ids)}


@by_hand
def pause(seconds: float | str, reason: str = "by hand") -> Summary:
    """Stops leasing and starting for so many seconds, a year at most."""
    length, why = arguments.seconds(seconds), arguments.text("reason", reason)
    return {"paused_until": switches.pause(resources.queue(), length, why), "pause_reason": why}


@by_hand
def resume(halt: bool = True, pause: bool = True) -> Summary:
    """Ends the halt, the pause, or both (without arguments), and with both the trouble with the provider."""
    both = arguments.flag("halt", halt), arguments.flag("pause", pause)
    ended = switches.resume(resources.queue(), halt=both[0], pause=both[1])
    resources.nudge()()
    return {"was_halted": ended.halted, "was_paused": ended.paused, "was_in_trouble": ended.troubled}
