"""The worker's side of the broker; `worker_consumer` of celeryconfig.py names it."""

import warnings
from collections.abc import Mapping
from typing import Any

from celery.exceptions import CPendingDeprecationWarning
from celery.worker import consumer

from tasks.outage import outage

# Workers ask the jobs database who else is there and what to do. What Celery's workers tell one another is for
# features that are not used here; it costs keys in Redis, a second at the start, and stacks when Redis dies.
ALONE = {"without_gossip": True, "without_mingle": True}

# With each lost connection: the setting that it asks for is in celeryconfig.py.
warnings.filterwarnings("ignore", message="\nIn Celery 5.1 we", category=CPendingDeprecationWarning)


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Celery's, that neither looks for other workers nor listens to them, and says when the broker is back."""

    def __init__(self, *args: Any, worker_options: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, worker_options={**(worker_options or {}), **ALONE}, **kwargs)

    def connect(self) -> Any:
        """As Celery's."""
        connection = super().connect()
        outage.back()
        return connection
