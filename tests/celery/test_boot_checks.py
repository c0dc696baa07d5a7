"""B11, B12, C15: worker and beat refuse to start on what cannot work, and wait for what is merely away."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from neo4j.exceptions import ServiceUnavailable

from neo4j_queue.checks import boot
from neo4j_queue.checks.doctor import examine
from neo4j_queue.checks.findings import Grade
from neo4j_queue.database import Database
from neo4j_queue.errors import SettingsError, TemporarilyUnavailable
from neo4j_queue.errors.explain import exit_code_of
from neo4j_queue.local_services import LocalServices
from neo4j_queue.settings import Role, Settings
from tests.celery.conftest import MakeWorld, World
from tests.celery_processes import READY_S, LoggedProcess
from tests.faultkit import TcpProxy
from tests.waiting import wait_until

EX_CONFIG = 78
# Nothing listens on the discard port.
NOWHERE = "bolt://127.0.0.1:9"

ROLES = ("worker", "beat")


def refusal(world: World, role: str, **environment: str) -> list[str]:
    """Starts a worker or beat that must not start; the problems it names before it ends with 78."""
    arguments = {"worker": ["worker", "-c", "1", "-n", "refused@test"], "beat": ["beat"]}[role]
    process = world.celery.launch(f"refused-{role}", *arguments, **environment)
    assert process.wait(READY_S) == EX_CONFIG, process.log.read_text()[-3000:]
    assert process.output.read_text() == ""
    lines = process.events("boot_refused")
    assert {line["level"] for line in lines} == {"critical"}
    return [line["problem"] for line in lines]


@pytest.mark.parametrize("role", ROLES)
def test_every_wrong_setting_gets_a_line_of_its_own(role: str, make_world: MakeWorld) -> None:
    problems = refusal(
        make_world(),
        role,
        EMBED_JOB_RETENTION_DAYS="14abc",
        EMBED_JOB_HEARTBEAT_INTERVAL_MS="3000",  # half of the lock of these tests
        EMBEDDING_PROVIDER="openia",
        NEO4J_USERNAME="ann",
        NEO4J_PASSWORD="",
        OPENAI_EMBEDDING_DIMENSIONS="0",
    )
    named = [re.match(r"[A-Z0-9_]+", problem) for problem in problems]
    assert sorted(match[0] for match in named if match) == [
        "EMBEDDING_PROVIDER",
        "EMBED_JOB_HEARTBEAT_INTERVAL_MS",
        "EMBED_JOB_RETENTION_DAYS",
        "NEO4J_PASSWORD",
        "OPENAI_EMBEDDING_DIMENSIONS",
    ]


@pytest.mark.parametrize("role", ROLES)
def test_the_graph_as_jobs_database_is_refused_by_whatever_name_it_is_reached(
    role: str, make_world: MakeWorld
) -> None:
    world = make_world()
    graph = world.settings.neo4j_uri
    (problem,) = refusal(
        world,
        role,
        # The same server under a name that only the server itself can see through.
        EMBED_JOB_DATABASE_URI=graph.replace("127.0.0.1", "127.1"),
        EMBED_JOB_DATABASE_NAME=world.settings.neo4j_database,
        EMBED_JOB_DATABASE_PASSWORD=world.environment["NEO4J_PASSWORD"],
    )
    assert "EMBED_JOB_DATABASE_URI" in problem


@pytest.mark.parametrize("role", ROLES)
def test_a_jobs_database_that_is_not_prepared_names_the_command_that_prepares_it(
    role: str, make_world: MakeWorld
) -> None:
    world = make_world()
    world.jobs_db.write("MATCH (c:QueueControl) DETACH DELETE c")
    (problem,) = refusal(world, role)
    assert "neo4j-queue init" in problem


def everything_wrong_at(jobs_db: Database, graph_db: Database, settings: Settings) -> str:
    return "\n".join(boot.problems(graph_db, jobs_db, settings))


def test_an_older_and_a_newer_schema_are_refused(
    graph_db: Database, jobs_db: Database, settings: Settings
) -> None:
    assert everything_wrong_at(jobs_db, graph_db, settings) == ""
    jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 0")
    assert "neo4j-queue init" in everything_wrong_at(jobs_db, graph_db, settings)
    jobs_db.write("MATCH (c:QueueControl) SET c.schema_version = 99")
    assert "99" in everything_wrong_at(jobs_db, graph_db, settings)


@pytest.mark.parametrize("role", ROLES)
def test_a_server_on_which_the_statements_cannot_run_is_refused_in_one_line(
    role: str, make_world: MakeWorld, services: LocalServices
) -> None:
    """By worker, beat and doctor alike. Guard: `outdated` in `boot.ping`. Without it they take the server as it is."""
    with TcpProxy(("127.0.0.1", services.jobs.port)) as proxy:
        proxy.reword(b"Neo4j/5.26.", b"Neo4j/5.25.")
        world = make_world(EMBED_JOB_DATABASE_URI=f"bolt://127.0.0.1:{proxy.port}")
        (problem,) = refusal(world, role)
        assert problem.startswith("EMBED_JOB_DATABASE_URI=bolt://127.0.0.1:")
        assert "Neo4j 5.25." in problem
        assert "5.26 or newer" in problem
        bad = {f.subject: f.detail for f in examine(world.settings) if f.grade is Grade.BAD}
        assert bad.pop("jobs database") == problem


def test_doctor_warns_of_a_server_that_lets_anything_wait_for_ever(
    make_world: MakeWorld, services: LocalServices
) -> None:
    """A server with the limits of ours is fine; one with Neo4j's defaults gets a warning that says what to set."""
    world = make_world()
    assert not [f for f in examine(world.settings) if f.subject.endswith("limits")]
    with TcpProxy(("127.0.0.1", services.graph.port)) as proxy:
        for ours in (b"\x825s", b"\x821m"):  # as Bolt packs a text of two bytes
            proxy.reword(ours, b"\x820s")
        there = world.settings.model_copy(update={"neo4j_uri": f"bolt://127.0.0.1:{proxy.port}"})
        (found,) = [f for f in examine(there) if f.subject.endswith("limits")]
    assert (found.subject, found.grade) == ("graph database limits", Grade.WARNING)
    assert found.advice == "set in neo4j.conf: db.lock.acquisition.timeout=5s, db.transaction.timeout=60s"


@pytest.mark.parametrize("role", ROLES)
def test_dimensions_that_disagree_with_the_index_are_refused_with_both_numbers(
    role: str, make_world: MakeWorld
) -> None:
    (problem,) = refusal(make_world(), role, NEO4J_VECTOR_DIMENSIONS="128")
    assert "256" in problem
    assert "128" in problem


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ({"neo4j_similarity_function": "euclidean"}, ["NEO4J_SIMILARITY_FUNCTION", "euclidean", "cosine"]),
        ({"neo4j_vector_index": "no_such_index"}, ["NEO4J_VECTOR_INDEX"]),
        (
            {"embedding_provider": "local", "neo4j_vector_dimensions": 300},
            ["NEO4J_VECTOR_DIMENSIONS", "300", "256"],
        ),
        ({"embed_entity_label": "Nothing"}, ["Nothing", "neo4j-queue init"]),
    ],
)
def test_what_does_not_fit_together_is_named(
    override: dict[str, Any],
    words: list[str],
    make_settings: Callable[..., Settings],
    graph_db: Database,
    jobs_db: Database,
) -> None:
    found = everything_wrong_at(jobs_db, graph_db, make_settings(**override))
    assert all(word in found for word in words), found


@pytest.mark.parametrize("provider", ["openai", "mock"])
def test_a_proxy_that_the_client_cannot_use_is_named_where_there_is_a_client(
    provider: str,
    make_settings: Callable[..., Settings],
    graph_db: Database,
    jobs_db: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen failing before: the worker started, and each batch failed for good."""
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:1080")
    settings = make_settings(
        mock_embeddings=False,
        embedding_provider=provider,
        openai_base_url="http://127.0.0.1:9/v1",
        openai_embedding_model="m",
        neo4j_vector_dimensions=256,
    )
    found = everything_wrong_at(jobs_db, graph_db, settings)
    assert ("ALL_PROXY=socks://127.0.0.1:1080" in found) is (provider == "openai"), found


def test_a_worker_waits_for_a_broker_and_a_database_that_are_away_and_says_so(
    make_world: MakeWorld, services: LocalServices
) -> None:
    world = make_world()
    services.redis.stop()
    services.jobs.stop()
    process: LoggedProcess | None = None
    try:
        process = world.celery.launch("waiting", "worker", "-Q", "embed", "-c", "1", "-n", "waiting@test")
        (waiting,) = wait_until(
            lambda: process.events("waiting_for_services")[:1], within_s=READY_S, what="it says that it waits"
        )
        assert set(waiting["services"]) == {"jobs database", "broker"}
        assert process.exit_code() is None
    finally:
        services.redis.start()
        services.jobs.start()
    wait_until(lambda: process.events("boot_checked"), within_s=READY_S, what="the worker goes on")
    wait_until(lambda: "ready." in process.log.read_text(), within_s=READY_S, what="the worker is ready")


def test_waiting_ends_with_exit_code_75_and_names_what_is_away(
    make_settings: Callable[..., Settings],
) -> None:
    settings = make_settings(embed_job_database_uri=NOWHERE, embed_job_retention_days=14)
    start = time.monotonic()
    with pytest.raises(TemporarilyUnavailable, match="jobs database") as caught:
        boot.check(settings, Role.WORKER, wait_s=1.5)
    assert exit_code_of(caught.value) == 75
    # One attempt may last as long as a connection may take (5 s).
    assert 1.5 <= time.monotonic() - start < 1.5 + 5 + 2


def test_a_database_name_that_does_not_exist_is_no_reason_to_wait(
    make_settings: Callable[..., Settings],
) -> None:
    settings = make_settings(embed_job_database_name="no-such-database")
    with pytest.raises(SettingsError, match="EMBED_JOB_DATABASE_NAME"):
        boot.check(settings, Role.WORKER, wait_s=60)


def test_a_database_that_goes_away_while_it_is_looked_at_is_waited_for(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: the second `wait_for` of `boot.check`. Without it beat, begun while a database was restarted, ended."""
    settings, looks = make_world().settings, 0
    really = boot.problems

    def problems(*databases_and_settings: Any) -> list[str]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise ServiceUnavailable("gone")
        return really(*databases_and_settings)

    monkeypatch.setattr(boot, "problems", problems)
    assert "label:" in boot.check(settings, Role.BEAT, wait_s=30)
    assert looks == 2
