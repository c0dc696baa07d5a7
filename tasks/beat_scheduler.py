"""Beat's scheduler: Celery's own, but that it sends no tick to a queue in which too many wait already, and shows that
it lives.

    celery -A tasks beat -s /run/beat       # the file is empty; its time says when beat last looked for ticks
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from neo4j_queue.log import get_logger
from tasks import broker, routes
from tasks.outage import outage

REASON = "too many wait for a control worker: none is there, or it is busy"
# Celery's own name, which is in force where `-s` is not given. No schedule is kept in a file.
UNNAMED = "celerybeat-schedule"

log = get_logger()


class BoundedScheduler(Scheduler):  # type: ignore[misc]
    """Without it the ticks of a weekend without a control worker are a quarter of a million messages in Redis."""

    def __init__(self, *args: Any, schedule_filename: str = UNNAMED, **kwargs: Any) -> None:
        self._held_back: set[str] = set()
        self._alive = None if schedule_filename == UNNAMED else Path(schedule_filename)
        super().__init__(*args, schedule_filename=schedule_filename, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's, once a second. A health check looks at the age of the file: a beat that hangs keeps its process
        and stops ticking."""
        if self._alive is not None:
            with suppress(OSError):  # a file that cannot be written grows old, which is what is looked at
                self._alive.touch()
        return super().tick(*args, **kwargs)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        """Sends the tick, unless that would say nothing new. Entries for other queues are none of our business."""
        ours = entry.task.startswith(routes.TO_CONTROL) and "queue" not in entry.options
        if ours and broker.is_crowded(self.app.conf.broker_url, entry.task):
            if entry.name not in self._held_back:
                self._held_back.add(entry.name)
                log.warning("ticks_held_back", tick=entry.name, reason=REASON)
            return
        self._held_back.discard(entry.name)
        super().apply_entry(entry, producer)

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """As Celery's; what goes wrong is raised, and logged by who called."""
        sent = super().apply_async(*args, **kwargs)
        outage.back()
        return sent
