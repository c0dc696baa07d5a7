"""A statement on the graph over many entities, narrowed down to the one that it fails for.

The store being away or misconfigured concerns everybody. Any other fault (a constraint of the user's, a property that
the driver cannot read) may be one entity's: the statement is repeated over parts of them, like a refused request is
(`asking`), until the entities to blame are alone. An entity is only to blame when others passed; when nothing passes,
it is the graph, and nobody is judged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from neo4j_queue.errors import ErrorCategory, Fault, FaultKind, classify

# Faults that every entity would meet.
EVERYBODYS = frozenset({FaultKind.STORE, FaultKind.STORE_BROKEN, FaultKind.CONFIGURATION})
# As many entities to blame are found in one batch; the others of their parts wait for the next.
MOST_BLAMED = 8

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Isolated(Generic[T, R]):
    """The parts that `passed`, each with its answer, and who was `refused` alone, with the fault.

    Who is in neither was not judged, because of `rest` (a fault that concerns everybody, and the `error` behind it) or
    because there were more to blame than are looked for at once.
    """

    passed: list[tuple[Sequence[T], R]] = field(default_factory=list)
    refused: list[tuple[T, Fault]] = field(default_factory=list)
    rest: Fault | None = None
    error: Exception | None = None

    @property
    def proven(self) -> bool:
        """Did anything pass? Else whoever was refused may be innocent."""
        return bool(self.passed)


def isolate(
    act: Callable[[Sequence[T]], R], items: Sequence[T], interruptions: tuple[type[BaseException], ...]
) -> Isolated[T, R]:
    """Does `act` for all items at once; where it fails, for parts of them, in a bounded number of round trips.

    Only `interruptions` are raised.
    """
    found: Isolated[T, R] = Isolated()
    # One to blame among n is found within 2 log2(n) round trips, and if nothing passed by then, nothing will.
    search = 2 * math.ceil(math.log2(max(2, len(items)))) + 1
    parts = [items] if items else []
    trips, last = 0, None
    while parts and trips < (search * MOST_BLAMED if found.proven else search):
        part = parts.pop()
        trips += 1
        try:
            found.passed.append((part, act(part)))
            continue
        except interruptions:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of the graph is classified and acted on
            last = fault_of_graph(error)
            if last.kind in EVERYBODYS:
                found.rest, found.error = last, error
                return found
        if len(part) == 1:
            found.refused.append((part[0], last.as_verdict()))
        else:
            # Every second one: those that were made alike stand next to one another.
            parts += [part[1::2], part[::2]]
    if last is not None and not found.proven and len(items) > 1:
        found.refused.clear()
        found.rest = last.as_outage()
    return found


def fault_of_graph(error: Exception) -> Fault:
    """What an error of a statement on the graph means. A broken socket is the store's, not the provider's."""
    fault = classify(error)
    if fault.kind is FaultKind.OUTAGE:
        return replace(fault, category=ErrorCategory.TRANSIENT, kind=FaultKind.STORE)
    return fault
