"""The schema of the jobs database: any number of `init`s, at any time, from anywhere."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from neo4j_queue.database import Database
from neo4j_queue.schema.indexes import indexes
from neo4j_queue.schema.jobs import JOBS_SCHEMA_VERSION, check_jobs, migrate_jobs, version

CONTROL = "MATCH (c:QueueControl) RETURN properties(c) AS control"


@pytest.fixture
def bare(jobs_db: Database) -> Iterator[Database]:
    """A jobs database that was never prepared; prepared again afterwards."""
    jobs_db.autocommit("MATCH (n) DETACH DELETE n")
    for index in indexes(jobs_db).values():
        kind = "CONSTRAINT" if index.constraint else "INDEX"
        jobs_db.autocommit(f"DROP {kind} {index.name}")
    yield jobs_db
    jobs_db.autocommit("MATCH (n) DETACH DELETE n")
    migrate_jobs(jobs_db)


def test_a_bare_database_says_what_to_do(bare: Database) -> None:
    assert version(bare) is None
    (problem,) = check_jobs(bare).problems
    assert "is not prepared" in problem
    assert "neo4j-queue init" in problem


def test_several_at_once_all_succeed_and_leave_one_of_everything(bare: Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: migrate_jobs(bare), range(4)))
    assert [report.problems for report in reports] == [()] * 4
    assert version(bare) == JOBS_SCHEMA_VERSION
    there = indexes(bare)
    assert len(there) == 14
    assert {index.state for index in there.values()} == {"ONLINE"}
    unique = {(index.labels[0], *index.properties) for index in there.values() if index.constraint}
    assert unique == {
        ("EmbedJob", "id"),
        ("EmbedJob", "entity_uid", "model", "version"),
        ("EmbedLease", "token"),
        ("QueueControl", "name"),
        ("EmbedHealth", "name"),
        ("EmbedWorker", "name"),
        ("EmbedArchive", "id"),
    }
    (control,) = bare.read(CONTROL)
    assert {
        name: control["control"][name] for name in ("name", "seq", "turn", "halted", "schema_version")
    } == {
        "name": "embedding",
        "seq": 0,
        "turn": 0,
        "halted": False,
        "schema_version": JOBS_SCHEMA_VERSION,
    }
    (health,) = bare.read("MATCH (h:EmbedHealth) RETURN properties(h) AS health")
    assert health["health"] == {"name": "embedding", "verdicts": [], "state": "HEALTHY"}


def test_a_second_time_changes_nothing_and_the_lease_number_never_goes_back(jobs_db: Database) -> None:
    jobs_db.write("MATCH (c:QueueControl) SET c.seq = 17, c.halted = true")
    report = migrate_jobs(jobs_db)
    assert (report.ok, report.created, report.version) == (True, (), JOBS_SCHEMA_VERSION)
    (control,) = jobs_db.read(CONTROL)
    assert (control["control"]["seq"], control["control"]["halted"]) == (17, True)


def test_a_lost_index_is_named_and_comes_back(jobs_db: Database) -> None:
    jobs_db.autocommit("DROP INDEX embed_job_due")
    (problem,) = check_jobs(jobs_db).problems
    assert "index embed_job_due is missing" in problem
    assert migrate_jobs(jobs_db).created == ("embed_job_due",)
    assert check_jobs(jobs_db).ok


def test_a_database_of_an_older_program_is_reported(jobs_db: Database) -> None:
    jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 0")
    (problem,) = check_jobs(jobs_db).problems
    assert f"has schema version 0; version {JOBS_SCHEMA_VERSION} is needed" in problem
    assert migrate_jobs(jobs_db).ok


def test_a_database_of_a_newer_program_is_left_alone(bare: Database) -> None:
    bare.write("CREATE (:QueueControl {name: 'embedding', schema_version: 99})")
    report = migrate_jobs(bare)
    assert (report.version, report.created) == (99, ())
    assert "made by a newer program" in report.problems[0]
    assert indexes(bare) == {}
