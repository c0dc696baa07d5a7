"""What is wrong with the trigger of the graph, and what to do: for `doctor` and `init`."""

from collections.abc import Iterable

from neo4j_queue.schema.triggers import Found, State
from neo4j_queue.settings import Settings

Line = tuple[str, str | None]

PUT_BACK = "neo4j-queue init --triggers puts it back, neo4j-queue init --no-triggers forgets it"
UNTIL_THEN = "changes by other programs are found by sweeps alone"


def lines(found: Found, settings: Settings, *, counted_on: bool) -> list[Line]:
    """What does not fit, each with what to do. `counted_on`: `init --triggers` was run."""
    said: list[Line] = []
    match found.state:
        case State.OUTDATED | State.PAUSED:
            said.append((f"{found.detail}; until then {UNTIL_THEN}", found.advice))
        case State.CURRENT if not counted_on:
            detail = f"{found.detail}, but the jobs database does not know, so that it is looked at every five minutes"
            said.append((detail, "neo4j-queue init --triggers"))
        case State.ABSENT if counted_on:
            said.append((f"the trigger of the graph is gone; {UNTIL_THEN}", PUT_BACK))
        case State.OFF | State.IMPOSSIBLE if counted_on:
            said.append((f"{found.detail}; {UNTIL_THEN}", found.advice))
    if found.state is State.CURRENT:
        said += unswept(settings)
    return [*said, *leftovers(found.others, settings)]


def unswept(settings: Settings) -> list[Line]:
    """A line if nothing looks at what the trigger marks."""
    if "outbox" in settings.embed_discovery:
        return []
    return [("EMBED_DISCOVERY has no `outbox`, so that nothing looks at what the trigger marks", "add it")]


def leftovers(others: Iterable[str], settings: Settings) -> list[Line]:
    """Triggers that were made for other labels."""
    database = settings.neo4j_database
    return [
        (
            f"the trigger {name} was made for another label",
            f"if no deployment uses it, on the database system: CALL apoc.trigger.drop({database!r}, {name!r})",
        )
        for name in others
    ]
