"""A7. What each statement of the queue costs, measured on the real thing: the depth of the queue must not matter.

The queue runs its own methods on a database that profiles every statement, at 1,000 and at 100,000 pending jobs.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, TypeVar

import pytest
from neo4j import ManagedTransaction, Record

from neo4j_queue import cypher
from neo4j_queue.cypher import statement
from neo4j_queue.database import Address, Database
from neo4j_queue.errors import ErrorCategory
from neo4j_queue.local_services import LocalServices
from neo4j_queue.queue import EmbedQueue, outlook, standing
from neo4j_queue.queue.failed_jobs import Selection
from neo4j_queue.queue.leases import WorkerAnswer
from neo4j_queue.settings import Settings
from tests.queue.interleaving import plant
from tests.queue.scenery import (
    BEGINNING,
    DAY_MS,
    Clock,
    failures,
    leased,
    make_jobs,
    request,
    requests,
    running,
)

SHALLOW, DEEP = 1_000, 100_000
BATCH = 100
LISTED = 20
# Jobs of each priority that are counted before another: fewer than are due of any at either depth.
COUNTED = 5
# What sorts or scans a whole queue.
SORTS = {"Sort", "Top", "PartialSort", "PartialTop"}
WIPE = (
    "CYPHER 5 MATCH (n) WHERE n:EmbedJob OR n:EmbedLease CALL (n) { DELETE n } IN TRANSACTIONS OF 10000 ROWS"
)

NAMES = {
    statement(
        f"{folder}/{file.name.removesuffix('.cypher')}"
    ): f"{folder}/{file.name.removesuffix('.cypher')}"
    for folder in ("jobs", "control", "health", "retention", "sweeps", "counts")
    for file in files(cypher).joinpath(folder).iterdir()
    if file.name.endswith(".cypher")
}

T = TypeVar("T")
Plan = dict[str, Any]


@dataclass
class Profile:
    """One run of a statement."""

    plan: Plan
    rows: int
    operators: list[Plan] = field(init=False)

    def __post_init__(self) -> None:
        self.operators = list(_flattened(self.plan))

    @property
    def hits(self) -> int:
        """Database hits in all."""
        return sum(int(operator["dbHits"]) for operator in self.operators)

    def of(self, *kinds: str) -> list[Plan]:
        """The operators of these kinds, by the beginning of their names."""
        return [each for each in self.operators if str(each["operatorType"]).startswith(kinds)]


def _flattened(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("children", ()):
        yield from _flattened(child)


def _count(found: list[Record]) -> int:
    """How many rows there are, one by one or packed."""
    return len(found[0]["rows"]) if found and found[0].keys() == ["rows"] else len(found)


class ProfiledTransaction:
    """Hands the rows of a statement through and keeps its profile."""

    def __init__(self, tx: ManagedTransaction, profiles: dict[str, list[Profile]]) -> None:
        self._tx = tx
        self._profiles = profiles

    def run(self, query: str, parameters: dict[str, Any]) -> list[Record]:
        result = self._tx.run(query.replace("\n", " PROFILE\n", 1), parameters)  # type: ignore[arg-type, unused-ignore]
        found = list(result)
        plan = result.consume().profile
        assert plan is not None
        self._profiles[NAMES[query]].append(Profile(plan, _count(found)))
        return found


class ProfilingDatabase(Database):
    """Profiles every statement of its transactions, by the statement's name."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.profiles: dict[str, list[Profile]] = defaultdict(list)

    def transaction(self, work: Callable[[ManagedTransaction], T], **options: Any) -> T:
        profiled: Callable[[ManagedTransaction], T] = lambda tx: work(  # noqa: E731
            ProfiledTransaction(tx, self.profiles)  # type: ignore[arg-type]
        )
        return super().transaction(profiled, **options)


def explained(queue: EmbedQueue) -> None:
    """What `explain` asks of a job that waits behind many others."""
    job = min(queue.jobs(status="pending", limit=LISTED), key=lambda each: int(each["priority"]))
    standing.history(queue.database, job["entity_uid"], job["model"], [job["version"]])
    standing.ahead(queue.database, job)


def work_through(queue: EmbedQueue, clock: Clock, depth: int) -> None:
    """Every transition once, on batches of a hundred jobs."""
    fresh = range(depth, depth + 10)
    first, second = leased(queue, batches=2).leases
    queue.start(first.token, first.job_ids)
    queue.start(second.token, second.job_ids)
    queue.heartbeat({lease.token: lease.job_ids for lease in (first, second)})
    queue.locks.keep({lease.token: lease.job_ids for lease in (first, second)})
    queue.complete(first.token, first.job_ids)
    queue.release(second.token, second.job_ids[:50])
    work = running(queue)
    queue.fail(work.token, failures(work.jobs[:50], ErrorCategory.PERMANENT))
    queue.fail(work.token, failures(work.jobs[50:]))
    outlook.read(queue, queue.status())
    queue.database.read(statement("health/dead_letters"), limit=COUNTED)
    queue.ended_within(600_000)
    explained(queue)
    queue.states_of(requests(10))
    queue.enqueue([request(n, priority=5) for n in fresh])
    queue.enqueue([request(n, priority=9) for n in fresh])
    queue.dead.find(Selection(category="PERMANENT"), LISTED)
    queue.dead.latest(Selection(error_type="Other"), LISTED, among=COUNTED)
    queue.dead.stats()
    queue.dead.crossing()
    queue.retry_failed(limit=10)
    queue.retry_failed(ids=work.ids[10:20])
    queue.jobs(limit=LISTED)
    queue.jobs(entity_uid=request(fresh[0]).entity_uid, status="pending")
    orphan = running(queue, "w9")
    clock.advance(6_000)
    assert len(queue.locks.take_back_orphans([WorkerAnswer("w9", 1, up_ms=3_600_000)], (), clock.now)) == len(
        orphan.ids
    )
    leased(queue)
    clock.advance(100_001)
    queue.recover_stale()
    queue.cleanup()


Measured = dict[int, dict[str, list[Profile]]]


@pytest.fixture(scope="module")
def measured(
    services: LocalServices, _schema: object, make_settings: Callable[..., Settings]
) -> Iterator[Measured]:
    """The profiles of all statements, by depth."""
    queue_settings = make_settings(
        embedding_rate_limit_tokens="unlimited",
        embed_batch_size=BATCH,
        embed_job_retention_days=7,
        embed_job_lock_duration_ms=100_000,
        embed_job_start_deadline_ms=40_000,
        embed_job_heartbeat_interval_ms=30_000,
    )
    profiles: Measured = {}
    with pytest.MonkeyPatch.context() as patch, ProfilingDatabase(services.jobs.address) as database:
        # The native clean-up: what APOC runs is the same two statements, where no profile comes out.
        plant(patch, {"retention/has_apoc": "CYPHER 5\nRETURN false AS found"})
        patch.setattr(standing, "COUNTED", COUNTED)
        database.autocommit(WIPE)
        for depth, more in ((SHALLOW, SHALLOW), (DEEP, DEEP - SHALLOW)):
            make_jobs(database, more, first=depth)
            ended = {"status": "completed", "processed_at": BEGINNING - 8 * DAY_MS}
            make_jobs(database, 200, first=10 * DEEP + depth, **ended)
            database.autocommit("CALL db.clearQueryCaches()")
            database.profiles = profiles[depth] = defaultdict(list)
            clock = Clock(BEGINNING + 10_000)
            work_through(EmbedQueue(database, queue_settings, clock=clock), clock, depth)
        yield profiles
        database.autocommit(WIPE)


# Statements whose work is a page or a batch, whatever the depth.
BOUNDED = [
    "jobs/lease_judge",
    "jobs/lease_candidates",
    "jobs/lease_grant",
    "jobs/start",
    "jobs/heartbeat",
    "jobs/extendable",
    "jobs/started_leases",
    "jobs/expire_lease",
    "jobs/complete",
    "jobs/fail",
    "jobs/release",
    "jobs/close_lease",
    "jobs/recover_jobs",
    "jobs/recover_leases",
    "jobs/forget_texts",
    "jobs/enqueue",
    "jobs/requeue",
    "jobs/status",
    "jobs/failed",
    "jobs/failed_until",
    "jobs/failed_since",
    "jobs/failed_lately",
    "jobs/dead_letters",
    "jobs/dead_counts",
    "jobs/retry_failed",
    "control/dead_letters",
    "jobs/list_by_entity",
    "jobs/list_ended",
    "jobs/list_unfinished",
    "jobs/of_entities",
    "jobs/history",
    "jobs/ahead",
    "jobs/outlook",
    "counts/add",
    "health/dead_letters",
    "health/ended_lately",
    "retention/expired",
    "retention/remove",
]


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("depth", [SHALLOW, DEEP])
def test_no_statement_scans_the_jobs(measured: Measured, name: str, depth: int) -> None:
    assert measured[depth][name]
    for profile in measured[depth][name]:
        assert profile.of("AllNodesScan") == []
        scanned = [str(scan["args"]["Details"]) for scan in profile.of("NodeByLabelScan")]
        assert not [details for details in scanned if "EmbedJob" in details]


@pytest.mark.parametrize("name", BOUNDED)
def test_the_cost_does_not_grow_with_the_depth(measured: Measured, name: str) -> None:
    """Invariant 10: within 2x from 1,000 to 100,000 pending jobs. Fails, for one, when `jobs/list_by_entity` compares
    `trim(j.entity_uid)`, for which no index helps."""
    shallow = max(profile.hits for profile in measured[SHALLOW][name])
    deep = max(profile.hits for profile in measured[DEEP][name])
    # A statement that looks at nothing costs single hits, of which a few more mean nothing.
    assert deep <= max(2 * shallow, 50), f"{shallow} hits at {SHALLOW}, {deep} at {DEEP}"


@pytest.mark.parametrize("depth", [SHALLOW, DEEP])
def test_the_candidates_of_a_lease_come_from_the_index_in_its_order(measured: Measured, depth: int) -> None:
    """Fact 4. Fails with `ORDER BY j.available_at` alone, which sorts every due job, and without the bound."""
    for profile in measured[depth]["jobs/lease_candidates"]:
        assert profile.rows
        assert profile.of(*SORTS) == []
        read = sum(int(operator["rows"]) for operator in profile.of("NodeIndexSeek"))
        assert profile.rows <= read <= 2 * profile.rows
        # Each row costs its index entry and five properties.
        assert profile.hits <= 7 * profile.rows + 5


@pytest.mark.parametrize("depth", [SHALLOW, DEEP])
def test_jobs_are_listed_in_the_order_of_an_index(measured: Measured, depth: int) -> None:
    """The last to end come straight from it, the last due from ten pieces of it, one for each priority. Fails with
    `ORDER BY j.created_at`, for which all jobs of the state are read and sorted."""
    for profile in measured[depth]["jobs/list_ended"]:
        assert profile.of(*SORTS) == []
        assert sum(int(operator["rows"]) for operator in profile.of("NodeIndexSeek")) <= LISTED
    for profile in measured[depth]["jobs/list_unfinished"]:
        assert len(profile.of(*SORTS)) <= 1, "none but that of what was read"
        assert sum(int(operator["rows"]) for operator in profile.of("NodeIndexSeek")) <= 10 * LISTED
    assert max(profile.rows for profile in measured[depth]["jobs/list_ended"]) == LISTED


def test_the_profiles_can_show_a_sort(services: LocalServices, measured: Measured) -> None:
    """The naive order, at the depth that the test above left behind."""
    assert measured
    text = statement("jobs/lease_candidates").replace(
        "j.status, j.priority, j.available_at", "j.available_at"
    )
    with (
        Database(services.jobs.address) as database,
        database.driver().session(database=services.jobs.database) as session,
    ):
        result = session.run(
            text.replace("\n", " PROFILE\n", 1),  # type: ignore[arg-type, unused-ignore]
            {"priorities": [9], "limit": BATCH, "reach": BATCH, "passed": [], "now": BEGINNING + 10_000},
        )
        found = list(result)
        profile = Profile(dict(result.consume().profile or {}), _count(found))
    assert profile.of(*SORTS)
    assert profile.hits > 6 * profile.rows


@pytest.mark.parametrize("depth", [SHALLOW, DEEP])
def test_what_has_ended_is_counted_by_the_server_and_not_by_us(measured: Measured, depth: int) -> None:
    """Fails with `MATCH (j:EmbedJob) WHERE j.status = 'completed'`: ten seconds for ten million jobs."""
    for profile in measured[depth]["jobs/status"]:
        counted = [str(each["args"]["Details"]) for each in profile.of("NodeCountFromCountStore")]
        assert {label for label in ("EmbedJob", "EmbedCompleted", "EmbedFailed") if f":{label})" in str(counted)} == {
            "EmbedJob", "EmbedCompleted", "EmbedFailed",
        }  # fmt: skip
