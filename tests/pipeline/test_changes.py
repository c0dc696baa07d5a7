"""The sweep of changes: whatever kind of time other programs keep, no change is missed and little else is read."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from neo4j_queue.database import Database
from neo4j_queue.graph.changes import Changes, Kind, OpenSince, limits
from neo4j_queue.jobs import PRIORITY_BACKFILL, PRIORITY_DEFAULT
from neo4j_queue.reconcile import sweep, turns, watermark
from neo4j_queue.reconcile.sweep import Scope, Sweep
from neo4j_queue.reconcile.turns import SILENT_MS, Sweeps
from neo4j_queue.reconcile.watermark import OVERLAP_MS, Changed
from neo4j_queue.schema import changed as changed_index
from neo4j_queue.schema.indexes import indexes
from tests.graph.test_pages import operators
from tests.pipeline.conftest import Bench

PAGE = 10
OLD = 35
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
UPDATED = Changed("updatedAt")
# How a program writes a moment of `ms`.
WRITTEN = {
    "datetime": "datetime({epochMillis: $ms})",
    "datetime in a zone": "datetime({datetime: datetime({epochMillis: $ms}), timezone: 'Asia/Tokyo'})",
    "local datetime": "localdatetime({datetime: datetime({epochMillis: $ms})})",
    "local datetime in Samoa": "localdatetime({datetime: datetime({epochMillis: $ms + 13 * 3600000})})",
    "date": "date(datetime({epochMillis: $ms}))",
    "seconds": "$ms / 1000",
    "seconds with a fraction": "$ms / 1000.0",
    "milliseconds": "$ms",
    "milliseconds with a fraction": "$ms + 0.5",
}
NOW = "RETURN datetime.realtime().epochMillis AS now"


@pytest.fixture
def indexed(graph_db: Database) -> Iterator[None]:
    """An index on the timestamp, gone after the test."""
    changed_index.create(graph_db, indexes(graph_db), "Entity", "updatedAt")
    graph_db.autocommit("CALL db.awaitIndexes(60)")
    yield
    graph_db.write(f"DROP INDEX {changed_index.index_name('Entity', 'updatedAt')} IF EXISTS")


@pytest.fixture
def sweeping(bench: Bench, indexed: None, monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    """Sweeps in small pages, and in turns of as many pages as there are."""
    monkeypatch.setattr(sweep, "PAGE", PAGE)
    monkeypatch.setattr(watermark, "TOGETHER", 2 * PAGE)
    return Sweeps(bench.graph, bench.queue, clock=lambda: 0.0, now=lambda: bench.clock.now)


class Time:
    """How much later it is than the server's clock says."""

    later_ms = 0


@pytest.fixture(autouse=True)
def time_of_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets time pass at once: for the looks, and for the writers."""
    real = Changes.open_since

    def shifted(changes: Changes) -> OpenSince:
        return OpenSince(*(each + Time.later_ms for each in real(changes)))

    monkeypatch.setattr(Changes, "open_since", shifted)
    yield
    Time.later_ms = 0


class Writer:
    """Another program, whose clock may be off."""

    def __init__(self, database: Database, written: str = WRITTEN["datetime"]) -> None:
        self.database = database
        self.written = written

    def now(self) -> int:
        return int(self.database.read(NOW)[0]["now"]) + Time.later_ms

    def create(self, count: int, *, ago: int, prefix: str = "old") -> None:
        """So many entities, each a second younger than the one before."""
        query = (
            "UNWIND range(0, $count - 1) AS n CALL (n) { WITH n, $at + n * 1000 AS ms "
            f"CREATE (:Entity {{name: $prefix + n, observations: ['first'], updatedAt: {self._expression()}}}) }}"
        )
        at = self.now() - ago
        self.database.write(query.replace("$ms", "ms"), count=count, at=at, prefix=prefix)

    def edit(self, name: str, *, ago: int = 0, text: str = "edited") -> None:
        """A change at a moment, by the writer's clock."""
        query = (
            "MERGE (n:Entity {name: $name}) WITH n, $at AS ms "
            f"SET n.observations = [$text], n.updatedAt = {self._expression()}"
        )
        self.database.write(query, name=name, at=self.now() - ago, text=text)

    def _expression(self) -> str:
        return self.written.replace("$ms", "ms")


@pytest.fixture
def writer(graph_db: Database) -> Writer:
    """One that writes datetimes."""
    return Writer(graph_db)


def look(sweeps: Sweeps, scope: Changed = UPDATED) -> Sweep:
    """One sweep to its end."""
    turn = sweeps.take_turn(scope)
    while turn is not None and turn.token is not None:
        turn = sweeps.take_turn(scope, turn.token)
    assert turn is not None
    return turn.done


def settled(sweeps: Sweeps, bench: Bench) -> None:
    """A first look, whose entities get their vectors; then so much time passes that nothing is late any more."""
    look(sweeps)
    bench.step()
    bench.skip(1)
    Time.later_ms += 4 * DAY
    look(sweeps)
    assert look(sweeps).seen == 0, "nothing is read where nothing has changed"


def queued(bench: Bench) -> set[str]:
    """The entities that wait for a vector; they wait no longer."""
    names = {job["entity_uid"] for job in bench.queue.jobs(limit=1000) if job["status"] == "pending"}
    bench.queue.database.write("MATCH (j:EmbedJob) DETACH DELETE j")
    return names


def test_the_first_look_compares_every_entity(sweeping: Sweeps, bench: Bench, writer: Writer) -> None:
    """Those without a timestamp too, and those that were stale before. Guard: `Position.first`. Without it what has no
    timestamp, and with a mark of that moment what was stale already, is never found."""
    writer.create(OLD, ago=3 * DAY)
    bench.graph.database.write(
        "CREATE (:Entity {name: 'timeless'}), (:Entity {name: 'z', updatedAt: 'today'})"
    )
    assert look(sweeping).seen == OLD + 2
    assert {job["priority"] for job in bench.queue.jobs(limit=100)} == {PRIORITY_BACKFILL}
    assert len(queued(bench)) == OLD + 2


@pytest.mark.parametrize("kind", WRITTEN)
def test_an_edit_is_found_whatever_kind_of_time_it_has(
    sweeping: Sweeps, bench: Bench, graph_db: Database, kind: str
) -> None:
    """And nothing else is read. Guard: `Kind`. With datetimes alone all others are missed."""
    writer = Writer(graph_db, WRITTEN[kind])
    writer.create(OLD, ago=3 * DAY)
    settled(sweeping, bench)
    writer.edit("old7")
    done = look(sweeping)
    assert (done.seen, done.queued) == (1, 1)
    assert bench.job("old7")["priority"] == PRIORITY_DEFAULT
    assert queued(bench) == {"old7"}
    writer.edit("born")
    writer.edit("old7", text="again")
    assert look(sweeping).queued == 2, "the next edits, one of a new entity"


def test_a_change_that_is_queued_as_a_backfill_stays_one(
    sweeping: Sweeps, bench: Bench, writer: Writer
) -> None:
    """A load sets the timestamp too. Seen to fail without `keep_priority` in `enqueue_stale`: the sweep of changes
    raises each job of the load, and an edit waits behind all of it."""
    writer.create(5, ago=3 * DAY)
    settled(sweeping, bench)
    for n in range(3):
        writer.edit(f"new{n}", text="loaded")
    assert sweep.sweep(bench.graph, bench.queue, Scope.MISSING).queued == 3
    writer.edit("new1", text="by a person")
    writer.edit("old1")
    done = look(sweeping)
    assert (done.queued, done.standing) == (2, 2)
    found = {name: bench.job(name)["priority"] for name in ("new0", "new1", "new2", "old1")}
    assert found == {"new0": 0, "new1": 1, "new2": 0, "old1": 1}
    look(sweeping)
    assert {name: bench.job(name)["priority"] for name in found} == found


def test_kinds_may_be_mixed(sweeping: Sweeps, bench: Bench, graph_db: Database) -> None:
    """Guard: `Kind`, each looked at by itself. The server compares no datetime with a number."""
    writers = {kind: Writer(graph_db, written) for kind, written in WRITTEN.items()}
    for kind, each in writers.items():
        each.create(3, ago=3 * DAY, prefix=f"{kind}-")
    settled(sweeping, bench)
    for kind, each in writers.items():
        each.edit(f"{kind}-1")
    assert look(sweeping).queued == len(WRITTEN)
    assert queued(bench) == {f"{kind}-1" for kind in WRITTEN}
    counts = Changes(bench.graph, "updatedAt").counts(limits(writers["date"].now()))
    assert counts == {
        Kind.DATETIME: 6,
        Kind.LOCAL: 6,
        Kind.DATE: 3,
        Kind.SECONDS: 6,
        Kind.MILLISECONDS: 6,
    }


def test_each_kind_has_its_own_lag(sweeping: Sweeps, bench: Bench, graph_db: Database) -> None:
    """Datetimes are right, a program that writes numbers is two hours behind. Guard: `Marks.newest` by kind; with the
    least lag of all, no change of that program is found."""
    right, behind = Writer(graph_db), Writer(graph_db, WRITTEN["seconds"])
    right.create(3, ago=DAY, prefix="right")
    behind.create(3, ago=DAY, prefix="behind")
    right.edit("right0")
    behind.edit("behind0", ago=2 * HOUR)
    look(sweeping)
    for n in range(1, 3):
        Time.later_ms += MINUTE
        queued(bench)
        right.edit(f"right{n}")
        behind.edit(f"behind{n}", ago=2 * HOUR)
        look(sweeping)
        assert queued(bench) >= {f"right{n}", f"behind{n}"}


def test_a_change_that_was_committed_after_the_look_is_found_by_the_next(
    sweeping: Sweeps, bench: Bench, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is that of its transaction's begin, which an edit has passed by. Guard: `Marks.since`; with the time of
    the look in its place (and no overlap, as here) it is never found."""
    monkeypatch.setattr(watermark, "OVERLAP_MS", 0)
    writer.create(5, ago=HOUR)
    settled(sweeping, bench)
    database = bench.graph.database
    with database.driver().session(database=database.address.database) as session:
        late = session.begin_transaction()
        late.run(
            "MATCH (n:Entity {name: 'old1'}) SET n.observations = ['late'], n.updatedAt = datetime({epochMillis: $at})",
            at=writer.now(),
        ).consume()
        threading.Event().wait(0.05)
        writer.edit("old2")
        assert look(sweeping).queued == 1
        assert queued(bench) == {"old2"}
        late.commit()
    look(sweeping)
    assert queued(bench) >= {"old1"}


def test_a_clock_that_is_behind_by_minutes_hides_nothing(
    sweeping: Sweeps, bench: Bench, writer: Writer
) -> None:
    """Guard: `OVERLAP_MS`. Beyond it only a full sweep finds the change."""
    writer.create(5, ago=DAY)
    settled(sweeping, bench)
    writer.edit("old1")
    look(sweeping)
    writer.edit("old2", ago=OVERLAP_MS - MINUTE)
    writer.edit("old3", ago=OVERLAP_MS + MINUTE)
    look(sweeping)
    assert "old2" in (found := queued(bench))
    assert "old3" not in found
    assert sweep.sweep(bench.graph, bench.queue, Scope.ALL).seen == 5
    assert "old3" in queued(bench)


def test_writers_that_are_all_behind_are_no_trouble(sweeping: Sweeps, bench: Bench, writer: Writer) -> None:
    """Guard: the lag. Without it no change is found once the first look is over."""
    writer.create(5, ago=DAY)
    writer.edit("old4", ago=2 * HOUR)
    look(sweeping)
    for n in range(3):
        Time.later_ms += MINUTE
        queued(bench)
        writer.edit(f"old{n}", ago=2 * HOUR, text=f"edit {n}")
        look(sweeping)
        assert f"old{n}" in queued(bench)


def test_a_time_in_the_future_hides_no_change_and_is_not_read_again_and_again(
    sweeping: Sweeps, bench: Bench, writer: Writer
) -> None:
    """Guards: `limits`; without it each look reads them. And a lag that is never negative; without that, a writer that
    is ahead shifts the next look past one that is a little behind."""
    writer.create(5, ago=DAY)
    writer.edit("millennium", ago=-300_000 * DAY)
    writer.edit("tomorrow", ago=-2 * DAY)
    with capture_logs() as logs:
        settled_until = Time.later_ms + DAY
        look(sweeping)
        bench.step()
        bench.skip(1)
        Time.later_ms = settled_until
        look(sweeping)
        assert look(sweeping).seen == 0
    told = [line["holds"] for line in logs if line["event"] == "timestamps_not_read"]
    assert told in (["future"], []), "once in a process"
    counts = Changes(bench.graph, "updatedAt").counts(limits(writer.now()))
    assert counts == {Kind.DATETIME: 5, "future": 2}

    writer.edit("old0", ago=-OVERLAP_MS + MINUTE)
    look(sweeping)
    assert queued(bench) == {"old0"}, "a clock that is some minutes ahead is none of the future"
    writer.edit("old1", ago=2 * MINUTE)
    look(sweeping)
    assert "old1" in queued(bench)


def test_numbers_of_the_years_and_of_microseconds_are_told_apart(
    sweeping: Sweeps, bench: Bench, graph_db: Database
) -> None:
    """A number of 16 digits is no moment of our time; a look does not take it for one."""
    Writer(graph_db, "$ms * 1000").create(3, ago=DAY)
    look(sweeping)
    assert Changes(bench.graph, "updatedAt").counts(limits(Writer(graph_db).now())) == {"future": 3}


def test_a_text_is_no_time_and_is_said(
    sweeping: Sweeps, bench: Bench, graph_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: `Changes.unread`. Without it nothing tells why changes are not found."""
    monkeypatch.setattr(watermark, "_told", set())
    writer = Writer(graph_db, "toString(datetime({epochMillis: $ms}))")
    writer.create(3, ago=DAY)
    with capture_logs() as logs:
        look(sweeping)
        writer.edit("old1")
        assert look(sweeping).seen == 0
    assert [line["holds"] for line in logs if line["event"] == "timestamps_not_read"] == ["text"]
    assert Changes(bench.graph, "updatedAt").counts(limits(writer.now())) == {"text": 3}


@pytest.mark.parametrize("anew", [False, True], ids=["goes on", "begins anew"])
def test_a_page_that_fails_loses_no_change(
    sweeping: Sweeps, bench: Bench, writer: Writer, monkeypatch: pytest.MonkeyPatch, *, anew: bool
) -> None:
    """Whether the sweep is found and goes on, or a person calls for another one. Guards: the place moves on after its
    page, and marks are kept at the end alone. Kept at the begin, a new sweep never looks at what the failing page held.
    """
    writer.create(1, ago=DAY)
    settled(sweeping, bench)
    writer.create(OLD - PAGE, ago=2 * HOUR, prefix="new")
    writer.create(PAGE, ago=MINUTE, prefix="newer")
    page: Callable[..., Sweep] = sweep.sweep_page
    pages = 0

    def fails(*args: Any) -> Sweep:
        nonlocal pages
        pages += 1
        if pages == 3:
            raise RuntimeError("the jobs database is gone")
        return page(*args)

    monkeypatch.setattr(turns, "sweep_page", fails)
    with pytest.raises(RuntimeError):
        sweeping.take_turn(UPDATED)
    assert sweeping.take_turn(UPDATED) is None, "it is under way"
    bench.skip(SILENT_MS / 1000 + 1)
    ((scope, token),) = sweeping.stranded()
    assert scope == UPDATED
    before = queued(bench)
    turn = sweeping.take_turn(UPDATED, None if anew else token)
    assert turn is not None
    assert turn.token is None
    after = queued(bench)
    all_of_them = {f"new{n}" for n in range(OLD - PAGE)} | {f"newer{n}" for n in range(PAGE)}
    assert before | after == all_of_them
    assert bool(before & after) == anew, "it goes on where it was"


@pytest.mark.parametrize("seed", range(8))
def test_each_change_is_seen_once_however_times_and_turns_fall(
    sweeping: Sweeps, bench: Bench, graph_db: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Many of one moment, moments of every kind, pages and turns of any size.

    Guards: `_of_one_moment` (without it a moment of more than a page is read again and again), `beyond` (its rest is
    left out), and the last moment of a page is left for the next (part of it is left out).
    """
    chance = random.Random(seed)
    writer = Writer(graph_db)
    look(sweeping)
    monkeypatch.setattr(sweep, "PAGE", chance.randint(2, 12))
    monkeypatch.setattr(watermark, "TOGETHER", chance.randint(2, 40))
    now, count = writer.now(), 0
    for _ in range(chance.randint(1, 12)):
        many = chance.choice([1, 1, 2, 3, 30])
        expression = chance.choice(list(WRITTEN.values())).replace("$ms", "$at")
        graph_db.write(
            "UNWIND range($first, $first + $many - 1) AS n "
            f"CREATE (:Entity {{name: 'e' + n, updatedAt: {expression}}})",
            first=count,
            many=many,
            at=now - chance.randint(0, 3) * chance.choice([0, 1, SECOND, HOUR]),
        )
        count += many
    sweeping.clock = iter(range(10**6)).__next__ if chance.random() < 0.7 else lambda: 0.0  # type: ignore[assignment]
    done = look(sweeping)
    assert (done.seen, done.queued) == (count, count)
    assert len(queued(bench)) == count


def test_other_settings_are_looked_at_from_the_begin(sweeping: Sweeps, bench: Bench, writer: Writer) -> None:
    """Another label, text or model makes other entities stale. Guard: `marked_for`."""
    writer.create(5, ago=DAY)
    bench.queue.mark = "label:1"
    assert look(sweeping).seen == 5
    Time.later_ms += DAY
    look(sweeping)
    assert look(sweeping).seen == 0
    bench.queue.mark = "label:2"
    assert look(sweeping).seen == 5


def test_soft_deleted_entities_are_left_alone(sweeping: Sweeps, bench: Bench, writer: Writer) -> None:
    writer.create(5, ago=DAY)
    settled(sweeping, bench)
    writer.edit("old1")
    bench.graph.database.write("MATCH (n:Entity {name: 'old1'}) SET n.validTo = 1")
    assert look(sweeping).seen == 0
    bench.graph.database.write("MATCH (n:Entity {name: 'old1'}) REMOVE n.validTo")
    writer.edit("old1")
    look(sweeping)
    assert queued(bench) == {"old1"}


def test_a_node_that_was_deleted_and_made_again_is_found(
    sweeping: Sweeps, bench: Bench, writer: Writer
) -> None:
    """With the same text: its job of before has ended, and its vector is gone with the node."""
    writer.create(3, ago=DAY)
    look(sweeping)
    bench.step()
    assert bench.job("old1")["status"] == "completed"
    bench.graph.database.write("MATCH (n:Entity {name: 'old1'}) DETACH DELETE n")
    writer.edit("old1", text="first")
    look(sweeping)
    assert queued(bench) == {"old1"}


def test_only_the_first_look_waits_for_a_deep_queue(
    sweeping: Sweeps, bench: Bench, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit during a backfill is found as on an idle system. Guard: `_is_backfill`."""
    monkeypatch.setattr(turns, "DEEP_JOBS", 2)
    writer.create(5, ago=DAY)
    bench.create("a", "b", "c")
    assert "jobs are in the queue" in (sweeping.not_now(UPDATED) or "")
    look(sweeping)
    assert sweeping.not_now(UPDATED) is None


def test_without_an_index_it_is_impossible_and_says_so(bench: Bench, graph_db: Database) -> None:
    """Guard: `why_no_look`. Without it each look would fail with the server's words, or scan all entities."""
    sweeps = Sweeps(bench.graph, bench.queue)
    assert sweeps.impossible(Scope.ALL) is None
    why = sweeps.impossible(UPDATED)
    assert why == "no range index on (:`Entity` {`updatedAt`}): run neo4j-queue init"


@pytest.mark.parametrize("name", ["changed at", "a.b:c", "größe", "n", "__LABEL__", "'"])
def test_a_property_may_have_any_name(bench: Bench, graph_db: Database, name: str) -> None:
    changed_index.create(graph_db, indexes(graph_db), "Entity", name)
    graph_db.autocommit("CALL db.awaitIndexes(60)")
    try:
        sweeps, scope = Sweeps(bench.graph, bench.queue), Changed(name)
        assert sweeps.impossible(scope) is None
        look(sweeps, scope)
        graph_db.write("CREATE (n:Entity {name: 'new'}) SET n += $more", more={name: 1})
        assert look(sweeps, scope).seen == 1
    finally:
        graph_db.write(f"DROP INDEX `{changed_index.index_name('Entity', name)}`")


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("name", ["changed_tops", "changed_nodes", "changed_together", "changed_counts"])
def test_the_index_is_read_in_its_order_and_nothing_else(bench: Bench, graph_db: Database, name: str) -> None:
    """Guard: the ORDER BY of the indexed property alone; by another one all of the entities would be sorted."""
    changes = Changes(bench.graph, "updatedAt")
    parameters = {"bounds": [], "least": 1, "most": 2, "limit": 10, "beyond": -1}
    plan = operators(graph_db, changes._statement(name), **parameters)
    names = [operator for operator, _ in plan]
    assert any("IndexSeekByRange" in op and ":Entity(updatedAt)" in details for op, details in plan), plan
    sorts = {"Sort", "Top", "PartialTop"} if name != "changed_together" else {"Sort"}
    assert not {"NodeByLabelScan", "AllNodesScan", *sorts} & set(names), plan
