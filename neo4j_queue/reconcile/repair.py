"""The dual-mode repair tool: one entity by name, or a bounded number of entities that have no vector."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import structlog

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors import EntityNotFound
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText
from neo4j_queue.graph.keys import Place, named, order
from neo4j_queue.jobs import PRIORITY_HIGHEST, Enqueued, Status
from neo4j_queue.queue import EmbedQueue
from neo4j_queue.reconcile.apart import enqueue_apart

LIMIT_DEFAULT = 10
LIMIT_MAX = 1_000
# Entities per look, however few are wanted: those that are taken care of have to be passed over, which at ten at a time
# is a round trip or three for each handful.
PAGE = 1_000
# The name under which the place of the search is kept in the jobs database.
PLACE = "repair"
# During a backfill nearly all of a million are taken care of already. A person waits no longer for the rest of them,
# and leases wait behind this call on a control worker of one slot.
SEARCH_S = 15.0

# Jobs in these states are being taken care of, or wait for `retry_failed`: their entities would only fill the page.
_TAKEN = frozenset({Status.PENDING, Status.PROCESSING, Status.FAILED})

log = structlog.get_logger(__name__)


def force_generate_embedding(
    graph: EntityGraph,
    queue: EmbedQueue,
    entity_name: str | int | None = None,
    limit: int | str | None = LIMIT_DEFAULT,
) -> dict[str, Any]:
    """Queues one job for the entity `entity_name`, or, if that is blank, jobs for entities without a vector.

    The shape of the answer is that of the contract (docs/reference/tasks.md). Raises `EntityNotFound` for an
    unknown name. `limit` is a number or a numeric string; anything else, or less than 1, means 10; at most 1,000.
    """
    if name := _name(entity_name):
        return _one(graph, queue, name)
    return _some(graph, queue, bounded_limit(limit))


def _name(entity_name: str | int | None) -> str:
    """The name that is meant; "" if it is blank or missing."""
    name = "" if entity_name is None else named(entity_name)
    return name if name.strip() else ""


def _text_of(graph: EntityGraph, name: str) -> EntityText:
    """The text of the entity of that name; or of the name without the blanks around it, which a form may have added."""
    try:
        return graph.get_text(name)
    except EntityNotFound:
        if name == name.strip():
            raise
        return graph.get_text(name.strip())


def bounded_limit(limit: object) -> int:
    """The limit that is meant: 1 to 1,000, 10 where it is missing, unreadable or less than 1."""
    try:
        number = int(str(limit).strip())
    except ValueError:
        return LIMIT_DEFAULT
    return LIMIT_DEFAULT if number < 1 else min(number, LIMIT_MAX)


def selected(
    graph: EntityGraph,
    queue: EmbedQueue,
    entity_name: str | int | None = None,
    limit: int | str | None = LIMIT_DEFAULT,
) -> list[EntityText]:
    """The entities for which `force_generate_embedding` would queue a job. Raises `EntityNotFound` as it does."""
    if name := _name(entity_name):
        return [_text_of(graph, name)]
    return discover(graph, queue, bounded_limit(limit))


def discover(
    graph: EntityGraph,
    queue: EmbedQueue,
    limit: int,
    *,
    keep_place: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> list[EntityText]:
    """Entities without a vector whose job is not being taken care of already; at most `limit`.

    Those in the outbox first, then all others along their keys, from the place where the last call found enough
    (`keep_place`), once around. Fewer, with a line in the log, where those that are taken care of take longer than
    `SEARCH_S` to pass over; then the next call goes on from there.
    """
    search = _Search(graph, queue, limit, clock)
    cursor = Cursor(queue.database)
    began = cursor.read()
    search.look_through(_outbox(graph))
    search.place = began
    place = search.look_through(_around(graph, began))
    if search.out_of_time:
        log.warning(
            "repair_search_ended", passed_over=search.passed, found=len(search.found), after_s=SEARCH_S
        )
    if keep_place and place != began:
        cursor.keep(place)
    return search.found[:limit]


@dataclass(slots=True)
class Cursor:
    """Where the last search for entities without a vector stood."""

    database: Database

    def read(self) -> Place | None:
        """The key after which to go on; None: at the first one."""
        found = self.database.read(statement("sweeps/place"), name=PLACE)
        return found[0]["after"] if found else None

    def keep(self, after: Place | None) -> None:
        """The next search goes on after this key."""
        self.database.write(statement("sweeps/keep_place"), name=PLACE, after=after)


class _Stage(NamedTuple):
    """What was found between two places of the way."""

    begin: Place | None
    texts: list[EntityText]
    end: Place | None


@dataclass(slots=True)
class _Search:
    """What was found so far, within a limit and a time."""

    graph: EntityGraph
    queue: EmbedQueue
    limit: int
    clock: Callable[[], float]
    found: list[EntityText] = field(default_factory=list)
    passed: int = 0
    out_of_time: bool = False
    place: Place | None = None
    until: float = field(init=False)

    def __post_init__(self) -> None:
        self.until = self.clock() + SEARCH_S

    def has_ended(self) -> bool:
        """True if there is enough, or no time left."""
        if len(self.found) < self.limit and self.clock() > self.until:
            self.out_of_time = True
        return self.out_of_time or len(self.found) >= self.limit

    def look_through(self, way: Iterable[_Stage]) -> Place | None:
        """Takes stages until the search has ended; the place where the next one begins, None at the end of the way."""
        if self.has_ended():
            return self.place
        for stage in way:
            self.take(stage.texts)
            # Of a stage that had more than enough, the next search takes the rest.
            self.place = stage.begin if len(self.found) >= self.limit else stage.end
            if self.has_ended():
                return self.place
        return None

    def take(self, texts: Sequence[EntityText]) -> None:
        """Adds those that nothing takes care of yet."""
        states = self.queue.states_of([text.request(self.graph.model) for text in texts])
        free = [text for text in texts if states.get((text.uid, text.version)) not in _TAKEN]
        self.found += free
        self.passed += len(texts) - len(free)


def _outbox(graph: EntityGraph) -> Iterator[_Stage]:
    after: Place | None = None
    while page := graph.pending_page(after, PAGE):
        yield _Stage(None, [text for text in page if not text.embedded and not text.deleted], None)
        if len(page) < PAGE:
            return
        after = page[-1].key


def _around(graph: EntityGraph, began: Place | None) -> Iterator[_Stage]:
    """From `began` to the last key, and from the first key to `began`."""
    after = began
    while True:
        step = graph.walk_missing(after, pending=False)
        yield _Stage(after, step.texts, step.last)
        if (after := step.last) is None:
            break
    while began is not None and (after is None or order(after) < order(began)):
        step = graph.walk_missing(after, pending=False)
        yield _Stage(after, [text for text in step.texts if order(text.key) <= order(began)], step.last)
        if (after := step.last) is None:
            return


def _one(graph: EntityGraph, queue: EmbedQueue, name: str) -> dict[str, Any]:
    text = _text_of(graph, name)
    name = text.uid
    # Else the job would find that the entity carries the vector of its text, and leave it as it is.
    if graph.distrust_broken(name):
        log.warning("vector_damaged", entity_name=name)
    request = replace(text.request(graph.model, priority=PRIORITY_HIGHEST), force=True, due_now=True)
    before = queue.states_of([request]).get((request.entity_uid, request.version))
    (result,) = queue.enqueue([request])
    return {
        "success": True,
        "mode": "specific",
        "entity": name,
        "job_id": result.id,
        "outcome": str(result.outcome),
        "did": _did(result.outcome, before),
    }


def _did(outcome: Enqueued, before: str | None) -> str:
    """What a person who asked for one entity wants to know, in words."""
    match outcome, before:
        case Enqueued.CREATED, _:
            return "queued"
        case Enqueued.REQUEUED, Status.PENDING:
            return "was waiting for another try, is due now"
        case Enqueued.REQUEUED, _:
            return f"was {before or 'ended'}, is queued again"
        case _, Status.PROCESSING:
            return "is being embedded now"
    return "was queued and due already, goes first now"


def _some(graph: EntityGraph, queue: EmbedQueue, limit: int) -> dict[str, Any]:
    texts = discover(graph, queue, limit, keep_place=True)
    requests = [text.request(graph.model) for text in texts]
    results, refused = enqueue_apart(queue, requests)
    return {
        "success": True,
        "mode": "batch",
        "limit": limit,
        "discovered": len(requests),
        "queued": len(results),
        "newly_scheduled": sum(result.outcome is not Enqueued.DUPLICATE for result in results),
        "failed": len(refused),
        "jobs": [
            *(
                {"entity": result.entity_uid, "job_id": result.id, "outcome": str(result.outcome)}
                for result in results
            ),
            *(
                {"entity": uid, "job_id": None, "outcome": "failed", "error": why}
                for uid, why in refused.items()
            ),
        ],
    }
