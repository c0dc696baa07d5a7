"""What the tools work with: the graph, the queue, the broker, and the checks that come before an answer or an act."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from neo4j_queue.checks import fingerprint, in_force
from neo4j_queue.checks.health import Checkup
from neo4j_queue.errors import SettingsError
from neo4j_queue.graph import EntityGraph
from neo4j_queue.in_time import InTime
from neo4j_queue.mcp_server.calls import AT_ONCE, GRAPH
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.queue.reasons import Reason
from neo4j_queue.schema import refuse_unprepared, unprepared
from neo4j_queue.settings import Settings

# For the end: clients kill a server that takes longer than two seconds.
CLOSE_WITHIN_S = 1.0
# A person changes settings or the schema with `neo4j-queue init`; nothing is lost when it is seen a minute later.
LOOK_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker, as far as the tools need it; this package knows neither Celery nor Redis.

    nudge: tells the workers that jobs are due; returns at once. trouble: why the broker cannot be used, or None.
    missing: which workers are missing; None if they could not be asked.
    """

    nudge: Callable[[], None]
    trouble: Callable[[], str | None]
    missing: Callable[[], Sequence[Reason] | None]


@dataclass(slots=True)
class Backend:
    """Everything behind the tools. Used by many threads at once; opens nothing before the first call.

    `in_time`: asks the graph for what an answer can do without.
    """

    settings: Settings
    graph: EntityGraph
    queue: EmbedQueue
    broker: Broker
    checkup: Checkup = field(init=False)
    in_time: InTime = field(default_factory=partial(InTime, GRAPH, most_late=AT_ONCE))
    clock: Callable[[], float] = time.monotonic
    _schema_seen_at: float = field(default=float("-inf"), init=False)
    _settings_seen_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self.checkup = Checkup(self.settings, self.queue, self.graph.database, self.broker)

    def refuse_old_schema(self) -> None:
        """Raises `SettingsError` for a jobs database that was never prepared, or by an older program."""
        if self.clock() - self._schema_seen_at < LOOK_AGAIN_S:
            return
        refuse_unprepared(self.queue.database)
        self._schema_seen_at = self.clock()

    def refuse_other_settings(self) -> None:
        """Raises `SettingsError` when a database is not prepared, or when other settings than these are in force.

        For acts that queue jobs: the workers of other settings would end them without a vector.
        """
        if self.clock() - self._settings_seen_at < LOOK_AGAIN_S:
            return
        graph, jobs = self.graph.database, self.queue.database
        if problems := unprepared(graph, jobs, self.settings):
            raise SettingsError(problems)
        own = fingerprint.fingerprint(self.settings, graph)
        if (line := in_force.refusal(in_force.read(jobs), own)) is not None:
            raise SettingsError([line])
        self._settings_seen_at = self.clock()

    def close(self) -> None:
        """Closes the drivers, and waits a moment for it: a frozen database would keep the program from ending."""
        closing = threading.Thread(target=self.graph.close, name="close", daemon=True)
        closing.start()
        closing.join(CLOSE_WITHIN_S)
