"""A database that cannot be reached is named as people know it: by its variable and address."""

import socket
from collections.abc import Iterator

import pytest
from neo4j.exceptions import ServiceUnavailable, TransientError

from neo4j_queue.checks.unreachable import unreachable_database
from neo4j_queue.database import Address, Database
from neo4j_queue.settings import Settings

REFUSED = "refuses connections: no server runs there"
SILENT = "takes connections and does not answer: it is frozen, or the machine too busy"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Of a server that takes connections (the system does, for it) and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def error_of(port: int) -> Exception:
    database = Database(Address(f"bolt://127.0.0.1:{port}", "neo4j"), retry_time_s=0, acquire_s=0.5)
    with database, pytest.raises(ServiceUnavailable) as caught:
        database.read("RETURN 1")
    return caught.value


def settings_of(*, graph: str = "bolt://h:1", jobs: str = "bolt://h:2") -> Settings:
    return Settings(_env_file=None, neo4j_uri=graph, embed_job_database_uri=jobs)  # type: ignore[call-arg]


def test_one_that_is_not_there(closed_port: int) -> None:
    uri = f"bolt://127.0.0.1:{closed_port}"
    line = unreachable_database(error_of(closed_port), settings_of(jobs=uri))
    assert line == f"the jobs database (EMBED_JOB_DATABASE_URI={uri}) {REFUSED}"


def test_one_that_is_frozen(silent_port: int) -> None:
    uri = f"bolt://127.0.0.1:{silent_port}"
    line = unreachable_database(error_of(silent_port), settings_of(graph=uri))
    assert line == f"the graph (NEO4J_URI={uri}) {SILENT}"


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ServiceUnavailable("Couldn't connect to db.example:7687 (resolved to ()): no route"), True),
        (ServiceUnavailable("Couldn't connect to db.example:76870"), False),
        (ServiceUnavailable("Couldn't connect to other.example:7687"), False),
        (TransientError("db.example:7687"), False),
        (ValueError("db.example:7687"), False),
    ],
)
def test_only_what_the_driver_says_of_that_address(error: Exception, named: bool) -> None:
    line = unreachable_database(error, settings_of(graph="neo4j://db.example"))
    assert (line is not None) == named
