"""What is known of the entities at once, at any size of the graph: their number, and how many are in the outbox."""

from collections.abc import Callable
from typing import NamedTuple

from neo4j import Record

from neo4j_queue.cypher import statement
from neo4j_queue.names import OUTBOX_LABEL

# Nodes that are looked at to tell how many marks of the outbox are those of one label: some ten milliseconds.
MARKS_LOOKED_AT = 10_000

Read = Callable[..., list[Record]]


class Known(NamedTuple):
    """Nodes of the label (soft-deleted ones too), those in the outbox, and the server's time (epoch ms).

    outbox: exact where nodes or marks are at most `MARKS_LOOKED_AT`; of more, there are at most so many.
    """

    nodes: int
    outbox: int
    now: int


def known(read: Read, label: str) -> Known:
    """Looks by `read`, which gives the rows of a statement.

    The server counts the marks of all labels alone. Where there are any, the fewer are looked at: marks or entities.
    """
    (row,) = read(statement("graph/known", label=label))
    nodes, marks = row["nodes"], row["marks"]
    if not (nodes and marks):
        return Known(nodes, 0, row["now"])
    among, other = (OUTBOX_LABEL, label) if marks <= nodes else (label, OUTBOX_LABEL)
    (seen,) = read(statement("graph/with_both", among=among, label=other), most=MARKS_LOOKED_AT)
    # What was not looked at counts in full: nothing that waits is ever said not to be there.
    rest = max(0, min(nodes, marks) - seen["looked"]) if seen["looked"] >= MARKS_LOOKED_AT else 0
    return Known(nodes, seen["found"] + rest, row["now"])
