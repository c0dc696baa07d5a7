"""What the trigger costs other programs: their writes without it, with it, and with it in APOC's other phase."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median

from benchmarks.machine import ProcessorTime
from benchmarks.options import Options
from benchmarks.report import Report, Table, Target
from benchmarks.stage import Stage
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.schema import triggers
from neo4j_queue.schema.triggers import Trigger
from neo4j_queue.settings import Settings

PARTS = ("writes",)

NODES, QUICK_NODES = 100_000, 5_000
# A load in transactions of a thousand, as people do it, and edits one by one.
PAGE = 1_000
SINGLE, QUICK_SINGLE = 2_000, 200
ROUNDS = 3
# A new trigger is at work within a second; one that is gone rests as fast.
SETTLE_S = 3.0
PHASES = ("none", "before", "afterAsync")
WIPE = "MATCH (n:$($label)) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 10000 ROWS"
WORDS = "'written to be as long as a summary is, with a number at its end: ' + n"
# A load of new entities, a change of all of their texts, and the same load of nodes that are none of ours.
LOADS = {
    "created": (
        "UNWIND range(0, $count - 1) AS n CALL (n) { "
        f"CREATE (:Entity {{name: 'e' + n, entityType: 'x', observations: [{WORDS}], other: n}}) }} "
        f"IN TRANSACTIONS OF {PAGE} ROWS"
    ),
    "text changed": (
        f"MATCH (n:Entity) CALL (n) {{ SET n.observations = [n.observations[0] + '.'] }} IN TRANSACTIONS OF {PAGE} ROWS"
    ),
    "another property changed": (
        f"MATCH (n:Entity) CALL (n) {{ SET n.other = n.other + 1 }} IN TRANSACTIONS OF {PAGE} ROWS"
    ),
    "of another label created": (
        "UNWIND range(0, $count - 1) AS n CALL (n) { "
        f"CREATE (:Other {{name: 'e' + n, entityType: 'x', observations: [{WORDS}], other: n}}) }} "
        f"IN TRANSACTIONS OF {PAGE} ROWS"
    ),
}
# Last: nothing is there afterwards.
DELETED = f"MATCH (n:Entity) CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF {PAGE} ROWS"
ONE = "MATCH (n:Entity {name: $name}) SET n.observations = [$text]"
UNMARK = "MATCH (n:EmbedPending) CALL (n) { REMOVE n:EmbedPending } IN TRANSACTIONS OF 10000 ROWS"
# The time of one line: (seconds, processor seconds of the graph's server).
Spent = tuple[float, float]


def run(stage: Stage, options: Options) -> Report:
    """Each load under each phase, in turn; the trigger of the phase that is not ours is put there by hand."""
    report = Report("triggers", options.shown())
    settings = stage.settings()
    count, single = (QUICK_NODES, QUICK_SINGLE) if options.quick else (NODES, SINGLE)
    rounds = min(ROUNDS, options.rounds)
    spent: dict[tuple[str, str], list[Spent]] = {}
    with Database(settings.graph_address()) as graph:
        stage.prepare_graph(graph, settings)
        for n in range(rounds + 1):
            # The first round warms the server up.
            size = count if n > 0 else count // 10
            for phase in PHASES[n % len(PHASES) :] + PHASES[: n % len(PHASES)]:
                with installed(graph, settings, phase):
                    stage.say(f"triggers: round {n}, {phase}")
                    for what, taken in _loads(stage, graph, size, single):
                        if n > 0:
                            spent.setdefault((what, phase), []).append(taken)
    _show(report, spent, count, single)
    return report


@contextmanager
def installed(graph: Database, settings: Settings, phase: str) -> Iterator[None]:
    """The trigger in this phase, at work; gone afterwards."""
    trigger = Trigger.of(settings)
    system = Database(replace(graph.address, database="system"))
    if phase != "none":
        system.write(
            statement("triggers/install"),
            database=graph.address.database,
            name=trigger.name,
            body=trigger.query,
            phase=phase,
            params=dict(trigger.params),
        )
        while not triggers.is_at_work(graph, trigger):
            time.sleep(0.1)
    yield
    system.write(statement("triggers/drop"), database=graph.address.database, name=trigger.name)
    system.close()
    time.sleep(SETTLE_S)
    # `afterAsync` compares each node that a transaction deletes with all others: ten thousand take it a minute.
    for label in ("Entity", "Other"):
        graph.autocommit(WIPE, timeout_s=600, label=label)


def _loads(stage: Stage, graph: Database, count: int, single: int) -> Iterator[tuple[str, Spent]]:
    for what, load in LOADS.items():
        yield what, _timed(stage, partial(graph.autocommit, load, timeout_s=600, count=count))
        graph.autocommit(UNMARK, timeout_s=600)
    yield "text changed, one by one", _timed(stage, partial(_one_by_one, graph, single))
    yield "deleted", _timed(stage, partial(graph.autocommit, DELETED, timeout_s=600))


def _one_by_one(graph: Database, count: int) -> None:
    for n in range(count):
        graph.write(ONE, name=f"e{n}", text=f"edit {n} at {time.time()}")


def _timed(stage: Stage, work: Callable[[], object]) -> Spent:
    processor, began = ProcessorTime({"graph": stage.pids()["graph"]}), time.perf_counter()
    work()
    taken = time.perf_counter() - began
    # What APOC does by itself afterwards belongs to it.
    time.sleep(1.0)
    return taken, processor.seconds()["graph"]


def _show(report: Report, spent: dict[tuple[str, str], list[Spent]], count: int, single: int) -> None:
    columns = {
        "what": "writes",
        "phase": "trigger",
        "rate": "per second",
        "processor": "server's processor, s",
        "ratio": "x time",
        "work": "x processor",
    }
    table = Table(
        f"{count:,} writes of plain Cypher in transactions of {PAGE:,}; {single:,} one by one", columns
    )
    table.baseline = "no trigger, in the same round"
    for what in [*LOADS, "text changed, one by one", "deleted"]:
        bare = spent[what, "none"]
        writes = single if what.endswith("one by one") else count
        for phase in PHASES:
            taken = spent[what, phase]
            ratios = [one[0] / other[0] for one, other in zip(taken, bare, strict=True)]
            work = [one[1] / other[1] for one, other in zip(taken, bare, strict=True)]
            table.add(
                what=what,
                phase=phase,
                rate=writes / median(each[0] for each in taken),
                processor=median(each[1] for each in taken),
                ratio=median(ratios),
                work=median(work),
            )
            if phase == triggers.PHASE and what == "text changed":
                report.targets.append(
                    Target("time of text changes with the trigger / without", median(ratios), 2)
                )
    report.tables.append(table)
