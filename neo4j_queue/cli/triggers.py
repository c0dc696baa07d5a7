"""What `init` does about the trigger of the graph, and says of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neo4j_queue.database import Database
    from neo4j_queue.settings import Settings


MEMORY = "a transaction takes twice its memory now: write in transactions of ten thousand nodes at most"


@dataclass(frozen=True, slots=True)
class Answer:
    """How it stands with the trigger (`state`), what is good to know, and what went wrong."""

    state: str
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def settle(
    graph: "Database", jobs: "Database", settings: "Settings", *, wanted: bool | None, check: bool
) -> Answer:
    """Installs the trigger, removes it, or (`wanted` None) leaves what is there; with `check` it only looks."""
    from neo4j_queue.schema import triggers
    from neo4j_queue.schema.triggers import State

    if wanted is None:
        return _seen(graph, jobs, settings)
    if wanted:
        found = triggers.look(graph, settings) if check else triggers.install(graph, settings)
        if found.state is not State.CURRENT:
            return Answer(found.state, problems=(_line(found.detail, found.advice),))
        if not check:
            triggers.hasten(jobs, on=True)
        return Answer(found.state, (found.detail, MEMORY, *_notes(found.others, settings)))
    before = triggers.look(graph, settings)
    there = before.state in (State.CURRENT, State.OUTDATED, State.PAUSED)
    if check:
        problem = f"{before.detail}: neo4j-queue init --no-triggers takes it away"
        return Answer(before.state, problems=(problem,) if there else ())
    if there:
        triggers.remove(graph, settings)
    triggers.hasten(jobs, on=False)
    return Answer(State.ABSENT, ("the trigger is gone",) if there else ())


def _seen(graph: "Database", jobs: "Database", settings: "Settings") -> Answer:
    """What is there, and whether it fits. That this cannot be seen is no reason to fail."""
    from neo4j.exceptions import DriverError, Neo4jError

    from neo4j_queue.checks.triggers import lines
    from neo4j_queue.schema import triggers

    try:
        found, counted_on = triggers.look(graph, settings), triggers.is_counted_on(jobs)
    except (Neo4jError, DriverError):
        return Answer("unknown")
    return Answer(found.state, tuple(_line(*line) for line in lines(found, settings, counted_on=counted_on)))


def _notes(others: tuple[str, ...], settings: "Settings") -> list[str]:
    from neo4j_queue.checks.triggers import leftovers, unswept

    return [_line(*line) for line in (*unswept(settings), *leftovers(others, settings))]


def _line(detail: str, advice: str | None) -> str:
    return detail if advice is None else f"{detail}: {advice}"
