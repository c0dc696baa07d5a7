"""Which failed jobs are meant, and their ids in the order of time, some at a time.

What a look costs grows with the failed jobs of that time alone: the index of when jobs ended begins with their state.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors.provider_words import NO_MONEY_STORED

# Failed jobs that one statement looks at, however few of them are wanted: some ten milliseconds.
STEPS = 5_000
# Who looks from the newest wants a few as a rule: the first step is a short one, and each is four times the one before.
FIRST_STEPS = 100
# After every time that a server's clock can show.
END = 2**62


@dataclass(frozen=True, slots=True)
class Selection:
    """Failed jobs by what they met; None = whatever it is.

    `status`: HTTP; `error_type`: the class of the error, in either case; `since`, `until`: when they failed (epoch ms,
    both included); `quota`: only those for which there was no money left, whatever status the provider said it with.
    """

    category: str | None = None
    reason: str | None = None
    status: int | None = None
    error_type: str | None = None
    since: int | None = None
    until: int | None = None
    quota: bool = False

    @property
    def narrow(self) -> bool:
        """True if not all failed jobs are meant."""
        return self != Selection()

    def parameters(self) -> dict[str, Any]:
        """What the statements ask for. Times are the business of the walk: see `stretches`."""
        asked = asdict(self) | {"quota": NO_MONEY_STORED if self.quota else None}
        return {name: value for name, value in asked.items() if name not in ("since", "until")}


ALL = Selection()


def stretches(
    database: Database, selection: Selection, *, newest_first: bool = False
) -> Iterator[tuple[int, int]]:
    """Stretches of time (from, until; both included) with about `STEPS` failed jobs each, the first ones of the newest
    with fewer.

    Each failed job is in one of them, also where the filter matches late: those of one moment are never parted.
    """
    first, last = selection.since or 0, END if selection.until is None else selection.until
    steps = FIRST_STEPS
    while first <= last:
        if newest_first:
            skip = min(steps, STEPS) - 1
            steps *= 4
            found = database.read(statement("jobs/failed_since"), before=last, skip=skip)
            since = max(first, found[0]["since"]) if found else first
            yield since, last
            last = since - 1
        else:
            found = database.read(statement("jobs/failed_until"), after=first, skip=STEPS - 1)
            until = min(last, found[0]["until"]) if found else last
            yield first, until
            first = until + 1


def failed_ids(
    database: Database, selection: Selection, *, newest_first: bool = False
) -> Iterator[list[str]]:
    """The ids of the failed jobs that are meant, in the order in which they failed, some at a time."""
    for since, until in stretches(database, selection, newest_first=newest_first):
        found = database.read(statement("jobs/failed"), **selection.parameters(), after=since, until=until)
        ordered = sorted(((row["at"], row["id"]) for row in found), reverse=newest_first)
        yield [job_id for _, job_id in ordered]
