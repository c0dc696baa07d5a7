"""The settings in force: graph, label, key, text and model that all processes on one jobs database must share.

They stand on the control node, as a fingerprint. `neo4j-queue init` puts the caller's in force; a queue without any
takes over those of the first worker. A process with others does no work: a worker or beat does not start, a lease is
not given, a message is given back, and `enqueue` refuses. So a process that was left behind by a change ends no job.
"""

from neo4j_queue.checks.fingerprint import differing, parts_of
from neo4j_queue.cypher import statement
from neo4j_queue.database import Database, the_row
from neo4j_queue.errors import SettingsError

# A change of these means other entities: jobs that were queued before cannot be done under the new ones.
ENTITIES = ("graph", "label", "key")

WAY_OUT = "put right what differs in .env, or put these settings in force with `neo4j-queue init`"


def read(jobs: Database) -> str | None:
    """The fingerprint in force; None while there is none."""
    row = the_row(jobs.read(statement("control/look_in_force")))
    return None if row["in_force"] is None else str(row["in_force"])


def adopt(jobs: Database, mark: str) -> str:
    """The fingerprint in force; where there is none, puts `mark` in force."""
    return _in_force(jobs, mark, replace=False)


def put(jobs: Database, mark: str) -> None:
    """Puts `mark` in force, in place of any other."""
    _in_force(jobs, mark, replace=True)


def refusal(in_force: str | None, own: str) -> str | None:
    """One line that says in which parts `own` differs from what is in force, and what to do; None if in none."""
    if in_force is None:
        return None
    parts = differing(in_force, own)
    if not parts:
        return None
    return f"the queue works with other settings than these ({', '.join(parts)} differ): {WAY_OUT}"


def replacing(jobs: Database, mark: str) -> str | None:
    """Why `mark` must not be put in force as things are; None if it may.

    Jobs that wait for entities of another graph, label or key would be given up: their workers have to finish first.
    """
    before = read(jobs)
    parts = [] if before is None else [part for part in differing(before, mark) if part in ENTITIES]
    if not parts:
        return None
    waiting = the_row(jobs.read(statement("jobs/any_unfinished")))["found"]
    if not waiting:
        return None
    return (
        f"jobs still wait that were queued under settings with another {', '.join(parts)}, and no worker could do "
        "them any more: let their workers finish, or give them up with `neo4j-queue init --force`"
    )


def check(jobs: Database, mark: str) -> None:
    """Raises `SettingsError` when `mark` is not in force; where none is, puts it in force."""
    line = refusal(adopt(jobs, mark), mark)
    if line is not None:
        raise SettingsError([line])


def entities_of(mark: str) -> str | None:
    """The part of a fingerprint that says which entities it means, as jobs carry it (`made_for`); None = not known.

    Of hex digits alone, which the server stores in a third of the room.
    """
    parts = parts_of(mark)
    return "".join(parts[part] for part in ENTITIES) if set(ENTITIES) <= parts.keys() else None


def _in_force(jobs: Database, mark: str, *, replace: bool) -> str:
    written = jobs.write(
        statement("control/in_force"), mark=mark, entities=entities_of(mark), replace=replace
    )
    return str(the_row(written)["in_force"])
