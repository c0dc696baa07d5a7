"""The statements of a batch on the graph, each narrowed down to the entities that it fails for.

The graph being away or misconfigured concerns every entity. Any other fault (a constraint of the user's, a property
that the driver cannot read) may be one entity's: the statement is repeated over parts of the entities, like a refused
request (`provider_call`), until the ones to blame are alone. An entity is to blame only if others passed; when nothing
passes, the graph is at fault and no job is judged.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from neo4j_queue.errors import EntityLocked, ErrorCategory, Fault, FaultKind, classify
from neo4j_queue.graph import EntityGraph
from neo4j_queue.graph.entities import EntityText, VectorWrite
from neo4j_queue.pipeline.job_log import JobLog
from neo4j_queue.pipeline.provider_call import Vector
from neo4j_queue.queue.leases import LeasedJob

# Faults that every entity would meet.
COMMON = frozenset({FaultKind.STORE, FaultKind.STORE_BROKEN, FaultKind.CONFIGURATION})
# As many entities to blame are found in one batch; the others of their parts wait for the next.
MOST_BLAMED = 8
# A batch waits for so many locks: enough to find one by halves. An import holds thousands, and what is not written by
# then waits with the locked ones.
MOST_LOCK_WAITS = 6
# Numbers in one write of vectors, which holds the locks of its entities meanwhile: 256 vectors of 256 numbers, 42 of
# 1,536. Such a write takes a tenth of a second, and its round trip a hundredth of that.
WRITE_NUMBERS = 65_536
# Vectors in hand are paid for: when the graph does not take them, they are offered again after these rests.
WRITE_RETRIES_S = (0.5, 1.0, 2.0)

Interruptions = tuple[type[BaseException], ...]
# An entity's key and the content hash of its text.
Written = set[tuple[str, str]]
R = TypeVar("R")


@dataclass(slots=True)
class Isolated(Generic[R]):
    """What became of a statement over some keys: the `answers` of the parts that `passed`, the fault of each key that
    was `refused` alone, and of each that another transaction has `locked`.

    A key in none of them was not judged, because of `rest` (a fault that concerns every key, with the `error` behind
    it) or because there were more to blame than are looked for at once.
    """

    answers: list[R] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    refused: dict[str, Fault] = field(default_factory=dict)
    locked: dict[str, Fault] = field(default_factory=dict)
    rest: Fault | None = None
    error: Exception | None = None

    @property
    def proven(self) -> bool:
        """True if anything passed. Otherwise what was refused may be innocent."""
        return bool(self.passed)


def isolate(
    act: Callable[[Sequence[str]], R],
    keys: Sequence[str],
    interruptions: Interruptions,
    parts: Sequence[Sequence[str]] | None = None,
) -> Isolated[R]:
    """Does `act` for all keys at once, or for these `parts` of them; where it fails, for parts of that, in a bounded
    number of round trips.

    Only `interruptions` are raised.
    """
    found: Isolated[R] = Isolated()
    # Whole parts first: what passes there proves that the graph takes vectors, before the others are halved.
    whole = deque(part for part in ([keys] if parts is None else parts) if part)
    left: list[Sequence[str]] = []
    # One to blame among n is found within 2 log2(n) round trips, and if nothing passed by then, nothing will.
    search = 2 * math.ceil(math.log2(max(2, len(keys)))) + 1
    trips, waits, last = min(0, 1 - len(whole)), 0, None
    while (whole or left) and trips < (search * MOST_BLAMED if found.proven else search):
        part = whole.popleft() if whole else left.pop()
        trips += 1
        try:
            found.answers.append(act(part))
            found.passed.update(part)
            continue
        except interruptions:
            raise
        except EntityLocked as error:
            waits += 1
            if waits <= MOST_LOCK_WAITS:
                left += _around_lock(found, part, error)
                continue
            found.locked |= {key: classify(error) for each in [part, *whole, *left] for key in each}
            whole.clear()
            left.clear()
            continue
        except Exception as error:  # noqa: BLE001 - any fault of the graph is classified and acted on
            last = fault_of_graph(error)
            if last.kind in COMMON:
                found.rest, found.error = last, error
                return found
        if len(part) == 1:
            found.refused[part[0]] = last.as_verdict()
        else:
            left += _alternate(part)
    if last is not None and not found.proven and len(keys) > 1:
        found.refused.clear()
        found.rest = last.as_outage()
    return found


def _around_lock(found: Isolated[R], part: Sequence[str], error: EntityLocked) -> list[Sequence[str]]:
    """What is still to be done of a part that met a lock: all but the entity that the server named, or its halves."""
    if error.uid is not None and error.uid in part:
        found.locked[error.uid] = classify(error)
        rest = [key for key in part if key != error.uid]
        return [rest] if rest else []
    if len(part) == 1:
        found.locked[part[0]] = classify(error)
        return []
    return _alternate(part)


def _alternate(part: Sequence[str]) -> list[Sequence[str]]:
    """Two halves, of every second one: keys that were made alike stand next to one another."""
    return [part[1::2], part[::2]]


def fault_of_graph(error: Exception) -> Fault:
    """What an error of a statement on the graph means. A broken socket is the graph's, not the provider's."""
    fault = classify(error)
    if fault.kind is FaultKind.OUTAGE:
        return replace(fault, category=ErrorCategory.TRANSIENT, kind=FaultKind.STORE)
    return fault


class GraphCalls:
    """The graph, as batches use it. All keys are those of entities, but for `copies`."""

    def __init__(
        self,
        graph: EntityGraph,
        log: JobLog,
        interruptions: Interruptions,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._graph = graph
        self._log = log
        self._interruptions = interruptions
        self._sleep = sleep

    def read(self, jobs: Sequence[LeasedJob]) -> Isolated[list[EntityText]]:
        """The current texts of the jobs' entities, in one query. A key that several nodes share has several."""
        versions: dict[str, list[str]] = {}
        for job in jobs:
            versions.setdefault(job.entity_uid, []).append(job.version)
        return isolate(
            lambda keys: self._graph.read_wanted({key: versions[key] for key in keys}),
            list(versions),
            self._interruptions,
        )

    def copies(self, hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Vectors that entities carry, by content hash; one that cannot be read is left out. Raises the error of a
        graph that is away."""
        done = isolate(self._graph.copies, hashes, self._interruptions)
        if done.error is not None:
            raise done.error
        return {digest: vector for found in done.answers for digest, vector in found.items()}

    def remove(self, texts: Sequence[EntityText]) -> Isolated[Written]:
        """Removes the vectors of entities that still have these texts, which are blank."""
        by_uid = _by_uid(texts)
        return isolate(
            lambda keys: self._graph.remove_vectors([text for key in keys for text in by_uid[key]]),
            list(by_uid),
            self._interruptions,
        )

    def write(self, writes: Sequence[VectorWrite]) -> Isolated[Written]:
        """Writes vectors whose text is still the entity's, in transactions of a bounded size. What is written stays
        written, whatever becomes of the others."""
        by_uid = _by_uid(writes)
        keys = sorted(by_uid)
        most = max(1, WRITE_NUMBERS // len(writes[0].vector)) if writes else 1
        return isolate(
            lambda part: self._write_patiently([write for key in part for write in by_uid[key]]),
            keys,
            self._interruptions,
            [keys[first : first + most] for first in range(0, len(keys), most)],
        )

    def _write_patiently(self, writes: Sequence[VectorWrite]) -> Written:
        for rest_s in WRITE_RETRIES_S:
            try:
                return self._graph.write_vectors(writes)
            except self._interruptions:
                raise
            except Exception as error:
                fault = fault_of_graph(error)
                if fault.kind is not FaultKind.STORE or isinstance(error, EntityLocked):
                    raise
                self._log.write_retried(len(writes), fault, rest_s)
                self._sleep(rest_s)
        return self._graph.write_vectors(writes)


OfEntity = TypeVar("OfEntity", EntityText, VectorWrite)


def _by_uid(items: Sequence[OfEntity]) -> dict[str, list[OfEntity]]:
    by_uid: dict[str, list[OfEntity]] = {}
    for item in items:
        by_uid.setdefault(item.uid, []).append(item)
    return by_uid
