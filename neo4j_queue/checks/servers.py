"""What the Neo4j servers must be: new enough for the statements, and with a bound on locks and transactions."""

from collections.abc import Iterable

from neo4j.exceptions import Neo4jError

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database

# Earlier servers refuse the statements: `CALL (x) { … }` came with 5.23, and this is the first line with long support.
OLDEST_SERVER = (5, 26)
NEEDED = f"Neo4j {'.'.join(map(str, OLDEST_SERVER))} or newer is needed"
# Both have no bound by default: what a lost client has locked then stays locked until its connection is found dead.
# The values are those of `neo4j-queue up` and compose.yaml.
BOUNDED = {"db.lock.acquisition.timeout": "5s", "db.transaction.timeout": "60s"}


def outdated(agent: str) -> str | None:
    """Why a server of this name (`Neo4j/5.13.0`, `Neo4j/2025.01-aura`) is too old; None when it is not.

    A name without a version is accepted.
    """
    version = agent.rpartition("/")[2]
    numbers = tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())
    return f"this is {agent.replace('/', ' ')}, {NEEDED}" if numbers and numbers < OLDEST_SERVER else None


def endless(database: Database, names: Iterable[str] = tuple(BOUNDED)) -> list[str]:
    """Those of these settings of the server that are durations of zero, which means endless.

    Empty where we may not look: it needs a privilege on Enterprise, and Aura has no such statement.
    """
    try:
        found = database.read(statement("server/settings"), names=list(names))
    except Neo4jError:
        return []
    return [row["name"] for row in found if not any(digit in row["value"] for digit in "123456789")]
