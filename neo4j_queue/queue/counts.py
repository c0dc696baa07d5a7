"""How many jobs have ended: the labels by which the server counts them, and their repair.

`status` asks the server for the number of nodes with a label, which it keeps at hand. The transitions set the labels
together with the state, in the same statement, so they agree as long as only programs of this version write. What
another one left out, this puts right: `init` once for all jobs, the daily clean-up for those that ended since.
"""

from dataclasses import dataclass

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.jobs import Status

LABELS = {Status.COMPLETED: "EmbedCompleted", Status.FAILED: "EmbedFailed"}
# Jobs per transaction: reading them takes some ten milliseconds, and only those without their label are locked.
PAGE = 10_000
# A look at ten million labels takes half a minute on a slow machine; it has transactions of its own.
ALL_WITHIN_S = 600.0
# A commit of a minute ago may have a time of before the last look.
OVERLAP_MS = 60_000


@dataclass(frozen=True, slots=True)
class Mended:
    """How many labels were put right, and whether there is more to look at."""

    labels: int
    more: bool


def mend(database: Database, most: int) -> Mended:
    """Looks at the jobs that ended since the last call, at most about `most` of each state."""
    mended, more = 0, False
    for status in LABELS:
        name = f"labels of {status}"
        found = database.read(statement("sweeps/place"), name=name)
        after = int(found[0]["after"] or 0) if found else 0
        labels, until, ended = _since(database, status, after, most)
        mended += labels
        more = more or not ended
        database.write(
            statement("sweeps/keep_place"), name=name, after=max(0, until - OVERLAP_MS) if ended else until
        )
    return Mended(mended, more)


def mend_all(database: Database) -> int:
    """Looks at all jobs, also for labels that are too many; for a migration."""
    mended = 0
    for status, label in LABELS.items():
        mended += _since(database, status, 0, None)[0]
        (row,) = database.autocommit(
            statement("retention/mend_others"), timeout_s=ALL_WITHIN_S, label=label, status=status.value
        )
        mended += int(row["mended"])
    return mended


def _since(database: Database, status: Status, after: int, most: int | None) -> tuple[int, int, bool]:
    """How many were mended, when the last one that was looked at had ended, and whether that was the last of all."""
    mended = looked_at = 0
    while most is None or looked_at < most:
        (page,) = database.write(statement(f"retention/mend_{status}"), after=after, limit=PAGE)
        mended += page["mended"]
        looked_at += page["jobs"]
        until = page["until"]
        if until is not None:
            # More jobs than a page may have ended in one millisecond only where somebody made them up.
            after = until if until > after or page["jobs"] < PAGE else until + 1
        if page["jobs"] < PAGE:
            return mended, after, True
    return mended, after, False
