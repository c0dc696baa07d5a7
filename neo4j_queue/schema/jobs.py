"""The schema of the jobs database: versioned, idempotent, safe to run twice at once."""

import re
from collections.abc import Mapping, Sequence

from neo4j_queue.cypher import statement
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError
from neo4j_queue.queue import counts
from neo4j_queue.schema.indexes import (
    ONLINE_WAIT_S,
    Index,
    Progress,
    Report,
    create_index,
    indexes,
    states_of,
    wait_online,
)

JOBS_SCHEMA_VERSION = 2
# Since this version jobs that have ended are counted by labels.
COUNTED_BY_LABELS = 2
_CREATES = re.compile(r"CREATE (?:VECTOR |FULLTEXT )?(?:INDEX|CONSTRAINT) (\w+)")


def version(database: Database) -> int | None:
    """The schema version of a jobs database, or None when it was never prepared."""
    found = database.read(statement("schema/version"))
    return found[0]["version"] if found else None


def refuse_unprepared(database: Database) -> None:
    """Raises `SettingsError` for a jobs database that was never prepared, or by an older program, whose figures would
    be wrong without a word."""
    found = version(database)
    if found is None:
        raise SettingsError(["the jobs database is not prepared: run neo4j-queue init"])
    if found < JOBS_SCHEMA_VERSION:
        name, needed = database.address.database, f"version {JOBS_SCHEMA_VERSION} is needed"
        raise SettingsError(
            [f"the jobs database {name} has schema version {found}; {needed}: run neo4j-queue init"]
        )


def migrate_jobs(
    database: Database, *, wait_s: float = ONLINE_WAIT_S, progress: Progress | None = None
) -> Report:
    """Brings a jobs database to `JOBS_SCHEMA_VERSION`; on one that has it, changes nothing.

    A database of a newer program is left alone and reported as a problem.
    """
    current = version(database)
    if current is not None and current > JOBS_SCHEMA_VERSION:
        return check_jobs(database)
    there = indexes(database)
    created = [name for query in _jobs_statements() if (name := _run(database, query, there)) is not None]
    if current is not None and current < COUNTED_BY_LABELS:
        counts.mend_all(database)
    if wait_online(database, _names(_jobs_statements()), wait_s=wait_s, progress=progress):
        database.write(statement("schema/set_version"), version=JOBS_SCHEMA_VERSION)
    found = check_jobs(database)
    if current is not None and found.version != current:
        created.append(f"schema version {found.version} (it was {current})")
    return Report(found.database, found.version, tuple(created), found.notes, found.problems)


def check_jobs(database: Database) -> Report:
    """Looks whether this program can work with the jobs database; changes nothing."""
    name = database.address.database
    current = version(database)
    there = indexes(database)
    wanted = _names(_jobs_statements())
    notes, problems = states_of(there, wanted)
    if current is None or current < JOBS_SCHEMA_VERSION:
        old = "is not prepared" if current is None else f"has schema version {current}"
        needed = f"version {JOBS_SCHEMA_VERSION} is needed: run neo4j-queue init"
        problems.insert(0, f"the jobs database {name} {old}; {needed}")
    elif current > JOBS_SCHEMA_VERSION:
        newer = f"the jobs database {name} has schema version {current}, made by a newer program"
        problems.insert(0, f"{newer}; this one knows version {JOBS_SCHEMA_VERSION}: upgrade it")
    else:
        missing = [index for index in wanted if index not in there]
        problems += [f"index {index} is missing in {name}: run neo4j-queue init" for index in missing]
    return Report(name, current, notes=tuple(notes), problems=tuple(problems))


def _jobs_statements() -> list[str]:
    """The statements of all versions in their order: a file holds several, with a semicolon between them. Version 2
    has none."""
    prefix = "CYPHER 5\n"
    files = [statement("schema/jobs_1")]
    return [prefix + part.strip() for text in files for part in text.removeprefix(prefix).split(";")]


def _names(statements: Sequence[str]) -> list[str]:
    return [found[1] for query in statements if (found := _CREATES.search(query))]


def _run(database: Database, query: str, there: Mapping[str, Index]) -> str | None:
    """Runs a statement; the name of the index if this call has created one.

    What is there already is not asked for again: concurrent schema statements on one label deadlock, and each
    deadlock costs a retry of about a second.
    """
    found = _CREATES.search(query)
    if found and found[1] in there:
        return None
    return create_index(database, found[1] if found else None, query)
