"""Dead letters: the jobs that failed for good. Looked through, counted, queued again, removed.

Nothing here looks at a job that did not fail, and what is looked at comes in pages of bounded size.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

import structlog

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, the_row
from neo4j_queue.jobs import Status
from neo4j_queue.queue import listing
from neo4j_queue.queue.clock import Clock, server_clock
from neo4j_queue.queue.failed_jobs import ALL, END, Selection, failed_ids, stretches
from neo4j_queue.queue.listing import Job
from neo4j_queue.queue.retry_failed import Retried, retry
from neo4j_queue.settings import Settings

# Jobs that are read, or removed, at once: with their stacks some megabytes, and well under a second of locks.
PAGE = 500
# Dead letters that a person may look through at once, by whatever filter: some ten milliseconds.
LATEST = 10_000
# Words of one error that stand for its kind.
EXAMPLE_CHARS = 200
DAY = timedelta(days=1)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Group:
    """Dead letters that failed alike. `example`: the error of one of them, its beginning; `example_id`: some job.

    `first_at` and `last_at` in epoch ms.
    """

    reason: str | None
    category: str | None
    error_type: str | None
    status: int | None
    jobs: int
    first_at: int
    last_at: int
    example: str | None
    example_id: str


@dataclass(frozen=True, slots=True)
class DeadLetterStats:
    """What failed, and how often: `groups` by all four words at once, the largest first, and `by_day` (UTC).

    `est_tokens`: the estimated size of their texts in model tokens.
    """

    jobs: int
    est_tokens: int
    groups: tuple[Group, ...]
    by_day: dict[str, int]

    def by(self, word: str) -> dict[str, int]:
        """Jobs by `reason`, `category`, `error_type` or `status`, the most frequent first; "none" where it has none."""
        counts: Counter[str] = Counter()
        for group in self.groups:
            value = getattr(group, word)
            counts["none" if value is None else str(value)] += group.jobs
        return dict(counts.most_common())


class Purged(NamedTuple):
    """Dead letters that were removed, and how many of them left a record in the archive."""

    removed: int
    archived: int


class Crossing(NamedTuple):
    """The number of dead letters crossed the limit that is told: `above` it, or no longer."""

    above: bool
    jobs: int
    limit: int


class DeadLetters:
    """The dead letters of one queue."""

    def __init__(self, database: Database, settings: Settings, clock: Clock = server_clock) -> None:
        self._database = database
        self._settings = settings
        self._now = clock

    def find(self, selection: Selection = ALL, limit: int | None = 50) -> list[Job]:
        """Dead letters with all their properties, the last to fail first; `limit` None = all of them."""
        return list(self.walk(selection, limit))

    def walk(self, selection: Selection = ALL, limit: int | None = None) -> Iterator[Job]:
        """As `find`, read in pages while they are taken."""
        ids = (job_id for some in failed_ids(self._database, selection, newest_first=True) for job_id in some)
        left = limit
        while left is None or left > 0:
            page = list(islice(ids, PAGE if left is None else min(PAGE, left)))
            if not page:
                return
            found = self.of(page)
            left = None if left is None else left - len(found)
            yield from found

    def latest(self, selection: Selection, limit: int, among: int = LATEST) -> list[str]:
        """The ids of those that are meant among the last `among` to fail, the last first: one look, bounded by that."""
        found = self._database.read(
            statement("jobs/failed_lately"),
            **selection.parameters(),
            after=selection.since or 0,
            until=END if selection.until is None else selection.until,
            among=among,
            limit=limit,
        )
        return [row["id"] for row in found]

    def of(self, ids: Sequence[str]) -> list[Job]:
        """The jobs of these ids that are dead letters, in the order given."""
        found = self._database.read(statement("jobs/dead_letters"), ids=list(ids))
        return [listing.public(row["job"]) for row in found]

    def named(self, word: str, limit: int = PAGE) -> list[Job]:
        """The dead letters that a person means: of this id, else of the entity of this name, the newest first."""
        by_id = self.of([word])
        return by_id or listing.jobs(self._database, Status.FAILED, word, limit)

    def stats(self, selection: Selection = ALL) -> DeadLetterStats:
        """Counts them by reason, category, class of the error, HTTP status and day."""
        groups: dict[tuple[object, ...], Group] = {}
        days: Counter[int] = Counter()
        tokens = 0
        for since, until in stretches(self._database, selection):
            found = self._database.read(
                statement("jobs/dead_counts"),
                **selection.parameters(),
                after=since,
                until=until,
                example_chars=EXAMPLE_CHARS,
            )
            for row in found:
                days[row["day"]] += row["jobs"]
                tokens += row["est_tokens"]
                more = Group(**{name: row[name] for name in Group.__slots__})
                key = (more.reason, more.category, more.error_type, more.status)
                groups[key] = _merged(groups.get(key), more)
        ordered = sorted(groups.values(), key=lambda group: (-group.jobs, -group.last_at))
        return DeadLetterStats(
            jobs=sum(group.jobs for group in ordered),
            est_tokens=tokens,
            groups=tuple(ordered),
            by_day={_day(day): days[day] for day in sorted(days)},
        )

    def replay(
        self, selection: Selection = ALL, limit: int | None = None, ids: Sequence[str] | None = None
    ) -> Retried:
        """Queues dead letters again as if new, at most `limit`: those of the `selection`, of `ids` only those."""
        return retry(self._database, selection, limit, ids, self._now)

    def purge(
        self, selection: Selection = ALL, limit: int | None = None, ids: Sequence[str] | None = None
    ) -> Purged:
        """Removes dead letters now, at most `limit`, as the clean-up does at the end of the retention: each leaves a
        slim record for `EMBED_JOB_ARCHIVE_DAYS` after its failure (0 = none).

        The queue forgets that these entities failed: a sweep of entities without a vector queues them again. A job that
        is queued again meanwhile stays.
        """
        now = self._now() or self._clock_ms()
        removed = archived = 0
        for some in failed_ids(self._database, selection) if ids is None else iter([sorted(set(ids))]):
            if limit is not None:
                some = some[: limit - removed]
            for first in range(0, len(some), PAGE):
                row = the_row(
                    self._database.write(
                        statement("retention/remove"),
                        _batch=[{"id": job_id} for job_id in some[first : first + PAGE]],
                        statuses=[Status.FAILED.value],
                        # What fails from now on is none that was meant.
                        cutoff=now + 1,
                        archive=self._settings.embed_job_archive_days > 0,
                        now=now,
                    )
                )
                removed, archived = removed + row["removed"], archived + row["archived"]
            if limit is not None and removed >= limit:
                break
        return Purged(removed, archived)

    def crossing(self) -> Crossing | None:
        """Notes that the number of dead letters went above `EMBED_DEAD_LETTER_ALERT`, or is there no longer.

        None for all but the one caller, of whichever process, who is to tell it. Without news it costs one look at two
        numbers that the server keeps.
        """
        limit = self._settings.embed_dead_letter_alert
        row = the_row(self._database.read(statement("control/dead_letters")))
        above = bool(limit) and row["jobs"] > limit
        if above == row["told"]:
            return None
        changed = self._database.write(statement("control/tell_dead_letters"), above=above)
        # A limit that was taken away is no news of the jobs.
        return Crossing(above, row["jobs"], limit) if changed and limit else None

    def _clock_ms(self) -> int:
        return int(the_row(self._database.read(statement("retention/clock")))["now"])


def tell(crossing: Crossing | None) -> None:
    """Logs it, if there is one."""
    if crossing is None:
        return
    if crossing.above:
        log.warning(
            "dead_letters_above_limit",
            jobs=crossing.jobs,
            limit=crossing.limit,
            advice="neo4j-queue dead stats says what failed, neo4j-queue dead replay --all queues it again",
        )
    else:
        log.info("dead_letters_below_limit", jobs=crossing.jobs, limit=crossing.limit)


def _merged(before: Group | None, more: Group) -> Group:
    if before is None:
        return more
    return Group(
        more.reason,
        more.category,
        more.error_type,
        more.status,
        before.jobs + more.jobs,
        min(before.first_at, more.first_at),
        max(before.last_at, more.last_at),
        more.example,
        more.example_id,
    )


def _day(number: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + number * DAY).date().isoformat()
